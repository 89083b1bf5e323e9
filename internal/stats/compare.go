package stats

import (
	"errors"
	"fmt"
	"math"
)

// How two versions of a server are compared, and why so.
//
// Everything is done on logarithms: a change is a ratio, the arms can be
// swapped, and milliseconds give the same answer as seconds.
//
// The spread between runs is the heart of it. Two runs of one build differ: the
// machine's clocks, its neighbours, the batches that happened to form. Requests
// of one run share all of that, so no number of requests shows it, and an
// interval made of requests alone calls identical builds different. Hence:
//
//   - With repeats, the run is the unit. Each run gives one figure, and the arms
//     are compared by Welch's t on the logarithms. It assumes neither that
//     requests are independent nor that both arms spread alike. Where all runs
//     have the same prompts, what a prompt costs is in every run alike and
//     cancels by itself. Pooling the variances would see somewhat smaller
//     changes with 3 repeats and was refused: with 2 repeats it calls identical
//     arms different in up to 12 % on a metric of two peaks (the median TTFT of
//     fixtures/glm-c4-16word is one), and an unequal spread breaks it.
//   - With one run an arm, the spread between runs cannot be seen. It is taken
//     from Options.Spread, measured on identical runs, or from DefaultSpread,
//     and the error within the runs is added to it: a circular block bootstrap
//     (resample.go), paired by request where the prompts are the same.
//   - With one run against several, the several say how much both spread.
//
// What was tried for the error within a run and is not used: taking requests as
// independent calls up to 60 % of identical pairs different behind a queue;
// a block length chosen from the data (Politis and White 2004) comes out at 2 to
// 7 requests where the queue remembers for 20, and misses 10 to 20 %; few, long
// blocks of at least a wave of the closed loop hold.
//
// How often identical arms are called different, and what is found of a real
// slowdown, is measured by TestCalibration and published in
// fixtures/calibration.md.

// Compare compares two arms on one metric. It is deterministic: the same input
// gives the same output. Input that does not allow an answer gives CannotTell
// and a Why, never an error to forget and never a pass.
func Compare(baseline, candidate Arm, options Options) Comparison {
	c := Comparison{Verdict: CannotTell, Method: MethodNone, Confidence: options.confidence()}
	c.Baseline.Runs, c.Candidate.Runs = len(baseline.Runs), len(candidate.Runs)
	if err := options.check(); err != nil {
		return c.stop(err)
	}
	b, k, err := c.prepare(baseline, candidate, options)
	if err != nil {
		return c.stop(err)
	}
	c.describe(b, k)
	e, err := c.estimate(b, k, options)
	if err != nil {
		return c.stop(err)
	}
	return c.conclude(k.logMean()-b.logMean(), e, options)
}

// stop ends a comparison that has no interval.
func (c Comparison) stop(err error) Comparison {
	c.Verdict, c.Method = CannotTell, MethodNone
	c.Why = "cannot tell: " + err.Error()
	return c
}

// measured is an arm reduced to what the comparison needs.
type measured struct {
	name string
	// logs holds the logarithm of each run's statistic.
	logs []float64
	// sample holds the rows of an arm with a single run; nil when it has none.
	sample   *sample
	requests int
}

func (m measured) logMean() float64 { return meanOf(m.logs) }

// prepare finds the requests that count and the statistic of every run.
func (c *Comparison) prepare(baseline, candidate Arm, o Options) (b, k measured, err error) {
	if len(baseline.Runs) == 0 || len(candidate.Runs) == 0 {
		return b, k, errors.New("an arm has no run")
	}
	samples, err := o.Statistic.samples(baseline, candidate)
	if err != nil {
		return b, k, err
	}
	if o.Paired {
		if err := c.pair(samples); err != nil {
			return b, k, err
		}
	}
	n := len(baseline.Runs)
	if b, err = measure("baseline", baseline.Runs, samples[:n]); err != nil {
		return b, k, err
	}
	k, err = measure("candidate", candidate.Runs, samples[n:])
	return b, k, err
}

// pair keeps the requests that have a value in every run.
func (c *Comparison) pair(samples []*sample) error {
	smallest, largest, common := keepCommon(samples)
	if float64(common) < MinimumCommonShare*float64(smallest) {
		return fmt.Errorf("pairing requests: %d of %d have a value in every run, want %.0f %%: "+
			"the runs answered different requests", common, smallest, 100*MinimumCommonShare)
	}
	if common < largest {
		c.warn("pairing requests: %d of up to %d have a value in every run, only they count", common, largest)
	}
	return nil
}

func measure(name string, runs []Run, samples []*sample) (measured, error) {
	m := measured{name: name}
	for i, s := range samples {
		v, err := s.value(runs[i])
		if err != nil {
			return m, fmt.Errorf("reading run %d of the %s: %w", i+1, name, err)
		}
		m.logs = append(m.logs, math.Log(v))
		m.requests += s.len()
	}
	if len(samples) == 1 && samples[0].len() > 0 {
		m.sample = samples[0]
	}
	return m, nil
}

func (c *Comparison) describe(b, k measured) {
	c.Baseline.Value, c.Baseline.Requests = finite(math.Exp(b.logMean())), b.requests
	c.Candidate.Value, c.Candidate.Requests = finite(math.Exp(k.logMean())), k.requests
	c.Change = finite(math.Expm1(k.logMean() - b.logMean()))
}

func (c *Comparison) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Errorf(format, args...))
}

func (c *Comparison) estimate(b, k measured, o Options) (estimation, error) {
	if len(b.logs) == 1 && len(k.logs) == 1 {
		return c.betweenTwoRuns(b, k, o)
	}
	return c.betweenRepeats(b, k, o), nil
}
