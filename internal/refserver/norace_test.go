//go:build !race

package refserver

const shrink = 1
