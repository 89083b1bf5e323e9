package stats

import (
	"fmt"
	"math"
)

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
