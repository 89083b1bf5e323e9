package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBlockLength(t *testing.T) {
	for _, row := range []struct {
		why                                string
		n, concurrency, wantLength, blocks int
	}{
		{"concurrency unknown: blocks of the root of n", 100, 0, 10, 10},
		{"two waves of 4 are shorter than the root of 100", 100, 4, 10, 10},
		{"no more than ten blocks, longer ones are safer", 500, 4, 50, 10},
		{"ten blocks of a long run", 10_000, 16, 1000, 10},
		{"three blocks of two waves are too few: five of one and a quarter", 100, 16, 20, 5},
		{"five waves", 80, 16, 16, 5},
		{"one short of five waves: four blocks, the rest in their length", 79, 16, 19, 4},
		{"two waves", 32, 16, 16, 2},
		{"less than two waves: one block, nothing to see", 31, 16, 31, 1},
		{"less than one wave", 15, 16, 15, 0},
		{"five requests are five blocks", 5, 1, 1, 5},
		{"one request", 1, 1, 1, 1},
		{"none", 0, 4, 0, 0},
	} {
		length, blocks := blockLength(row.n, row.concurrency)
		assert.Equal(t, []int{row.wantLength, row.blocks}, []int{length, blocks}, "%d at %d: %s", row.n, row.concurrency, row.why)
	}
	for n := 1; n < 400; n++ {
		for _, concurrency := range []int{1, 3, 16, 64} {
			length, blocks := blockLength(n, concurrency)
			assert.LessOrEqual(t, length*blocks, n)
			if blocks > 0 {
				assert.GreaterOrEqual(t, length, min(concurrency, n), "%d at %d: a block holds a wave", n, concurrency)
			}
		}
	}
}

// TestVarianceOfMean compares the closed form with what it stands for: all
// blocks of the ring, taken one after another.
func TestVarianceOfMean(t *testing.T) {
	z := wander(37, 3)
	for _, length := range []int{1, 5, 9, 37} {
		mean, sum := meanOf(z), 0.0
		for start := range z {
			block := 0.0
			for j := range length {
				block += z[(start+j)%len(z)] - mean
			}
			sum += block * block / float64(length)
		}
		// The mean of n/length independent blocks.
		want := sum / float64(len(z)) / float64(len(z))
		want = max(want, varianceOf(z)/float64(len(z)))
		assert.InDelta(t, want, varianceOfMean(z, length), 1e-12*want, "length %d", length)
	}
	alternating := []float64{1, -1, 1, -1, 1, -1, 1, -1}
	assert.InDelta(t, varianceOf(alternating)/8, varianceOfMean(alternating, 2), 1e-15,
		"blocks that cancel by luck do not make the mean certain")
	assert.Zero(t, varianceOfMean([]float64{3, 3, 3}, 1))
}

// TestBlocksSeeDependence: blocks find the error that independence misses. For
// x_i = r x_(i-1) + noise the variance of a mean is (1+r)/(1-r) times that of
// independent values.
func TestBlocksSeeDependence(t *testing.T) {
	z := wander(20_000, 4)
	for i, x := range z {
		z[i] = math.Log(x / 100)
	}
	ratio := varianceOfMean(z, 400) / (varianceOf(z) / float64(len(z)))
	assert.InDelta(t, 1.7/0.3, ratio, 1)
}

// TestRanks compares counting with sorting.
func TestRanks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		n := 1 + random.IntN(40)
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = float64(1 + random.IntN(12)) // with ties
		}
		length := 1 + random.IntN(n)
		starts := make([]int, (n+length-1)/length)
		var drawn []float64
		for i := range starts {
			starts[i] = random.IntN(n)
			for j := 0; j < length && len(drawn) < n; j++ {
				drawn = append(drawn, xs[(starts[i]+j)%n])
			}
		}
		require.Len(t, drawn, n)
		slices.Sort(drawn)
		r := newRanks(xs)
		for _, q := range []int{1, 25, 50, 51, 95, 99} {
			assert.InDelta(t, math.Log(nearestRank(drawn, q)), r.logPercentile(starts, length, q), 0, "p%d of %v", q, drawn)
		}
	}
}

// TestPercentileVariance: for independent values the variance of a percentile is
// p(1-p) / (n f^2), of the median of n standard normals in logarithms pi/2n. The
// bootstrap of a median is known to come out some per cent above it.
func TestPercentileVariance(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 1))
	mean, trials := 0.0, 40
	for range trials {
		xs := make([]float64, 400)
		for i := range xs {
			xs[i] = math.Exp(random.NormFloat64())
		}
		s := &sample{percentile: 50, num: xs, den: ones(len(xs))}
		mean += s.variance(1) / float64(trials)
	}
	assert.Greater(t, mean, 0.95*math.Pi/2/400)
	assert.Less(t, mean, 1.3*math.Pi/2/400)
}

func TestSumOf(t *testing.T) {
	assert.InDelta(t, 2, sumOf([]float64{1, 1e100, 1, -1e100}), 0, "what is lost on the way is kept aside")
	assert.Zero(t, sumOf(nil))
}
