package selfcheck

import (
	"math"
	"runtime"
	"runtime/metrics"
	"syscall"
	"time"

	"anvil-capacity/internal/artifact"
)

// Usage watches what this process spends while it measures: CPU, garbage
// collection, and how late its goroutines were scheduled. A client that is
// short of CPU reads its clock late, and its numbers are then its own.
type Usage struct {
	began   time.Time
	cpu     time.Duration
	samples []metrics.Sample
}

// The runtime's histograms, cumulative since the process began, in seconds.
const (
	schedLatencies = "/sched/latencies:seconds"
	gcPauses       = "/sched/pauses/total/gc:seconds"
	gcCycles       = "/gc/cycles/total:gc-cycles"
)

// StartUsage begins to watch.
func StartUsage() *Usage {
	return &Usage{began: time.Now(), cpu: cpuTime(), samples: readMetrics()}
}

// Stop ends the watch and gives what was spent since its start.
func (u *Usage) Stop() *artifact.ClientUsage {
	wall := time.Since(u.began)
	spent := cpuTime() - u.cpu
	after := readMetrics()
	latency := since(u.samples[0], after[0])
	pauses := since(u.samples[1], after[1])
	usage := &artifact.ClientUsage{
		CPUSeconds:   spent.Seconds(),
		CPUs:         runtime.GOMAXPROCS(0),
		GCCycles:     int(after[2].Value.Uint64() - u.samples[2].Value.Uint64()),
		SchedSamples: int(latency.count()),
		SchedP50MS:   latency.quantileMS(0.50), SchedP99MS: latency.quantileMS(0.99), SchedMaxMS: latency.quantileMS(1),
		GCPauseMaxMS: pauses.quantileMS(1),
	}
	if wall > 0 {
		usage.CPUShare = spent.Seconds() / (wall.Seconds() * float64(usage.CPUs))
	}
	return usage
}

// cpuTime is the user and system time of this process so far.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func readMetrics() []metrics.Sample {
	samples := []metrics.Sample{{Name: schedLatencies}, {Name: gcPauses}, {Name: gcCycles}}
	metrics.Read(samples)
	return samples
}

// counted is a histogram of what came between two readings.
type counted struct {
	counts  []uint64
	buckets []float64 // in seconds, one more than counts
}

func since(before, after metrics.Sample) counted {
	a, b := after.Value.Float64Histogram(), before.Value.Float64Histogram()
	c := counted{counts: make([]uint64, len(a.Counts)), buckets: a.Buckets}
	for i := range a.Counts {
		c.counts[i] = a.Counts[i] - b.Counts[i]
	}
	return c
}

func (c counted) count() (n uint64) {
	for _, k := range c.counts {
		n += k
	}
	return n
}

// quantileMS is the upper end of the bucket that holds the quantile, so that it
// never says too little; nil without a sample.
func (c counted) quantileMS(q float64) *float64 {
	total := c.count()
	if total == 0 {
		return nil
	}
	rank := uint64(math.Ceil(q * float64(total)))
	for i, k := range c.counts {
		if k >= rank {
			end := c.buckets[i+1]
			if math.IsInf(end, 1) {
				end = c.buckets[i]
			}
			return new(end * 1000)
		}
		rank -= k
	}
	return nil
}
