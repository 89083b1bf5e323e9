package load

import (
	"anvil-capacity/internal/client"
	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/workload"
)

// Policy says what the answers of a run are held to.
type Policy struct {
	// Canaries: Off asks for no marker, Observe records, Strict fails an answer
	// without its own marker at the start. Another request's marker fails
	// under every policy.
	Canaries contract.Policy
	// Words is Observe or Strict; ResponseWords 0 asks for none.
	Words         contract.Policy
	ResponseWords int
	// RequireUsage makes an answer without token counts a failure.
	RequireUsage bool
	// Redact takes secrets out of what is kept of an answer: messages quote it.
	// The verdicts are on the text as it came. Nil keeps it as it is. It must be
	// safe for concurrent use.
	Redact func(text string) string
}

func (p Policy) redacted(text string) string {
	if p.Redact == nil {
		return text
	}
	return p.Redact(text)
}

// judge makes the record of one request. The order of the checks is the order
// of the failure classes; the first that fails names the request's failure, and
// the verdicts that could be made are kept beside it.
func (p Policy) judge(plan *workload.Plan, index int, seen *client.Observation) *record.Record {
	planned := plan.Request(index)
	rec := &record.Record{
		RequestIndex:         index,
		PlannedContextTokens: planned.ContextTokens,
		ElapsedMS:            record.MS(endOf(seen).Sub(seen.Start)),
		Failure:              seen.Failure,
		Timing:               timingOf(seen),
		Tokens:               seen.Tokens,
		Response:             seen.Response,
	}
	if rec.Failure == nil && p.RequireUsage && seen.Tokens.Output == nil {
		rec.Failure = record.NewFailure(record.MissingUsage,
			"the answer carries no usage although stream_options.include_usage asked for it; "+
				"CAPACITY_USAGE=observe accepts it, and tokens, TPOT and throughput are then not measured")
	}
	p.judgeText(plan, planned, seen, rec)
	rec.ResponseReceived = rec.Failure == nil || rec.Failure.Class != record.RequestError && rec.Failure.Class != record.RunnerError
	return rec
}

// judgeText makes the verdicts on the visible text, where there is any.
func (p Policy) judgeText(plan *workload.Plan, planned workload.Request, seen *client.Observation, rec *record.Record) {
	if !seen.HasTTFT {
		return
	}
	complete := !seen.Response.TextTruncated
	canary := contract.JudgeCanary(seen.Text, complete, planned.Marker, plan.Owner)
	for i, marker := range canary.Foreign {
		canary.Foreign[i] = p.redacted(marker)
	}
	if p.Canaries != contract.Off || canary.ForeignMarkerCount > 0 {
		rec.Canary = &canary
		rec.CanaryObserved = p.Canaries != contract.Strict
	}
	if p.ResponseWords > 0 {
		words := contract.JudgeWords(seen.Text, complete, planned.Marker, p.ResponseWords, p.Words)
		rec.Words = &words
	}
	if rec.Failure != nil {
		return
	}
	if canary.Fails(p.Canaries) {
		rec.Failure = failureOf(record.CanaryFailed, contract.DescribeCanary(canary, planned.Index, p.redacted(seen.Text)))
		return
	}
	if rec.Words != nil && !rec.Words.Passed {
		rec.Failure = failureOf(record.WordsFailed, contract.DescribeWords(*rec.Words, p.redacted(seen.Text)))
	}
}

func timingOf(seen *client.Observation) record.Timing {
	var t record.Timing
	if seen.HasTTFO {
		t.TTFOMS = new(record.MS(seen.TTFO))
	}
	if seen.HasTTFT {
		t.TTFTMS = new(record.MS(seen.TTFT))
	}
	if seen.HasE2E {
		t.E2EMS = new(record.MS(seen.E2E))
	}
	return t
}

// failureOf is a failure that has a class and no detail.
func failureOf(class record.Class, message string) *record.Failure {
	message, cut := record.Clip(message)
	return &record.Failure{Class: class, Message: message, MessageTruncated: cut}
}
