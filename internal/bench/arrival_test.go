package bench

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The load of the arrival figures: streams of 50 events a second, as long as a
// stamp an event fits into the capture.
const (
	arrivalPerS    = 50
	arrivalSeconds = 3
)

// BenchmarkArrival is how late an arrival is stamped: the time that the client
// gives an event less the wall clock that the server wrote into it just before
// its write. It holds the way through the kernel, the wake-up and the client.
//
//	go test -run '^$' -bench Arrival/streams=256 -count 6 ./internal/bench
func BenchmarkArrival(b *testing.B) {
	for _, streams := range []int{1, 64, 256, 1000} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			w := work{addr: startServer(b), streams: streams, keep: true, script: script{stamped, arrivalPerS * arrivalSeconds, arrivalPerS}}
			l := &lateness{}
			rounds(b, w, l.watch(bare), l.watch(ours)).report(b)
			l.report(b)
		})
	}
}

// lateness collects the errors of each turn of two readers, in microseconds.
type lateness struct {
	bare, ours [][]float64
}

func (l *lateness) watch(r reader) reader {
	return reader{r.name, func(tb testing.TB, w work) reading {
		inner := r.prepare(tb, w)
		return reading{func() []seen {
			all := inner.read()
			errors := errorsUS(all)
			require.Len(tb, errors, w.streams*(w.script.events-1), "every event but the marker has a stamp")
			if r.name == bare.name {
				l.bare = append(l.bare, errors)
			} else {
				l.ours = append(l.ours, errors)
			}
			return all
		}, inner.close}
	}}
}

func errorsUS(all []seen) (errors []float64) {
	for _, one := range all {
		for _, a := range one.arrivals {
			errors = append(errors, float64(a.at.UnixNano()-a.sent)/1000)
		}
	}
	return errors
}

// report reports the percentiles: the median over turns of each turn's, and of
// the ratio of two turns that were one after the other.
func (l *lateness) report(b *testing.B) {
	for _, q := range []struct {
		name string
		q    float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		var floor, own, ratio []float64
		for i := range l.ours {
			f, o := quantile(l.bare[i], q.q), quantile(l.ours[i], q.q)
			floor, own, ratio = append(floor, f), append(own, o), append(ratio, o/f)
		}
		b.ReportMetric(median(floor), "bare-"+q.name+"-us")
		b.ReportMetric(median(own), "client-"+q.name+"-us")
		b.ReportMetric(median(ratio), q.name+"-to-bare")
	}
}

// TestArrivalsAreKept holds the benchmark to what it measures: every reader gives
// every event's stamp, and no event arrives before it was sent.
func TestArrivalsAreKept(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	w := work{addr: startServer(t), streams: 2, keep: true, script: script{stamped, 20, 200}}
	for _, r := range []reader{bare, ours, openaiType} {
		reading := r.prepare(t, w)
		errors := errorsUS(reading.read())
		reading.close()
		require.Len(t, errors, w.streams*(w.script.events-1), r.name)
		for _, us := range errors {
			require.Positive(t, us, r.name)
		}
	}
}
