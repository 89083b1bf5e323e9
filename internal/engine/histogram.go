package engine

import (
	"cmp"
	"errors"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// Histogram is a Prometheus histogram, or the difference of two. Values are in
// the unit of the metric, seconds throughout this package. The zero value has no
// observation.
type Histogram struct {
	// Count is how many values were observed, 0 or more.
	Count float64
	// Sum is theirs.
	Sum float64
	// Buckets rise in UpperBound and in Cumulative. The last, of +Inf, may be
	// missing; Count stands for it.
	Buckets []Bucket
}

// Bucket counts the values at or below a bound.
type Bucket struct {
	UpperBound float64
	Cumulative float64
}

// Bounds are what a histogram can say of a quantile: it lies above Low and at or
// below High. Nil is no bound: the value is in the last, open bucket, or there
// is no value at all.
type Bounds struct {
	Low, High *float64
}

// Mean is Sum / Count, nil without observations.
func (h Histogram) Mean() *float64 {
	if h.Count <= 0 {
		return nil
	}
	return finiteOrNil(h.Sum / h.Count)
}

// Quantile bounds the ceil(percent*n/100)-th smallest value, the rank that the
// client's percentiles have (PROTOCOL section 4). percent is 1 to 100.
func (h Histogram) Quantile(percent int) Bounds {
	if h.Count <= 0 || len(h.Buckets) == 0 {
		return Bounds{}
	}
	rank := math.Ceil(float64(percent) * h.Count / 100)
	low := 0.0 // a time is not below 0
	for _, b := range h.Buckets {
		if b.Cumulative >= rank {
			return Bounds{Low: new(low), High: finiteOrNil(b.UpperBound)}
		}
		low = b.UpperBound
	}
	return Bounds{Low: finiteOrNil(low)}
}

// minus is h - before, ok only when nothing went back. A bucket that before does
// not have counts from 0.
func (h Histogram) minus(before Histogram) (diff Histogram, ok bool) {
	diff = Histogram{Count: h.Count - before.Count, Sum: h.Sum - before.Sum, Buckets: make([]Bucket, len(h.Buckets))}
	if diff.Count < 0 || diff.Sum < 0 {
		return Histogram{}, false
	}
	for i, b := range h.Buckets {
		diff.Buckets[i] = Bucket{b.UpperBound, b.Cumulative - before.below(b.UpperBound)}
		if diff.Buckets[i].Cumulative < 0 {
			return Histogram{}, false
		}
	}
	return diff, true
}

// below is the cumulative count of the bucket with exactly this bound, 0 where
// there is none.
func (h Histogram) below(bound float64) float64 {
	i, ok := slices.BinarySearchFunc(h.Buckets, bound, func(b Bucket, x float64) int { return cmp.Compare(b.UpperBound, x) })
	if !ok {
		return 0
	}
	return h.Buckets[i].Cumulative
}

// addHistograms adds up the series of one metric. Only bounds that all of them
// have can be added: at any other the sum would be short.
func addHistograms(all []Histogram) Histogram {
	if len(all) == 0 {
		return Histogram{}
	}
	total := Histogram{}
	for _, h := range all {
		total.Count += h.Count
		total.Sum += h.Sum
	}
	for _, b := range all[0].Buckets {
		at, shared := 0.0, true
		for _, h := range all {
			_, has := slices.BinarySearchFunc(h.Buckets, b.UpperBound, func(b Bucket, x float64) int { return cmp.Compare(b.UpperBound, x) })
			shared = shared && has
			at += h.below(b.UpperBound)
		}
		if shared {
			total.Buckets = append(total.Buckets, Bucket{b.UpperBound, at})
		}
	}
	return total
}

// histogramOf takes a parsed histogram over. The error says why it is none.
func histogramOf(parsed *dto.Histogram) (Histogram, error) {
	h := Histogram{Count: float64(parsed.GetSampleCount()), Sum: parsed.GetSampleSum()}
	if parsed.GetSampleCountFloat() > 0 {
		h.Count = parsed.GetSampleCountFloat()
	}
	for _, b := range parsed.GetBucket() {
		n := float64(b.GetCumulativeCount())
		if b.GetCumulativeCountFloat() > 0 {
			n = b.GetCumulativeCountFloat()
		}
		h.Buckets = append(h.Buckets, Bucket{b.GetUpperBound(), n})
	}
	slices.SortStableFunc(h.Buckets, func(a, b Bucket) int { return cmp.Compare(a.UpperBound, b.UpperBound) })
	h.Buckets = slices.CompactFunc(h.Buckets, func(a, b Bucket) bool { return a.UpperBound == b.UpperBound })
	return h, h.check()
}

func (h Histogram) check() error {
	switch {
	case !isCount(h.Count):
		return errors.New("a histogram's count is no number of values")
	case math.IsNaN(h.Sum) || math.IsInf(h.Sum, 0) || h.Sum < 0:
		return errors.New("a histogram's sum is no sum of times")
	case h.Count == 0 && h.Sum > 0:
		return errors.New("a histogram has a sum of no values")
	}
	last := 0.0
	for _, b := range h.Buckets {
		if math.IsNaN(b.UpperBound) || !isCount(b.Cumulative) || b.Cumulative < last {
			return errors.New("a histogram's buckets do not rise")
		}
		last = b.Cumulative
	}
	if last > h.Count {
		return errors.New("a histogram's buckets hold more than its count")
	}
	return nil
}

func isCount(x float64) bool { return x >= 0 && !math.IsInf(x, 0) }

func finiteOrNil(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
