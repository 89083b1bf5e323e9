package stats

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Spread is how much the figure of a whole run differs between runs of one
// build, all else the same.
type Spread struct {
	// CV is the standard deviation of the logarithm of the figure, which for
	// small spreads is the coefficient of variation: 0.02 is 2 %.
	CV float64
	// DF are the degrees of freedom behind CV: identical runs less one. 0 means
	// that it is known and not estimated.
	DF float64
}

// UnflaggedByDefault is the difference between two single runs that is taken for
// chance when nothing is known of a machine's spread. Identical arms have been
// published to differ by that much (guelfoweb/orbit#295: 12 and 22 %).
const UnflaggedByDefault = 0.20

// DefaultSpread stands in where one run an arm is all there is: with it, two
// identical runs differ by UnflaggedByDefault or less in 95 %. Its CV is 6.6 %. A
// machine that spreads more, as the one of that report does (10 %), needs its
// own, from identical runs: see the end of fixtures/calibration.md.
func DefaultSpread() Spread {
	return Spread{CV: math.Log1p(UnflaggedByDefault) / (distuv.UnitNormal.Quantile(0.975) * math.Sqrt2)}
}

// SpreadOf measures the spread on identical runs, those of each arm being one
// build: pass the A/A runs as one Arm, or several arms to pool what each shows.
// At least one arm needs two runs. The figures hold the error within the runs
// too, so Compare counts that part twice when it takes such a spread for single
// runs: on the safe side.
func SpreadOf(statistic Statistic, arms ...Arm) (Spread, error) {
	if err := statistic.check(); err != nil {
		return Spread{}, err
	}
	squares, df := 0.0, 0.0
	for _, a := range arms {
		samples, err := statistic.samples(a)
		if err != nil {
			return Spread{}, err
		}
		m, err := measure("spread", a.Runs, samples)
		if err != nil {
			return Spread{}, err
		}
		if len(m.logs) < 2 {
			continue
		}
		squares += varianceOf(m.logs) * float64(len(m.logs)-1)
		df += float64(len(m.logs) - 1)
	}
	if df == 0 {
		return Spread{}, errors.New("measuring spread: no arm has two runs, want two identical ones at least")
	}
	return Spread{CV: math.Sqrt(squares / df), DF: df}, nil
}

// PoolSpreads joins spreads that were estimated on one machine, each by its
// degrees of freedom. Known ones (DF 0) and none at all are refused: there is
// nothing to weigh them by.
func PoolSpreads(spreads ...Spread) (Spread, error) {
	squares, df := 0.0, 0.0
	for _, s := range spreads {
		if err := s.check(); err != nil {
			return Spread{}, err
		}
		if s.DF == 0 {
			return Spread{}, errors.New("pooling spreads: one has no degrees of freedom")
		}
		squares += s.CV * s.CV * s.DF
		df += s.DF
	}
	if df == 0 {
		return Spread{}, errors.New("pooling spreads: there are none")
	}
	return Spread{CV: math.Sqrt(squares / df), DF: df}, nil
}

// Unflagged is the largest relative rise between arms of so many runs that this
// spread alone explains at the confidence, as Compare takes it: what a gate must
// not flag. NaN when the spread, the confidence or a count is out of range.
func (s Spread) Unflagged(confidence float64, baselineRuns, candidateRuns int) float64 {
	if s.check() != nil || checkConfidence(confidence) != nil || baselineRuns < 1 || candidateRuns < 1 {
		return math.NaN()
	}
	p := (1 + confidence) / 2
	if baselineRuns == 1 && candidateRuns == 1 {
		alone := s.alone()
		return math.Expm1(studentQuantile(p, alone.df()) * alone.CV * math.Sqrt2)
	}
	return math.Expm1(s.floor(p, 1/float64(baselineRuns)+1/float64(candidateRuns)))
}

// alone is what to take for single runs, where nothing else shows the spread. An
// estimate from two runs is mostly luck: its t quantile is 12.7, and identical
// runs that happened to agree would still be trusted too far in the mean. So it
// only widens what is taken without it. So does an estimate of exactly 0: runs
// that agree to the last bit are copies or made of constants.
func (s Spread) alone() Spread {
	if s.DF == 0 || s.DF >= TrustedRuns-1 && s.CV > 0 {
		return s
	}
	return Spread{CV: max(s.CV, DefaultSpread().CV)}
}

// floor is the half width below which nothing is flagged where repeats show the
// spread themselves, share being the sum of 1/runs. The uncertainty of repeats
// is in their own interval already, so the normal quantile will do.
func (s Spread) floor(p, share float64) float64 {
	return studentQuantile(p, math.Inf(1)) * s.CV * math.Sqrt(share)
}

func (s Spread) check() error {
	if !(s.CV >= 0) || math.IsInf(s.CV, 1) || !(s.DF >= 0) || math.IsInf(s.DF, 1) {
		return fmt.Errorf("checking spread: CV %v with %v degrees of freedom, want finite numbers of 0 or more", s.CV, s.DF)
	}
	return nil
}

func (s Spread) df() float64 {
	if s.DF == 0 {
		return math.Inf(1)
	}
	return s.DF
}

// studentQuantile is the p quantile of Student's t; of the normal distribution
// for df = +Inf.
func studentQuantile(p, df float64) float64 {
	if math.IsInf(df, 1) || df > maxStudentDF {
		return distuv.UnitNormal.Quantile(p)
	}
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(p)
}

// maxStudentDF is from where on t and normal agree to five digits.
const maxStudentDF = 1e6
