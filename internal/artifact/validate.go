package artifact

import (
	"fmt"
	"math"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/stats"
)

// Limits of the protocol (PROTOCOL section 2).
const (
	MaxRequests    = 10_000
	MaxConcurrency = 4_096
)

// How far finished - started may lie from wall_clock_ms: the larger of the two.
const (
	wallToleranceMS    = 5.0
	wallToleranceShare = 0.0001
)

// InvalidError says that an artifact contradicts the protocol or itself.
type InvalidError struct {
	// Violations has one sentence each, in the order of the artifact's keys.
	Violations []string
}

// maxShownViolations bounds the text of an InvalidError; all are in Violations.
const maxShownViolations = 30

func (e *InvalidError) Error() string {
	shown := e.Violations[:min(len(e.Violations), maxShownViolations)]
	text := fmt.Sprintf("artifact is not valid, %d violations:\n  - %s", len(e.Violations), strings.Join(shown, "\n  - "))
	if left := len(e.Violations) - len(shown); left > 0 {
		text += fmt.Sprintf("\n  - and %d more", left)
	}
	return text
}

// Validate holds the artifact to every invariant of PROTOCOL section 5 that can
// be checked from the file alone: timestamps, counts, rows, verdicts, and that
// the metrics are what the rows give. All violations come in one *InvalidError.
//
// It is for artifacts of the present protocol, this suite's or another's; older
// ones lack keys that it needs. A partial artifact is held to the same, except
// that requests may be missing.
func (n *Native) Validate() error {
	c := checker{n: n, records: n.Records()}
	_, c.partial = n.Partial()
	c.identity()
	c.times()
	c.workload()
	c.counts()
	c.indexes()
	for i := range n.RequestTimings {
		c.row(&n.RequestTimings[i])
	}
	for i := range n.Failures {
		c.failure(&n.Failures[i])
	}
	c.distribution()
	c.folds()
	c.harness()
	if len(c.violations) > 0 {
		return &InvalidError{Violations: c.violations}
	}
	return nil
}

// checker collects violations; it never stops at the first.
type checker struct {
	n          *Native
	records    []record.Record // of n's rows
	partial    bool
	violations []string
}

func (c *checker) want(ok bool, format string, args ...any) {
	if !ok {
		c.violations = append(c.violations, fmt.Sprintf(format, args...))
	}
}

var fingerprintForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func (c *checker) identity() {
	n := c.n
	c.want(n.Schema == NativeSchema, "schema is %q, want %q", n.Schema, NativeSchema)
	u, err := url.Parse(n.BaseURL)
	safe := n.BaseURL == refusedBaseURL || err == nil && u.User == nil && u.RawQuery == "" && u.Fragment == ""
	c.want(safe, "base_url carries userinfo, a query or a fragment, which may be secret")
	c.want(n.Model != "", "model is empty")
	if f := n.ConfigurationFingerprint; f != nil {
		c.want(fingerprintForm.MatchString(*f), "configuration_fingerprint is %q, want sha256: and 64 hex digits", *f)
	}
	c.want(n.TimestampPrecision != nil, "timestamp_precision is missing")
	c.want(n.Sampling != nil, "sampling is missing")
	c.want(n.ServeFlags != nil, "serve_flags is missing")
	for _, key := range methodologyKeys {
		c.want(n.TimingMethodology[key] != "", "timing_methodology lacks %q", key)
	}
}

func (c *checker) times() {
	n := c.n
	if n.StartedAtUnixNS == nil || n.FinishedAtUnixNS == nil || n.StartedAt == nil || n.FinishedAt == nil || n.WallClockMS == nil {
		c.want(false, "started_at, finished_at, their nanosecond fields and wall_clock_ms must all be there")
		return
	}
	started, finished := time.Unix(0, *n.StartedAtUnixNS), time.Unix(0, *n.FinishedAtUnixNS)
	c.want(*n.StartedAt == wholeSecond(started), "started_at is %s, want %s, the whole second of started_at_unix_ns", *n.StartedAt, wholeSecond(started))
	c.want(*n.FinishedAt == wholeSecond(finished), "finished_at is %s, want %s, the whole second of finished_at_unix_ns", *n.FinishedAt, wholeSecond(finished))
	c.want(n.RunID == runID(started), "run_id is %q, want %q from the start", n.RunID, runID(started))

	wall := *n.WallClockMS
	c.want(wall > 0 || wall == 0 && n.Completed == 0, "wall_clock_ms is %v, want more than 0", wall)
	span := record.MS(finished.Sub(started))
	c.want(math.Abs(span-wall) <= wallTolerance(wall), "finished_at_unix_ns - started_at_unix_ns is %v ms, wall_clock_ms is %v", span, wall)
	if first, last, ok := extent(c.records); ok {
		c.want(last-first <= wall+wallTolerance(wall), "requests span %v ms from first start to last end, wall_clock_ms is only %v", last-first, wall)
	}
}

func wallTolerance(wallMS float64) float64 {
	return max(wallToleranceMS, wallToleranceShare*math.Abs(wallMS))
}

// extent is the first start and the last end of the records, on the cell's
// clock; ok is false when there is none.
func extent(records []record.Record) (first, last float64, ok bool) {
	first, last = math.Inf(1), math.Inf(-1)
	for i := range records {
		first = min(first, records[i].StartMS)
		last = max(last, records[i].StartMS+records[i].ElapsedMS)
	}
	return first, last, len(records) > 0
}

func (c *checker) workload() {
	n := c.n
	c.want(n.Requests >= 1 && n.Requests <= MaxRequests, "requests is %d, want 1 to %d", n.Requests, MaxRequests)
	c.want(n.Concurrency >= 1 && n.Concurrency <= MaxConcurrency, "concurrency is %d, want 1 to %d", n.Concurrency, MaxConcurrency)
	c.want(n.MaxTokens >= 1, "max_tokens is %d, want at least 1", n.MaxTokens)
	c.want(n.ContextSeed != nil, "context_seed is missing")
	c.want(n.ResponseWords != nil && *n.ResponseWords >= 0, "response_words is missing or negative")
	c.want(n.RequestCanaries != nil, "request_canaries is missing")

	mode, shared := orZero(n.PromptCacheMode), orZero(n.SharedPrefixTokens)
	c.want(mode == CacheUnique || mode == CacheShared, "prompt_cache_mode is %q, want %s or %s", mode, CacheUnique, CacheShared)
	c.want(n.SharedPrefixTokens != nil && shared >= 0, "shared_prefix_tokens is missing or negative")
	c.want(mode != CacheUnique || shared == 0, "shared_prefix_tokens is %d although prompts are unique", shared)

	policy := orZero(n.ControlledOutputPolicy)
	c.want(policy == contract.Observe || policy == contract.Strict, "controlled_output_policy is %q, want observe or strict", policy)
	c.want(policy != contract.Strict || orZero(n.ResponseWords) > 0, "controlled_output_policy is strict although no response words were asked for")
}

func (c *checker) counts() {
	n := c.n
	c.want(n.Completed == len(n.RequestTimings), "completed is %d, request_timings has %d rows", n.Completed, len(n.RequestTimings))
	c.want(n.Failed == len(n.Failures), "failed is %d, failures has %d rows", n.Failed, len(n.Failures))
	sum := n.Completed + n.Failed
	c.want(sum == n.Requests || c.partial && sum < n.Requests, "completed %d + failed %d is not requests %d", n.Completed, n.Failed, n.Requests)

	received := n.Completed
	for i := range n.Failures {
		if orZero(n.Failures[i].ResponseReceived) {
			received++
		}
	}
	c.want(n.ResponsesReceived != nil && *n.ResponsesReceived == received, "responses_received is %s, want %d: completed and failures with response_received", show(n.ResponsesReceived), received)
	eligible := !c.partial && n.Failed == 0 && n.Completed == n.Requests
	c.want(n.PerformanceEligible != nil && *n.PerformanceEligible == eligible, "performance_eligible is %s, want %t", show(n.PerformanceEligible), eligible)
}

// indexes checks the order of the rows, and that every request of the plan has
// exactly one row in one of the two lists.
func (c *checker) indexes() {
	n := c.n
	seen := make(map[int]bool, len(n.RequestTimings)+len(n.Failures))
	once := func(list string, index, previous int) {
		c.want(index >= 0 && index < n.Requests, "%s has request_index %d, want 0 to %d", list, index, n.Requests-1)
		c.want(!seen[index], "request_index %d has more than one row", index)
		c.want(index >= previous, "%s is not in request_index order at %d", list, index)
		seen[index] = true
	}
	previous := -1
	for i := range n.RequestTimings {
		once("request_timings", n.RequestTimings[i].RequestIndex, previous)
		previous = n.RequestTimings[i].RequestIndex
	}
	previous = -1
	for i := range n.Failures {
		once("failures", n.Failures[i].RequestIndex, previous)
		previous = n.Failures[i].RequestIndex
	}
	if c.partial {
		return
	}
	for index := range min(n.Requests, MaxRequests) {
		c.want(seen[index], "request_index %d has no row", index)
	}
}

// row checks one eligible request.
func (c *checker) row(row *Row) {
	i, t := row.RequestIndex, row.Timings
	ordered := t.TTFOMS != nil && t.TTFTMS != nil && t.E2EMS != nil &&
		*t.TTFOMS >= 0 && *t.TTFOMS <= *t.TTFTMS && *t.TTFTMS <= *t.E2EMS
	c.want(ordered, "request %d: want 0 <= time_to_first_output_ms <= ttft_ms <= e2e_ms, got %s, %s, %s", i, show(t.TTFOMS), show(t.TTFTMS), show(t.E2EMS))
	r := row.Record()
	c.want(equalTimings(t, timingsOf(&r)), "request %d: generation, TPOT or rates are not what its times and tokens give", i)
	c.want(row.OutputTokenSource == r.Tokens.Source(), "request %d: output_token_source is %q with output_tokens %s", i, row.OutputTokenSource, show(row.OutputTokens))
	c.want(row.PlannedContextTokens != nil, "request %d: planned_context_tokens is missing", i)
	c.want(row.ContentChunks != nil && *row.ContentChunks > 0, "request %d: content_chunks is %s, want at least 1 in a visible answer", i, show(row.ContentChunks))
	c.want(row.ReasoningChunks != nil, "request %d: reasoning_chunks is missing", i)
	c.verdicts(row)
}

// verdicts checks that an eligible request passed what the cell was strict about.
func (c *checker) verdicts(row *Row) {
	i := row.RequestIndex
	if orZero(c.n.RequestCanaries) {
		c.want(row.RequestCanary != nil && row.RequestCanary.Passed, "request %d is eligible without having passed its canary", i)
	} else {
		c.want(row.RequestCanary == nil, "request %d has request_canary although request_canaries is false; it belongs under canary_observation", i)
	}
	for _, verdict := range []*contract.CanaryVerdict{row.RequestCanary, row.CanaryObservation} {
		c.want(verdict == nil || verdict.ForeignMarkerCount == 0, "request %d is eligible with another request's marker in its answer", i)
	}
	if words := orZero(c.n.ResponseWords); words > 0 {
		c.want(row.ControlledOutput != nil && row.ControlledOutput.Passed, "request %d is eligible without a controlled_output that passed", i)
		c.want(row.ControlledOutput == nil || row.ControlledOutput.RequestedWords == words, "request %d: controlled_output asked for another number of words than %d", i, words)
	}
}

// failure checks one failed request.
func (c *checker) failure(row *FailureRow) {
	i := row.RequestIndex
	class, detail := record.Class(row.FailureClass), record.Detail(orZero(row.FailureDetail))
	known := slices.Contains([]record.Class{record.RequestError, record.StreamInvalid, record.CanaryFailed, record.WordsFailed, record.RunnerError}, class)
	c.want(known, "failure %d: failure_class is %q, which the protocol does not know", i, row.FailureClass)
	listed := slices.ContainsFunc(record.Taxonomy, func(f record.Fault) bool { return f.Detail == detail })
	c.want(detail == "" || listed, "failure %d: failure_detail is %q, which the protocol does not know", i, detail)
	c.want(row.PerformanceEligible != nil && !*row.PerformanceEligible, "failure %d: performance_eligible is %s, want false", i, show(row.PerformanceEligible))
	c.want(row.ResponseReceived != nil, "failure %d: response_received is missing", i)
	c.want(row.ElapsedMS != nil && *row.ElapsedMS >= 0, "failure %d: elapsed_ms is missing or negative", i)
	c.want(row.ErrorMessage != "", "failure %d: error_message is empty", i)
	c.want(utf8.RuneCountInString(row.ErrorMessage) <= record.MessageLimitChars, "failure %d: error_message has more than %d characters", i, record.MessageLimitChars)
	if t := row.ResponseTiming; t != nil {
		c.want(inOrder(t.TTFOMS, t.TTFTMS, t.E2EMS), "failure %d: response_timing is out of order", i)
	}
}

// inOrder says that the times that are there do not fall.
func inOrder(times ...*float64) bool {
	last := 0.0
	for _, t := range times {
		if t == nil {
			continue
		}
		if *t < last {
			return false
		}
		last = *t
	}
	return true
}

// distribution checks the planned contexts against the rows.
func (c *checker) distribution() {
	n := c.n
	planned := 0
	for key, count := range n.ContextDistribution {
		tokens, err := strconv.Atoi(key)
		c.want(err == nil && tokens > 0 && count > 0, "context_distribution has %q: %d, want positive tokens and count", key, count)
		planned += count
	}
	c.want(planned == n.Requests, "context_distribution counts %d requests, requests is %d", planned, n.Requests)
	c.want(n.ContextTokens == nil || len(n.ContextDistribution) == 1, "context_tokens is %s although the contexts are a distribution", show(n.ContextTokens))

	seen := map[string]int{}
	for _, r := range c.records {
		seen[strconv.Itoa(r.PlannedContextTokens)]++
	}
	for key, count := range seen {
		c.want(count == n.ContextDistribution[key] || c.partial && count < n.ContextDistribution[key],
			"%d rows have planned_context_tokens %s, context_distribution says %d", count, key, n.ContextDistribution[key])
	}
}

// folds checks everything that is computed from the rows by computing it again.
func (c *checker) folds() {
	n := c.n
	planned := n.Requests
	if c.partial {
		planned = 0
	}
	protocol := stats.Protocol(c.records)
	c.want(n.MeasurementProtocol == protocol, "measurement_protocol is %q, the rows are of %q", n.MeasurementProtocol, protocol)
	population := stats.Population(c.records, planned)
	if n.MetricPopulation == nil {
		c.want(false, "metric_population is missing")
	} else {
		population.FailurePolicy = n.MetricPopulation.FailurePolicy // words, not a computed value
		c.want(n.MetricPopulation.FailurePolicy != "" && reflect.DeepEqual(*n.MetricPopulation, population), "metric_population is not that of the rows")
	}
	if n.Metrics == nil {
		c.want(false, "metrics is missing")
		return
	}
	c.metrics(stats.Fold(c.records, planned, orZero(n.WallClockMS)))
}

// metrics compares the artifact's metrics with a fold of its rows, bit for bit.
func (c *checker) metrics(want stats.Metrics) {
	got := *c.n.Metrics
	for _, key := range want.Keys() {
		v, known := got.Get(key)
		w, _ := want.Get(key)
		if !known && stats.IsAdded(key) {
			continue // another implementation's metrics, or an older suite's
		}
		c.want(known && sameNumber(v, w), "metrics.%s is %s, the rows give %s", key, show(v), show(w))
	}
	c.want(reflect.DeepEqual(got.OutputTokenSources, want.OutputTokenSources), "metrics.output_token_sources is %v, the rows give %v", got.OutputTokenSources, want.OutputTokenSources)
	c.want(reflect.DeepEqual(got.ThroughputPerformanceEligible, want.ThroughputPerformanceEligible), "metrics.throughput_performance_eligible is %s, the rows give %s", show(got.ThroughputPerformanceEligible), show(want.ThroughputPerformanceEligible))
}

var hashForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (c *checker) harness() {
	h := c.n.Harness
	if h == nil {
		return
	}
	c.want(h.Complete == (h.IncompleteReason == nil), "harness.complete is %t with incomplete_reason %s", h.Complete, show(h.IncompleteReason))
	strict := h.CanaryPolicy == contract.Strict
	c.want(c.n.RequestCanaries == nil || *c.n.RequestCanaries == strict, "request_canaries is %s with harness.canary_policy %q", show(c.n.RequestCanaries), h.CanaryPolicy)
	c.want(slices.Equal(h.Leaks, LeaksOf(c.records)), "harness.cross_request_leaks has %d entries, the rows show %d", len(h.Leaks), len(LeaksOf(c.records)))
	if s := h.Scout; s != nil {
		c.want(s.Artifact != "" && hashForm.MatchString(s.SHA256) && s.Requests > 0, "harness.scout must name the scout's file, its SHA-256 and its requests")
	}
}

func equalTimings(a, b Timings) bool {
	return sameNumber(a.TTFOMS, b.TTFOMS) && sameNumber(a.TTFTMS, b.TTFTMS) &&
		sameNumber(a.GenerationMS, b.GenerationMS) && sameNumber(a.VisibleGenerationMS, b.VisibleGenerationMS) &&
		sameNumber(a.E2EMS, b.E2EMS) && sameNumber(a.TPOTMS, b.TPOTMS) &&
		sameNumber(a.MeanInterTokenLatencyMS, b.MeanInterTokenLatencyMS) &&
		sameNumber(a.MeanTimePerOutputTokenMS, b.MeanTimePerOutputTokenMS) &&
		sameNumber(a.DecodeTokS, b.DecodeTokS) && sameNumber(a.EffectivePrefillTokS, b.EffectivePrefillTokS)
}

// sameNumber compares two numbers bit for bit; nil equals nil only.
func sameNumber(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return math.Float64bits(*a) == math.Float64bits(*b)
}

// show prints a value or null.
func show[T any](p *T) string {
	if p == nil {
		return "null"
	}
	return fmt.Sprint(*p)
}
