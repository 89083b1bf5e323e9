package bench

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/selfcheck"
)

// floodEvents is the length of a flood, over all its streams.
const floodTotal = 200_000

// BenchmarkFlood is a server that writes as fast as it can, read on one core.
// Events a second are of CPU time, so that the figure does not depend on what
// else the machine does, and of wall time. TTFT is the first text's by each
// reader, and by the server's own stamps.
//
// A client that cannot keep up must say so: bottleneck-told is 1 where this suite's
// own check found it short of CPU (see selfcheck.Findings), and behind-told the
// share of its answers that it marked as read later than they were there.
func BenchmarkFlood(b *testing.B) {
	for _, streams := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) { benchFlood(b, streams) })
	}
}

func benchFlood(b *testing.B, streams int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	w := work{addr: startServer(b), streams: streams, script: script{flood, floodTotal / streams, 0}}
	t := &ttfts{of: map[string][]float64{}}
	s := rounds(b, w, t.watch(bare), t.watch(ours), t.watch(openaiType))
	s.report(b)
	for _, r := range s.readers {
		b.ReportMetric(1e9/s.median(r.name, cost.cpuNS), r.name+"-events/cpu-s")
		b.ReportMetric(s.median(r.name, func(c cost) float64 { return float64(c.events) / c.wall.Seconds() }), r.name+"-events/s")
		b.ReportMetric(quantile(t.of[r.name], 0.5), r.name+"-ttft-p50-ms")
		b.ReportMetric(quantile(t.of[r.name], 0.99), r.name+"-ttft-p99-ms")
	}
	b.ReportMetric(quantile(t.truth, 0.5), "server-ttft-p50-ms")
	b.ReportMetric(quantile(t.truth, 0.99), "server-ttft-p99-ms")
	b.ReportMetric(median(t.told), "bottleneck-told")
	b.ReportMetric(median(t.behind), "behind-told")
	b.ReportMetric(median(t.share), "client-cpu-share")
}

// ttfts collects the first-text times of readers, in milliseconds, and the
// server's.
type ttfts struct {
	of          map[string][]float64
	truth       []float64
	told, share []float64
	behind      []float64 // share of answers, a turn
}

// watch is a reader whose streams' TTFT is collected.
func (t *ttfts) watch(r reader) reader {
	return reader{r.name, func(tb testing.TB, w work) reading {
		inner := r.prepare(tb, w)
		return reading{func() []seen {
			usage := selfcheck.StartUsage()
			all := inner.read()
			spent := usage.Stop()
			for _, one := range all {
				t.of[r.name] = append(t.of[r.name], one.ttft.Seconds()*1000)
				if words := strings.Fields(one.first); len(words) > 2 {
					t.truth = append(t.truth, float64(stamp(words[2])-stamp(words[1]))/1e6)
				}
			}
			if r.name == ours.name {
				found := strings.Join(selfcheck.Findings(nil, spent, selfcheck.Measured{}), "\n")
				told := 0.0
				if strings.Contains(found, "it was itself the bottleneck") {
					told = 1
				}
				t.told, t.share = append(t.told, told), append(t.share, spent.CPUShare)
				t.behind = append(t.behind, behindShare(all))
			}
			return all
		}, inner.close}
	}}
}

func behindShare(all []seen) float64 {
	n := 0.0
	for _, one := range all {
		if one.behind {
			n++
		}
	}
	return n / float64(len(all))
}

// TestFloodIsReadWhole holds the benchmark to what it says it does: each event of
// a flood is parsed, and the answer is judged.
func TestFloodIsReadWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	w := work{addr: startServer(t), streams: 3, script: script{flood, 5_000, 0}}
	for _, r := range []reader{bare, ours, openaiType} {
		reading := r.prepare(t, w)
		all := reading.read()
		reading.close()
		require.Len(t, all, w.streams, r.name)
		for _, one := range all {
			require.Positive(t, one.ttft, r.name)
		}
	}
}
