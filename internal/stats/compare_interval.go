package stats

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// IntervalOptions say which interval of one arm is wanted.
type IntervalOptions struct {
	// Statistic is what is bounded; "" is Mean.
	Statistic Statistic
	// Confidence of the interval, above 0.5 and below 1; 0 is DefaultConfidence.
	Confidence float64
	// OneSided says that each bound for itself holds at Confidence, as a threshold
	// such as ttft_p95_ms<=2000@95% needs it. Else both together do.
	OneSided bool
	// Concurrency is as in Options.
	Concurrency int
	// Spread, when not nil, is added to the interval of a single run, which then
	// speaks of the build and not of this run alone. With several runs it is a
	// floor, as in Options.
	Spread *Spread
}

// Estimate is a statistic of one arm and its interval.
type Estimate struct {
	// Value is the statistic; of several runs their geometric mean. Nil: there is
	// none, and no interval.
	Value *float64
	// Low and High are the bounds, nil where the data do not give that one: too
	// few requests for a percentile's upper bound, for instance. A gate on a bound
	// that is nil does not pass.
	Low, High *float64
	// Requests and Runs are how many stand behind it.
	Requests, Runs int
	Confidence     float64
	Method         Method
	// Why says how the interval was made, or why there is none.
	Why string
	// Warnings hold what a reader must know before trusting the figures.
	Warnings []error
}

// Interval bounds a statistic of one arm, requests being dependent on their
// neighbours.
//
//   - Several runs: the runs are the unit, Student's t on their logarithms.
//   - One run, a mean or a rate: block resampling and t (resample.go).
//   - One run, a percentile: the order statistics that bound it whatever the
//     distribution is, as in surveys (Woodruff 1952; Korn and Graubard 1998): the
//     exact binomial bounds of the share of requests below, at the number of
//     independent requests that the blocks are worth. p95 needs 59 of them for an
//     upper bound at 95 % one-sided, p99 needs 299, and no fewer say anything.
//
// An interval of one run is about what this run would show under other luck of
// its requests. Another run can differ by more: Options.Spread.
func Interval(arm Arm, o IntervalOptions) Estimate {
	e := Estimate{Confidence: o.confidence(), Runs: len(arm.Runs), Method: MethodNone}
	if err := o.check(); err != nil {
		return e.stop(err)
	}
	if len(arm.Runs) == 0 {
		return e.stop(errors.New("there is no run"))
	}
	samples, err := o.Statistic.samples(arm)
	if err != nil {
		return e.stop(err)
	}
	m, err := measure("arm", arm.Runs, samples)
	if err != nil {
		return e.stop(err)
	}
	e.Value, e.Requests = finite(math.Exp(m.logMean())), m.requests
	if len(m.logs) > 1 {
		return e.ofRuns(m, o)
	}
	return e.ofOneRun(m, o)
}

func (o IntervalOptions) confidence() float64 {
	return Options{Confidence: o.Confidence}.confidence()
}

func (o IntervalOptions) check() error {
	return Options{Statistic: o.Statistic, Confidence: o.Confidence, Concurrency: o.Concurrency, Spread: o.Spread}.check()
}

// tail is the probability beyond one bound.
func (o IntervalOptions) tail() float64 {
	if o.OneSided {
		return 1 - o.confidence()
	}
	return (1 - o.confidence()) / 2
}

func (e Estimate) stop(err error) Estimate {
	e.Low, e.High, e.Method = nil, nil, MethodNone
	e.Why = "no interval: " + err.Error()
	return e
}

func (e Estimate) ofRuns(m measured, o IntervalOptions) Estimate {
	n := float64(len(m.logs))
	se, df := math.Sqrt(varianceOf(m.logs)/n), n-1
	e.Method, e.Why = MethodRuns, fmt.Sprintf("runs are the unit (%d), Student's t on the logarithms", len(m.logs))
	spread := o.Spread
	if spread == nil && se == 0 {
		e.Warnings = append(e.Warnings, errors.New("the runs agree to the last bit: no spread to see, the default stands in"))
		spread = new(DefaultSpread())
	}
	half := studentQuantile(1-o.tail(), df) * se
	if spread != nil {
		half = max(half, spread.floor(1-o.tail(), 1/n))
	}
	return e.around(half)
}

func (e Estimate) around(half float64) Estimate {
	e.Low = finite(*e.Value * math.Exp(-half))
	e.High = finite(*e.Value * math.Exp(half))
	return e
}

func (e Estimate) ofOneRun(m measured, o IntervalOptions) Estimate {
	if m.sample == nil {
		return e.stop(errNoRows)
	}
	s := m.sample
	if s.len() < MinimumRequests {
		return e.stop(enoughRequests(s.len(), 0))
	}
	length, blocks := blockLength(s.len(), o.Concurrency)
	if blocks < 2 {
		return e.stop(fmt.Errorf("%d requests at concurrency %d are less than two waves", s.len(), o.Concurrency))
	}
	if blocks < minBlocks {
		e.Warnings = append(e.Warnings, fmt.Errorf("%d requests at concurrency %d are %d waves, want %d: the interval is wide",
			s.len(), o.Concurrency, blocks, minBlocks))
	}
	between := part{0, math.Inf(1)}
	if o.Spread != nil {
		alone := o.Spread.alone()
		between = part{alone.CV * alone.CV, alone.df()}
	}
	if s.percentile > 0 {
		return e.ofPercentile(s, length, blocks, between, o)
	}
	variance := s.variance(length)*float64(blocks)/float64(blocks-1) + idleVariance(s, nil, o.Concurrency)
	within := part{variance, float64(blocks - 1)}
	e.Method = MethodBlocks
	e.Why = fmt.Sprintf("%d blocks of %d requests and Student's t; of this run alone", blocks, length)
	if o.Spread != nil {
		e.Why = fmt.Sprintf("%d blocks of %d requests and Student's t, plus a spread of %s between runs", blocks, length, percent(math.Sqrt(between.variance)))
	}
	return e.around(quantile(1-o.tail(), within, between))
}

// ofPercentile bounds a percentile by order statistics.
func (e Estimate) ofPercentile(s *sample, length, blocks int, between part, o IntervalOptions) Estimate {
	sorted := sortedCopy(s.num)
	p := float64(s.percentile) / 100
	worth := independentRequests(s.num, *e.Value, p, length, blocks, o.tail())
	e.Method = MethodOrderStatistics
	e.Why = fmt.Sprintf("order statistics of %d requests that are worth %.0f independent ones", s.len(), worth)
	stretch := quantile(1-o.tail(), between)
	low, high := rankBounds(s.len(), worth, p, o.tail())
	if low > 0 {
		e.Low = finite(sorted[low-1] * math.Exp(-stretch))
	} else {
		e.Warnings = append(e.Warnings, fmt.Errorf("too few requests for a lower bound of p%d", s.percentile))
	}
	if high <= s.len() {
		e.High = finite(sorted[high-1] * math.Exp(stretch))
	} else {
		e.Warnings = append(e.Warnings, fmt.Errorf("too few requests for an upper bound of p%d: worth %.0f, want %.0f",
			s.percentile, worth, math.Ceil(math.Log(o.tail())/math.Log(p))))
	}
	return e
}

// independentRequests is how many independent requests would know the share
// below the percentile as well as these do, and no more than there are.
func independentRequests(xs []float64, value, p float64, length, blocks int, tail float64) float64 {
	below := make([]float64, len(xs))
	for i, x := range xs {
		if x <= value {
			below[i] = 1
		}
	}
	n := float64(len(xs))
	variance := varianceOfMean(below, length) * float64(blocks) / float64(blocks-1)
	if variance == 0 {
		return n
	}
	// A variance of few blocks is itself uncertain: fewer requests are counted, by
	// the ratio of the t quantiles.
	t := studentQuantile(1-tail, n-1) / studentQuantile(1-tail, float64(blocks-1))
	return min(n, p*(1-p)/variance*t*t)
}

// rankBounds gives the ranks, from 1, of the order statistics that bound the p
// quantile with the given probability beyond each; 0 and n+1 when there is none.
func rankBounds(n int, worth, p, tail float64) (low, high int) {
	low, high = 0, n+1
	at := p * worth
	// With all values above the quantile at (1-p)^worth, the smallest one bounds
	// it from below only if that is rare enough; likewise at the other end.
	if math.Pow(1-p, worth) <= tail {
		share := distuv.Beta{Alpha: at, Beta: worth - at + 1}.Quantile(tail)
		low = max(1, int(math.Floor(share*float64(n))))
	}
	if math.Pow(p, worth) <= tail {
		share := distuv.Beta{Alpha: at + 1, Beta: worth - at}.Quantile(1 - tail)
		high = min(n, int(math.Ceil(share*float64(n)))+1)
	}
	return low, high
}
