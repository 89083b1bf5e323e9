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

// Direction says which way a metric is better.
type Direction int

const (
	// LowerIsBetter is for times. It is the zero value.
	LowerIsBetter Direction = iota
	// HigherIsBetter is for rates.
	HigherIsBetter
)

// String gives "lower is better" or "higher is better".
func (d Direction) String() string {
	if d == HigherIsBetter {
		return "higher is better"
	}
	return "lower is better"
}

// Run is what one run of a cell says about one metric. Functions of this package
// neither change nor keep its slices.
type Run struct {
	// Values holds the metric of each request by its index, NaN where the request
	// failed or has none. Nil when only Whole is known.
	Values []float64
	// Whole is the figure of the run as a whole: of WholeRun, which cannot do
	// without; or the statistic as a summary without rows gives it. Where Values
	// hold any value and the statistic is not WholeRun, they count and not this.
	Whole *float64
	// Work and Busy say how much each request, by index, adds to a WholeRun rate
	// and how long it took: output tokens and E2E in ms. In a closed loop the slots
	// are never idle, so the sum of Work over the sum of Busy moves with the rate,
	// and the error of the one is that of the other. Nil: it cannot be seen.
	Work, Busy []float64
	// WallMS is the wall clock of the run in ms, for what the end of a closed loop
	// adds to the error of a rate, when slots run dry one by one. 0: not added.
	WallMS float64
	// Order is the run's place in time among all runs of both arms, from 1; 0 is
	// unknown. It is used for a warning only.
	Order int
}

// Arm is one side of a comparison: the runs of one build, one or more.
type Arm struct {
	Runs []Run
}

// Options say what to compare and how surely.
type Options struct {
	// Statistic is what is compared; "" is Mean.
	Statistic Statistic
	Direction Direction
	// Margin is the relative change for the worse that is accepted: 0.05 lets a
	// time rise and a rate fall by 5 %. It is 0 or more, and below 1 where higher
	// is better. Nil: there is no margin and the verdict is about any change at
	// all. With a margin, also of 0, lack of data is never NoDifference.
	Margin *float64
	// Confidence of the two-sided interval, above 0.5 and below 1; 0 is
	// DefaultConfidence.
	Confidence float64
	// Paired says that both arms, and all of their runs, sent the same prompts
	// under the same request indexes (same seed and workload). Only requests that
	// have a value in every run then count.
	Paired bool
	// Concurrency is the closed loop's number of requests in flight: requests that
	// close in time depend on each other. 0 is unknown and counts as 1.
	Concurrency int
	// Spread is how much runs of one build differ, from identical runs (SpreadOf).
	// With one run an arm it stands in for what cannot be seen, nil being
	// DefaultSpread; from fewer than TrustedRuns runs it can widen the default and
	// not narrow it. With repeats it is a floor: what identical runs showed is not
	// flagged; nil is none.
	Spread *Spread
}

// DefaultConfidence is the confidence where Options name none.
const DefaultConfidence = 0.95

// Verdict is what a comparison says.
type Verdict string

const (
	// Worse: the whole interval is beyond the margin, on the bad side.
	Worse Verdict = "worse"
	// Better: the whole interval is on the good side of no change.
	Better Verdict = "better"
	// NoDifference: with a margin, a change for the worse beyond it is ruled out.
	// Without one, no difference was seen: see MinimumDetectable for what could
	// have been.
	NoDifference Verdict = "no_difference"
	// CannotTell: the interval has the margin inside, or there is too little data
	// for an interval. A gate must not take it for a pass.
	CannotTell Verdict = "cannot_tell"
)

// Method names how the interval was made.
type Method string

const (
	// MethodRuns: runs are the unit, Welch's t.
	MethodRuns Method = "runs-welch-t"
	// MethodOneRunAgainstSeveral: runs are the unit, and the arm with several says
	// how much both spread.
	MethodOneRunAgainstSeveral Method = "runs-one-against-several-t"
	// MethodPairedBlocks: one run an arm, blocks of the same requests in both.
	MethodPairedBlocks Method = "paired-blocks+run-spread"
	// MethodBlocks: one run an arm, blocks of each arm by itself.
	MethodBlocks Method = "blocks+run-spread"
	// MethodSpreadOnly: one run an arm and no rows; the error within a run is
	// unknown, so the interval is too narrow and the verdict CannotTell.
	MethodSpreadOnly Method = "run-spread-only"
	// MethodOrderStatistics: one run, distribution-free bounds of a percentile.
	MethodOrderStatistics Method = "order-statistics"
	// MethodNone: no interval.
	MethodNone Method = "none"
)

// Side is what was known of one arm.
type Side struct {
	// Value is the statistic, in the unit of the metric; of several runs their
	// geometric mean, so that Change is the ratio of the two. Nil: not measured.
	Value *float64
	// Requests is how many requests stand behind Value, over all runs.
	Requests int
	// Runs is how many runs the arm has.
	Runs int
}

// Comparison is the answer of Compare. Relative changes are candidate / baseline
// - 1, so 0.05 is 5 % more, whichever way is better.
type Comparison struct {
	Baseline, Candidate Side
	// Change is the relative change; nil when a side has no value.
	Change *float64
	// Low and High bound the change at Confidence; nil when there is no interval.
	Low, High *float64
	Verdict   Verdict
	// MinimumDetectable is the smallest change for the worse that this sample sees
	// (zero outside of the interval) with DetectablePower; as a positive relative
	// amount. A margin comes on top of it. Nil when there is no interval.
	MinimumDetectable *float64
	// Confidence of the interval.
	Confidence float64
	Method     Method
	// Why says in words how the interval was made and what decided the verdict.
	Why string
	// Warnings hold what a reader must know before trusting the figures.
	Warnings []error
}

// DetectablePower is the power at which MinimumDetectable is given.
const DetectablePower = 0.8

// Limits of Compare.
const (
	// MinimumRequests is how many requests a single run needs before it says
	// anything about its own error.
	MinimumRequests = 5
	// MinimumCommonShare is the part of the requests of paired runs that must have
	// a value in all of them. Below it the arms answered different requests, and
	// the ones that failed may be the slow ones.
	MinimumCommonShare = 0.9
	// TrustedRuns is from how many repeats an arm's spread is known well enough to
	// see changes of its own size. Two are accepted, with a warning.
	TrustedRuns = 3
	// BlindAbove is the slowdown that a comparison without a margin must be able to
	// see before it says NoDifference. A sample that would miss half as much again
	// has not looked.
	BlindAbove = 0.5
	// resolution is the smallest half width of an interval, relative: a clock and
	// float64 arithmetic do not promise more.
	resolution = 1e-6
)

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
	c.warnOfOrder(baseline, candidate)
	e, err := c.estimate(b, k, options)
	if err != nil {
		return c.stop(err)
	}
	return c.conclude(k.logMean()-b.logMean(), e, options)
}

func (o Options) confidence() float64 {
	if o.Confidence == 0 {
		return DefaultConfidence
	}
	return o.Confidence
}

func (o Options) check() error {
	if err := o.Statistic.check(); err != nil {
		return err
	}
	if err := checkConfidence(o.confidence()); err != nil {
		return err
	}
	if err := o.checkMargin(); err != nil {
		return err
	}
	if o.Concurrency < 0 {
		return fmt.Errorf("checking concurrency: %d, want 0 (unknown) or more", o.Concurrency)
	}
	if o.Direction != LowerIsBetter && o.Direction != HigherIsBetter {
		return fmt.Errorf("checking direction: %d is none", o.Direction)
	}
	if o.Spread != nil {
		return o.Spread.check()
	}
	return nil
}

func checkConfidence(confidence float64) error {
	if !(confidence > 0.5 && confidence < 1) {
		return fmt.Errorf("checking confidence: %v, want above 0.5 and below 1 (0.95 is 95 %%)", confidence)
	}
	return nil
}

func (o Options) checkMargin() error {
	if o.Margin == nil {
		return nil
	}
	m := *o.Margin
	if !(m >= 0) || math.IsInf(m, 1) {
		return fmt.Errorf("checking margin: %v, want 0 or more (0.05 is 5 %%)", m)
	}
	if o.Direction == HigherIsBetter && m >= 1 {
		return fmt.Errorf("checking margin: %v of a rate, want below 1: a rate cannot fall by more than 100 %%", m)
	}
	return nil
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

// warnOfOrder says when a drift of the machine would look like a difference.
func (c *Comparison) warnOfOrder(baseline, candidate Arm) {
	bLow, bHigh, bKnown := orders(baseline)
	kLow, kHigh, kKnown := orders(candidate)
	if !bKnown || !kKnown || len(baseline.Runs)+len(candidate.Runs) < 3 {
		return
	}
	if bHigh < kLow || kHigh < bLow {
		c.warn("all runs of one arm came before the other's: a drift of the machine looks like a difference; interleave them")
	}
}

func orders(a Arm) (low, high int, known bool) {
	for i, r := range a.Runs {
		if r.Order <= 0 {
			return 0, 0, false
		}
		if i == 0 || r.Order < low {
			low = r.Order
		}
		high = max(high, r.Order)
	}
	return low, high, true
}

func (c *Comparison) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Errorf(format, args...))
}

// estimation is the error of the logarithm of the ratio.
type estimation struct {
	// parts are independent terms of the error.
	parts  []part
	method Method
	why    string
	// blind says that a part of the error is unknown: the interval is shown but
	// decides nothing.
	blind bool
}

// part is one term of an error: a variance and its degrees of freedom, +Inf when
// it is known.
type part struct{ variance, df float64 }

// quantile is the p quantile of the error, p above 0.5: those of the parts, each
// with its own t, added as squares. One t with joint degrees of freedom would be
// a little narrower, and absurd where a part with one degree of freedom meets a
// known one: more error could then give a narrower interval.
func quantile(p float64, parts ...part) float64 {
	sum := 0.0
	for _, one := range parts {
		if one.variance != 0 { // also NaN, which must be seen
			t := studentQuantile(p, one.df)
			sum += t * t * one.variance
		}
	}
	return math.Sqrt(sum)
}

func (c *Comparison) estimate(b, k measured, o Options) (estimation, error) {
	if len(b.logs) == 1 && len(k.logs) == 1 {
		return c.betweenTwoRuns(b, k, o)
	}
	return c.betweenRepeats(b, k, o), nil
}

// conclude makes the interval and the verdict; change is the logarithm of the
// ratio.
func (c Comparison) conclude(change float64, e estimation, o Options) Comparison {
	half := max(quantile((1+c.Confidence)/2, e.parts...), resolution)
	low, high := finite(math.Expm1(change-half)), finite(math.Expm1(change+half))
	if c.Change == nil || low == nil || high == nil {
		return c.stop(errors.New(e.why + "; the interval has no end"))
	}
	c.Low, c.High, c.Method = low, high, e.method
	distance := half + quantile(DetectablePower, e.parts...)
	c.MinimumDetectable = o.detectable(distance)
	verdict, reason := o.judge(*low, *high)
	switch {
	case e.blind:
		verdict, reason = CannotTell, "a part of the error is not in the interval"
	case verdict == NoDifference && o.Margin == nil && distance > math.Log1p(BlindAbove):
		verdict, reason = CannotTell, fmt.Sprintf("this sample would miss a slowdown of %s", percent(BlindAbove))
	}
	c.Verdict, c.Why = verdict, e.why+"; "+reason
	return c
}

// detectable turns a distance of logarithms into an amount for the worse.
func (o Options) detectable(distance float64) *float64 {
	if o.Direction == HigherIsBetter {
		return finite(-math.Expm1(-distance))
	}
	return finite(math.Expm1(distance))
}

// judge compares the interval with no change and with the margin.
func (o Options) judge(low, high float64) (Verdict, string) {
	// From here on positive is for the worse.
	if o.Direction == HigherIsBetter {
		low, high = -high, -low
	}
	margin := 0.0
	if o.Margin != nil {
		margin = *o.Margin
	}
	switch {
	case low > margin && margin > 0:
		return Worse, fmt.Sprintf("worse by %s at least, beyond the margin of %s", percent(low), percent(margin))
	case low > margin:
		return Worse, fmt.Sprintf("worse by %s at least", percent(low))
	case high < 0:
		return Better, fmt.Sprintf("better by %s at least", percent(-high))
	case o.Margin == nil:
		return NoDifference, "no difference seen: the interval holds no change"
	case high <= margin:
		return NoDifference, fmt.Sprintf("worse by %s at most, within the margin of %s", percent(max(high, 0)), percent(margin))
	default:
		return CannotTell, fmt.Sprintf("the margin of %s is inside of the interval (%s to %s worse)",
			percent(margin), percent(low), percent(high))
	}
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }
