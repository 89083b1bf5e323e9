package engine

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// ten has 3 values up to 0.1, 5 more up to 0.5, and 2 above 1.
var ten = Histogram{Count: 10, Sum: 6.5, Buckets: []Bucket{{0.1, 3}, {0.5, 8}, {1, 8}, {math.Inf(1), 10}}}

func TestQuantileBounds(t *testing.T) {
	for _, row := range []struct {
		name      string
		h         Histogram
		percent   int
		low, high *float64
		why       string
	}{
		{"in the first bucket", ten, 10, new(0.0), new(0.1), "the 1st of 10; no time is below 0"},
		{"the last of a bucket", ten, 30, new(0.0), new(0.1), "the 3rd of 10 is still in it"},
		{"the first of the next", ten, 31, new(0.1), new(0.5), "ceil(3.1) is the 4th"},
		{"over an empty bucket", ten, 81, new(1.0), nil, "the 9th lies above 1: how far, no one knows"},
		{"the largest", ten, 100, new(1.0), nil, ""},
		{"no last bucket", Histogram{Count: 10, Sum: 1, Buckets: []Bucket{{0.1, 3}}}, 50, new(0.1), nil, "count says that there are more"},
		{"no values", Histogram{Buckets: []Bucket{{0.1, 0}}}, 50, nil, nil, "nothing is not 0"},
		{"no buckets", Histogram{Count: 2, Sum: 1}, 50, nil, nil, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := row.h.Quantile(row.percent)
			assert.Equal(t, row.low, got.Low, row.why)
			assert.Equal(t, row.high, got.High, row.why)
		})
	}
}

func TestMean(t *testing.T) {
	assert.Equal(t, new(0.65), ten.Mean())
	assert.Nil(t, Histogram{}.Mean(), "no values have no mean")
	assert.Nil(t, Histogram{Count: 1e-300, Sum: 1e300}.Mean(), "what no float64 holds is not written")
}

func TestHistogramsAreAddedAtSharedBounds(t *testing.T) {
	coarse := Histogram{Count: 4, Sum: 2, Buckets: []Bucket{{0.5, 3}, {math.Inf(1), 4}}}
	got := addHistograms([]Histogram{ten, coarse})
	assert.Equal(t, Histogram{Count: 14, Sum: 8.5, Buckets: []Bucket{{0.5, 11}, {math.Inf(1), 14}}}, got,
		"at 0.1 the second has no number: 3 + unknown is not 3")
	assert.Equal(t, ten, addHistograms([]Histogram{ten}))
	assert.Equal(t, Histogram{}, addHistograms(nil))
}

func TestHistogramDifference(t *testing.T) {
	before := Histogram{Count: 4, Sum: 1.5, Buckets: []Bucket{{0.1, 3}, {0.5, 4}, {1, 4}, {math.Inf(1), 4}}}
	got, ok := ten.minus(before)
	assert.True(t, ok)
	assert.Equal(t, Histogram{Count: 6, Sum: 5, Buckets: []Bucket{{0.1, 0}, {0.5, 4}, {1, 4}, {math.Inf(1), 6}}}, got)
	for _, row := range []struct {
		name   string
		before Histogram
	}{
		{"the count fell", Histogram{Count: 11}},
		{"the sum fell", Histogram{Count: 1, Sum: 7}},
		{"a bucket fell", Histogram{Count: 5, Sum: 1, Buckets: []Bucket{{0.1, 4}}}},
	} {
		_, ok := ten.minus(row.before)
		assert.False(t, ok, row.name)
	}
}
