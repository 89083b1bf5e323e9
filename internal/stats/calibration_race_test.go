//go:build race

package stats

// raceEnabled says that the race detector is on: it makes the calibration ten
// times slower and has nothing to find in more of it.
const raceEnabled = true
