package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// figures makes an arm of runs that are known by one figure each.
func figures(xs ...float64) Arm {
	var a Arm
	for _, x := range xs {
		a.Runs = append(a.Runs, Run{Whole: &x})
	}
	return a
}

// rows makes an arm of one run.
func rows(xs ...float64) Arm { return Arm{Runs: []Run{{Values: xs}}} }

// wander gives n values around 100 that depend on their neighbours.
func wander(n int, seed uint64) []float64 {
	random, x := rand.New(rand.NewPCG(seed, 9)), 0.0
	xs := make([]float64, n)
	for i := range xs {
		x = 0.7*x + 0.1*random.NormFloat64()
		xs[i] = 100 * math.Exp(x)
	}
	return xs
}

func scaled(xs []float64, factor float64) []float64 {
	ys := slices.Clone(xs)
	for i := range ys {
		ys[i] *= factor
	}
	return ys
}

// logs turns logarithmic offsets into figures around 100.
func logFigures(offsets ...float64) Arm {
	xs := make([]float64, len(offsets))
	for i, o := range offsets {
		xs[i] = 100 * math.Exp(o)
	}
	return figures(xs...)
}

func TestCompareRepeats(t *testing.T) {
	for _, row := range []struct {
		name, why           string
		baseline, candidate Arm
		df, se, change      float64 // of the logarithm
		t975                float64 // from a printed table of Student's t
		method              Method
	}{
		{
			name: "three and three, equal spread", why: "variances 0.0004 each: se = sqrt(2*0.0004/3), and Welch's df is n1+n2-2",
			baseline: logFigures(-0.02, 0, 0.02), candidate: logFigures(0.08, 0.10, 0.12),
			change: 0.10, se: math.Sqrt(2 * 0.0004 / 3), t975: 2.776445, method: MethodRuns,
		},
		{
			name: "only one arm spreads", why: "Welch's df is that of the arm that spreads",
			baseline: logFigures(0, 0, 0), candidate: logFigures(0.08, 0.10, 0.12),
			change: 0.10, se: math.Sqrt(0.0004 / 3), t975: 4.302653, method: MethodRuns,
		},
		{
			name: "two and two", why: "df 2 with equal spread; variance of -a, a is 2a^2",
			baseline: logFigures(-0.01, 0.01), candidate: logFigures(-0.01, 0.01),
			change: 0, se: math.Sqrt(0.0002), t975: 4.302653, method: MethodRuns,
		},
		{
			name: "one against three", why: "the three say how much one more run differs: variance * (1 + 1/3), df 2",
			baseline: logFigures(0), candidate: logFigures(0.08, 0.10, 0.12),
			change: 0.10, se: math.Sqrt(0.0004 * 4 / 3), t975: 4.302653, method: MethodOneRunAgainstSeveral,
		},
		{
			name: "five against one", why: "whichever arm is the single one; variance of -2..2 times 0.01 is 0.00025, df 4",
			baseline: logFigures(-0.02, -0.01, 0, 0.01, 0.02), candidate: logFigures(-0.3),
			change: -0.3, se: math.Sqrt(0.00025 * 6 / 5), t975: 2.776445, method: MethodOneRunAgainstSeveral,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := Compare(row.baseline, row.candidate, Options{})
			require.NotNil(t, c.Low, c.Why)
			assert.InDelta(t, math.Expm1(row.change), *c.Change, 1e-12, row.why)
			assert.InDelta(t, math.Expm1(row.change-row.t975*row.se), *c.Low, 1e-6, row.why)
			assert.InDelta(t, math.Expm1(row.change+row.t975*row.se), *c.High, 1e-6, row.why)
			assert.Equal(t, row.method, c.Method)
			assert.Equal(t, len(row.baseline.Runs), c.Baseline.Runs)
			assert.Equal(t, len(row.candidate.Runs), c.Candidate.Runs)
			assert.InDelta(t, 100*math.Exp(row.change), *c.Candidate.Value, 1e-9, "the geometric mean of the runs")
			assert.InDelta(t, 0.95, c.Confidence, 0)
		})
	}
}

// TestCompareMinimumDetectable: the half width at the confidence plus the
// quantile of the power, both times the standard error.
func TestCompareMinimumDetectable(t *testing.T) {
	b, k := logFigures(-0.02, 0, 0.02), logFigures(-0.02, 0, 0.02)
	distance := (2.776445 + 0.940965) * math.Sqrt(2*0.0004/3) // t(0.975; 4) and t(0.8; 4)
	c := Compare(b, k, Options{})
	assert.InDelta(t, math.Expm1(distance), *c.MinimumDetectable, 1e-5)
	c = Compare(b, k, Options{Direction: HigherIsBetter})
	assert.InDelta(t, 1-math.Exp(-distance), *c.MinimumDetectable, 1e-5, "a rate falls")
}

func TestCompareConfidence(t *testing.T) {
	b, k := logFigures(-0.02, 0, 0.02), logFigures(-0.02, 0, 0.02)
	c := Compare(b, k, Options{Confidence: 0.9})
	assert.InDelta(t, math.Expm1(2.131847*math.Sqrt(2*0.0004/3)), *c.High, 1e-6, "t(0.95; 4)")
	assert.InDelta(t, 0.9, c.Confidence, 0)
}

func TestJudge(t *testing.T) {
	up, down := math.Nextafter(0.05, 1), math.Nextafter(0.05, 0)
	margin := new(0.05)
	for _, row := range []struct {
		name, why string
		low, high float64
		margin    *float64
		direction Direction
		want      Verdict
	}{
		{"beyond the margin", "all of the interval is worse than 5 %", up, 0.2, margin, LowerIsBetter, Worse},
		{"at the margin", "5 % itself is accepted", 0.05, 0.2, margin, LowerIsBetter, CannotTell},
		{"across the margin", "0 to 10 % worse: neither is ruled out", 0, 0.1, margin, LowerIsBetter, CannotTell},
		{"slower within the margin", "worse, surely, but by no more than is accepted", 0.01, 0.05, margin, LowerIsBetter, NoDifference},
		{"end just beyond the margin", "one step over is not ruled out", 0.01, up, margin, LowerIsBetter, CannotTell},
		{"end just within the margin", "one step under is", 0.01, down, margin, LowerIsBetter, NoDifference},
		{"around no change, tight", "-2 to 2 % is within 5 %", -0.02, 0.02, margin, LowerIsBetter, NoDifference},
		{"around no change, wide", "lack of data is no pass", -0.5, 0.5, margin, LowerIsBetter, CannotTell},
		{"faster", "all of it is below no change", -0.2, -0.01, margin, LowerIsBetter, Better},
		{"up to no change", "no change is inside", -0.2, 0, margin, LowerIsBetter, NoDifference},
		{"no tolerance, around no change", "a margin of 0 is a margin: it cannot be told", -0.02, 0.02, new(0.0), LowerIsBetter, CannotTell},
		{"no tolerance, slower", "any slowdown fails", 0.001, 0.02, new(0.0), LowerIsBetter, Worse},
		{"no margin, around no change", "nothing is gated: no difference was seen", -0.02, 0.02, nil, LowerIsBetter, NoDifference},
		{"no margin, slower", "zero is outside", 0.001, 0.02, nil, LowerIsBetter, Worse},
		{"no margin, faster", "zero is outside", -0.02, -0.001, nil, LowerIsBetter, Better},
		{"rate fell beyond the margin", "for a rate less is worse", -0.2, -up, margin, HigherIsBetter, Worse},
		{"rate fell to the margin", "5 % itself is accepted", -0.2, -0.05, margin, HigherIsBetter, CannotTell},
		{"rate rose", "for a rate more is better", 0.01, 0.2, margin, HigherIsBetter, Better},
		{"rate within", "fell by 4 % at most", -0.04, 0.02, margin, HigherIsBetter, NoDifference},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, reason := Options{Margin: row.margin, Direction: row.direction}.judge(row.low, row.high)
			assert.Equal(t, row.want, got, row.why)
			assert.NotEmpty(t, reason)
		})
	}
}

// TestCompareRefuses: every input that allows no answer gives CannotTell, says
// why, and has no interval that a gate could take for one.
func TestCompareRefuses(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	good, tight := logFigures(-0.001, 0, 0.001), new(0.05)
	ten := wander(10, 1)
	for _, row := range []struct {
		name                string
		baseline, candidate Arm
		options             Options
		why                 string
	}{
		{"no runs", Arm{}, good, Options{}, "an arm has no run"},
		{"no candidate", good, Arm{}, Options{}, "an arm has no run"},
		{"no rows", rows(), rows(ten...), Options{}, "reading run 1 of the baseline: no request has a value"},
		{"no values", rows(nan, nan, nan), rows(ten...), Options{}, "no request has a value"},
		{"one row", rows(1), rows(1), Options{}, "1 requests, want 5 at least"},
		{"two rows", rows(1, 2), rows(1, 2), Options{}, "2 requests, want 5 at least"},
		{"three rows", rows(1, 2, 3), rows(1, 2, 3), Options{}, "3 requests, want 5 at least"},
		{"three rows against many", rows(1, 2, 3), rows(ten...), Options{}, "3 requests, want 5 at least"},
		{"an infinite row", rows(1, inf, 3, 4, 5), rows(ten...), Options{}, "request 1: an infinite value"},
		{"zeros", rows(0, 0, 0, 0, 0), rows(ten...), Options{}, "the statistic is 0, want a finite number above 0"},
		{"a negative figure", figures(-1, -1, -1), good, Options{}, "the statistic is -1"},
		{"NaN as a figure", figures(nan, 1, 1), good, Options{}, "reading run 1 of the baseline: the statistic is NaN"},
		{"one run of several is empty", Arm{Runs: []Run{{Values: ten}, {}}}, good, Options{}, "reading run 2 of the baseline: no request has a value"},
		{"too few for a tail", rows(wander(19, 1)...), rows(wander(19, 2)...), Options{Statistic: P95}, "19 requests, want 20 at least"},
		{"less than two waves", rows(wander(31, 1)...), rows(wander(31, 2)...), Options{Concurrency: 16}, "less than two waves"},
		{"other requests answered", rows(1, 2, 3, 4, 5, nan, nan, nan, nan, nan), rows(nan, nan, nan, nan, nan, 1, 2, 3, 4, 5), Options{Paired: true},
			"pairing requests: 0 of 5 have a value in every run, want 90 %"},
		{"rate without a figure", Arm{Runs: []Run{{Work: ten, Busy: ten}}}, good, Options{Statistic: WholeRun}, "it has no figure as a whole"},
		{"rate with odd rows", Arm{Runs: []Run{{Whole: new(1.0), Work: ten, Busy: ten[:9]}}}, good, Options{Statistic: WholeRun}, "10 rows of work and 9 of busy time"},
		{"a ratio beyond float64", figures(1e-300, 1e-300, 1.1e-300), figures(1e300, 1e300, 1.1e300), Options{}, "the interval has no end"},
		{"an interval beyond float64", figures(1e-200, 1e200), good, Options{}, "the interval has no end"},
		{"zeros below a percentile", rows(0, 0, 5, 5, 5, 5, 5, 5), rows(5, 5, 5, 5, 5, 0, 0, 0), Options{Statistic: P50, Paired: true}, "the interval has no end"},
		{"unknown statistic", good, good, Options{Statistic: "p100"}, `"p100" is not one to compare`},
		{"misspelt statistic", good, good, Options{Statistic: "p+5"}, `"p+5" is not one to compare`},
		{"confidence as a percentage", good, good, Options{Confidence: 95}, "checking confidence: 95"},
		{"confidence of a coin", good, good, Options{Confidence: 0.5}, "checking confidence: 0.5"},
		{"certainty", good, good, Options{Confidence: 1}, "checking confidence: 1"},
		{"NaN confidence", good, good, Options{Confidence: nan}, "checking confidence: NaN"},
		{"negative margin", good, good, Options{Margin: new(-0.01)}, "checking margin: -0.01"},
		{"NaN margin", good, good, Options{Margin: &nan}, "checking margin: NaN"},
		{"infinite margin", good, good, Options{Margin: &inf}, "checking margin: +Inf"},
		{"a rate that may vanish", good, good, Options{Margin: new(1.0), Direction: HigherIsBetter}, "want below 1"},
		{"negative concurrency", good, good, Options{Concurrency: -1}, "checking concurrency: -1"},
		{"no such direction", good, good, Options{Direction: 2}, "checking direction: 2"},
		{"negative spread", good, good, Options{Spread: &Spread{CV: -0.1}}, "checking spread: CV -0.1"},
		{"NaN spread", good, good, Options{Spread: &Spread{CV: nan}}, "checking spread: CV NaN"},
		{"NaN freedom", good, good, Options{Spread: &Spread{CV: 0.1, DF: nan}}, "checking spread"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.options.Margin == nil {
				row.options.Margin = tight
			}
			c := Compare(row.baseline, row.candidate, row.options)
			assert.Equal(t, CannotTell, c.Verdict)
			assert.Equal(t, MethodNone, c.Method)
			assert.Contains(t, c.Why, row.why)
			assert.Nil(t, c.Low)
			assert.Nil(t, c.High)
			assert.Nil(t, c.MinimumDetectable)
		})
	}
}

// TestCompareLimits takes each limit at n-1, n and n+1.
func TestCompareLimits(t *testing.T) {
	single := func(n int, o Options) Comparison { return Compare(rows(wander(n, 1)...), rows(wander(n, 2)...), o) }
	for _, row := range []struct {
		name string
		told func(n int) bool
		at   int
	}{
		{"requests of a single run", func(n int) bool { return single(n, Options{}).Low != nil }, MinimumRequests},
		{"requests of a p95", func(n int) bool { return single(n, Options{Statistic: P95}).Low != nil }, 20},
		{"requests of a p99", func(n int) bool { return single(n, Options{Statistic: P99}).Low != nil }, 100},
		{"requests of a p5", func(n int) bool { return single(n, Options{Statistic: "p5"}).Low != nil }, 20},
		{"requests of a p93", func(n int) bool { return single(n, Options{Statistic: "p93"}).Low != nil }, 15},
		{"two waves", func(n int) bool { return single(n, Options{Concurrency: 16}).Low != nil }, 32},
		{"five waves without a warning", func(n int) bool {
			return len(single(n, Options{Concurrency: 16, Spread: &Spread{CV: 0.02}}).Warnings) == 0
		}, 80},
		{"repeats without a warning", func(n int) bool {
			runs := make([]float64, n)
			for i := range runs {
				runs[i] = 100 + float64(i)
			}
			return len(Compare(figures(runs...), figures(runs...), Options{}).Warnings) == 0
		}, TrustedRuns},
		{"identical runs that may narrow the default", func(n int) bool {
			return Spread{CV: 0.01, DF: float64(n - 1)}.Unflagged(0.95, 1, 1) < UnflaggedByDefault-0.01
		}, TrustedRuns},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.False(t, row.told(row.at-1), "%d", row.at-1)
			assert.True(t, row.told(row.at), "%d", row.at)
			assert.True(t, row.told(row.at+1), "%d", row.at+1)
		})
	}
}

func TestComparePairing(t *testing.T) {
	nan := math.NaN()
	hundred := wander(100, 1)
	// without gives the hundred less n requests, from the start or from the end.
	without := func(n, from, step int) []float64 {
		xs := slices.Clone(hundred)
		for i := range n {
			xs[from+step*i] = nan
		}
		return xs
	}
	o := Options{Paired: true, Concurrency: 4}
	t.Run("what one arm lacks is left out of both", func(t *testing.T) {
		c := Compare(rows(hundred...), rows(without(30, 3, 3)...), o)
		require.NotNil(t, c.Low, c.Why)
		assert.Equal(t, 70, c.Baseline.Requests)
		assert.Equal(t, 70, c.Candidate.Requests)
		assert.InDelta(t, 0, *c.Change, 1e-12, "the same values of the same requests")
		require.Len(t, c.Warnings, 2, "and one of the spread")
		assert.ErrorContains(t, c.Warnings[0], "70 of up to 100 have a value in every run")
	})
	t.Run("the share that must be common", func(t *testing.T) {
		// The baseline lacks the first 10 and has 90, the candidate lacks some of the
		// last: 80, 81 and 82 of 90 are common, and 81 are 90 %.
		for missing, told := range map[int]bool{10: false, 9: true, 8: true} {
			c := Compare(rows(without(10, 0, 1)...), rows(without(missing, 99, -1)...), o)
			assert.Equal(t, told, c.Low != nil, "%d missing: %s", missing, c.Why)
		}
	})
	t.Run("a common index in another run", func(t *testing.T) {
		c := Compare(Arm{Runs: []Run{{Values: hundred}, {Values: without(5, 0, 1)}}}, Arm{Runs: []Run{{Values: hundred}, {Values: hundred}}}, o)
		assert.Equal(t, 190, c.Baseline.Requests, "95 in each of two runs")
		assert.Equal(t, 190, c.Candidate.Requests)
	})
	t.Run("lengths differ", func(t *testing.T) {
		c := Compare(rows(hundred...), rows(scaled(hundred[:50], 2)...), o)
		require.NotNil(t, c.Low, c.Why)
		assert.InDelta(t, 1, *c.Change, 1e-9, "the first 50 of both")
		assert.Equal(t, 50, c.Baseline.Requests)
	})
	t.Run("unpaired takes all", func(t *testing.T) {
		c := Compare(rows(hundred...), rows(without(30, 0, 1)...), Options{Concurrency: 4})
		require.NotNil(t, c.Low, c.Why)
		assert.Equal(t, 100, c.Baseline.Requests)
		assert.Equal(t, 70, c.Candidate.Requests)
		assert.Equal(t, MethodBlocks, c.Method)
	})
	t.Run("narrows what prompts cause", func(t *testing.T) {
		k := scaled(hundred, 1.01)
		for _, s := range []Statistic{Mean, P50, P95} {
			paired := Compare(rows(hundred...), rows(k...), Options{Statistic: s, Paired: true, Concurrency: 4, Spread: &Spread{}})
			unpaired := Compare(rows(hundred...), rows(k...), Options{Statistic: s, Concurrency: 4, Spread: &Spread{}})
			assert.Equal(t, MethodPairedBlocks, paired.Method)
			assert.Less(t, *paired.High-*paired.Low, 1e-5, "%s: both arms move alike", s)
			assert.Greater(t, *unpaired.High-*unpaired.Low, 0.05, "%s", s)
		}
	})
}

// TestCompareSingleRuns: what is known of the spread between runs decides, and
// more of it never narrows the interval.
func TestCompareSingleRuns(t *testing.T) {
	b, k := rows(wander(200, 1)...), rows(wander(200, 2)...)
	width := func(s *Spread) float64 {
		c := Compare(b, k, Options{Paired: true, Concurrency: 4, Spread: s})
		require.NotNil(t, c.Low, c.Why)
		return math.Log1p(*c.High) - math.Log1p(*c.Low)
	}
	within := width(&Spread{})
	last := within
	for _, cv := range []float64{0.001, 0.01, 0.02, 0.05, 0.1, 0.3} {
		assert.Greater(t, width(&Spread{CV: cv}), last, "CV %v", cv)
		last = width(&Spread{CV: cv})
	}
	assert.InDelta(t, math.Hypot(within, 2*math.Log(1.2)), width(nil), 1e-9, "the default adds 20 % either way, as squares")
	assert.Greater(t, width(&Spread{CV: 0.02, DF: 4}), width(&Spread{CV: 0.02}), "an estimate is less than knowledge")
	assert.InDelta(t, width(nil), width(&Spread{CV: 0.01, DF: 1}), 1e-9, "two identical runs do not narrow the default")
	assert.InDelta(t, width(&Spread{CV: 0.1}), width(&Spread{CV: 0.1, DF: 1}), 1e-9, "but they widen it")

	// Three waves are little: adding a known spread must not look like data.
	few := func(s *Spread) float64 {
		c := Compare(rows(wander(32, 1)...), rows(wander(32, 2)...), Options{Paired: true, Concurrency: 16, Spread: s})
		require.NotNil(t, c.Low, c.Why)
		return math.Log1p(*c.High) - math.Log1p(*c.Low)
	}
	assert.Greater(t, few(&Spread{CV: 0.1}), few(&Spread{CV: 0.01}))
}

func TestCompareDefaultWarns(t *testing.T) {
	o := Options{Paired: true, Margin: new(0.05)}
	c := Compare(rows(wander(50, 1)...), rows(wander(50, 2)...), o)
	require.Len(t, c.Warnings, 1)
	assert.ErrorContains(t, c.Warnings[0], "one run an arm")
	assert.Contains(t, c.Why, "6.6 % (by default, none was measured)")
	o.Spread = &Spread{CV: 0.01, DF: 4}
	c = Compare(rows(wander(50, 1)...), rows(wander(50, 2)...), o)
	assert.Empty(t, c.Warnings)
	assert.Contains(t, c.Why, "1.0 % (as given)")
	o.Spread.DF = 1
	c = Compare(rows(wander(50, 1)...), rows(wander(50, 2)...), o)
	require.Len(t, c.Warnings, 1)
	assert.ErrorContains(t, c.Warnings[0], "can widen the default and not narrow it")
}

// TestCompareSummary: a summary has figures and no rows.
func TestCompareSummary(t *testing.T) {
	summary := figures(100)
	t.Run("against rows", func(t *testing.T) {
		o := Options{Paired: true, Concurrency: 4, Spread: &Spread{}}
		c := Compare(summary, rows(wander(100, 1)...), o)
		require.NotNil(t, c.Low, c.Why)
		assert.Equal(t, MethodBlocks, c.Method)
		require.Len(t, c.Warnings, 1)
		assert.ErrorContains(t, c.Warnings[0], "one arm has no rows")
		both := Compare(rows(wander(100, 1)...), rows(wander(100, 1)...), Options{Concurrency: 4, Spread: &Spread{}})
		assert.InDelta(t, math.Log1p(*both.High)-math.Log1p(*both.Low), math.Log1p(*c.High)-math.Log1p(*c.Low), 1e-9,
			"as uncertain as the arm with rows")
	})
	t.Run("against a summary", func(t *testing.T) {
		c := Compare(summary, figures(400), Options{Margin: new(0.05)})
		assert.Equal(t, CannotTell, c.Verdict, "four times as slow, and still nothing is known of the error within")
		assert.Equal(t, MethodSpreadOnly, c.Method)
		assert.InDelta(t, 3, *c.Change, 1e-9)
		require.NotNil(t, c.Low, "what is known is shown")
		assert.Contains(t, c.Why, "a part of the error is not in the interval")
	})
	t.Run("repeated summaries are runs like others", func(t *testing.T) {
		c := Compare(figures(100, 101, 99), figures(400, 404, 396), Options{Margin: new(0.05)})
		assert.Equal(t, Worse, c.Verdict)
	})
}

// TestCompareRepeatsWithoutSpread: copies of one run are no repeats.
func TestCompareRepeatsWithoutSpread(t *testing.T) {
	c := Compare(figures(100, 100, 100), figures(101, 101, 101), Options{})
	assert.Equal(t, NoDifference, c.Verdict, "1 % more of constants is not called a regression")
	require.Len(t, c.Warnings, 1)
	assert.ErrorContains(t, c.Warnings[0], "agree to the last bit")
	assert.InDelta(t, math.Log(1.2)/math.Sqrt2*math.Sqrt(2.0/3), math.Log1p(*c.High)-math.Log(1.01), 1e-9,
		"the default between three and three")
	assert.Equal(t, Worse, Compare(figures(100, 100, 100), figures(150, 150, 150), Options{}).Verdict, "half as much again is")

	c = Compare(figures(100, 100, 100+1e-11), figures(100, 100, 100), Options{})
	assert.Equal(t, NoDifference, c.Verdict, "the last digits of a float64 are no regression")
	assert.InDelta(t, resolution, *c.High, 1e-9)
}

func TestCompareSpreadFloor(t *testing.T) {
	b, k := logFigures(-0.001, 0, 0.001), logFigures(0.029, 0.03, 0.031)
	assert.Equal(t, Worse, Compare(b, k, Options{}).Verdict, "3 % between runs that agree to 0.1 %")
	c := Compare(b, k, Options{Spread: &Spread{CV: 0.02, DF: 1}})
	assert.Equal(t, NoDifference, c.Verdict, "identical runs differed by 2 %: 3 % is theirs")
	assert.Contains(t, c.Why, "the spread of 2.0 % between identical runs is wider than theirs")
	assert.InDelta(t, 0.03+1.959964*0.02*math.Sqrt(2.0/3), math.Log1p(*c.High), 1e-6)
	c = Compare(b, k, Options{Spread: &Spread{CV: 0.0001, DF: 1}})
	assert.Equal(t, Compare(b, k, Options{}).High, c.High, "a narrower one changes nothing")
}

// TestCompareBlindAbove: a sample that could not have seen a large slowdown does
// not say that there was none.
func TestCompareBlindAbove(t *testing.T) {
	verdict := func(spread float64) Verdict {
		return Compare(logFigures(-spread, 0, spread), logFigures(-spread, 0, spread), Options{}).Verdict
	}
	// half width and power: (2.776445 + 0.940965) * spread * sqrt(2/3) = log 1.5
	limit := math.Log(1.5) / ((2.776445 + 0.940965) * math.Sqrt(2.0/3))
	assert.Equal(t, NoDifference, verdict(0.999*limit))
	assert.Equal(t, CannotTell, verdict(1.001*limit))
}

// TestCompareInvariance: swapping the arms turns the change around, and a unit
// changes nothing but the values.
func TestCompareInvariance(t *testing.T) {
	src := sources(t)[1]
	for _, runs := range []int{1, 3} {
		tr := newTrial(src, 0.03, 60, 5)
		for _, metric := range calibratedMetrics {
			b, k := metric.arm(tr.baseline[:runs]), metric.arm(tr.candidate[:runs])
			for _, paired := range []bool{false, true} {
				o := Options{Statistic: metric.statistic, Direction: metric.direction, Paired: paired, Concurrency: 4}
				there, back := Compare(b, k, o), Compare(k, b, o)
				require.NotNil(t, there.Low, there.Why)
				const ulp = 1e-9
				assert.InDelta(t, 1, (1+*there.Change)*(1+*back.Change), ulp)
				assert.InDelta(t, 1, (1+*there.Low)*(1+*back.High), ulp, "%s, %d runs", metric.name, runs)
				assert.InDelta(t, 1, (1+*there.High)*(1+*back.Low), ulp)
				assert.InDelta(t, *there.MinimumDetectable, *back.MinimumDetectable, ulp)

				scaledB, scaledK := metric.arm(slowedAll(tr.baseline[:runs], 0.001)), metric.arm(slowedAll(tr.candidate[:runs], 0.001))
				seconds := Compare(scaledB, scaledK, o)
				assert.InDelta(t, *there.Change, *seconds.Change, ulp, "milliseconds or seconds")
				assert.InDelta(t, *there.Low, *seconds.Low, ulp)
				assert.InDelta(t, *there.High, *seconds.High, ulp)
				assert.Equal(t, there.Verdict, seconds.Verdict)

				// What TestCalibration relies on: a slower candidate moves the interval.
				slow := Compare(b, metric.arm(slowedAll(tr.candidate[:runs], 1.2)), o)
				factor := 1.2
				if metric.direction == HigherIsBetter {
					factor = 1 / factor
				}
				assert.InDelta(t, (1+*there.Low)*factor-1, *slow.Low, ulp, "%s, %d runs", metric.name, runs)
				assert.InDelta(t, (1+*there.High)*factor-1, *slow.High, ulp)
			}
		}
	}
}

func slowedAll(runs []cellRun, factor float64) []cellRun {
	var slow []cellRun
	for _, c := range runs {
		slow = append(slow, c.slowed(factor))
	}
	return slow
}

// TestCompareIsPure: same in, same out, from many goroutines, and nothing of the
// input changes.
func TestCompareIsPure(t *testing.T) {
	b, k := rows(wander(80, 1)...), rows(wander(80, 2)...)
	b.Runs[0].Values[3] = math.NaN()
	before := slices.Clone(b.Runs[0].Values)
	for _, s := range []Statistic{Mean, P95} {
		o := Options{Statistic: s, Paired: true, Concurrency: 4}
		want := Compare(b, k, o)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { assert.Equal(t, want, Compare(b, k, o)) })
		}
		wg.Wait()
		for range 3 {
			wg.Go(func() { Interval(b, IntervalOptions{Statistic: s}) })
		}
		wg.Wait()
	}
	for i, x := range b.Runs[0].Values {
		assert.Equal(t, math.Float64bits(before[i]), math.Float64bits(x))
	}
}

func TestDirectionString(t *testing.T) {
	assert.Equal(t, "lower is better", LowerIsBetter.String())
	assert.Equal(t, "higher is better", HigherIsBetter.String())
}

// TestCompareWithinRuns takes the error within a pair of runs apart: ten blocks
// of the paired influences, their small-sample factor, t with nine degrees of
// freedom, and for a rate what the end of the loop adds.
func TestCompareWithinRuns(t *testing.T) {
	xs, ys := wander(100, 1), wander(100, 2)
	z := make([]float64, 100)
	for i := range z {
		z[i] = ys[i]/meanOf(ys) - xs[i]/meanOf(xs)
	}
	half := 2.262157 * math.Sqrt(varianceOfMean(z, 10)*10/9) // t(0.975; 9)
	c := Compare(rows(xs...), rows(ys...), Options{Paired: true, Concurrency: 4, Spread: &Spread{}})
	assert.InDelta(t, half, math.Log1p(*c.High)-math.Log1p(*c.Change), 1e-6)
	assert.InDelta(t, half, math.Log1p(*c.Change)-math.Log1p(*c.Low), 1e-6)

	// Two slots of which one ends early: of 2 * 5500 ms the requests fill 10,000.
	rate := func(wallMS float64) float64 {
		a := Arm{Runs: []Run{{Whole: new(1.0), Work: ones(100), Busy: scaled(ones(100), 100), WallMS: wallMS}}}
		c := Compare(a, a, Options{Statistic: WholeRun, Paired: true, Concurrency: 2, Spread: &Spread{}})
		require.NotNil(t, c.High, c.Why)
		return math.Log1p(*c.High)
	}
	idle := 1 - 10_000.0/11_000
	assert.InDelta(t, 2.262157*math.Sqrt(2*idle*idle/2), rate(5500), 1e-6, "both arms, each idle^2 over two slots")
	assert.InDelta(t, resolution, rate(5000), 1e-9, "never idle, constant rows: nothing moves")
	assert.InDelta(t, resolution, rate(0), 1e-9, "unknown wall")
	assert.InDelta(t, resolution, rate(4000), 1e-9, "an impossible wall adds nothing")
}

// TestCompareRateInfluence: the error of a rate is that of the tokens less that
// of the time that they took; requests that are long because they say more do
// not make it uncertain.
func TestCompareRateInfluence(t *testing.T) {
	work := wander(100, 1)
	a := Arm{Runs: []Run{{Whole: new(1.0), Work: work, Busy: scaled(work, 30)}}}
	c := Compare(a, a, Options{Statistic: WholeRun, Concurrency: 4, Spread: &Spread{}})
	assert.InDelta(t, resolution, *c.High, 1e-9)
}
