package bench

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// cost is what this process spent on some events.
type cost struct {
	events int
	wall   time.Duration
	cpu    time.Duration // user and system
	// reads counts calls of read, those that found nothing to read included.
	reads int64
	// wakes counts the times a thread was put to sleep, goroutines the times a
	// goroutine was started on a processor (an estimate: the runtime samples one
	// in goroutineSample).
	wakes, goroutines int64
	allocs, bytes     uint64
}

// goroutineSample is runtime.gTrackingPeriod.
const goroutineSample = 8

// meter takes the readings whose difference is a cost.
type meter struct {
	at         time.Time
	usage      syscall.Rusage
	reads      int64
	goroutines uint64
	mem        runtime.MemStats
}

func readMeter() *meter {
	m := &meter{reads: readCalls(), goroutines: scheduled()}
	runtime.ReadMemStats(&m.mem)
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &m.usage)
	m.at = time.Now()
	return m
}

// measure gives the cost of a run.
func measure(events int, run func()) cost {
	runtime.GC()
	before := readMeter()
	run()
	after := readMeter()
	return cost{
		events: events, wall: after.at.Sub(before.at), cpu: after.cpu() - before.cpu(),
		reads: after.reads - before.reads, wakes: after.usage.Nvcsw - before.usage.Nvcsw,
		goroutines: goroutineSample * int64(after.goroutines-before.goroutines),
		allocs:     after.mem.Mallocs - before.mem.Mallocs, bytes: after.mem.TotalAlloc - before.mem.TotalAlloc,
	}
}

func (m *meter) cpu() time.Duration {
	return time.Duration(m.usage.Utime.Nano() + m.usage.Stime.Nano())
}

// readCalls is how often this process called read so far, 0 where the system
// does not say.
func readCalls() int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("syscr: "))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, _ := strconv.ParseInt(string(line), 10, 64)
	return n
}

// scheduled is how many starts of goroutines the runtime has sampled.
func scheduled() (n uint64) {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	for _, count := range sample[0].Value.Float64Histogram().Counts {
		n += count
	}
	return n
}

func (c cost) perEvent(n float64) float64 { return n / float64(c.events) }
func (c cost) cpuNS() float64             { return c.perEvent(float64(c.cpu)) }

// series collects the costs of readers that take turns.
type series struct {
	readers []reader
	costs   map[string][]cost
}

// rounds runs the readers in turn, there and back (A B C C B A), once an
// iteration of b, so that a drift of the machine falls on all alike.
func rounds(b *testing.B, w work, readers ...reader) *series {
	b.Helper()
	s := &series{readers: readers, costs: map[string][]cost{}}
	for b.Loop() {
		for _, r := range readers {
			s.turn(b, r, w)
		}
		for _, r := range slices.Backward(readers) {
			s.turn(b, r, w)
		}
	}
	b.ReportMetric(0, "ns/op")
	return s
}

// turn takes one cost. A CPU profile tells the readers apart by their label:
//
//	go test -run '^$' -bench Paced -count 6 -cpuprofile cpu.out ./internal/bench
//	go tool pprof -top -tagfocus reader=client cpu.out
func (s *series) turn(b *testing.B, r reader, w work) {
	reading := r.prepare(b, w)
	defer reading.close()
	pprof.Do(b.Context(), pprof.Labels("reader", r.name), func(context.Context) {
		s.costs[r.name] = append(s.costs[r.name], measure(w.streams*w.script.events, func() { reading.read() }))
	})
}

// median of one figure of a reader, over its turns.
func (s *series) median(name string, of func(cost) float64) float64 {
	var all []float64
	for _, c := range s.costs[name] {
		all = append(all, of(c))
	}
	return median(all)
}

// ratio is the median over turns of one reader's figure to another's of the same
// turn.
func (s *series) ratio(above, below string, of func(cost) float64) float64 {
	var all []float64
	for i, c := range s.costs[above] {
		all = append(all, of(c)/of(s.costs[below][i]))
	}
	return median(all)
}

// median is the middle, or the mean of the two in the middle: of two turns the
// nearest rank would be the lower one, and that of a ratio flatters. It sorts.
func median(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// quantile is the nearest-rank one, NaN of nothing. It sorts.
func quantile(all []float64, q float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	slices.Sort(all)
	return all[max(int(math.Ceil(q*float64(len(all))))-1, 0)]
}

// report reports what an event cost each reader, and the ratios.
func (s *series) report(b *testing.B) {
	for _, r := range s.readers {
		for _, figure := range []struct {
			unit string
			of   func(cost) float64
		}{
			{"cpu-ns/event", cost.cpuNS},
			{"reads/event", func(c cost) float64 { return c.perEvent(float64(c.reads)) }},
			{"sleeps/event", func(c cost) float64 { return c.perEvent(float64(c.wakes)) }},
			{"switches/event", func(c cost) float64 { return c.perEvent(float64(c.goroutines)) }},
			{"allocs/event", func(c cost) float64 { return c.perEvent(float64(c.allocs)) }},
			{"B/event", func(c cost) float64 { return c.perEvent(float64(c.bytes)) }},
		} {
			b.ReportMetric(s.median(r.name, figure.of), r.name+"-"+figure.unit)
		}
	}
	s.reportRatio(b, ours.name, bare.name)
	if len(s.costs[openaiType.name]) > 0 {
		s.reportRatio(b, openaiType.name, ours.name)
	}
}

func (s *series) reportRatio(b *testing.B, above, below string) {
	b.ReportMetric(s.ratio(above, below, cost.cpuNS), fmt.Sprintf("%s-to-%s", above, below))
}
