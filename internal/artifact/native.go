package artifact

import (
	"bytes"
	"encoding/json"

	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/stats"
)

// NativeSchema is the schema of a native artifact.
const NativeSchema = "anvil-serving.benchmark/v1"

// Native is the native artifact of one cell: PROTOCOL section 5, keys in the
// order given there. A nil field is null in the file, or absent in one that an
// older implementation wrote; it means "not known" and never 0 or false.
//
// It is a plain value: Build and ReadNative make it, nothing here changes it
// but MarkPartial. Not safe for concurrent mutation.
type Native struct {
	Schema              string `json:"schema"`
	MeasurementProtocol string `json:"measurement_protocol"`
	// RunID is benchmark-YYYYMMDDTHHMMSSZ from the start in UTC. Two cells that
	// start within one second share it: the file name tells runs apart.
	RunID string `json:"run_id"`
	// StartedAt and FinishedAt are RFC 3339 in UTC, whole seconds, each the
	// floor of its nanosecond field.
	StartedAt          *string `json:"started_at"`
	FinishedAt         *string `json:"finished_at"`
	StartedAtUnixNS    *int64  `json:"started_at_unix_ns"`
	FinishedAtUnixNS   *int64  `json:"finished_at_unix_ns"`
	TimestampPrecision *string `json:"timestamp_precision"`
	// ClockDomainID names a clock that several load generators share; nil says
	// that the timestamps may not be aligned with another artifact's.
	ClockDomainID            *string  `json:"clock_domain_id"`
	ConfigurationFingerprint *string  `json:"configuration_fingerprint"`
	WallClockMS              *float64 `json:"wall_clock_ms"`

	// BaseURL is without userinfo, query and fragment.
	BaseURL      string  `json:"base_url"`
	Model        string  `json:"model"`
	Engine       *string `json:"engine"`
	GPU          *string `json:"gpu"`
	Tier         *string `json:"tier"`
	Manifest     *string `json:"manifest"`
	SourceRecipe *string `json:"source_recipe"`

	// Requests is how many were planned, Completed how many are eligible.
	Requests          int          `json:"requests"`
	Completed         int          `json:"completed"`
	ResponsesReceived *int         `json:"responses_received"`
	Failed            int          `json:"failed"`
	Failures          []FailureRow `json:"failures"`

	Concurrency int `json:"concurrency"`
	// ContextTokens is the nominal size that was asked for; nil for a distribution.
	ContextTokens *int `json:"context_tokens"`
	ContextSeed   *int `json:"context_seed"`
	// ContextDistribution counts planned requests by nominal tokens.
	ContextDistribution map[string]int `json:"context_distribution"`
	// MaxContextTokens is the model's context; nil is unknown.
	MaxContextTokens   *int    `json:"max_context_tokens"`
	MaxTokens          int     `json:"max_tokens"`
	ResponseWords      *int    `json:"response_words"`
	PromptCacheMode    *string `json:"prompt_cache_mode"`
	SharedPrefixTokens *int    `json:"shared_prefix_tokens"`
	// RequestCanaries is true only where a wrong canary fails its request.
	RequestCanaries        *bool            `json:"request_canaries"`
	ControlledOutputPolicy *contract.Policy `json:"controlled_output_policy"`
	PerformanceEligible    *bool            `json:"performance_eligible"`
	// MetricPopulation is nil in artifacts older than the protocol's present text.
	MetricPopulation *stats.MetricPopulation `json:"metric_population"`
	Sampling         *Sampling               `json:"sampling"`
	ServeFlags       *ServeFlags             `json:"serve_flags"`
	// TimingMethodology says in words how each number was taken; see Methodology.
	TimingMethodology map[string]string `json:"timing_methodology"`
	// Harness is what this suite adds; nil in another implementation's artifact.
	Harness *Harness `json:"harness,omitempty"`
	// RequestTimings has one row an eligible request, in index order. It is nil
	// in artifacts of capacity-v2, which kept no rows.
	RequestTimings []Row          `json:"request_timings"`
	Metrics        *stats.Metrics `json:"metrics"`
}

// Row is one eligible request: an element of request_timings. The keys after
// controlled_output are this suite's extras.
type Row struct {
	RequestIndex         int    `json:"request_index"`
	PlannedContextTokens *int   `json:"planned_context_tokens"`
	PromptTokens         *int   `json:"prompt_tokens"`
	OutputTokens         *int   `json:"output_tokens"`
	OutputTokenSource    string `json:"output_token_source"`
	Timings
	ContentChunks           *int                    `json:"content_chunks"`
	ReasoningChunks         *int                    `json:"reasoning_chunks"`
	VisibleContentTruncated bool                    `json:"visible_content_truncated"`
	RequestCanary           *contract.CanaryVerdict `json:"request_canary"`
	ControlledOutput        *contract.WordsVerdict  `json:"controlled_output"`

	// CanaryObservation is the canary's verdict where canaries are only observed.
	CanaryObservation *contract.CanaryVerdict `json:"canary_observation,omitempty"`
	// StartOffsetMS is the request's start after the cell's, milliseconds.
	StartOffsetMS   *float64 `json:"start_offset_ms,omitempty"`
	ReasoningTokens *int     `json:"reasoning_tokens,omitempty"`
	CachedTokens    *int     `json:"cached_tokens,omitempty"`
	Response        *Arrival `json:"response,omitempty"`
	// Connection is nil where the request had none.
	Connection *Connection `json:"connection,omitempty"`
	Extras
}

// Timings are the times and rates of PROTOCOL section 1, milliseconds and
// tokens per second; nil was not observed or is not defined.
type Timings struct {
	TTFOMS              *float64 `json:"time_to_first_output_ms"`
	TTFTMS              *float64 `json:"ttft_ms"`
	GenerationMS        *float64 `json:"generation_ms"`
	VisibleGenerationMS *float64 `json:"visible_generation_ms"`
	E2EMS               *float64 `json:"e2e_ms"`
	TPOTMS              *float64 `json:"tpot_ms"`
	// MeanInterTokenLatencyMS and MeanTimePerOutputTokenMS are older names of TPOTMS.
	MeanInterTokenLatencyMS  *float64 `json:"mean_inter_token_latency_ms"`
	MeanTimePerOutputTokenMS *float64 `json:"mean_time_per_output_token_ms"`
	DecodeTokS               *float64 `json:"decode_tok_s"`
	EffectivePrefillTokS     *float64 `json:"effective_prefill_tok_s"`
}

// Arrival describes what came back, apart from its text.
type Arrival struct {
	FinishReasons          []string `json:"finish_reasons"`
	StreamTerminalObserved bool     `json:"stream_terminal_observed"`
	DoneObserved           bool     `json:"done_observed,omitempty"`
	HTTPStatus             int      `json:"http_status,omitempty"`
	RequestID              string   `json:"request_id,omitempty"`
	Events                 int      `json:"events,omitempty"`
	BytesRead              int64    `json:"bytes_read,omitempty"`
	Flags                  []string `json:"flags,omitempty"`
}

// Connection is how the request got to the server, milliseconds; nil was not
// observed, as on a reused connection.
type Connection struct {
	Reused    bool     `json:"reused"`
	Dialed    bool     `json:"dialed,omitempty"`
	DNSMS     *float64 `json:"dns_ms,omitempty"`
	ConnectMS *float64 `json:"connect_ms,omitempty"`
	TLSMS     *float64 `json:"tls_ms,omitempty"`
	HeaderMS  *float64 `json:"header_ms,omitempty"`
}

// FailureRow is one failed request: an element of failures. In artifacts of
// older implementations all but request_index and error_type may be missing.
type FailureRow struct {
	RequestIndex          int     `json:"request_index"`
	PlannedContextTokens  *int    `json:"planned_context_tokens"`
	FailureClass          string  `json:"failure_class"`
	FailureDetail         *string `json:"failure_detail"`
	ErrorType             string  `json:"error_type"`
	ErrorMessage          string  `json:"error_message"`
	ErrorMessageTruncated bool    `json:"error_message_truncated"`
	ResponseReceived      *bool   `json:"response_received"`
	// PerformanceEligible is always false: a failed request is in no distribution.
	PerformanceEligible *bool    `json:"performance_eligible"`
	ElapsedMS           *float64 `json:"elapsed_ms"`

	// ResponseTiming and ResponseMetadata are nil where nothing arrived.
	ResponseTiming   *Timings                `json:"response_timing,omitempty"`
	ResponseMetadata *ResponseMetadata       `json:"response_metadata,omitempty"`
	RequestCanary    *contract.CanaryVerdict `json:"request_canary,omitempty"`
	ControlledOutput *contract.WordsVerdict  `json:"controlled_output,omitempty"`

	CanaryObservation *contract.CanaryVerdict `json:"canary_observation,omitempty"`
	StartOffsetMS     *float64                `json:"start_offset_ms,omitempty"`
	Connection        *Connection             `json:"connection,omitempty"`
	Extras
}

// ResponseMetadata is what is known of the answer of a failed request.
type ResponseMetadata struct {
	OutputTokenSource       string `json:"output_token_source"`
	ContentChunks           int    `json:"content_chunks"`
	ReasoningChunks         int    `json:"reasoning_chunks"`
	VisibleContentTruncated bool   `json:"visible_content_truncated"`
	// Usage is nil where the server sent none.
	Usage *Usage `json:"usage"`
	Arrival
}

// Usage is the server's own token counts; nil was not sent.
type Usage struct {
	PromptTokens     *int `json:"prompt_tokens,omitempty"`
	CompletionTokens *int `json:"completion_tokens,omitempty"`
	ReasoningTokens  *int `json:"reasoning_tokens,omitempty"`
	CachedTokens     *int `json:"cached_tokens,omitempty"`
}

// ServeFlags says how thinking was asked for.
type ServeFlags struct {
	// NoThinking is an older way to disable thinking; this suite never uses it
	// and says ThinkingMode instead.
	NoThinking        bool    `json:"no_thinking"`
	ReasoningEffort   *string `json:"reasoning_effort"`
	SharedPrefixBurst bool    `json:"shared_prefix_burst"`
	// ThinkingMode is default, enabled or disabled.
	ThinkingMode string `json:"thinking_mode"`
}

// Sampling records what was asked of the sampler, what the body said, and what
// the server reported to have used.
type Sampling struct {
	Requested SamplingValues `json:"requested"`
	Sent      SamplingValues `json:"sent"`
	// Effective is all nil where the server reports nothing, which is usual.
	Effective SamplingValues `json:"effective"`
}

// SamplingValues are sampler settings; nil was not asked, sent or reported.
type SamplingValues struct {
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
}

// UnmarshalJSON takes any value: the protocol names the three parts of sampling
// and not what stands in them, so another implementation's spelling reads as
// nil and not as a broken artifact.
func (s *SamplingValues) UnmarshalJSON(data []byte) error {
	var known struct {
		Temperature json.RawMessage `json:"temperature"`
		TopP        json.RawMessage `json:"top_p"`
	}
	*s = SamplingValues{}
	if json.Unmarshal(data, &known) != nil {
		return nil
	}
	s.Temperature, s.TopP = number(known.Temperature), number(known.TopP)
	return nil
}

// number reads a JSON number, nil for anything else.
func number(token json.RawMessage) *float64 {
	var v *float64
	if len(token) == 0 || bytes.Equal(token, []byte("null")) || json.Unmarshal(token, &v) != nil {
		return nil
	}
	return v
}

// Partial says whether the artifact is one of a run that did not come to its
// end, and why. Such an artifact is evidence and never passes a gate. An
// artifact without harness is judged by its counts.
func (n *Native) Partial() (reason string, partial bool) {
	switch {
	case n.Harness != nil && !n.Harness.Complete:
		if n.Harness.IncompleteReason == nil {
			return "harness.complete is not true", true
		}
		return *n.Harness.IncompleteReason, true
	case n.Completed+n.Failed < n.Requests:
		return describeShortfall(n.Requests, n.Completed, n.Failed), true
	}
	return "", false
}

// Eligible says whether every planned request completed and none failed: the
// definition of performance_eligible, also for artifacts that lack the key. A
// key that says false is believed.
func (n *Native) Eligible() bool {
	_, partial := n.Partial()
	return !partial && n.Failed == 0 && n.Requests > 0 && n.Completed == n.Requests &&
		(n.PerformanceEligible == nil || *n.PerformanceEligible)
}
