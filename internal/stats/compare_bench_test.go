package stats

import (
	"fmt"
	"testing"
)

// The cost of one comparison: the gate makes ten or so after a run of minutes.
func BenchmarkCompare(b *testing.B) {
	src := sources(b)[1]
	for _, requests := range []int{100, 500, 10_000} {
		for _, runs := range []int{1, 5} {
			for _, metric := range calibratedMetrics {
				b.Run(fmt.Sprintf("%s/n=%d/runs=%d", metric.name, requests, runs), func(b *testing.B) {
					tr := &trial{source: src}
					for i := range runs {
						tr.baseline = append(tr.baseline, src.run(requests, 1, uint64(i)))
						tr.candidate = append(tr.candidate, src.run(requests, 1, uint64(100+i)))
					}
					for b.Loop() {
						tr.compare(b, mode{runs: runs}, metric)
					}
				})
			}
		}
	}
}
