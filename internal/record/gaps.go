package record

import (
	"math"
	"math/bits"
	"time"
)

// Gaps are the times between the output events of one stream: inter-chunk
// latency (ICL). It is inter-token latency only where the server sends one token
// an event. A histogram in a few hundred bytes; the mean, the longest and the
// count are exact, percentiles are within GapResolution.
//
// The zero value is a stream with fewer than two output events.
type Gaps struct {
	// Count is the number of gaps: output events less one.
	Count int
	// SumMS and MaxMS are exact, in milliseconds.
	SumMS, MaxMS float64
	// Buckets are the buckets that hold a gap, by rising index.
	Buckets []GapBucket
}

// GapBucket counts the gaps of one bucket of the histogram.
type GapBucket struct {
	// Index is the bucket's place: see GapHistogram.
	Index uint16
	Count uint32
}

// gapSubBits says how finely an octave is divided: 2^gapSubBits buckets.
const gapSubBits = 4

// GapResolution is the relative error of a percentile of Gaps: half a bucket.
const GapResolution = 1.0 / (2 << gapSubBits)

// gapOctaves reach from 1 ns to 2^42 ns, 73 minutes: longer than a request may
// take. gapBuckets has one for 0 besides.
const (
	gapOctaves = 42
	gapBuckets = 1 + gapOctaves<<gapSubBits
)

// GapHistogram collects the gaps of a stream while it is read. It is reused from
// stream to stream; Add makes no garbage.
type GapHistogram struct {
	count  int
	sum    time.Duration
	max    time.Duration
	counts [gapBuckets]uint32
}

// Add counts one gap. A negative one counts as 0.
func (h *GapHistogram) Add(gap time.Duration) {
	gap = max(gap, 0)
	h.counts[gapIndex(gap)]++
	h.count++
	h.sum += gap
	h.max = max(h.max, gap)
}

// Take gives what was collected and makes the histogram ready for another stream.
func (h *GapHistogram) Take() Gaps {
	g := Gaps{Count: h.count, SumMS: MS(h.sum), MaxMS: MS(h.max)}
	if h.count > 0 {
		used := 0
		for _, n := range h.counts {
			if n > 0 {
				used++
			}
		}
		g.Buckets = make([]GapBucket, 0, used)
		for i, n := range h.counts {
			if n > 0 {
				g.Buckets = append(g.Buckets, GapBucket{uint16(i), n})
			}
		}
	}
	h.Reset()
	return g
}

// Reset forgets what was collected.
func (h *GapHistogram) Reset() {
	if h.count > 0 {
		*h = GapHistogram{}
	}
}

// gapIndex gives the bucket of a gap: 0 for none, else its octave and the bits
// below the leading one.
func gapIndex(gap time.Duration) int {
	if gap <= 0 {
		return 0
	}
	v := uint64(gap)
	octave := bits.Len64(v) - 1
	if octave >= gapOctaves {
		return gapBuckets - 1
	}
	var sub uint64
	if octave >= gapSubBits {
		sub = v >> (octave - gapSubBits) & (1<<gapSubBits - 1)
	} else {
		sub = v << (gapSubBits - octave) & (1<<gapSubBits - 1)
	}
	return 1 + octave<<gapSubBits + int(sub)
}

// gapMS gives the middle of a bucket in milliseconds.
func gapMS(index int) float64 {
	if index == 0 {
		return 0
	}
	octave, sub := (index-1)>>gapSubBits, (index-1)&(1<<gapSubBits-1)
	low := math.Ldexp(1+float64(sub)/(1<<gapSubBits), octave)
	return low * (1 + GapResolution) / 1e6
}

// Merge adds the gaps of another stream.
func (g *Gaps) Merge(other Gaps) {
	g.Count += other.Count
	g.SumMS += other.SumMS
	g.MaxMS = max(g.MaxMS, other.MaxMS)
	merged := make([]GapBucket, 0, len(g.Buckets)+len(other.Buckets))
	a, b := g.Buckets, other.Buckets
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Index < b[0].Index:
			merged, a = append(merged, a[0]), a[1:]
		case len(a) == 0 || b[0].Index < a[0].Index:
			merged, b = append(merged, b[0]), b[1:]
		default:
			merged = append(merged, GapBucket{a[0].Index, a[0].Count + b[0].Count})
			a, b = a[1:], b[1:]
		}
	}
	g.Buckets = merged
}

// MeanMS is the exact mean; nil without a gap.
func (g Gaps) MeanMS() *float64 {
	if g.Count == 0 {
		return nil
	}
	return new(g.SumMS / float64(g.Count))
}

// QuantileMS is the nearest-rank quantile, 0 < q <= 1, within GapResolution and
// never above the longest gap; nil without a gap.
func (g Gaps) QuantileMS(q float64) *float64 {
	if g.Count == 0 {
		return nil
	}
	rank := max(int(math.Ceil(q*float64(g.Count))), 1)
	for _, b := range g.Buckets {
		rank -= int(b.Count)
		if rank <= 0 {
			return new(min(gapMS(int(b.Index)), g.MaxMS))
		}
	}
	return new(g.MaxMS)
}
