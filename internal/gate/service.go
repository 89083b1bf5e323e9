package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"anvil-capacity/internal/config"
	"anvil-capacity/internal/record"
)

// ServiceName is the Metric of the verdict that Service gives.
const ServiceName = "service"

// Service judges whether the endpoint answered: of planned requests, completed
// ended well and failed did not. It fails when the failed ones are more than
// maxFailureRate of the planned (0..1; 0 allows none), when any request is
// missing (planned, and neither completed nor failed), when none completed,
// and when the counts or the rate make no sense. Got is failed / planned, nil
// when nothing was planned.
//
// A run that passes with failures still has no throughput (stats.Fold).
func Service(planned, completed, failed int, maxFailureRate float64) Verdict {
	v := Verdict{
		Threshold: config.Threshold{Metric: ServiceName, Op: "<=", Limit: maxFailureRate},
		Status:    Fail,
	}
	if planned <= 0 {
		v.Message = "no request was planned, so nothing was served"
		return v
	}
	rate := float64(failed) / float64(planned)
	v.Got = &rate
	counts := fmt.Sprintf("of %d planned requests %d completed and %d failed (%s)", planned, completed, failed, percent(rate))
	switch missing := planned - completed - failed; {
	case completed < 0 || failed < 0 || missing < 0:
		v.Message = counts + ": the counts contradict each other"
	case missing > 0:
		v.Message = fmt.Sprintf("%s: %d never ended, and a missing request is no answer", counts, missing)
	case completed == 0:
		v.Message = counts + ": no request completed"
	case !(maxFailureRate >= 0 && maxFailureRate <= 1): // true for NaN
		v.Message = fmt.Sprintf("%s: the allowed rate %v is not within 0 and 1", counts, maxFailureRate)
	case rate > maxFailureRate:
		v.Message = counts + ": " + allowed(maxFailureRate)
	default:
		v.Status, v.Message = Pass, passedService(counts, failed, maxFailureRate)
	}
	return v
}

func allowed(rate float64) string {
	if rate == 0 {
		return "none may fail (CAPACITY_MAX_FAILURE_RATE is 0)"
	}
	return fmt.Sprintf("at most %s may fail (CAPACITY_MAX_FAILURE_RATE)", percent(rate))
}

func passedService(counts string, failed int, rate float64) string {
	if failed == 0 {
		return counts
	}
	return counts + ": " + allowed(rate) + "; there is no throughput, for not all completed"
}

// FailureCount is how many requests failed in one way.
type FailureCount struct {
	Class record.Class
	// Detail is "" for the classes without one.
	Detail record.Detail
	Count  int
	// Meaning is the taxonomy's explanation of Detail, "" where there is none.
	Meaning string
	// Example is the message of the first such failure.
	Example string
}

// FailureCounts is a list of failure counts, each class and detail once; see
// BreakDown.
type FailureCounts []FailureCount

// BreakDown counts failures by class and detail: the most frequent first, then
// by class and detail. Example is taken from the first in the order given.
func BreakDown(failures []record.Failure) FailureCounts {
	var b FailureCounts
	for _, f := range failures {
		i := slices.IndexFunc(b, func(c FailureCount) bool { return c.Class == f.Class && c.Detail == f.Detail })
		if i < 0 {
			i = len(b)
			b = append(b, FailureCount{Class: f.Class, Detail: f.Detail, Meaning: meaningOf(f.Detail), Example: f.Message})
		}
		b[i].Count++
	}
	slices.SortFunc(b, func(x, y FailureCount) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Class, y.Class), cmp.Compare(x.Detail, y.Detail))
	})
	return b
}

func meaningOf(d record.Detail) string {
	i := slices.IndexFunc(record.Taxonomy, func(f record.Fault) bool { return f.Detail == d })
	if i < 0 {
		return ""
	}
	return record.Taxonomy[i].Meaning
}

// String lists the counts in one line: "3 request_error (total_timeout), 1
// request_canary_failed". It is "" when nothing failed.
func (b FailureCounts) String() string {
	parts := make([]string, len(b))
	for i, c := range b {
		parts[i] = fmt.Sprintf("%d %s", c.Count, c.Class)
		if c.Detail != "" {
			parts[i] += fmt.Sprintf(" (%s)", c.Detail)
		}
	}
	return strings.Join(parts, ", ")
}
