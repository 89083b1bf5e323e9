//go:build race

package client

// underRace says that the race detector is on, under which the thousands of cuts
// would take minutes.
const underRace = true
