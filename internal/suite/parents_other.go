//go:build !linux

package suite

// processOf tells nothing here: only the direct parent is watched.
func processOf(int) (parent int, name string, ok bool) { return 0, "", false }
