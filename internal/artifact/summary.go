package artifact

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"anvil-capacity/internal/stats"
)

// SummarySchema is the schema of a derived summary.
const SummarySchema = "anvil-serving.derived-capacity-summary/v1"

// Summary is the derived summary of one cell: PROTOCOL section 6, keys in the
// order given there. Nil fields are null: an older artifact did not have them.
type Summary struct {
	Schema string `json:"schema"`
	// SourceArtifact is the file name of the native artifact, without a folder.
	SourceArtifact      string       `json:"source_artifact"`
	SourceSchema        string       `json:"source_schema"`
	MeasurementProtocol string       `json:"measurement_protocol"`
	Completion          Completion   `json:"completion"`
	Workload            Workload     `json:"workload"`
	Timing              Timing       `json:"timing"`
	ExactMetrics        ExactMetrics `json:"exact_metrics"`
	P99Interpretation   string       `json:"p99_interpretation"`
	CacheCaveat         string       `json:"cache_caveat"`
}

// Completion says how many of the planned requests came to what.
type Completion struct {
	Requests          int  `json:"requests"`
	Completed         int  `json:"completed"`
	Failed            int  `json:"failed"`
	ResponsesReceived *int `json:"responses_received"`
	// PerformanceEligible is worked out by its definition where an older
	// artifact lacks it (Native.Eligible).
	PerformanceEligible bool `json:"performance_eligible"`
}

// Workload is what was asked of the server.
type Workload struct {
	Concurrency         int            `json:"concurrency"`
	PromptCacheMode     *string        `json:"prompt_cache_mode"`
	ResponseWords       *int           `json:"response_words"`
	MaxTokens           int            `json:"max_tokens"`
	RequestCanaries     *bool          `json:"request_canaries"`
	ContextDistribution map[string]int `json:"context_distribution"`
	ContextSeed         *int           `json:"context_seed"`
	SharedPrefixTokens  *int           `json:"shared_prefix_tokens"`
}

// Timing is how the numbers were taken.
type Timing struct {
	WallClockMS        Exact             `json:"wall_clock_ms"`
	TimestampPrecision *string           `json:"timestamp_precision"`
	TimingMethodology  map[string]string `json:"timing_methodology"`
}

// ExactMetrics are six metrics of the native artifact, token for token.
type ExactMetrics struct {
	ThroughputTokS Exact `json:"throughput_tok_s"`
	TTFTP50MS      Exact `json:"ttft_p50_ms"`
	E2EP50MS       Exact `json:"e2e_p50_ms"`
	TTFTMeanMS     Exact `json:"ttft_mean_ms"`
	E2EMeanMS      Exact `json:"e2e_mean_ms"`
	TPOTMeanMS     Exact `json:"tpot_mean_ms"`
}

// Summarize derives the summary of the native artifact at path, from that file
// alone: the same file gives the same summary, byte for byte when written. It
// refuses what ReadNative refuses, partial artifacts included: a summary has no
// place to say that it is one.
func Summarize(path string) (Summary, error) {
	data, err := readFile(path)
	if err != nil {
		return Summary{}, fmt.Errorf("summarizing artifact %q: %w", path, err)
	}
	s, err := summarize(filepath.Base(path), data)
	if err != nil {
		return Summary{}, fmt.Errorf("summarizing artifact %q: %w", path, err)
	}
	return s, nil
}

// WriteSummary derives the summary of the artifact at nativePath and writes it
// to summaryPath, by the rules of Write: deriving again is not an error.
func WriteSummary(nativePath, summaryPath string) error {
	s, err := Summarize(nativePath)
	if err != nil {
		return err
	}
	return Write(summaryPath, s)
}

// summarize is Summarize on bytes.
func summarize(name string, data []byte) (Summary, error) {
	n, err := decodeNative(data)
	if err != nil {
		return Summary{}, err
	}
	if reason, partial := n.Partial(); partial {
		return Summary{}, fmt.Errorf("%w: %s", ErrPartial, reason)
	}
	evidence := evidenceOf(&n)
	// The second look at the file keeps the tokens of what is copied.
	var exact struct {
		WallClockMS Exact        `json:"wall_clock_ms"`
		Metrics     ExactMetrics `json:"metrics"`
	}
	if err := json.Unmarshal(data, &exact); err != nil {
		return Summary{}, explainJSON(data, err)
	}
	return Summary{
		Schema:              SummarySchema,
		SourceArtifact:      name,
		SourceSchema:        n.Schema,
		MeasurementProtocol: n.MeasurementProtocol,
		Completion: Completion{
			Requests: n.Requests, Completed: n.Completed, Failed: n.Failed,
			ResponsesReceived: n.ResponsesReceived, PerformanceEligible: n.Eligible(),
		},
		Workload: Workload{
			Concurrency: n.Concurrency, PromptCacheMode: n.PromptCacheMode, ResponseWords: n.ResponseWords,
			MaxTokens: n.MaxTokens, RequestCanaries: n.RequestCanaries, ContextDistribution: n.ContextDistribution,
			ContextSeed: n.ContextSeed, SharedPrefixTokens: n.SharedPrefixTokens,
		},
		Timing: Timing{
			WallClockMS: exact.WallClockMS, TimestampPrecision: n.TimestampPrecision, TimingMethodology: n.TimingMethodology,
		},
		ExactMetrics:      exact.Metrics,
		P99Interpretation: interpretP99(&n),
		CacheCaveat:       evidence.caveat(),
	}, nil
}

// ReadSummary reads a derived summary of this suite or another implementation.
// Every error names the file.
func ReadSummary(path string) (Summary, error) {
	data, err := readFile(path)
	if err != nil {
		return Summary{}, fmt.Errorf("reading summary %q: %w", path, err)
	}
	s, err := decodeSummary(data)
	if err != nil {
		return Summary{}, fmt.Errorf("reading summary %q: %w", path, err)
	}
	return s, nil
}

func decodeSummary(data []byte) (Summary, error) {
	var s Summary
	if err := decodeAs(data, SummarySchema, &s, &s.Schema); err != nil {
		return Summary{}, err
	}
	if c := s.Completion; c.Requests < 1 || c.Completed < 0 || c.Completed > c.Requests || c.Failed != c.Requests-c.Completed {
		return Summary{}, fmt.Errorf("counts contradict each other: requests %d, completed %d, failed %d", c.Requests, c.Completed, c.Failed)
	}
	return s, nil
}

// interpretP99 says what a p99 of this artifact is.
func interpretP99(n *Native) string {
	samples := n.Completed
	rank := (99*samples + 99) / 100 // ceil(0.99 samples)
	switch {
	case samples == 0:
		return "N=0: no request was eligible, so there is no p99."
	case samples < stats.P99MinimumRecommendedSamples:
		return fmt.Sprintf("N=%d: each p99 is the largest of %d eligible samples (nearest rank), one observed value. Below %d samples it describes this run and estimates no tail.",
			samples, samples, stats.P99MinimumRecommendedSamples) + fewerSamples(n)
	}
	above := "none lies above it"
	if samples-rank == 1 {
		above = "one sample lies above it"
	} else if samples > rank {
		above = fmt.Sprintf("%d samples lie above it", samples-rank)
	}
	return fmt.Sprintf("N=%d: each p99 is number %d of %d eligible samples in rising order (nearest rank); %s. It is one observed value, kept in the native artifact: a rough mark of the tail and not a stable service level.",
		samples, rank, samples, above) + fewerSamples(n)
}

// fewerSamples names the distributions that not every eligible request is in.
func fewerSamples(n *Native) string {
	var fewer []string
	for _, name := range stats.Names() {
		key, _ := stats.Key(name, "samples")
		v, known := n.Metrics.Get(key)
		if known && v != nil && *v < float64(n.Completed) {
			fewer = append(fewer, fmt.Sprintf("%s (%.0f)", name, *v))
		}
	}
	if len(fewer) == 0 {
		return ""
	}
	slices.Sort(fewer)
	return " Fewer samples stand behind " + strings.Join(fewer, ", ") + "."
}
