package stats

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDescribeSmallSamples(t *testing.T) {
	tests := []struct {
		name string
		xs   []float64
		want Distribution
		why  string
	}{
		{
			"empty", nil, Distribution{},
			"an empty set gives samples 0 and nothing else, never 0",
		},
		{
			"one value", []float64{7},
			Distribution{
				Samples: 1, Mean: new(7.0), StdDev: new(0.0), CI95Low: new(7.0), CI95High: new(7.0), Min: new(7.0),
				P25: new(7.0), P50: new(7.0), P75: new(7.0), P90: new(7.0), P95: new(7.0), P99: new(7.0), Max: new(7.0),
			},
			"n-1 is 0: the protocol gives 0 for one sample; every rank is the first",
		},
		{
			"two values", []float64{4, 2},
			Distribution{
				Samples: 2, Mean: new(3.0), StdDev: new(math.Sqrt2),
				CI95Low: new(3 - 1.96*math.Sqrt2/math.Sqrt(2)), CI95High: new(3 + 1.96*math.Sqrt2/math.Sqrt(2)), Min: new(2.0),
				P25: new(2.0), P50: new(2.0), P75: new(4.0), P90: new(4.0), P95: new(4.0), P99: new(4.0), Max: new(4.0),
			},
			"variance (1+1)/1 = 2; p50 is the ceil(0.5*2) = first, p75 the ceil(1.5) = second",
		},
		{
			"negative zero", []float64{math.Copysign(0, -1), 0},
			Distribution{
				Samples: 2, Mean: new(0.0), StdDev: new(0.0), CI95Low: new(0.0), CI95High: new(0.0), Min: new(0.0),
				P25: new(0.0), P50: new(0.0), P75: new(0.0), P90: new(0.0), P95: new(0.0), P99: new(0.0), Max: new(0.0),
			},
			"the two zeros compare equal, so the result must not say which came first",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, bits(tt.want), bits(Describe(tt.xs)), tt.why)
		})
	}
}

// bits makes distributions comparable to the last bit, signs of zeros included.
func bits(d Distribution) map[string]any {
	m := map[string]any{"nonfinite": d.NonFinite}
	for _, s := range statistics {
		if v := s.of(&d); v != nil {
			m[s.name] = math.Float64bits(*v)
		} else {
			m[s.name] = nil
		}
	}
	return m
}

// TestNearestRank takes 1..n, where the value is its rank, so that every
// expected number can be read off ceil(q*n/100).
func TestNearestRank(t *testing.T) {
	tests := []struct {
		n    int
		want [6]float64 // p25 p50 p75 p90 p95 p99
		why  string
	}{
		{1, [6]float64{1, 1, 1, 1, 1, 1}, "there is one rank"},
		{2, [6]float64{1, 1, 2, 2, 2, 2}, "0.5 1 1.5 1.8 1.9 1.98, rounded up"},
		{3, [6]float64{1, 2, 3, 3, 3, 3}, "0.75 1.5 2.25 2.7 2.85 2.97"},
		{4, [6]float64{1, 2, 3, 4, 4, 4}, "whole ranks 1 2 3, then 3.6 3.8 3.96"},
		{20, [6]float64{5, 10, 15, 18, 19, 20}, "whole ranks up to 0.95*20 = 19, then 19.8: the p99 is the maximum"},
		{99, [6]float64{25, 50, 75, 90, 95, 99}, "24.75 49.5 74.25 89.1 94.05 98.01: the p99 is the maximum"},
		{100, [6]float64{25, 50, 75, 90, 95, 99}, "from 100 on the p99 is not the maximum"},
		{101, [6]float64{26, 51, 76, 91, 96, 100}, "25.25 50.5 75.75 90.9 95.95 99.99"},
	}
	for _, tt := range tests {
		d := Describe(upTo(tt.n))
		got := [6]float64{*d.P25, *d.P50, *d.P75, *d.P90, *d.P95, *d.P99}
		assert.Equal(t, tt.want, got, "n=%d: %s", tt.n, tt.why)
		assert.Equal(t, []float64{1, float64(tt.n)}, []float64{*d.Min, *d.Max}, "n=%d", tt.n)
	}
}

func upTo(n int) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = float64(i + 1)
	}
	return xs
}

// TestPercentilesMeetTheDefinition checks each percentile by what nearest rank
// means and not by how it is computed: at least q % of the sample is not above
// it, and no smaller value of the sample can say that.
func TestPercentilesMeetTheDefinition(t *testing.T) {
	rng := seeded(1)
	for n := 1; n <= 300; n++ {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = float64(rng.IntN(40)) // few values, so ties are met
		}
		d := Describe(xs)
		for _, p := range []struct {
			q int
			v *float64
		}{{25, d.P25}, {50, d.P50}, {75, d.P75}, {90, d.P90}, {95, d.P95}, {99, d.P99}} {
			notAbove, below := 0, 0
			for _, x := range xs {
				if x <= *p.v {
					notAbove++
				}
				if x < *p.v {
					below++
				}
			}
			require.Contains(t, xs, *p.v)
			require.GreaterOrEqual(t, notAbove*100, p.q*n, "p%d of %v", p.q, xs)
			require.Less(t, below*100, p.q*n, "p%d of %v", p.q, xs)
		}
	}
}

// TestDescribeIsExact compares mean and deviation with their definitions in
// rationals and in 4,000-bit square roots, on samples that ruin floating point.
func TestDescribeIsExact(t *testing.T) {
	rng := seeded(2)
	random := func(n int, next func() float64) []float64 {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = next()
		}
		return xs
	}
	tests := []struct {
		name string
		xs   []float64
		why  string
	}{
		{"cancellation", []float64{1e16, 1, -1e16}, "in order the 1 is lost; the mean is 1/3"},
		{"cancellation, large", []float64{1e308, 1, -1e308, 1e308, -1e308}, "2,000 bits apart"},
		{"sum overflows", []float64{math.MaxFloat64, math.MaxFloat64, 1}, "the float64 sum is +Inf, the mean is not"},
		{"largest and smallest", []float64{math.MaxFloat64, math.SmallestNonzeroFloat64, 0}, "both ends of the format"},
		{"subnormals", []float64{5e-324, 1e-323, 5e-324}, "the mean rounds among subnormals"},
		{"offset", []float64{1e9, 1e9 + 1e-6, 1e9 + 2e-6}, "sum of squares minus square of sum loses every digit"},
		{"equal", []float64{0.1, 0.1, 0.1}, "0.1+0.1+0.1 is not 0.3 in order; the mean is 0.1 and the deviation exactly 0"},
		{"tie", []float64{1, 1 + 0x1p-52}, "the mean lies half-way between two float64s: to even"},
		{"near tie", []float64{1, 1 + 0x1p-52, 1, 1 + 0x1p-51}, "just off the half: rounding twice would go wrong"},
		{"negative", []float64{-3, -5, -0.1}, "the sign is kept"},
		{"times", random(100, func() float64 { return math.Exp(9 + 0.4*rng.NormFloat64()) }), "what a cell looks like"},
		{"counts", random(101, func() float64 { return float64(rng.IntN(100000)) }), "whole numbers"},
		{"any bits", random(40, func() float64 { return anyFinite(rng.Uint64()) }), "every exponent and sign"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Describe(tt.xs)
			mean, _ := exactMean(tt.xs).Float64()
			assert.Equal(t, math.Float64bits(mean), math.Float64bits(*d.Mean), "mean %v, want %v: %s", *d.Mean, mean, tt.why)
			stddev := rootOf(exactVariance(tt.xs))
			if math.IsInf(stddev, 1) {
				assert.Nil(t, d.StdDev, tt.why)
				return
			}
			require.NotNil(t, d.StdDev, tt.why)
			assert.Equal(t, math.Float64bits(stddev), math.Float64bits(*d.StdDev), "stddev %v, want %v: %s", *d.StdDev, stddev, tt.why)
		})
	}
}

// TestMeanRoundsOnce: on random samples the mean is always the exact one, while
// a rounded sum divided by n often is not, so the test can tell them apart.
func TestMeanRoundsOnce(t *testing.T) {
	rng, differ := seeded(3), 0
	for range 300 {
		xs := make([]float64, 100)
		for i := range xs {
			xs[i] = math.Exp(9 + 0.4*rng.NormFloat64())
		}
		want, _ := exactMean(xs).Float64()
		require.Equal(t, want, *Describe(xs).Mean)
		if roundedSum(xs)/100 != want {
			differ++
		}
	}
	assert.Greater(t, differ, 20, "two roundings should differ about one time in six")
}

// TestRoundingIsSticky takes results that lie a little above the middle of two
// float64s, with the little further down than the bits that are kept: cut off,
// it would look like a tie and go to the even, lower one.
func TestRoundingIsSticky(t *testing.T) {
	const whole = 1 << 52 // from here on float64s are whole numbers, and this one is even
	xs := make([]float64, 10_000)
	for i := range xs {
		xs[i] = whole
		if i < len(xs)/2 {
			xs[i]++
		}
	}
	assert.Equal(t, float64(whole), *Describe(xs).Mean, "whole + 1/2 is a tie: to even")
	xs[len(xs)-1]++
	assert.Equal(t, float64(whole+1), *Describe(xs).Mean, "whole + 1/2 + 1/10000 is none")

	square := new(big.Int).Mul(big.NewInt(1<<53+1), big.NewInt(1<<53+1))
	square.Lsh(square, 200)
	one := big.NewInt(1)
	assert.Equal(t, float64(1<<53), roundSqrtQuotient(square, one, -100), "the root of a square is exact, and a tie here")
	assert.Equal(t, float64(1<<53+2), roundSqrtQuotient(square.Add(square, one), one, -100), "the root of one more is no tie")
}

func anyFinite(b uint64) float64 {
	if x := math.Float64frombits(b); finite(x) != nil {
		return x
	}
	return 1
}

// rootOf is a square root at 4,000 bits, far above any exactness at stake.
func rootOf(v *big.Rat) float64 {
	if v.Sign() == 0 {
		return 0
	}
	f := new(big.Float).SetPrec(4000).SetRat(v)
	x, _ := f.Sqrt(f).Float64()
	return x
}

// TestOrderDoesNotMatter: every statistic, to the last bit, whatever the order.
func TestOrderDoesNotMatter(t *testing.T) {
	rng := seeded(4)
	for _, n := range []int{2, 3, 99, 100, 101} {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = anyFinite(rng.Uint64()) // the order of such sums decides everything in float64
		}
		xs[0] = math.Copysign(0, -1)
		xs[1] = 0
		want := bits(Describe(xs))
		for range 20 {
			rng.Shuffle(n, func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
			require.Equal(t, want, bits(Describe(xs)), "n=%d", n)
		}
	}
}

func TestDescribeLeavesItsArgumentAlone(t *testing.T) {
	xs := []float64{3, 1, math.Copysign(0, -1), 2}
	before := slices.Clone(xs)
	d := Describe(xs)
	assert.Equal(t, before, xs)
	assert.True(t, math.Signbit(xs[2]), "the negative zero was replaced")
	xs[1] = -100
	assert.Equal(t, 0.0, *d.Min, "the distribution keeps a reference to its argument")
}

// TestNonFiniteValuesRefuseTheSample: a broken clock reading is not quietly
// dropped, for the rest would look like a measurement of all.
func TestNonFiniteValuesRefuseTheSample(t *testing.T) {
	for name, xs := range map[string][]float64{
		"NaN":  {1, math.NaN(), 3},
		"+Inf": {1, math.Inf(1), 3},
		"-Inf": {1, math.Inf(-1), 3},
	} {
		assert.Equal(t, Distribution{NonFinite: 1}, Describe(xs), name)
	}
	assert.Equal(t, Distribution{NonFinite: 2}, Describe([]float64{math.NaN(), math.Inf(1)}))
}

// TestOverflowIsNotMeasured: what no float64 can hold is nil, not Inf, for JSON
// has no Inf and a threshold would compare with it.
func TestOverflowIsNotMeasured(t *testing.T) {
	d := Describe([]float64{math.MaxFloat64, -math.MaxFloat64})
	assert.Equal(t, 0.0, *d.Mean)
	assert.Nil(t, d.StdDev, "sqrt(2) times the largest float64")
	assert.Nil(t, d.CI95Low)
	assert.Nil(t, d.CI95High)
	assert.Equal(t, math.MaxFloat64, *d.Max)
}
