package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
)

// independent gives n values of a known distribution: exp of a standard normal,
// whose p quantile is exp of the normal's.
func independent(n int, seed uint64) []float64 {
	random := rand.New(rand.NewPCG(seed, 6))
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = math.Exp(random.NormFloat64())
	}
	return xs
}

// TestRankBounds holds the bounds to the binomial distribution: the r-th
// smallest of n is above the quantile when fewer than r values are below it.
func TestRankBounds(t *testing.T) {
	checked := 0
	for _, n := range []int{5, 10, 20, 58, 59, 60, 93, 100, 299, 500} {
		for _, p := range []float64{0.05, 0.5, 0.9, 0.95, 0.99} {
			for _, tail := range []float64{0.025, 0.05} {
				low, high := rankBounds(n, float64(n), p, tail)
				below := distuv.Binomial{N: float64(n), P: p}
				if low > 0 {
					checked++
					assert.LessOrEqual(t, below.CDF(float64(low)-1), tail+1e-9, "lower bound of %v, n = %d", p, n)
				}
				if high <= n {
					checked++
					assert.LessOrEqual(t, 1-below.CDF(float64(high)-1), tail+1e-9, "upper bound of %v, n = %d", p, n)
				}
			}
		}
	}
	assert.Greater(t, checked, 100)
}

// TestIntervalOfATail: 0.95^59 is 4.9 %, so 59 requests are the first that bound
// p95 from above at 95 % one-sided. Blocks cost some of them.
func TestIntervalOfATail(t *testing.T) {
	for n, has := range map[int]bool{57: false, 58: false, 59: true, 60: true} {
		_, high := rankBounds(n, float64(n), 0.95, 0.05)
		assert.Equal(t, has, high <= n, "%d", n)
	}
	e := Interval(rows(independent(20, 1)...), IntervalOptions{Statistic: P95, OneSided: true})
	require.NotNil(t, e.Value, e.Why)
	assert.NotNil(t, e.Low)
	assert.Nil(t, e.High, "the largest of 20 says nothing about how far p95 can be")
	require.NotEmpty(t, e.Warnings)
	assert.ErrorContains(t, e.Warnings[0], "too few requests for an upper bound of p95: worth")
	assert.ErrorContains(t, e.Warnings[0], "want 59")
}

// TestIntervalCoverage: the bounds hold the truth at least as often as they say.
func TestIntervalCoverage(t *testing.T) {
	t.Parallel()
	trials := 1000
	if raceEnabled || testing.Short() {
		trials = 100
	}
	normal := distuv.UnitNormal
	truths := map[Statistic]float64{
		Mean: math.Exp(0.5), P50: 1, P90: math.Exp(normal.Quantile(0.9)), P95: math.Exp(normal.Quantile(0.95)),
	}
	for statistic, truth := range truths {
		for _, n := range []int{20, 100, 400} {
			missed := 0
			for i := range trials {
				e := Interval(rows(independent(n, uint64(n*10_000+i))...), IntervalOptions{Statistic: statistic})
				require.NotNil(t, e.Value, e.Why)
				if e.Low != nil && *e.Low > truth || e.High != nil && *e.High < truth {
					missed++
				}
			}
			// The mean of a skewed distribution is known to be missed somewhat more often.
			nominal := 0.05
			if statistic == Mean {
				nominal = 0.09
			}
			assert.Greater(t, excess(missed, trials, nominal), implausible, "%s of %d: missed %d of %d", statistic, n, missed, trials)
		}
	}
}

// TestIntervalCoverageBehindAQueue: the same where requests depend on each other,
// and where independence would miss far more often.
func TestIntervalCoverageBehindAQueue(t *testing.T) {
	t.Parallel()
	trials := 400
	if raceEnabled || testing.Short() {
		trials = 40
	}
	src, n := sources(t)[2], 400
	truth := map[Statistic]float64{}
	for _, s := range []Statistic{Mean, P50, P95, WholeRun} {
		var figures []float64
		for i := range 300 {
			c := src.run(n, uint64(50_000+i), uint64(50_000+i))
			run := calibratedMetric{statistic: s}.of(c)
			rows, err := s.sample(run)
			require.NoError(t, err)
			figure, err := rows.value(run)
			require.NoError(t, err)
			figures = append(figures, math.Log(figure))
		}
		truth[s] = math.Exp(meanOf(figures))
	}
	naive := 0
	for s, want := range truth {
		missed := 0
		for i := range trials {
			c := src.run(n, uint64(i), uint64(i))
			e := Interval(Arm{Runs: []Run{calibratedMetric{statistic: s}.of(c)}}, IntervalOptions{Statistic: s, Concurrency: src.concurrency})
			require.NotNil(t, e.Low, e.Why)
			require.True(t, e.High != nil || s == P95, e.Why) // a tail may have no upper bound
			if *e.Low > want || e.High != nil && *e.High < want {
				missed++
			}
			if d := Describe(c.ttft); s == Mean && (*d.CI95Low > want || *d.CI95High < want) {
				naive++
			}
		}
		// A few per cent over nominal is what ten blocks leave.
		assert.Greater(t, excess(missed, trials, 0.07), implausible, "%s: missed %d of %d", s, missed, trials)
	}
	if fullCalibration() {
		assert.Less(t, excess(naive, trials, 0.07), implausible, "taking requests as independent missed only %d of %d", naive, trials)
	}
}

func TestIntervalOfRuns(t *testing.T) {
	arm := logFigures(-0.02, 0, 0.02)
	e := Interval(arm, IntervalOptions{})
	half := 4.302653 * math.Sqrt(0.0004/3) // t(0.975; 2)
	assert.InDelta(t, 100, *e.Value, 1e-9)
	assert.InDelta(t, 100*math.Exp(-half), *e.Low, 1e-4)
	assert.InDelta(t, 100*math.Exp(half), *e.High, 1e-4)
	assert.Equal(t, MethodRuns, e.Method)
	assert.Equal(t, 3, e.Runs)

	e = Interval(arm, IntervalOptions{OneSided: true})
	assert.InDelta(t, 100*math.Exp(2.919986*math.Sqrt(0.0004/3)), *e.High, 1e-4, "t(0.95; 2)")

	e = Interval(arm, IntervalOptions{Spread: &Spread{CV: 0.2}})
	assert.InDelta(t, 100*math.Exp(1.959964*0.2/math.Sqrt(3)), *e.High, 1e-4, "the floor")

	e = Interval(figures(100, 100), IntervalOptions{})
	require.Len(t, e.Warnings, 1)
	assert.ErrorContains(t, e.Warnings[0], "agree to the last bit")
	assert.Greater(t, *e.High, 105.0)
}

func TestIntervalOfOneRun(t *testing.T) {
	arm := rows(wander(100, 1)...)
	for _, s := range []Statistic{Mean, P50} {
		e := Interval(arm, IntervalOptions{Statistic: s, Concurrency: 4})
		require.NotNil(t, e.Low, e.Why)
		assert.Less(t, *e.Low, *e.Value)
		assert.Greater(t, *e.High, *e.Value)
		assert.Equal(t, 100, e.Requests)
		one := Interval(arm, IntervalOptions{Statistic: s, Concurrency: 4, OneSided: true})
		assert.Less(t, *one.High, *e.High+1e-12, "%s: one bound alone is nearer", s)
		wide := Interval(arm, IntervalOptions{Statistic: s, Concurrency: 4, Spread: &Spread{CV: 0.05}})
		assert.Greater(t, *wide.High, *e.High, "%s: another run differs by more", s)
		assert.Less(t, *wide.Low, *e.Low)
		surer := Interval(arm, IntervalOptions{Statistic: s, Concurrency: 4, Confidence: 0.99})
		assert.Greater(t, *surer.High, *e.High-1e-12)
	}
	twoIdentical := Interval(arm, IntervalOptions{Concurrency: 4, Spread: &Spread{CV: 0.001, DF: 1}})
	byDefault := Interval(arm, IntervalOptions{Concurrency: 4, Spread: new(DefaultSpread())})
	assert.InDelta(t, *byDefault.High, *twoIdentical.High, 1e-9, "two identical runs do not narrow the default")
}

func TestIntervalOfConstants(t *testing.T) {
	constant := rows(7, 7, 7, 7, 7, 7)
	for _, s := range []Statistic{Mean, P50} {
		e := Interval(constant, IntervalOptions{Statistic: s})
		require.NotNil(t, e.Low, e.Why)
		assert.InDelta(t, 7, *e.Low, 1e-9)
		assert.InDelta(t, 7, *e.High, 1e-9)
	}
}

func TestIntervalRefuses(t *testing.T) {
	nan := math.NaN()
	for _, row := range []struct {
		name    string
		arm     Arm
		options IntervalOptions
		why     string
	}{
		{"no run", Arm{}, IntervalOptions{}, "there is no run"},
		{"no value", rows(nan), IntervalOptions{}, "no request has a value"},
		{"four rows", rows(1, 2, 3, 4), IntervalOptions{}, "4 requests, want 5 at least"},
		{"four rows of a percentile", rows(1, 2, 3, 4), IntervalOptions{Statistic: P50}, "4 requests, want 5 at least"},
		{"a figure without rows", figures(5), IntervalOptions{}, "no rows"},
		{"an infinite row", rows(1, 2, 3, 4, 5, math.Inf(-1)), IntervalOptions{}, "request 5: an infinite value"},
		{"less than two waves", rows(wander(31, 1)...), IntervalOptions{Concurrency: 16}, "less than two waves"},
		{"confidence", rows(wander(31, 1)...), IntervalOptions{Confidence: 95}, "checking confidence: 95"},
		{"statistic", rows(wander(31, 1)...), IntervalOptions{Statistic: "stddev"}, `"stddev" is not one to compare`},
		{"spread", rows(wander(31, 1)...), IntervalOptions{Spread: &Spread{CV: nan}}, "checking spread"},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := Interval(row.arm, row.options)
			assert.Nil(t, e.Low)
			assert.Nil(t, e.High)
			assert.Equal(t, MethodNone, e.Method)
			assert.Contains(t, e.Why, row.why)
		})
	}
	e := Interval(rows(wander(32, 1)...), IntervalOptions{Concurrency: 16})
	require.NotNil(t, e.Low, e.Why)
	require.Len(t, e.Warnings, 1)
	assert.ErrorContains(t, e.Warnings[0], "2 waves, want 5")
}
