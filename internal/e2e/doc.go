// Package e2e holds tests of the suite as a user meets it: the compiled test
// binary, go test and scripts/gate as processes, against servers on loopback.
package e2e
