package gate

import (
	"fmt"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/config"
	"anvil-capacity/internal/stats"
)

// EvaluateRun judges each threshold on one run. Those with a bound
// (`ttft_p95_ms<=2000@95%`) are held to the end of the metric's one-sided
// interval that is nearer to the limit: they pass only when the data rule the
// other side out, and fail where there is too little data for an interval.
func EvaluateRun(thresholds []config.Threshold, n *artifact.Native) []Verdict {
	if n.Metrics == nil {
		return Evaluate(thresholds, stats.Metrics{})
	}
	verdicts := Evaluate(thresholds, *n.Metrics)
	for i, t := range thresholds {
		if t.Bound != 0 && verdicts[i].Got != nil {
			verdicts[i] = evaluateBound(t, n)
		}
	}
	return verdicts
}

func evaluateBound(t config.Threshold, n *artifact.Native) Verdict {
	metric, err := stats.MetricOf(t.Metric)
	if err != nil {
		return Verdict{Threshold: t, Status: Unknown, Message: fmt.Sprintf("%s has no interval: %v", t.Metric, err)}
	}
	estimate := stats.Interval(armOf([]Run{{Native: n}}, metric), stats.IntervalOptions{
		Statistic: metric.Statistic, Confidence: t.Bound, OneSided: true, Concurrency: n.Concurrency,
	})
	bound, side := estimate.High, "upper"
	if t.Op[0] == '>' {
		bound, side = estimate.Low, "lower"
	}
	if bound == nil {
		return Verdict{Threshold: t, Status: NotMeasured,
			Message: fmt.Sprintf("%s has no %s bound at %s, limit %s: %s", t.Metric, side, percent(t.Bound), limitText(t), estimate.Why)}
	}
	v := Verdict{Threshold: t, Status: Fail, Got: bound}
	if holds(*bound, t.Op, t.Limit) {
		v.Status = Pass
	}
	v.Message = fmt.Sprintf("the %s bound at %s of %s (%s)", side, percent(t.Bound), describe(t, *bound), estimate.Why)
	return v
}
