// Package gate judges a cell: thresholds over its metrics, and whether the
// service answered every request. It is pure: metrics in, verdicts out; what a
// verdict does to a test is for the caller.
//
// A gate fails closed. An unknown metric, one that was not measured, a limit or
// a value that is no number, an operator that is not known, a request that is
// missing: each has its own message, and none of them passes.
//
// All functions are safe for concurrent use and give the same text for the same
// input.
package gate

import (
	"fmt"
	"math"

	"anvil-capacity/internal/config"
	"anvil-capacity/internal/stats"
)

// Status is the outcome of one check. Only Pass passes.
type Status string

const (
	// Pass: measured, and within the limit.
	Pass Status = "pass"
	// Fail: measured, and not within the limit.
	Fail Status = "fail"
	// NotMeasured: the metric is null in this run; the message says why.
	NotMeasured Status = "not_measured"
	// Unknown: these metrics have no such key, or the operator is not known.
	Unknown Status = "unknown"
)

// Verdict is the outcome of one threshold.
type Verdict struct {
	// Threshold is what was asked. For the verdict of Service its Metric is
	// ServiceName and its Limit the allowed failure rate.
	Threshold config.Threshold
	Status    Status
	// Got is the value that was judged, in the metric's own unit; nil unless
	// Status is Pass or Fail.
	Got *float64
	// Message is one line that names the metric, the limit, what was got and by
	// how much, or why there is nothing to judge.
	Message string
}

// Passed says that Status is Pass.
func (v Verdict) Passed() bool { return v.Status == Pass }

// Evaluate judges each threshold, in their order.
func Evaluate(thresholds []config.Threshold, metrics stats.Metrics) []Verdict {
	verdicts := make([]Verdict, len(thresholds))
	for i, t := range thresholds {
		verdicts[i] = evaluate(t, metrics)
	}
	return verdicts
}

func evaluate(t config.Threshold, metrics stats.Metrics) Verdict {
	got, known := metrics.Get(t.Metric)
	switch {
	case !known:
		return Verdict{t, Unknown, nil, fmt.Sprintf("%s is not among the metrics, limit %s: %s", t.Metric, limitText(t), whyUnknown(t.Metric))}
	case !isOp(t.Op):
		return Verdict{t, Unknown, nil, fmt.Sprintf("%s cannot be judged: operator %q is not one of <= < >= >", t.Metric, t.Op)}
	case got == nil:
		return Verdict{t, NotMeasured, nil, fmt.Sprintf("%s was not measured, limit %s: %s", t.Metric, limitText(t), metrics.WhyNil(t.Metric))}
	}
	v := Verdict{Threshold: t, Status: Fail, Got: new(*got), Message: describe(t, *got) + p99Note(t.Metric, metrics)}
	if !isFinite(*got) || !isFinite(t.Limit) {
		v.Message = fmt.Sprintf("%s = %v, limit %s %v: what is not a finite number never passes", t.Metric, *got, t.Op, t.Limit)
		return v
	}
	if holds(*got, t.Op, t.Limit) {
		v.Status = Pass
	}
	return v
}

// whyUnknown tells a key that never was from one that these metrics lack.
func whyUnknown(key string) string {
	if isKey(key) {
		return "they were written without it, perhaps by an older version"
	}
	return suggestion(key)
}

func isOp(op string) bool { return op == "<=" || op == "<" || op == ">=" || op == ">" }

// holds is false for NaN on either side, as every comparison with it is.
func holds(got float64, op string, limit float64) bool {
	switch op {
	case "<=":
		return got <= limit
	case "<":
		return got < limit
	case ">=":
		return got >= limit
	case ">":
		return got > limit
	}
	return false
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// p99Note reminds the reader of what a p99 of few samples is. The verdict stands
// all the same: the operator asked for it.
func p99Note(key string, metrics stats.Metrics) string {
	name, statistic, ok := stats.SplitKey(key)
	if !ok || statistic != "p99" {
		return ""
	}
	samplesKey, _ := stats.Key(name, "samples")
	samples, _ := metrics.Get(samplesKey)
	if samples == nil || stats.P99Interpretation(int(*samples)) == stats.P99TailEstimate {
		return ""
	}
	return fmt.Sprintf("; a p99 of %s samples is one of the largest values, not an estimate of a tail (%d or more)",
		number(*samples), stats.P99MinimumRecommendedSamples)
}
