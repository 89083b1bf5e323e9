//go:build race

package refserver

// The race detector makes the big cells about ten times as slow, and sees as
// much in a fifth of them.
const shrink = 5
