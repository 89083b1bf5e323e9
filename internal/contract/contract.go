// Package contract judges the visible text of an answer: does it begin with its
// own canary marker and carry no other request's, and does it have exactly the
// asked words. It is pure: text in, verdict out.
//
// Definitions: PROTOCOL section 3 (request_canary, controlled_output).
package contract

// Policy says what a verdict does to its request.
type Policy string

const (
	// Off asks for nothing and checks nothing but foreign markers.
	Off Policy = "off"
	// Observe records the verdict and fails no request for it.
	Observe Policy = "observe"
	// Strict makes a verdict that did not pass a failure of the request.
	Strict Policy = "strict"
)

// CaptureLimitChars is how many characters (Unicode code points) of visible
// text are kept for the verdicts. Past it the capture is not complete and every
// check that needs the whole text fails closed.
const CaptureLimitChars = 8192

// CanaryVerdict is the row key request_canary (or canary_observation when
// canaries are only observed).
type CanaryVerdict struct {
	// Marker is the request's own marker, "" where canaries are off.
	Marker string `json:"marker"`
	// MarkerAtStart says that the text, after leading white space, begins with
	// Marker as a whole word.
	MarkerAtStart bool `json:"marker_at_start"`
	// ObservedMarkerCount counts Marker in the text.
	ObservedMarkerCount int `json:"observed_marker_count"`
	// ForeignMarkerCount counts markers of any other request, of this run or not.
	ForeignMarkerCount int `json:"foreign_marker_count"`
	// CaptureComplete is false when the text was longer than the capture.
	CaptureComplete bool `json:"capture_complete"`
	// Passed is MarkerAtStart, none foreign, and CaptureComplete; where canaries
	// are off it is none foreign.
	Passed bool `json:"passed"`

	// Foreign lists the distinct foreign markers, in order of appearance, the
	// first 16 at most; nil for none.
	Foreign []string `json:"foreign_markers,omitempty"`
	// LeakedFrom lists the request indexes of this run whose markers are in
	// Foreign: one request received another's answer. Nil for none.
	LeakedFrom []int `json:"leaked_from_request_index,omitempty"`
	// ReasoningInContent says that the text opens with a <think> block, or has
	// the end of one, so the server has no reasoning parser: a server fault,
	// not a wrong answer.
	ReasoningInContent bool `json:"reasoning_in_content,omitempty"`
}

// WordsVerdict is the row key controlled_output.
type WordsVerdict struct {
	Policy         Policy `json:"policy"`
	RequestedWords int    `json:"requested_words"`
	// ObservedCodeWords and ObservedExtraWords count the captured words that
	// are Word and those that are neither Word nor the own marker.
	ObservedCodeWords  int  `json:"observed_code_words"`
	ObservedExtraWords int  `json:"observed_extra_words"`
	CaptureComplete    bool `json:"capture_complete"`
	// ExactAdherence is that the answer is the asked words, its own marker once
	// at most, and nothing else; nil when the capture is not complete or no
	// words were asked for.
	ExactAdherence *bool `json:"exact_adherence"`
	// Passed is ExactAdherence under Strict; always true under Observe.
	Passed bool `json:"passed"`

	// DuplicatedText says that an answer that does not adhere is one answer
	// said again and again (cumulative deltas, or the whole text repeated at
	// the end): a server fault. It is a hint, made from the text alone.
	DuplicatedText bool `json:"duplicated_text,omitempty"`
}
