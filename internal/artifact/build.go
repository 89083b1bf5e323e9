package artifact

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/stats"
)

// Prompt cache modes: the values of prompt_cache_mode.
const (
	CacheUnique = "unique" // something particular to each request stands first in its prompt
	CacheShared = "shared" // all prompts begin with the same shared_prefix_tokens
)

// Facts is what is known of a cell before its first request: its plan, its
// target and what ran before. It is plain so that this package needs neither
// config nor workload. An empty string or a nil pointer is written as null.
type Facts struct {
	// BaseURL may carry userinfo and a query: they are dropped (SafeBaseURL).
	BaseURL      string `json:"base_url"`
	Model        string `json:"model"`
	Engine       string `json:"engine,omitempty"`
	GPU          string `json:"gpu,omitempty"`
	Tier         string `json:"tier,omitempty"`
	Manifest     string `json:"manifest,omitempty"`
	SourceRecipe string `json:"source_recipe,omitempty"`

	ClockDomainID            string `json:"clock_domain_id,omitempty"`
	ConfigurationFingerprint string `json:"configuration_fingerprint,omitempty"`

	Requests    int `json:"requests"`
	Concurrency int `json:"concurrency"`
	// ContextTokens is the nominal prompt size; 0 for a distribution (null).
	ContextTokens int `json:"context_tokens,omitempty"`
	ContextSeed   int `json:"context_seed"`
	// ContextDistribution counts planned requests by nominal tokens.
	ContextDistribution map[int]int `json:"context_distribution"`
	// MaxContextTokens is the model's context; 0 is unknown (null).
	MaxContextTokens int    `json:"max_context_tokens,omitempty"`
	MaxTokens        int    `json:"max_tokens"`
	ResponseWords    int    `json:"response_words"`
	PromptCacheMode  string `json:"prompt_cache_mode"`
	// SharedPrefixTokens counts only in CacheShared; unique prompts share 0.
	SharedPrefixTokens int `json:"shared_prefix_tokens"`

	// CanaryPolicy is written as request_canaries (true only for Strict) and
	// whole under harness.
	CanaryPolicy           contract.Policy `json:"canary_policy"`
	ControlledOutputPolicy contract.Policy `json:"controlled_output_policy"`
	UsagePolicy            string          `json:"usage_policy"`

	Sampling   Sampling   `json:"sampling"`
	ServeFlags ServeFlags `json:"serve_flags"`

	// Suite is ThisSuite when its name is empty.
	Suite     Suite      `json:"suite"`
	Endpoint  Endpoint   `json:"endpoint"`
	Scout     *Scout     `json:"scout,omitempty"`
	SelfCheck *SelfCheck `json:"self_check,omitempty"`
	// Client is what the suite spent during the run, known after it.
	Client *ClientUsage `json:"client,omitempty"`
	Notes  []string     `json:"notes,omitempty"`

	// GapsFile is the file name of the run's [GapsFile], "" for none.
	GapsFile string `json:"gaps_file,omitempty"`
	// ContextSizing is nil for nominal prompts.
	ContextSizing *ContextSizing `json:"context_sizing,omitempty"`
}

// Run is a cell with its outcome: everything that Build needs.
type Run struct {
	Facts
	// Records has one entry a finished request, in any order; it is not changed.
	Records []record.Record
	// StartedAt is the wall clock at the first request's start.
	StartedAt time.Time
	// WallMS is first request start to last request end by the monotonic
	// clock, milliseconds.
	WallMS float64
	// IncompleteReason says why the run was cut short; "" for one that came to
	// its end. A run with fewer records than requests is partial in any case.
	IncompleteReason string
}

// Build makes the native artifact of a run. It never fails: what is wrong with
// the facts or the records is found by Validate, which Write applies.
func Build(run Run) Native {
	records := slices.Clone(run.Records)
	slices.SortStableFunc(records, func(a, b record.Record) int { return cmp.Compare(a.RequestIndex, b.RequestIndex) })

	n := describe(run.Facts)
	n.stamp(run.StartedAt, run.WallMS)
	n.fill(records, run.WallMS)
	n.Harness.GapsFile = run.GapsFile
	n.Harness.ContextSizing = run.ContextSizing.observed(records)
	n.Harness.Notes = append(n.Harness.Notes, n.Harness.ContextSizing.Deviations()...)
	n.Harness.CacheSplit = splitCache(run.Facts, records)
	switch {
	case run.IncompleteReason != "":
		n.MarkPartial(run.IncompleteReason)
	case len(records) < run.Requests:
		n.MarkPartial(describeShortfall(run.Requests, n.Completed, n.Failed))
	}
	return n
}

// describe writes down the facts.
func describe(f Facts) Native {
	n := Native{
		Schema:                   NativeSchema,
		TimestampPrecision:       new(timestampPrecision),
		ClockDomainID:            orNil(f.ClockDomainID),
		ConfigurationFingerprint: orNil(f.ConfigurationFingerprint),
		BaseURL:                  SafeBaseURL(f.BaseURL),
		Model:                    f.Model,
		Engine:                   orNil(f.Engine),
		GPU:                      orNil(f.GPU),
		Tier:                     orNil(f.Tier),
		Manifest:                 orNil(f.Manifest),
		SourceRecipe:             orNil(f.SourceRecipe),
		Requests:                 f.Requests,
		Concurrency:              f.Concurrency,
		ContextTokens:            orNil(f.ContextTokens),
		ContextSeed:              new(f.ContextSeed),
		ContextDistribution:      make(map[string]int, len(f.ContextDistribution)),
		MaxContextTokens:         orNil(f.MaxContextTokens),
		MaxTokens:                f.MaxTokens,
		ResponseWords:            new(f.ResponseWords),
		PromptCacheMode:          new(f.PromptCacheMode),
		SharedPrefixTokens:       new(f.SharedPrefixTokens),
		RequestCanaries:          new(f.CanaryPolicy == contract.Strict),
		ControlledOutputPolicy:   new(f.ControlledOutputPolicy),
		Sampling:                 new(f.Sampling),
		ServeFlags:               new(f.ServeFlags),
		TimingMethodology:        Methodology(),
		Harness:                  harnessOf(f),
	}
	if f.PromptCacheMode == CacheUnique {
		n.SharedPrefixTokens = new(0)
	}
	for tokens, count := range f.ContextDistribution {
		n.ContextDistribution[strconv.Itoa(tokens)] = count
	}
	return n
}

func harnessOf(f Facts) *Harness {
	suite := f.Suite
	if suite.Name == "" {
		suite = ThisSuite()
	}
	return &Harness{
		Suite: suite, Complete: true, Scout: f.Scout, SelfCheck: f.SelfCheck, Client: f.Client, Endpoint: f.Endpoint,
		CanaryPolicy: f.CanaryPolicy, UsagePolicy: f.UsagePolicy, Notes: append([]string{}, f.Notes...),
	}
}

// stamp sets the timestamps. The finish is derived from the start and the
// monotonic wall, so that the two always agree whatever the wall clock did.
func (n *Native) stamp(started time.Time, wallMS float64) {
	started = started.UTC()
	finished := started.Add(time.Duration(math.Round(wallMS * 1e6)))
	n.RunID = runID(started)
	n.StartedAt, n.FinishedAt = new(wholeSecond(started)), new(wholeSecond(finished))
	n.StartedAtUnixNS, n.FinishedAtUnixNS = new(started.UnixNano()), new(finished.UnixNano())
	n.WallClockMS = new(wallMS)
}

func runID(started time.Time) string { return started.UTC().Format("benchmark-20060102T150405Z") }

// wholeSecond is RFC 3339 without a fraction: Format drops it, which is the floor.
func wholeSecond(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// fill writes the rows and everything that is folded from them.
func (n *Native) fill(records []record.Record, wallMS float64) {
	n.RequestTimings, n.Failures = []Row{}, []FailureRow{}
	received := 0
	for i := range records {
		r := &records[i]
		if r.Completed() {
			n.RequestTimings = append(n.RequestTimings, rowOf(r))
			continue
		}
		n.Failures = append(n.Failures, failureRowOf(r))
		if r.ResponseReceived {
			received++
		}
	}
	n.Completed, n.Failed = len(n.RequestTimings), len(n.Failures)
	n.Harness.Leaks = LeaksOf(records)
	n.Harness.Gaps = poolGaps(records)
	n.ResponsesReceived = new(n.Completed + received)
	n.fold(records, n.Requests, wallMS)
}

// fold writes what is computed from the records. With planned 0 nothing that
// needs every planned request is eligible: that is how a partial artifact has
// no throughput even where its records happen to be all there.
func (n *Native) fold(records []record.Record, planned int, wallMS float64) {
	n.MeasurementProtocol = stats.Protocol(records)
	n.PerformanceEligible = new(stats.PerformanceEligible(records, planned))
	n.MetricPopulation = new(stats.Population(records, planned))
	n.Metrics = new(stats.Fold(records, planned, wallMS))
}

// refusedBaseURL stands where a base URL could not be understood: it may hold
// anything, a password too, so nothing of it is kept.
const refusedBaseURL = "(base URL withheld: not an http or https URL)"

// SafeBaseURL is a base URL as evidence may hold it: without userinfo, query
// and fragment. What is not an http or https URL with a host is withheld whole.
func SafeBaseURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return refusedBaseURL
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// orNil is nil for the zero value.
func orNil[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// poolGaps is nil where no completed request had two output events.
func poolGaps(records []record.Record) *PooledGaps {
	var pooled record.Gaps
	var longest []float64
	oneTokenAnEvent := true
	for i := range records {
		r := &records[i]
		if !r.Completed() || r.Response.Gaps.Count == 0 {
			continue
		}
		pooled.Merge(r.Response.Gaps)
		longest = append(longest, r.Response.Gaps.MaxMS)
		if r.Tokens.Output == nil || *r.Tokens.Output != r.Response.Gaps.Count+1 {
			oneTokenAnEvent = false
		}
	}
	if pooled.Count == 0 {
		return nil
	}
	d := stats.Describe(longest)
	p := &PooledGaps{InterChunk: *interChunkOf(pooled), Is: InterChunkLatency, LongestP50MS: d.P50, LongestP99MS: d.P99}
	if oneTokenAnEvent {
		p.Is = InterTokenLatency
	}
	return p
}
