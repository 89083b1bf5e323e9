package bench

import "testing"

// The load of the CPU figures: 64 streams of 200 events a second.
const (
	cpuStreams = 64
	cpuPerS    = 200
	cpuSeconds = 2
)

// BenchmarkPaced is the CPU of a steady load, which is mostly wake-ups: an event
// a read, at a pace that leaves the machine idle in between. The whole process is
// counted: requests, judging and all.
func BenchmarkPaced(b *testing.B) {
	w := work{addr: startServer(b), streams: cpuStreams, script: script{paced, cpuPerS * cpuSeconds, cpuPerS}}
	s := rounds(b, w, bare, ours, openaiType)
	s.report(b)
	for _, r := range s.readers {
		b.ReportMetric(s.median(r.name, cost.cpuNS)*1e-6, r.name+"-cpu-s/1000-events")
	}
}

// BenchmarkEach is the CPU of an event where the server never waits and makes one
// write an event: no wake-ups, little to a read.
func BenchmarkEach(b *testing.B) {
	w := work{addr: startServer(b), streams: 1, script: script{each, 100_000, 0}}
	rounds(b, w, bare, ours, openaiType).report(b)
}
