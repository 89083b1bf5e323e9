package engine

import (
	"fmt"
	"slices"
	"strings"
)

// Report is the engine's view of a cell, as the artifact keeps it under
// harness.engine. Every pointer that is nil is not known: the engine does not
// expose it, or there was no reading. Lists and maps are never nil.
type Report struct {
	// URL is the metrics address without userinfo and query; "" is none.
	URL string `json:"url"`
	// KeySent says that the API key or the headers of the requests went there.
	KeySent bool `json:"key_sent"`
	// Unavailable says why there is no reading before or after the cell; nil when
	// there are both. Nothing below but Identity is known then.
	Unavailable *Absence `json:"unavailable"`
	// Identity is what the server says it is; nil was not asked.
	Identity *Identity `json:"identity"`
	// Engine is whose metrics these are, by their names.
	Engine *string `json:"engine"`
	// BeforeUnixNS and AfterUnixNS are the moments of the two readings.
	BeforeUnixNS *int64 `json:"before_unix_ns"`
	AfterUnixNS  *int64 `json:"after_unix_ns"`
	// Reads are the readings during the load that gave something, ReadErrors
	// those that did not.
	Reads         int     `json:"reads"`
	ReadErrors    int     `json:"read_errors"`
	LastReadError *string `json:"last_read_error"`

	Counters    Counters    `json:"counters"`
	PrefixCache PrefixCache `json:"prefix_cache"`
	Gauges      Gauges      `json:"gauges"`
	// TTFT, TPOT and ITL are the engine's own histograms over the cell.
	TTFT *LatencySide `json:"time_to_first_token"`
	TPOT *LatencySide `json:"time_per_output_token"`
	ITL  *LatencySide `json:"inter_token_latency"`

	// Resets are the roles whose counters went back, which are nil for that.
	Resets []Role `json:"resets"`
	// Names are the metrics that each role was read from, as the server spells
	// them.
	Names map[Role][]string `json:"names"`
	// SkippedLines counts lines and series of the engine's metrics that could not
	// be used, in both readings; FirstSkipped tells of one.
	SkippedLines int     `json:"skipped_lines"`
	FirstSkipped *string `json:"first_skipped"`

	// Comparisons and Latencies put the client's view beside the engine's.
	Comparisons []Comparison        `json:"comparisons"`
	Latencies   []LatencyComparison `json:"latencies"`
	// Findings are what a reader should know, in words; none is a verdict.
	Findings []string `json:"findings"`
}

// Absence is why there are no metrics.
type Absence struct {
	Kind   Kind   `json:"kind"`
	Reason string `json:"reason"`
	// Fine says that the absence is nothing to report; see [Unavailable.Fine].
	Fine bool `json:"fine"`
}

// Counters are increases over the cell.
type Counters struct {
	Requests         *float64 `json:"requests"`
	PromptTokens     *float64 `json:"prompt_tokens"`
	GenerationTokens *float64 `json:"generation_tokens"`
	Preemptions      *float64 `json:"preemptions"`
	// PromptTokensComputedOnly says that PromptTokens leaves out what came from
	// the cache.
	PromptTokensComputedOnly bool `json:"prompt_tokens_computed_only"`
}

// PrefixCache is what was looked up in the prefix cache and found there.
type PrefixCache struct {
	Queries *float64 `json:"queries"`
	Hits    *float64 `json:"hits"`
	// HitRate is hits / queries, 0 to 1; nil when either is not known or nothing
	// was looked up.
	HitRate *float64 `json:"hit_rate"`
	// Unit is "tokens" or "blocks"; nil when neither count is known.
	Unit *string `json:"unit"`
}

// Gauges are values of the moment, summed up over the readings during the load.
type Gauges struct {
	Running *GaugeSummary `json:"requests_running"`
	Waiting *GaugeSummary `json:"requests_waiting"`
	// KVCacheUse is a share, 0 to 1.
	KVCacheUse *GaugeSummary `json:"kv_cache_use"`
}

// GaugeSummary is a [Series] with at least one sample.
type GaugeSummary struct {
	Samples int     `json:"samples"`
	Mean    float64 `json:"mean"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
}

// NewReport folds what was read with what the client saw. id may be nil.
func NewReport(s Session, id *Identity, c Client) Report {
	r := Report{
		URL: s.URL, KeySent: s.KeySent, Identity: id,
		Reads: s.Reads, ReadErrors: s.ReadErrors, LastReadError: text(s.LastReadError),
		Resets: []Role{}, Names: map[Role][]string{}, Comparisons: []Comparison{}, Latencies: []LatencyComparison{}, Findings: []string{},
	}
	if gone := s.Unavailable; gone != nil {
		r.Unavailable = &Absence{gone.Kind, gone.Reason, gone.Fine()}
	}
	d, ok := s.Delta()
	if !ok {
		r.findAbsence()
		return r
	}
	r.Engine = text(d.Engine)
	r.BeforeUnixNS, r.AfterUnixNS = new(s.Before.At.UnixNano()), new(s.After.At.UnixNano())
	r.Gauges = gaugesOf(s.Gauges)
	r.nameGauges(s.After)
	r.fill(d)
	r.SkippedLines = s.Before.Faults + s.After.Faults
	r.FirstSkipped = text(firstOf(s.Before.Fault, s.After.Fault))
	r.Comparisons, r.Latencies = compare(d, c), compareLatencies(d, c)
	r.find(d)
	return r
}

// HitRate is [PrefixCache].HitRate, and why it is nil.
func (r Report) HitRate() (rate *float64, why string) {
	p := r.PrefixCache
	switch {
	case p.HitRate != nil:
		return p.HitRate, ""
	case r.Unavailable != nil:
		return nil, "the engine's metrics were not read: " + r.Unavailable.Reason
	case slices.Contains(r.Resets, PrefixCacheQueries) || slices.Contains(r.Resets, PrefixCacheHits):
		return nil, "the engine's prefix-cache counters went back during the cell"
	case p.Queries == nil || p.Hits == nil:
		return nil, "the engine does not expose prefix-cache counters"
	case *p.Queries == 0:
		return nil, "the engine looked nothing up in its prefix cache; it may be off"
	}
	return nil, fmt.Sprintf("the engine counts %.0f prefix-cache hits in %.0f queries", *p.Hits, *p.Queries)
}

// fill copies the delta.
func (r *Report) fill(d Delta) {
	r.Counters = Counters{
		Requests: d.Value(Requests), PromptTokens: d.Value(PromptTokens), GenerationTokens: d.Value(GenerationTokens),
		Preemptions: d.Value(Preemptions), PromptTokensComputedOnly: d.ComputedOnly,
	}
	r.PrefixCache = PrefixCache{
		Queries: d.Value(PrefixCacheQueries), Hits: d.Value(PrefixCacheHits), HitRate: d.HitRate(), Unit: text(d.PrefixUnit),
	}
	r.TTFT, r.TPOT, r.ITL = serverSide(d.Histogram(TTFT)), serverSide(d.Histogram(TPOT)), serverSide(d.Histogram(ITL))
	r.Resets = append(r.Resets, d.Resets...)
	for role, names := range d.Names {
		r.Names[role] = names
	}
}

func (r *Report) nameGauges(s *Snapshot) {
	for _, role := range gauges {
		if names := s.Names[role]; names != nil {
			r.Names[role] = names
		}
	}
}

func gaugesOf(all map[Role]Series) Gauges {
	of := func(role Role) *GaugeSummary {
		s, ok := all[role]
		if !ok {
			return nil
		}
		return &GaugeSummary{s.Samples, s.Mean, s.Min, s.Max}
	}
	return Gauges{of(Running), of(Waiting), of(KVCacheUse)}
}

// find lists what a reader should know.
func (r *Report) find(d Delta) {
	r.findAbsence()
	r.findResets(d)
	for _, mismatch := range mismatches(r.Comparisons) {
		r.say(mismatch)
	}
	for _, l := range r.Latencies {
		r.say(l.finding())
	}
	if n := d.Value(Preemptions); n != nil && *n > 0 {
		r.say(fmt.Sprintf("the engine preempted %.0f requests for want of KV cache: it computed their prompts twice, and latencies include that", *n))
	}
	if p := r.PrefixCache; p.Queries != nil && p.Hits != nil && *p.Hits > *p.Queries {
		r.say(fmt.Sprintf("the engine counts %.0f prefix-cache hits in %.0f queries, so that there is no hit rate", *p.Hits, *p.Queries))
	}
	if r.ReadErrors > 0 {
		r.say(fmt.Sprintf("%d of %d readings during the load gave nothing, the last because %s", r.ReadErrors, r.Reads+r.ReadErrors, *r.LastReadError))
	}
	if r.SkippedLines > 0 {
		r.say(fmt.Sprintf("%d lines or series of the engine's metrics could not be used: %s", r.SkippedLines, *r.FirstSkipped))
	}
}

func (r *Report) findAbsence() {
	if r.Unavailable != nil && !r.Unavailable.Fine {
		r.say(fmt.Sprintf("the engine's metrics at %s were not read: %s", r.URL, r.Unavailable.Reason))
	}
}

func (r *Report) findResets(d Delta) {
	if len(d.Resets) == 0 {
		return
	}
	names := make([]string, len(d.Resets))
	for i, role := range d.Resets {
		names[i] = string(role)
	}
	what := "went back during the cell: the server restarted, or its address leads to several"
	if d.Restarted {
		what = "belong to another process after the cell than before it: the server restarted, or its address leads to several"
	}
	r.say(fmt.Sprintf("the engine's counters %s (%s); they are not used", what, strings.Join(names, ", ")))
}

func (r *Report) say(finding string) {
	if finding != "" {
		r.Findings = append(r.Findings, finding)
	}
}

// text is nil for "".
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
