package suite

import (
	"context"
	"fmt"
	"strings"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/load"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/selfcheck"
)

// checkSelf measures the suite's own error before a live cell, at its load. An
// embedded cell is its own check.
func (c *Cell) checkSelf(ctx context.Context) {
	if c.endpoint.embedded != nil || !c.SelfCheck {
		return
	}
	c.selfCheck, c.selfCheckErr = selfcheck.Run(ctx, selfcheck.Shape{
		Concurrency: c.Concurrency, ContextTokens: c.largestContext(), EventsPerS: c.pace(),
	})
}

func (c *Cell) largestContext() int {
	largest := 0
	for _, part := range c.Context.Parts {
		largest = max(largest, part.Tokens)
	}
	return largest
}

// pace is the events a second of one stream of this server, as the scout saw
// them; 0 without a scout.
func (c *Cell) pace() float64 {
	if c.scout == nil {
		return 0
	}
	return selfcheck.PaceOf(c.scout.Result.Records)
}

// ownError is the suite's error for the artifact: of the check before a live
// cell, or of the cell itself against the embedded endpoint.
func (c *Cell) ownError(result load.Result) *artifact.SelfCheck {
	if c.endpoint.embedded == nil {
		return c.selfCheck
	}
	return selfcheck.Compare(result.Records, c.endpoint.embedded.DrainLog(), c.Concurrency)
}

// suspect lists what speaks against the clock readings of a run.
func suspect(n *artifact.Native, records []record.Record) []string {
	return append(clockFindings(n, records), oddities(records)...)
}

// oddities are what answers show that speaks against their clock readings.
func oddities(records []record.Record) []string {
	var reasons []string
	for _, oddity := range []struct{ flag, meaning string }{
		{record.FlagManyEventsPerRead, "their events came in bunches: a buffering proxy, perhaps, and its gaps are not the server's"},
		{record.FlagContentEncoded, "they were compressed although identity was asked for: an event may have waited for the compressor"},
	} {
		if n := flagged(records, oddity.flag); n > 0 {
			reasons = append(reasons, fmt.Sprintf("%d of %d answers are marked %s: %s", n, len(records), oddity.flag, oddity.meaning))
		}
	}
	return reasons
}

// clockFindings holds the suite's own error, and its want of CPU, against the
// medians of the run, and says when it was slower than the server.
func clockFindings(n *artifact.Native, records []record.Record) []string {
	found := selfcheck.Findings(n.Harness.SelfCheck, n.Harness.Client, selfcheck.Measured{
		TTFOMS: metric(n, "time_to_first_output_p50_ms"), TTFTMS: metric(n, "ttft_p50_ms"), E2EMS: metric(n, "e2e_p50_ms"),
	})
	if behind := flagged(records, record.FlagClientBehind); 2*behind > len(records) {
		found = append(found, fmt.Sprintf("in %d of %d answers more was always there when this client came to read (%s): it was itself the bottleneck",
			behind, len(records), record.FlagClientBehind))
	}
	return found
}

func metric(n *artifact.Native, key string) *float64 {
	v, _ := n.Metrics.Get(key)
	return v
}

func flagged(records []record.Record, flag string) int {
	n := 0
	for i := range records {
		for _, f := range records[i].Response.Flags {
			if f == flag {
				n++
			}
		}
	}
	return n
}

// ClientVerdict says whether the cell's clock can be believed: the suite's own
// error is small against what it measures, and it was not short of CPU. Against
// the embedded endpoint the error is the result and fails nothing: there is no
// server that a decision could hang on. With CAPACITY_SELF_CHECK off nothing
// fails either; what was seen stands in the artifact as timing_suspect.
func (c *Cell) ClientVerdict(out *Outcome) Verdict {
	if c.selfCheckErr != nil {
		return Verdict{Message: c.selfCheckErr.Error()}
	}
	found := clockFindings(&out.Native, out.Result.Records)
	switch {
	case len(found) > 0 && c.endpoint.embedded == nil && c.SelfCheck:
		return Verdict{Message: strings.Join(found, "\n") + "\n" + selfcheck.Advice}
	case len(found) > 0:
		return Verdict{Passed: true, Message: "a live cell with CAPACITY_SELF_CHECK on would fail here: " + strings.Join(found, "\n") + "\n" + selfcheck.Advice}
	case out.Native.Harness.SelfCheck == nil:
		return Verdict{Passed: true, Message: "the suite's own error was not measured (CAPACITY_SELF_CHECK is off)"}
	}
	message := "the suite's own error is small against what it measured; it cannot see the network between client and server"
	return Verdict{Passed: true, Message: strings.Join(append([]string{message}, oddities(out.Result.Records)...), "\n")}
}
