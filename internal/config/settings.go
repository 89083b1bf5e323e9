package config

import (
	"encoding/json"
	"fmt"
	"time"

	"anvil-capacity/internal/contract"
)

// Settings says what a run does. Load makes it, checked as a whole; it is read
// only after that, and then safe for concurrent use. Copies share its slices.
// Ranges stand in Variables and in .env.example.
type Settings struct {
	// BaseURL is where requests go: scheme, host and path, without userinfo,
	// query, fragment or trailing slash. "" is the embedded endpoint.
	BaseURL string
	// Model is the model to ask for; "" is the only or first one served.
	Model string
	// APIKey comes from CAPACITY_API_KEY, or from the file that
	// CAPACITY_API_KEY_FILE names. "" sends no Authorization header.
	APIKey Secret
	// Headers are sent with every request, in this order. Names are distinct.
	Headers []Header
	// CAFile is a file of PEM certificates, found to hold at least one, whose
	// authorities the server's certificate may come from; "" trusts the system's.
	CAFile string
	// HTTPVersion is HTTP11 or HTTP2; HTTP2 over http:// is h2c.
	HTTPVersion string
	// Engine and GPU label the artifact; "" is null there.
	Engine, GPU string
	// MaxModelLen is the model's context in tokens; 0 asks the server.
	MaxModelLen int
	// ContextMargin is the tokens left free in the context beside prompt and answer.
	ContextMargin int

	// Requests is how many requests each cell sends.
	Requests int
	// Concurrency, Context and ResponseWords span the cells (see Cells). None is
	// empty; the items of each are distinct. A word count of 0 asks for no words.
	Concurrency   []int
	Context       []Context
	ResponseWords []int
	// ContextSizing is SizingNominal or SizingMeasured.
	ContextSizing string
	// ContextSeed seeds the plan.
	ContextSeed int
	// MaxTokens bounds each answer, reasoning included.
	MaxTokens int
	// ControlledOutput is contract.Observe or contract.Strict.
	ControlledOutput contract.Policy
	// Canaries is contract.Off, contract.Observe or contract.Strict.
	Canaries contract.Policy
	// PromptCache is CacheUnique or CacheShared.
	PromptCache string
	// SharedPrefixTokens is above 0 under CacheShared and 0 otherwise.
	SharedPrefixTokens int
	// ScoutRequests is how many requests run before the cell; 0 is no scout.
	ScoutRequests int
	// ScoutSeed is nil when the scout takes a seed of its own.
	ScoutSeed *int
	// Cell is the cell file that gave settings; "" is none.
	Cell string
	// Usage is UsageRequire or UsageObserve.
	Usage string

	// Timeout bounds a whole request, StallTimeout the silence between outputs;
	// StallTimeout is never above Timeout.
	Timeout, StallTimeout time.Duration
	// Repeats is how often each cell runs, each time with a seed of its own.
	Repeats int
	// Order is OrderSequential or OrderInterleaved.
	Order string

	// Temperature and TopP are the sampling asked for; a nil TopP is not sent.
	Temperature float64
	TopP        *float64
	// Thinking is ThinkingDefault, ThinkingEnabled or ThinkingDisabled.
	Thinking string
	// ReasoningEffort is sent as it stands; "" is not sent. Never beside a
	// Thinking other than ThinkingDefault.
	ReasoningEffort string
	// ExtraBody is a compact JSON object of further request fields, nil for none.
	ExtraBody json.RawMessage

	// Thresholds are asserted for each cell, in this order.
	Thresholds []Threshold
	// MaxFailureRate is the share of planned requests that may fail, 0 to 1.
	MaxFailureRate float64
	// Baseline lists the artifacts, summaries or indexes of the runs that each
	// cell is compared with; nil compares with nothing.
	Baseline []string
	// BaselineAllow names what may differ from the baseline, of AllowedDifferences.
	BaselineAllow []string
	// MaxRegression are the gated metrics of the comparison; nil gates none and
	// reports the usual ones.
	MaxRegression []Regression
	// Confidence of the comparison's intervals, above 0.5 and below 1.
	Confidence float64
	// AA runs each cell's repeats twice against the same server, as two arms
	// that must not be told apart.
	AA bool

	// Preflight asks the server a few questions before the first cell.
	Preflight bool
	// SelfCheck measures the suite's own error before each cell of a live run.
	SelfCheck bool

	// Run is the file stem of the evidence; "" is made from the time.
	Run string
	// Gaps is GapsHistogram or GapsAll.
	Gaps string
	// ArtifactDir is the folder of the evidence.
	ArtifactDir string
	// ClockDomainID and ConfigurationFingerprint are recorded as given; "" is
	// null in the artifact.
	ClockDomainID            string
	ConfigurationFingerprint string
	// MetricsURL is where the engine's own counters are; "" is /metrics beside the
	// base URL where there is one, MetricsOff reads none.
	MetricsURL string
}

// Values of Settings.HTTPVersion.
const (
	HTTP11 = "1.1"
	HTTP2  = "2"
)

// Values of Settings.PromptCache (PROTOCOL section 2, prompt_cache_mode).
const (
	CacheUnique = "unique"
	CacheShared = "shared"
)

// Values of Settings.ContextSizing.
const (
	// SizingNominal makes prompts of 3 characters a token.
	SizingNominal = "nominal"
	// SizingMeasured makes prompts that have the asked size in real tokens.
	SizingMeasured = "measured"
)

// Values of Settings.Order.
const (
	// OrderSequential runs all repeats of a cell before the next cell.
	OrderSequential = "sequential"
	// OrderInterleaved runs the cells in turn, there and back (ABBA), so that a
	// drift of the machine does not look like a difference between cells.
	OrderInterleaved = "interleaved"
)

// MetricsOff is the value of Settings.MetricsURL that reads no engine metrics.
const MetricsOff = "off"

// Values of Settings.Usage.
const (
	// UsageRequire fails an answer that carries no usage.
	UsageRequire = "require"
	// UsageObserve accepts it; its token counts are then null.
	UsageObserve = "observe"
)

// Values of Settings.Gaps.
const (
	// GapsHistogram keeps the times between output events as histograms, in the artifact.
	GapsHistogram = "histogram"
	// GapsAll keeps each of them besides, in a file of its own.
	GapsAll = "all"
)

// Values of Settings.Thinking (PROTOCOL section 2, serve_flags.thinking_mode).
const (
	ThinkingDefault  = "default"
	ThinkingEnabled  = "enabled"
	ThinkingDisabled = "disabled"
)

// Header is one header of every request. Its value counts as a secret.
type Header struct {
	Name  string
	Value Secret
}

// Embedded says that no base URL was given: the run measures the suite against
// its own endpoint.
func (s Settings) Embedded() bool { return s.BaseURL == "" }

// Cell is one point of the matrix: Settings with one concurrency, one context
// and one word count, which hide the lists of the same names.
type Cell struct {
	Settings
	// Name tells cells of one run apart and reads like c4-ctx32768-w16: letters,
	// digits, '_', '-' and '.' only.
	Name string
	// Concurrency is how many requests are in flight at most.
	Concurrency int
	// Context is the nominal size of the prompts.
	Context Context
	// ResponseWords is how many words are asked for; 0 is none.
	ResponseWords int
}

// Cells gives the product of Concurrency, Context and ResponseWords in listed
// order, the last turning fastest. Settings from Load give at least one cell,
// each with a name of its own; the zero Settings give none.
func (s Settings) Cells() []Cell {
	cells := make([]Cell, 0, len(s.Concurrency)*len(s.Context)*len(s.ResponseWords))
	for _, concurrency := range s.Concurrency {
		for _, context := range s.Context {
			for _, words := range s.ResponseWords {
				cells = append(cells, Cell{
					Settings:      s,
					Name:          fmt.Sprintf("c%d-ctx%s-w%d", concurrency, context.Name(), words),
					Concurrency:   concurrency,
					Context:       context,
					ResponseWords: words,
				})
			}
		}
	}
	return cells
}
