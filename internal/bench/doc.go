// Package bench measures what this suite costs, each time beside its floor in
// the same run: a bare loop of net/http, Read and the clock, and for comparison
// the typed stream of openai-go. The server is another process, so that the CPU
// measured is the client's alone. Readers take turns (A B C C B A), so that what
// else the machine does falls on all of them alike; the ratio is the figure that
// carries over to another machine.
//
//	go test -run '^$' -bench . -count 6 ./internal/bench | go tool benchstat -
//
//	BenchmarkPaced        CPU an event, 64 streams of 200 events a second
//	BenchmarkEach         CPU an event, one event a write, as fast as it can be read
//	BenchmarkFlood        events a second on one core against a server that never waits,
//	                      and what TTFT is told there
//	BenchmarkArrival      error of an arrival, 1 to 1,000 streams of 50 events a second
//	BenchmarkLiveStreams  memory of 1,400 live streams
//
// Every reader but the bare loop does its whole work: this suite's client runs
// below load.Run, with every event parsed and every answer judged. Metrics that
// begin with bare-, client- and openai- are those of one reader; client-to-bare
// and its like are ratios within the run.
//
// Bounds that do not depend on the machine are tests and not benchmarks: what a
// steady event allocates (nothing), and what a live stream and a finished request
// hold.
//
// Other benchmarks stand with their packages: prompts in internal/workload,
// artifacts in internal/artifact, framing and decoding in internal/sse and
// internal/chunk; 10,000 requests at concurrency 256 in virtual time are a test
// of internal/load.
package bench
