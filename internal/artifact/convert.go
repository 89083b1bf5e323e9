package artifact

import (
	"cmp"
	"math"
	"slices"

	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/record"
)

// rowOf makes the row of a completed request.
func rowOf(r *record.Record) Row {
	row := Row{
		RequestIndex:            r.RequestIndex,
		PlannedContextTokens:    new(r.PlannedContextTokens),
		PromptTokens:            r.Tokens.Prompt,
		OutputTokens:            r.Tokens.Output,
		OutputTokenSource:       r.Tokens.Source(),
		Timings:                 timingsOf(r),
		ContentChunks:           new(r.Response.ContentChunks),
		ReasoningChunks:         new(r.Response.ReasoningChunks),
		VisibleContentTruncated: r.Response.TextTruncated,
		ControlledOutput:        r.Words,
		StartOffsetMS:           new(r.StartMS),
		ReasoningTokens:         r.Tokens.Reasoning,
		CachedTokens:            r.Tokens.Cached,
		Response:                new(arrivalOf(&r.Response)),
		Connection:              (*Connection)(r.Response.Connection),
		Extras:                  extrasOf(r),
	}
	row.RequestCanary, row.CanaryObservation = splitCanary(r)
	return row
}

// failureRowOf makes the row of a failed request. The message is cut once more
// here, so that no caller can write one beyond the protocol's limit.
func failureRowOf(r *record.Record) FailureRow {
	message, cut := record.Clip(r.Failure.Message)
	row := FailureRow{
		RequestIndex:          r.RequestIndex,
		PlannedContextTokens:  new(r.PlannedContextTokens),
		FailureClass:          string(r.Failure.Class),
		ErrorType:             r.Failure.ErrorType,
		ErrorMessage:          message,
		ErrorMessageTruncated: cut || r.Failure.MessageTruncated,
		ResponseReceived:      new(r.ResponseReceived),
		PerformanceEligible:   new(false),
		ElapsedMS:             new(r.ElapsedMS),
		ControlledOutput:      r.Words,
		StartOffsetMS:         new(r.StartMS),
		Connection:            (*Connection)(r.Response.Connection),
		Extras:                extrasOf(r),
	}
	if r.Failure.Detail != "" {
		row.FailureDetail = new(string(r.Failure.Detail))
	}
	row.RequestCanary, row.CanaryObservation = splitCanary(r)
	if t := timingsOf(r); t != (Timings{}) {
		row.ResponseTiming = &t
	}
	row.ResponseMetadata = metadataOf(r)
	return row
}

// splitCanary puts the verdict under the key that its policy gives it.
func splitCanary(r *record.Record) (judged, observed *contract.CanaryVerdict) {
	if r.CanaryObserved {
		return nil, r.Canary
	}
	return r.Canary, nil
}

func timingsOf(r *record.Record) Timings {
	tpot := r.TPOTMS()
	return Timings{
		TTFOMS:                   r.Timing.TTFOMS,
		TTFTMS:                   r.Timing.TTFTMS,
		GenerationMS:             r.Timing.GenerationMS(),
		VisibleGenerationMS:      r.Timing.VisibleGenerationMS(),
		E2EMS:                    r.Timing.E2EMS,
		TPOTMS:                   tpot,
		MeanInterTokenLatencyMS:  tpot,
		MeanTimePerOutputTokenMS: tpot,
		DecodeTokS:               r.DecodeTokS(),
		EffectivePrefillTokS:     r.EffectivePrefillTokS(),
	}
}

func arrivalOf(r *record.Response) Arrival {
	return Arrival{
		FinishReasons:          append([]string{}, r.FinishReasons...),
		StreamTerminalObserved: r.TerminalObserved,
		DoneObserved:           r.DoneObserved,
		HTTPStatus:             r.HTTPStatus,
		RequestID:              r.RequestID,
		Events:                 r.Events,
		BytesRead:              r.BytesRead,
		Flags:                  slices.Clone(r.Flags),
	}
}

// metadataOf is nil where not even a response header arrived.
func metadataOf(r *record.Record) *ResponseMetadata {
	m := ResponseMetadata{
		OutputTokenSource:       r.Tokens.Source(),
		ContentChunks:           r.Response.ContentChunks,
		ReasoningChunks:         r.Response.ReasoningChunks,
		VisibleContentTruncated: r.Response.TextTruncated,
		Arrival:                 arrivalOf(&r.Response),
	}
	if r.Tokens != (record.Tokens{}) {
		m.Usage = &Usage{
			PromptTokens: r.Tokens.Prompt, CompletionTokens: r.Tokens.Output,
			ReasoningTokens: r.Tokens.Reasoning, CachedTokens: r.Tokens.Cached,
		}
	}
	a := &m.Arrival
	if m.Usage == nil && a.HTTPStatus == 0 && a.RequestID == "" && a.Events == 0 && a.BytesRead == 0 && !a.StreamTerminalObserved && len(a.Flags) == 0 {
		return nil
	}
	return &m
}

// Record turns the row into a record again, for aggregates, baselines and
// checks. What the row does not say is nil, or the zero of a count.
func (row *Row) Record() record.Record {
	r := record.Record{
		RequestIndex:         row.RequestIndex,
		PlannedContextTokens: orZero(row.PlannedContextTokens),
		StartMS:              orZero(row.StartOffsetMS),
		ElapsedMS:            orZero(row.E2EMS),
		ResponseReceived:     true,
		Timing:               row.timing(),
		Tokens:               record.Tokens{Prompt: row.PromptTokens, Reasoning: row.ReasoningTokens, Cached: row.CachedTokens},
		Words:                row.ControlledOutput,
	}
	// A count that is not from usage is a count of chunks and never of tokens.
	if row.OutputTokenSource != record.SourceContentChunks {
		r.Tokens.Output = row.OutputTokens
	}
	r.Canary, r.CanaryObserved = joinCanary(row.RequestCanary, row.CanaryObservation)
	if row.Response != nil {
		row.Response.into(&r.Response)
	}
	r.Response.ContentChunks, r.Response.ReasoningChunks = orZero(row.ContentChunks), orZero(row.ReasoningChunks)
	r.Response.TextTruncated = row.VisibleContentTruncated
	r.Response.Connection = (*record.Connection)(row.Connection)
	row.Extras.into(&r)
	return r
}

// sameDurationMS is how far two ways of computing one duration may lie apart.
const sameDurationMS = 1e-6

// timing gives the clock readings of the row. Older implementations knew no
// time_to_first_output and took generation from TTFT: where the row's own
// generation says so, the first output they saw was the first visible one.
func (row *Row) timing() record.Timing {
	t := record.Timing{TTFOMS: row.TTFOMS, TTFTMS: row.TTFTMS, E2EMS: row.E2EMS}
	if t.TTFOMS != nil || t.TTFTMS == nil || t.E2EMS == nil || row.GenerationMS == nil {
		return t
	}
	if math.Abs(*t.E2EMS-*t.TTFTMS-*row.GenerationMS) <= sameDurationMS {
		t.TTFOMS = t.TTFTMS
	}
	return t
}

// Record turns the row into a failed record again. A class that an older
// artifact does not state stays empty: it is not guessed from the message.
func (row *FailureRow) Record() record.Record {
	r := record.Record{
		RequestIndex:         row.RequestIndex,
		PlannedContextTokens: orZero(row.PlannedContextTokens),
		StartMS:              orZero(row.StartOffsetMS),
		ElapsedMS:            orZero(row.ElapsedMS),
		ResponseReceived:     orZero(row.ResponseReceived),
		Words:                row.ControlledOutput,
		Failure: &record.Failure{
			Class: record.Class(row.FailureClass), Detail: record.Detail(orZero(row.FailureDetail)),
			ErrorType: row.ErrorType, Message: row.ErrorMessage, MessageTruncated: row.ErrorMessageTruncated,
		},
	}
	r.Canary, r.CanaryObserved = joinCanary(row.RequestCanary, row.CanaryObservation)
	if t := row.ResponseTiming; t != nil {
		r.Timing = record.Timing{TTFOMS: t.TTFOMS, TTFTMS: t.TTFTMS, E2EMS: t.E2EMS}
	}
	if m := row.ResponseMetadata; m != nil {
		m.into(&r)
	}
	r.Response.Connection = (*record.Connection)(row.Connection)
	row.Extras.into(&r)
	return r
}

func (m *ResponseMetadata) into(r *record.Record) {
	m.Arrival.into(&r.Response)
	r.Response.ContentChunks, r.Response.ReasoningChunks = m.ContentChunks, m.ReasoningChunks
	r.Response.TextTruncated = m.VisibleContentTruncated
	if u := m.Usage; u != nil {
		r.Tokens = record.Tokens{Prompt: u.PromptTokens, Output: u.CompletionTokens, Reasoning: u.ReasoningTokens, Cached: u.CachedTokens}
	}
}

func (a *Arrival) into(r *record.Response) {
	r.HTTPStatus, r.RequestID = a.HTTPStatus, a.RequestID
	r.Events, r.BytesRead = a.Events, a.BytesRead
	r.TerminalObserved, r.DoneObserved = a.StreamTerminalObserved, a.DoneObserved
	if len(a.FinishReasons) > 0 {
		r.FinishReasons = slices.Clone(a.FinishReasons)
	}
	if len(a.Flags) > 0 {
		r.Flags = slices.Clone(a.Flags)
	}
}

func joinCanary(judged, observed *contract.CanaryVerdict) (verdict *contract.CanaryVerdict, onlyObserved bool) {
	if judged == nil && observed != nil {
		return observed, true
	}
	return judged, false
}

// Records gives every request that the artifact knows as a record, completed
// and failed, in index order. Empty for artifacts that kept no rows.
func (n *Native) Records() []record.Record {
	records := make([]record.Record, 0, len(n.RequestTimings)+len(n.Failures))
	for i := range n.RequestTimings {
		records = append(records, n.RequestTimings[i].Record())
	}
	for i := range n.Failures {
		records = append(records, n.Failures[i].Record())
	}
	slices.SortStableFunc(records, func(a, b record.Record) int { return cmp.Compare(a.RequestIndex, b.RequestIndex) })
	return records
}

func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
