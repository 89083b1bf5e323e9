package artifact

import (
	"encoding/json"
	"fmt"

	"anvil-capacity/internal/stats"
)

// IndexSchema is the schema of an index.
const IndexSchema = "anvil-capacity.index/v1"

// Index lists the runs of one session: the cells of a matrix, their repeats,
// the two arms of an A/A comparison.
type Index struct {
	Schema string `json:"schema"`
	// Run is the stem of the file names.
	Run  string     `json:"run"`
	Runs []IndexRun `json:"runs"`
}

// IndexRun is one run, in the order in which they were taken.
type IndexRun struct {
	Cell string `json:"cell"`
	// Arm is a, or b for the second arm of an A/A comparison.
	Arm    string `json:"arm"`
	Repeat int    `json:"repeat"`
	Seed   int    `json:"context_seed"`
	// Artifact and Summary are file names beside the index; Summary is nil for a
	// run that was cut short.
	Artifact string  `json:"artifact"`
	Summary  *string `json:"summary"`
	// SHA256 is the digest of the artifact, 64 hexadecimal digits.
	SHA256   string `json:"sha256"`
	Complete bool   `json:"complete"`
	Failed   int    `json:"failed"`
}

// ReadIndex reads an index. Every error names the file.
func ReadIndex(path string) (Index, error) {
	data, err := readFile(path)
	if err != nil {
		return Index{}, fmt.Errorf("reading index %q: %w", path, err)
	}
	var index Index
	if err := decodeAs(data, IndexSchema, &index, &index.Schema); err != nil {
		return Index{}, fmt.Errorf("reading index %q: %w", path, err)
	}
	for _, run := range index.Runs {
		if !isFileName(run.Artifact) {
			return Index{}, fmt.Errorf("reading index %q: %q is not a file name beside it", path, run.Artifact)
		}
	}
	return index, nil
}

// isFileName says that name leads nowhere but to a file beside the index.
func isFileName(name string) bool {
	for _, c := range name {
		if c == '/' || c == '\\' {
			return false
		}
	}
	return name != "" && name != "." && name != ".."
}

// SchemaOf reads the schema that a file says it is of, "" for none.
func SchemaOf(path string) (string, error) {
	data, err := readFile(path)
	if err != nil {
		return "", fmt.Errorf("reading %q: %w", path, err)
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if len(data) == 0 {
		return "", fmt.Errorf("reading %q: %w", path, ErrEmpty)
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return "", fmt.Errorf("reading %q: %w", path, explainJSON(data, err))
	}
	return head.Schema, nil
}

// AsNative gives what a summary knows of its run in the shape of an artifact
// without rows, for comparisons: only the six exact metrics are there.
func (s Summary) AsNative() *Native {
	n := &Native{
		Schema: NativeSchema, MeasurementProtocol: s.MeasurementProtocol,
		Requests: s.Completion.Requests, Completed: s.Completion.Completed, Failed: s.Completion.Failed,
		PerformanceEligible: new(s.Completion.PerformanceEligible),
		Concurrency:         s.Workload.Concurrency, PromptCacheMode: s.Workload.PromptCacheMode,
		ResponseWords: s.Workload.ResponseWords, MaxTokens: s.Workload.MaxTokens,
		RequestCanaries: s.Workload.RequestCanaries, ContextDistribution: s.Workload.ContextDistribution,
		ContextSeed: s.Workload.ContextSeed, SharedPrefixTokens: s.Workload.SharedPrefixTokens,
		TimingMethodology: s.Timing.TimingMethodology,
	}
	n.WallClockMS = s.Timing.WallClockMS.Float64()
	n.Metrics = s.ExactMetrics.metrics()
	return n
}

// metrics reads the six as a metrics object; nil where they are no such.
func (e ExactMetrics) metrics() *stats.Metrics {
	data, err := json.Marshal(e)
	if err != nil {
		return nil
	}
	m := new(stats.Metrics)
	if m.UnmarshalJSON(data) != nil {
		return nil
	}
	return m
}
