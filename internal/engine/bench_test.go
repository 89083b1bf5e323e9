package engine

import (
	"strings"
	"testing"
)

// What a reading costs the machine that measures: BenchmarkReadGauges is paid
// once a second during the load.
func BenchmarkReadGauges(b *testing.B) { benchmarkRead(b, wantedGauges, gauges) }
func BenchmarkReadAll(b *testing.B)    { benchmarkRead(b, wantedAll, allRoles) }

func benchmarkRead(b *testing.B, w wanted, roles []Role) {
	text := fixture(b, "vllm-0.30.prom")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		p, err := readPage(strings.NewReader(text), w, defaults)
		if err != nil {
			b.Fatal(err)
		}
		if _, ok := newSnapshot(p, epoch, "glm", roles); !ok {
			b.Fatal("no engine")
		}
	}
}
