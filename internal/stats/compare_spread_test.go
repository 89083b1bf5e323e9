package stats

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSpreadOf(t *testing.T) {
	s, err := SpreadOf(Mean, logFigures(-0.02, 0, 0.02))
	require.NoError(t, err)
	assert.InDelta(t, 0.02, s.CV, 1e-12, "the variance of -a, 0, a is a^2")
	assert.InDelta(t, 2, s.DF, 0)

	s, err = SpreadOf(Mean, logFigures(-0.02, 0, 0.02), logFigures(5), logFigures(0.99, 1.01))
	require.NoError(t, err)
	assert.InDelta(t, math.Sqrt((2*0.0004+0.0002)/3), s.CV, 1e-12, "each arm about its own mean; a single run adds nothing")
	assert.InDelta(t, 3, s.DF, 0)

	for name, arms := range map[string][]Arm{"none": nil, "one run": {logFigures(0)}, "single runs": {logFigures(0), logFigures(1)}} {
		_, err = SpreadOf(Mean, arms...)
		assert.ErrorContains(t, err, "no arm has two runs", name)
	}
	_, err = SpreadOf(Mean, figures(1, 0))
	assert.ErrorContains(t, err, "reading run 2")
	_, err = SpreadOf("max", figures(1, 1))
	assert.ErrorContains(t, err, `"max" is not one to compare`)
	_, err = SpreadOf(Mean, rows(math.Inf(1)))
	assert.ErrorContains(t, err, "infinite")
}

func TestPoolSpreads(t *testing.T) {
	s, err := PoolSpreads(Spread{CV: 0.02, DF: 4}, Spread{CV: 0.05, DF: 1})
	require.NoError(t, err)
	assert.InDelta(t, math.Sqrt((4*0.0004+0.0025)/5), s.CV, 1e-12)
	assert.InDelta(t, 5, s.DF, 0)
	for name, row := range map[string]struct {
		spreads []Spread
		says    string
	}{
		"none":  {nil, "there are none"},
		"known": {[]Spread{{CV: 0.02, DF: 4}, {CV: 0.02}}, "no degrees of freedom"},
		"NaN":   {[]Spread{{CV: math.NaN(), DF: 4}}, "checking spread"},
	} {
		_, err := PoolSpreads(row.spreads...)
		assert.ErrorContains(t, err, row.says, name)
	}
}

func TestSpreadUnflagged(t *testing.T) {
	assert.InDelta(t, UnflaggedByDefault, DefaultSpread().Unflagged(0.95, 1, 1), 1e-12, "that is how the default is made")
	assert.InDelta(t, math.Expm1(2.776445*0.02*math.Sqrt2), Spread{CV: 0.02, DF: 4}.Unflagged(0.95, 1, 1), 1e-6, "t(0.975; 4)")
	assert.InDelta(t, math.Expm1(1.959964*0.02*math.Sqrt(2.0/3)), Spread{CV: 0.02, DF: 4}.Unflagged(0.95, 3, 3), 1e-6, "a floor: normal")
	assert.InDelta(t, math.Expm1(1.959964*0.02*math.Sqrt(1+1.0/5)), Spread{CV: 0.02}.Unflagged(0.95, 1, 5), 1e-6)
	assert.InDelta(t, UnflaggedByDefault, Spread{CV: 0, DF: 4}.Unflagged(0.95, 1, 1), 1e-12, "five copies of a run are no five runs")
	assert.InDelta(t, 0, Spread{CV: 0}.Unflagged(0.95, 1, 1), 1e-12, "unless it is known")
	for name, x := range map[string]float64{
		"no baseline": DefaultSpread().Unflagged(0.95, 0, 1), "no candidate": DefaultSpread().Unflagged(0.95, 1, 0),
		"confidence": DefaultSpread().Unflagged(95, 1, 1), "spread": Spread{CV: -1}.Unflagged(0.95, 1, 1),
	} {
		assert.True(t, math.IsNaN(x), name)
	}
}

// TestStudentQuantile: printed values of the t distribution.
func TestStudentQuantile(t *testing.T) {
	for _, row := range []struct{ p, df, want float64 }{
		{0.975, 1, 12.706205}, {0.975, 2, 4.302653}, {0.975, 4, 2.776445}, {0.975, 9, 2.262157}, {0.95, 5, 2.015048},
		{0.8, 4, 0.940965}, {0.975, 1e7, 1.959964}, {0.975, math.Inf(1), 1.959964}, {0.995, 30, 2.749996},
	} {
		assert.InDelta(t, row.want, studentQuantile(row.p, row.df), 1e-5, "t(%v; %v)", row.p, row.df)
	}
}
