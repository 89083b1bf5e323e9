package stats

import (
	"errors"
	"fmt"
	"math"
)

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
