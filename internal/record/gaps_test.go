package record

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGapBuckets holds every bucket to its definition: a gap's bucket stands for
// a value within the resolution of it, and a longer gap has no lower bucket.
func TestGapBuckets(t *testing.T) {
	last := -1
	for v := int64(0); v < int64(1)<<43; v = v + 1 + v/97 {
		i := gapIndex(time.Duration(v))
		require.GreaterOrEqual(t, i, last, "gap of %d ns", v)
		require.Less(t, i, gapBuckets)
		last = i
		if v >= 1<<gapSubBits && v < 1<<gapOctaves {
			got := gapMS(i) * 1e6
			require.LessOrEqual(t, math.Abs(got-float64(v))/float64(v), GapResolution+1e-12, "gap of %d ns stands for %v", v, got)
		}
	}
	assert.Equal(t, gapBuckets-1, last, "the longest gap has the last bucket")
}

func TestGapsQuantiles(t *testing.T) {
	var h GapHistogram
	var all []float64
	for i := range 1000 {
		gap := time.Duration(1+i*i) * 37 * time.Microsecond
		h.Add(gap)
		all = append(all, MS(gap))
	}
	g := h.Take()
	slices.Sort(all)
	assert.Equal(t, 1000, g.Count)
	assert.Equal(t, all[999], g.MaxMS)
	for _, q := range []float64{0.5, 0.9, 0.99, 1} {
		want := all[int(math.Ceil(q*1000))-1] // nearest rank
		assert.InEpsilon(t, want, *g.QuantileMS(q), GapResolution+1e-9, "q %v", q)
	}
	assert.Equal(t, Gaps{}, h.Take(), "a taken histogram is empty")
}

func TestGapsNone(t *testing.T) {
	var g Gaps
	assert.Nil(t, g.MeanMS(), "no gap is not a gap of 0")
	assert.Nil(t, g.QuantileMS(0.5))
}

// TestGapsMerge: pooled is the same as collected together.
func TestGapsMerge(t *testing.T) {
	var one, two, both GapHistogram
	for i := range 300 {
		gap := time.Duration(i%17+1) * time.Millisecond
		both.Add(gap)
		if i%3 == 0 {
			one.Add(gap)
		} else {
			two.Add(gap)
		}
	}
	pooled := one.Take()
	pooled.Merge(two.Take())
	assert.Equal(t, both.Take(), pooled)
}

func TestGapHistogramAddMakesNoGarbage(t *testing.T) {
	var h GapHistogram
	assert.Zero(t, testing.AllocsPerRun(100, func() { h.Add(time.Millisecond) }))
}
