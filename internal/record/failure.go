package record

// Class is the failure class of a request (PROTOCOL section 3), in the order
// in which they are tried.
type Class string

const (
	// RequestError: no usable answer (build, connect, HTTP status, transport, time limit).
	RequestError Class = "request_error"
	// StreamInvalid: an answer arrived but is not a complete visible one.
	StreamInvalid Class = "stream_validation_failed"
	// CanaryFailed: the answer is not this request's own.
	CanaryFailed Class = "request_canary_failed"
	// WordsFailed: strict words were asked for and not given.
	WordsFailed Class = "controlled_output_failed"
	// RunnerError: a fault of this suite.
	RunnerError Class = "runner_error"
)

// Detail says which fault it was: the artifact's failure_detail.
type Detail string

const (
	DNS             Detail = "dns"
	Connect         Detail = "connect"
	TLS             Detail = "tls"
	HTTPStatus      Detail = "http_status"
	RateLimited     Detail = "rate_limited"
	NotEventStream  Detail = "not_event_stream"
	MalformedEvent  Detail = "malformed_event"
	LineTooLong     Detail = "line_too_long"
	InBandError     Detail = "in_band_error"
	EngineAbort     Detail = "engine_abort"
	ContentFilter   Detail = "content_filter"
	TruncatedStream Detail = "truncated_stream"
	TransportReset  Detail = "transport_reset"
	StallTimeout    Detail = "stall_timeout"
	TotalTimeout    Detail = "total_timeout"
	EmptyOutput     Detail = "empty_output"
	ReasoningOnly   Detail = "reasoning_only"
	ToolCallsOnly   Detail = "tool_calls_only"
	StaleConnection Detail = "stale_connection"
	UnframedError   Detail = "unframed_error"
	MissingUsage    Detail = "missing_usage"
	Canceled        Detail = "canceled"
)

// Fault is one row of the failure taxonomy: a detail, the class that it
// belongs to, and what it means to an operator.
type Fault struct {
	Detail  Detail
	Class   Class
	Meaning string
}

// Taxonomy lists every detail once, in the order of PROTOCOL section 3. The
// README's page on failures is made from it.
var Taxonomy = []Fault{
	{DNS, RequestError, "the host name did not resolve"},
	{Connect, RequestError, "no TCP connection: refused, unreachable or timed out"},
	{TLS, RequestError, "the TLS handshake failed, or the certificate is not for this host or not trusted"},
	{HTTPStatus, RequestError, "a status other than 2xx, redirects included"},
	{RateLimited, RequestError, "status 429; Retry-After is kept, nothing is retried"},
	{NotEventStream, StreamInvalid, "a 2xx whose body is not an event stream (HTML, a whole JSON completion, nothing framed)"},
	{MalformedEvent, StreamInvalid, "an event whose data is not the JSON of a chunk"},
	{LineTooLong, StreamInvalid, "one line or event longer than the reader's limit"},
	{InBandError, StreamInvalid, "an error object or an event named error inside a 2xx stream"},
	{EngineAbort, StreamInvalid, "finish_reason error or abort"},
	{ContentFilter, StreamInvalid, "finish_reason content_filter"},
	{TruncatedStream, StreamInvalid, "the body ended with neither a finish_reason nor [DONE]"},
	{TransportReset, RequestError, "the connection broke after the request was sent"},
	{StallTimeout, RequestError, "no output for CAPACITY_STALL_TIMEOUT"},
	{TotalTimeout, RequestError, "the whole request took longer than CAPACITY_TIMEOUT"},
	{EmptyOutput, StreamInvalid, "a complete stream without any generated text"},
	{ReasoningOnly, StreamInvalid, "reasoning and no visible text: reasoning ate the token budget"},
	{ToolCallsOnly, StreamInvalid, "tool calls and no visible text"},
	{StaleConnection, RequestError, "the server closed a kept-alive connection as the request was written; not retried"},
	{UnframedError, StreamInvalid, "a 2xx whose body is a bare error object without event framing"},
	{MissingUsage, StreamInvalid, "the answer carries no usage although it was asked for (CAPACITY_USAGE=observe accepts it)"},
	{Canceled, RequestError, "the run ended (interrupt, deadline) while the request was in flight"},
}

// ClassOf gives the class of a detail, RunnerError for one that the taxonomy
// does not list.
func ClassOf(d Detail) Class {
	for _, f := range Taxonomy {
		if f.Detail == d {
			return f.Class
		}
	}
	return RunnerError
}

// MessageLimitChars bounds Failure.Message, in characters.
const MessageLimitChars = 2048

// Failure says why a request is not eligible.
type Failure struct {
	Class Class
	// Detail is "" for CanaryFailed, WordsFailed and RunnerError.
	Detail Detail
	// ErrorType is the Go type of the error or the server's own error type.
	ErrorType string
	// Message tells an operator what happened on the wire. Never a secret.
	Message string
	// MessageTruncated says that Message was cut at MessageLimitChars.
	MessageTruncated bool
}

// Flags of a response that are oddities and not failures (Response.Flags).
const (
	FlagMissingFinishReason    = "missing_finish_reason"    // [DONE] and no finish_reason
	FlagUnterminatedFinalEvent = "unterminated_final_event" // the last event lacked its blank line
	FlagDataAfterDone          = "data_after_done"          // bytes after [DONE], not part of the answer
	FlagContentEncoded         = "content_encoded"          // compressed although identity was asked: times are suspect
	FlagMultipleChoices        = "multiple_choices"         // choices other than 0 arrived: no TPOT
	FlagManyEventsPerRead      = "many_events_per_read"     // a buffering proxy: gaps are not the server's
	FlagClientBehind           = "client_behind"            // this suite set the pace and not the server
)

// NewFailure makes the failure of a detail, with its class from the Taxonomy
// and its message cut at MessageLimitChars.
func NewFailure(d Detail, message string) *Failure {
	message, cut := Clip(message)
	return &Failure{Class: ClassOf(d), Detail: d, Message: message, MessageTruncated: cut}
}

// Clip cuts a message at MessageLimitChars characters and says whether it did.
func Clip(message string) (clipped string, cut bool) {
	if len(message) <= MessageLimitChars {
		return message, false
	}
	chars := 0
	for i := range message {
		if chars == MessageLimitChars {
			return message[:i], true
		}
		chars++
	}
	return message, false
}

// PlainClasses are the classes that have no detail, in the order of the checks.
var PlainClasses = []struct {
	Class   Class
	Meaning string
}{
	{CanaryFailed, "the answer does not begin with its own marker (CAPACITY_CANARIES=strict), carries another request's (always), or is longer than the capture"},
	{WordsFailed, "the answer has not exactly the asked words (CAPACITY_CONTROLLED_OUTPUT=strict), or is longer than the capture"},
	{RunnerError, "a fault of this suite, not of the server"},
}
