// Package record holds the one plain value a request leaves behind. The load
// loop makes a Record once, when the request ends; statistics, artifacts,
// gates and reports are folds over Records and never reach back.
//
// Times are milliseconds as float64, never rounded: a whole number of
// nanoseconds below an hour converts without loss of order or identity.
package record

import (
	"slices"
	"time"

	"anvil-capacity/internal/contract"
)

// Record is one request of a cell. It holds no prompt and no answer text, so
// that memory does not grow with what servers say. Not safe for concurrent
// mutation; made once, then read only.
type Record struct {
	// RequestIndex is the request's place in the plan, from 0.
	RequestIndex int
	// PlannedContextTokens is the nominal prompt size in tokens.
	PlannedContextTokens int

	// StartMS is the request start t0 on the cell's clock, milliseconds since
	// the cell began.
	StartMS float64
	// ElapsedMS is t0 to the end of the request, whatever the end was. For a
	// completed request it equals Timing.E2EMS.
	ElapsedMS float64

	// Failure is nil for a completed request, which is then eligible for every
	// distribution. A failed one stays out of all of them.
	Failure *Failure
	// ResponseReceived says that an answer arrived to its end, right or wrong:
	// true for completed requests and for the classes StreamInvalid,
	// CanaryFailed and WordsFailed.
	ResponseReceived bool

	// DispatchLagMS is how long the slot was free before t0: from the end of the
	// request that held it to this one's start. Nil for a worker's first request.
	DispatchLagMS *float64
	// FirstWave marks the requests that all workers start at once: their lock-step
	// start is not the steady state of a closed loop.
	FirstWave bool

	Timing   Timing
	Tokens   Tokens
	Response Response

	// Canary is nil where no answer text arrived or canaries are off and
	// nothing foreign was seen.
	Canary *contract.CanaryVerdict
	// CanaryObserved says that Canary was recorded under the observe policy:
	// the artifact keeps it as canary_observation and not as request_canary.
	CanaryObserved bool
	// Words is nil where no words were asked for or no answer text arrived.
	Words *contract.WordsVerdict
}

// Completed says that the request has no failure.
func (r *Record) Completed() bool { return r.Failure == nil }

// Timing holds the client's clock readings of one request, all from t0. A nil
// field was not observed; it is never 0 in its place. Definitions: PROTOCOL
// section 1.
type Timing struct {
	// TTFOMS is the first event with non-empty generated text, reasoning or visible.
	TTFOMS *float64
	// TTFTMS is the first event with non-empty visible text.
	TTFTMS *float64
	// E2EMS is the end of the answer.
	E2EMS *float64
}

// GenerationMS is E2E - TTFO, nil when either is.
func (t Timing) GenerationMS() *float64 { return minus(t.E2EMS, t.TTFOMS) }

// VisibleGenerationMS is E2E - TTFT, nil when either is.
func (t Timing) VisibleGenerationMS() *float64 { return minus(t.E2EMS, t.TTFTMS) }

func minus(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a - *b)
}

// Tokens are the server's own counts, from usage. A nil field was not sent.
type Tokens struct {
	Prompt    *int
	Output    *int // completion tokens, reasoning included
	Reasoning *int
	// Cached is prompt_tokens_details.cached_tokens; nil is unknown, not 0.
	Cached *int
}

// Output token sources, the row key output_token_source.
const (
	SourceUsage         = "usage"
	SourceContentChunks = "content_chunks"
)

// Source says where output counts come from: SourceUsage, or
// SourceContentChunks when the server sent no usage; chunks are then reported
// only as chunks.
func (t Tokens) Source() string {
	if t.Output != nil {
		return SourceUsage
	}
	return SourceContentChunks
}

// Response describes what arrived, apart from its text.
type Response struct {
	// HTTPStatus is 0 when no response header arrived.
	HTTPStatus int
	// RequestID is the server's request id header, "" where it sent none.
	RequestID string
	// ContentChunks and ReasoningChunks count events of choice 0 with
	// non-empty visible text and with non-empty reasoning.
	ContentChunks   int
	ReasoningChunks int
	// Events counts dispatched events, of any kind; BytesRead the body's bytes.
	Events    int
	BytesRead int64
	// FinishReasons lists the non-empty finish reasons of choice 0 in order.
	FinishReasons []string
	// TerminalObserved is [DONE] or a non-empty finish_reason; DoneObserved is [DONE].
	TerminalObserved bool
	DoneObserved     bool
	// TextTruncated says that the visible text was longer than the capture.
	TextTruncated bool
	// SecondOutputMS is t0 to the second output event; nil where there was none.
	SecondOutputMS *float64
	// Gaps are the times between output events.
	Gaps Gaps
	// Reads counts the reads of the body that completed an event, and CrowdedReads
	// those of them that completed several.
	Reads, CrowdedReads int
	// ServerTimings is what the server says of its own time; nil where it says
	// nothing, which is usual: llama.cpp does.
	ServerTimings *ServerTimings
	// Flags name oddities that are not failures: FlagMissingFinishReason and
	// its sisters. Sorted, distinct.
	Flags []string
	// Connection says how the request got to the server; nil when it had no
	// connection.
	Connection *Connection
}

// Connection describes the connection of one request (WIRE 23). A nil time was
// not observed: a reused connection has no lookup, no connect and no handshake.
type Connection struct {
	// Reused says that the connection came from the pool and had served a
	// request before.
	Reused bool
	// Dialed says that the connection was made for this request before t0, as is
	// done for servers that close each one after its answer.
	Dialed bool
	// DNSMS, ConnectMS and TLSMS are the durations of the name lookup, of the
	// TCP connect and of the TLS handshake.
	DNSMS, ConnectMS, TLSMS *float64
	// HeaderMS is t0 to the response header.
	HeaderMS *float64
}

// ServerTimings are a server's own timings of a request, as llama.cpp sends them
// with its last event. They hold no queueing.
type ServerTimings struct {
	// PromptTokens were processed in PromptMS; cached ones are not among them.
	PromptTokens int     `json:"prompt_n"`
	PromptMS     float64 `json:"prompt_ms"`
	// OutputTokens were made in OutputMS, which begins with the first of them.
	OutputTokens int     `json:"predicted_n"`
	OutputMS     float64 `json:"predicted_ms"`
}

// TPOTMS is generation / (output tokens - 1): nil when the tokens are not from
// usage or fewer than 2, when generation is not positive, or when the tokens
// are those of several choices (WIRE 19).
func (r *Record) TPOTMS() *float64 {
	g, n := r.Timing.GenerationMS(), r.Tokens.Output
	if g == nil || n == nil || *n < 2 || *g <= 0 || r.severalChoices() {
		return nil
	}
	return new(*g / float64(*n-1))
}

func (r *Record) severalChoices() bool {
	return slices.Contains(r.Response.Flags, FlagMultipleChoices)
}

// DecodeTokS is (output tokens - 1) / (generation / 1000), nil like TPOTMS.
func (r *Record) DecodeTokS() *float64 {
	g, n := r.Timing.GenerationMS(), r.Tokens.Output
	if g == nil || n == nil || *n < 2 || *g <= 0 || r.severalChoices() {
		return nil
	}
	return new(float64(*n-1) / (*g / 1000))
}

// EffectivePrefillTokS is prompt tokens / (TTFO / 1000): queueing, scheduling,
// prefill and the first token, as the client sees them. Nil when the server
// sent no prompt count or TTFO is not positive.
func (r *Record) EffectivePrefillTokS() *float64 {
	if r.Tokens.Prompt == nil || r.Timing.TTFOMS == nil || *r.Timing.TTFOMS <= 0 {
		return nil
	}
	return new(float64(*r.Tokens.Prompt) / (*r.Timing.TTFOMS / 1000))
}

// MS converts a duration to the unit of every time in a Record.
func MS(d time.Duration) float64 { return float64(d) / 1e6 }
