// Package engine reads the engine's own view of a run: the counters that a
// server publishes about itself in Prometheus text, before, during and after a
// cell, and what it says it is. The suite's numbers stand on the client's clock
// and on usage; the engine's stand beside them, so that a reader can see where
// the two disagree.
//
// The way through it: [New] makes a [Reader] for a metrics address, [Reader.Start]
// reads before the load and once a second during it, [Sampler.Stop] reads after
// it, and [NewReport] folds the [Session] with the cell's records into what the
// artifact keeps under harness.engine. Nothing here is on the path of a request:
// the reads have a connection of their own and one goroutine, and a read that
// fails is counted, never fatal.
//
// One rule holds throughout: what an engine does not expose is nil and never 0,
// and a counter that went back is nil and named, never a guess.
//
// What an engine calls its counters is in table.go. Names change between
// versions of an engine, so a role lists every name it has had, newest first.
package engine
