package suite

import (
	"errors"
	"fmt"
	"strings"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/config"
	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/gate"
	"anvil-capacity/internal/load"
	"anvil-capacity/internal/record"
)

// Verdict is the outcome of one check of a cell, for people.
type Verdict struct {
	Passed  bool
	Message string
}

// ServiceVerdict: every planned request completed, or no more failed than
// CAPACITY_MAX_FAILURE_RATE allows.
func (c *Cell) ServiceVerdict(out *Outcome) Verdict {
	failures := failuresOf(out.Result.Records, nil)
	completed := len(out.Result.Records) - len(failures)
	v := gate.Service(out.Result.Planned, completed, len(failures), c.MaxFailureRate)
	verdict := Verdict{Passed: v.Passed(), Message: v.Message}
	if out.Cause != nil {
		verdict.Passed = false
		verdict.Message += "\nthe run was cut short: " + describeCause(out.Cause)
	}
	plain := make([]record.Failure, len(failures))
	for i, r := range failures {
		plain[i] = *r.Failure
	}
	for _, b := range gate.BreakDown(plain) {
		verdict.Message += "\n" + describeBreakdown(b)
	}
	verdict.Message += c.ownLimits(failures)
	return verdict
}

// describeCause adds to a fault of the suite where in the suite it is.
func describeCause(cause error) string {
	if fault, ok := errors.AsType[*load.PanicError](cause); ok {
		return fault.Error() + "\n" + fault.Stack
	}
	return cause.Error()
}

func describeBreakdown(b gate.FailureCount) string {
	text := fmt.Sprintf("%d x %s", b.Count, b.Class)
	if b.Detail != "" {
		text += fmt.Sprintf(" (%s: %s)", b.Detail, b.Meaning)
	}
	return text + ", first: " + b.Example
}

// ownLimits says so when failures are a cluster at one of our own limits: they
// may then be this suite's setting and not the server (WIRE 12).
func (c *Cell) ownLimits(failures []record.Record) string {
	var text strings.Builder
	for _, limit := range []struct {
		detail   record.Detail
		variable string
		value    fmt.Stringer
	}{
		{record.StallTimeout, "CAPACITY_STALL_TIMEOUT", c.StallTimeout},
		{record.TotalTimeout, "CAPACITY_TIMEOUT", c.Timeout},
	} {
		n := len(failuresOf(failures, func(f *record.Failure) bool { return f.Detail == limit.detail }))
		if n > 1 {
			fmt.Fprintf(&text, "\n%d requests ended at this suite's own limit %s=%s: raise it to see how long the server takes", n, limit.variable, limit.value)
		}
	}
	return text.String()
}

// CanaryVerdict: each answer is its own.
func (c *Cell) CanaryVerdict(out *Outcome) Verdict {
	failed := failuresOf(out.Result.Records, func(f *record.Failure) bool { return f.Class == record.CanaryFailed })
	if len(failed) > 0 {
		return Verdict{Message: listFailures("answers are not their request's own", failed, hint(failed[0]))}
	}
	judged, atStart := 0, 0
	for _, r := range out.Result.Records {
		if r.Canary == nil {
			continue
		}
		judged++
		if r.Canary.MarkerAtStart {
			atStart++
		}
	}
	switch {
	case c.Canaries == contract.Off:
		return Verdict{Passed: true, Message: "canaries are off (CAPACITY_CANARIES): no answer carries another's marker, and nothing else was looked at"}
	case judged == 0:
		return Verdict{Message: "no answer was judged: no answer text arrived"}
	case c.Canaries == contract.Observe:
		return Verdict{Passed: true, Message: fmt.Sprintf("%d of %d answers begin with their own marker (observed, not demanded)", atStart, judged)}
	}
	return Verdict{Passed: true, Message: fmt.Sprintf("%d of %d answers begin with their own marker and carry no other", atStart, judged)}
}

// LeakVerdict: no answer carries the marker of another request of this run.
func (c *Cell) LeakVerdict(out *Outcome) Verdict {
	leaks := artifact.LeaksOf(out.Result.Records)
	if len(leaks) == 0 {
		return Verdict{Passed: true, Message: fmt.Sprintf("%d answers, none carries another request's marker", len(out.Result.Records))}
	}
	lines := make([]string, len(leaks))
	for i, l := range leaks {
		lines[i] = l.String()
	}
	return Verdict{Message: fmt.Sprintf("%d answers went to the wrong request:\n%s", len(leaks), strings.Join(lines, "\n"))}
}

// WordsVerdict: the asked words, exactly.
func (c *Cell) WordsVerdict(out *Outcome) Verdict {
	if c.ResponseWords == 0 {
		return Verdict{Passed: true, Message: "no words were asked for (CAPACITY_RESPONSE_WORDS is 0)"}
	}
	failed := failuresOf(out.Result.Records, func(f *record.Failure) bool { return f.Class == record.WordsFailed })
	if len(failed) > 0 {
		return Verdict{Message: listFailures("answers have not exactly the asked words", failed, hint(failed[0]))}
	}
	judged, exact := 0, 0
	for _, r := range out.Result.Records {
		if r.Words == nil {
			continue
		}
		judged++
		if r.Words.ExactAdherence != nil && *r.Words.ExactAdherence {
			exact++
		}
	}
	if judged == 0 {
		return Verdict{Message: "no answer was judged: no answer text arrived"}
	}
	return Verdict{Passed: true, Message: fmt.Sprintf("%d of %d answers have exactly %d words (%s)", exact, judged, c.ResponseWords, c.ControlledOutput)}
}

// hint is what to do about an answer that is wrong in the way of r.
func hint(r record.Record) string {
	var words contract.WordsVerdict
	if r.Words != nil {
		words = *r.Words
	}
	var canary contract.CanaryVerdict
	if r.Canary != nil {
		canary = *r.Canary
	}
	return contract.Hint(canary, words)
}

// listedFailures bounds what one message lists: JUnit viewers cut long ones, and
// the artifact has them all.
const listedFailures = 10

func listFailures(what string, failed []record.Record, hint string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s:", len(failed), what)
	for i, r := range failed {
		if i == listedFailures {
			fmt.Fprintf(&b, "\nand %d more, in the artifact", len(failed)-listedFailures)
			break
		}
		fmt.Fprintf(&b, "\nrequest %d: %s", r.RequestIndex, r.Failure.Message)
	}
	if hint != "" {
		b.WriteString("\n" + hint)
	}
	return b.String()
}

// failuresOf gives the failed records that match; a nil match takes all.
func failuresOf(records []record.Record, match func(*record.Failure) bool) []record.Record {
	var failed []record.Record
	for _, r := range records {
		if r.Failure != nil && (match == nil || match(r.Failure)) {
			failed = append(failed, r)
		}
	}
	return failed
}

// ThresholdNames gives each threshold its subtest name: the metric, and its
// operator too where a metric has a second limit, since names must be unique.
func ThresholdNames(thresholds []config.Threshold) []string {
	seen := map[string]bool{}
	names := make([]string, len(thresholds))
	for i, t := range thresholds {
		names[i] = t.Metric
		if seen[t.Metric] {
			names[i] += "-" + opNames[t.Op]
		}
		seen[t.Metric] = true
	}
	return names
}

var opNames = map[string]string{"<=": "at_most", "<": "below", ">=": "at_least", ">": "above"}
