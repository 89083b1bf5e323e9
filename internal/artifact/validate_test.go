package artifact

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/record"
)

// mixedRun has six requests: 0, 2 and 5 completed, the others failed, each in
// another way.
func mixedRun() Run {
	run := smallRun(6)
	run.fail(1, record.Failure{Class: record.RequestError, Detail: record.Connect, ErrorType: "*net.OpError", Message: "connecting: refused"}, false)
	run.fail(3, record.Failure{Class: record.WordsFailed, Message: "3 code words, want 2"}, true)
	run.fail(4, record.Failure{Class: record.StreamInvalid, Detail: record.TruncatedStream, Message: "the body ended early"}, true)
	return run
}

func violationsOf(t *testing.T, n *Native) []string {
	t.Helper()
	err := n.Validate()
	if err == nil {
		return nil
	}
	invalid := (*InvalidError)(nil)
	require.ErrorAs(t, err, &invalid)
	return invalid.Violations
}

func TestValidateAcceptsWhatBuildMakes(t *testing.T) {
	t.Parallel()
	observe := smallRun(3)
	observe.CanaryPolicy, observe.ControlledOutputPolicy = contract.Observe, contract.Observe
	for i := range observe.Records {
		observe.Records[i].CanaryObserved = true
		observe.Records[i].Words = &contract.WordsVerdict{Policy: contract.Observe, RequestedWords: 2, Passed: true}
	}
	off := smallRun(3)
	off.CanaryPolicy, off.ControlledOutputPolicy, off.ResponseWords = contract.Off, contract.Observe, 0
	off.PromptCacheMode, off.SharedPrefixTokens = CacheShared, 1000
	off.ConfigurationFingerprint = "sha256:" + strings.Repeat("0f", 32)
	for i := range off.Records {
		off.Records[i].Canary, off.Records[i].Words, off.Records[i].Tokens = nil, nil, record.Tokens{}
	}
	short := smallRun(6)
	short.Records = short.Records[:4]
	nothing := smallRun(6)
	nothing.Records, nothing.WallMS = nil, 0
	cut := smallRun(4)
	cut.IncompleteReason = "interrupted"
	for name, run := range map[string]Run{
		"complete": smallRun(6), "with failures": mixedRun(), "observed": observe, "off, shared, without usage": off,
		"two requests never started": short, "nothing started": nothing, "interrupted, all there": cut,
		"the real cell": realFinal(t), "its scout": realScout(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := Build(run)
			assert.Empty(t, violationsOf(t, &n))
			data, err := encode(n)
			require.NoError(t, err)
			back, err := decodeNative(data)
			require.NoError(t, err)
			assert.Empty(t, violationsOf(t, &back), "still valid after the file")
			assert.Equal(t, through(t, n), back)
		})
	}
}

// Each row breaks a valid artifact in one place; the violation must be found
// and, where the row says only, be the only one.
func TestValidateFindsEachViolation(t *testing.T) {
	t.Parallel()
	ms := func(v float64) *float64 { return &v }
	tests := []struct {
		name   string
		why    string
		change func(*Native)
		want   string
	}{
		{"schema", "another kind of file", func(n *Native) { n.Schema = "x" }, `schema is "x"`},
		{"userinfo", "a secret in a URL", func(n *Native) { n.BaseURL = "http://u:p@h/v1" }, "base_url carries"},
		{"query", "a secret in a query", func(n *Native) { n.BaseURL = "http://h/v1?k=1" }, "base_url carries"},
		{"fragment", "nor a fragment", func(n *Native) { n.BaseURL = "http://h/v1#k" }, "base_url carries"},
		{"model", "which model was it", func(n *Native) { n.Model = "" }, "model is empty"},
		{"fingerprint", "63 digits", func(n *Native) { n.ConfigurationFingerprint = new("sha256:" + strings.Repeat("a", 63)) }, "configuration_fingerprint is"},
		{"fingerprint case", "upper case is another form", func(n *Native) { n.ConfigurationFingerprint = new("sha256:" + strings.Repeat("A", 64)) }, "configuration_fingerprint is"},
		{"precision", "a key of the protocol", func(n *Native) { n.TimestampPrecision = nil }, "timestamp_precision is missing"},
		{"sampling", "a key of the protocol", func(n *Native) { n.Sampling = nil }, "sampling is missing"},
		{"serve flags", "a key of the protocol", func(n *Native) { n.ServeFlags = nil }, "serve_flags is missing"},
		{"methodology", "one of the summary's keys", func(n *Native) { delete(n.TimingMethodology, "tpot") }, `timing_methodology lacks "tpot"`},

		{"no times", "older artifacts had none", func(n *Native) { n.FinishedAtUnixNS = nil }, "must all be there"},
		{"start second", "not the floor", func(n *Native) { n.StartedAt = new("2026-09-22T01:39:51Z") }, "started_at is 2026-09-22T01:39:51Z, want 2026-09-22T01:39:50Z"},
		{"finish second", "not the floor", func(n *Native) { n.FinishedAt = new("2026-09-22T01:39:50Z") }, "finished_at is"},
		{"run id", "of another start", func(n *Native) { n.RunID = "benchmark-20260922T013951Z" }, "run_id is"},
		{"wall 0", "something completed in no time", func(n *Native) { n.WallClockMS = ms(0) }, "wall_clock_ms is 0, want more than 0"},
		{"wall short", "shorter than its requests", func(n *Native) { n.WallClockMS = ms(2000) }, "requests span 2400 ms"},
		{"wall and stamps", "6 ms apart", func(n *Native) { *n.FinishedAtUnixNS += 6e6 }, "finished_at_unix_ns - started_at_unix_ns is 2406 ms"},

		{"requests 0", "below the range", func(n *Native) { n.Requests = 0 }, "requests is 0, want 1 to 10000"},
		{"requests 10001", "above the range", func(n *Native) { n.Requests = 10001 }, "requests is 10001"},
		{"concurrency 0", "below the range", func(n *Native) { n.Concurrency = 0 }, "concurrency is 0, want 1 to 4096"},
		{"concurrency 4097", "above the range", func(n *Native) { n.Concurrency = 4097 }, "concurrency is 4097"},
		{"max tokens", "nothing could be said", func(n *Native) { n.MaxTokens = 0 }, "max_tokens is 0"},
		{"seed", "a key of the protocol", func(n *Native) { n.ContextSeed = nil }, "context_seed is missing"},
		{"words", "a key of the protocol", func(n *Native) { n.ResponseWords = nil }, "response_words is missing"},
		{"canaries", "a key of the protocol", func(n *Native) { n.RequestCanaries = nil }, "request_canaries is missing"},
		{"cache mode", "neither of the two", func(n *Native) { n.PromptCacheMode = new("warm") }, "prompt_cache_mode is"},
		{"no prefix", "a key of the protocol", func(n *Native) { n.SharedPrefixTokens = nil }, "shared_prefix_tokens is missing"},
		{"prefix", "unique prompts share nothing", func(n *Native) { n.SharedPrefixTokens = new(64) }, "shared_prefix_tokens is 64 although prompts are unique"},
		{"policy", "off is no policy of words", func(n *Native) { n.ControlledOutputPolicy = new(contract.Off) }, "controlled_output_policy is"},
		{"strict", "strict needs words", func(n *Native) { n.ResponseWords = new(0) }, "strict although no response words"},

		{"completed", "one more than rows", func(n *Native) { n.Completed++ }, "completed is 4, request_timings has 3"},
		{"failed", "one more than rows", func(n *Native) { n.Failed++ }, "failed is 4, failures has 3"},
		{"sum", "one request has no end", func(n *Native) { n.Requests = 5 }, "completed 3 + failed 3 is not requests 5"},
		{"received", "a wrong answer is an answer", func(n *Native) { n.ResponsesReceived = new(3) }, "responses_received is 3, want 5"},
		{"received null", "a key of the protocol", func(n *Native) { n.ResponsesReceived = nil }, "responses_received is null"},
		{"eligible", "three failed", func(n *Native) { n.PerformanceEligible = new(true) }, "performance_eligible is true, want false"},

		{"index range", "beyond the plan", func(n *Native) { n.RequestTimings[2].RequestIndex = 6 }, "request_index 6, want 0 to 5"},
		{"index negative", "before the plan", func(n *Native) { n.RequestTimings[0].RequestIndex = -1 }, "request_index -1, want 0 to 5"},
		{"index twice", "one request, two rows", func(n *Native) { n.RequestTimings[1].RequestIndex = 1 }, "request_index 1 has more than one row"},
		{"index missing", "request 2 has no row", func(n *Native) { n.RequestTimings[1].RequestIndex = 1 }, "request_index 2 has no row"},
		{"row order", "rows are in index order", func(n *Native) {
			n.RequestTimings[0], n.RequestTimings[1] = n.RequestTimings[1], n.RequestTimings[0]
		}, "request_timings is not in request_index order at 0"},
		{"failure order", "failures too", func(n *Native) { n.Failures[0], n.Failures[1] = n.Failures[1], n.Failures[0] }, "failures is not in request_index order at 1"},

		{"TTFO after TTFT", "visible text is output", func(n *Native) { n.RequestTimings[0].TTFOMS = ms(201) }, "request 0: want 0 <= time_to_first_output_ms"},
		{"TTFT after E2E", "the end comes last", func(n *Native) { n.RequestTimings[0].TTFTMS = ms(401) }, "request 0: want 0 <= time_to_first_output_ms"},
		{"TTFO negative", "before it was asked", func(n *Native) { n.RequestTimings[0].TTFOMS = ms(-1) }, "request 0: want 0 <= time_to_first_output_ms"},
		{"TTFT null", "an eligible answer is visible", func(n *Native) { n.RequestTimings[0].TTFTMS = nil }, "request 0: want 0 <="},
		{"TTFT NaN", "no order with NaN", func(n *Native) { n.RequestTimings[0].TTFTMS = ms(math.NaN()) }, "request 0: want 0 <="},
		{"generation", "not E2E - TTFO", func(n *Native) { n.RequestTimings[0].GenerationMS = ms(299) }, "request 0: generation, TPOT or rates"},
		{"visible generation", "not E2E - TTFT", func(n *Native) { n.RequestTimings[0].VisibleGenerationMS = ms(199) }, "request 0: generation, TPOT or rates"},
		{"TPOT", "not generation / 30", func(n *Native) { n.RequestTimings[0].TPOTMS = ms(9) }, "request 0: generation, TPOT or rates"},
		{"legacy TPOT", "a legacy name with another value", func(n *Native) { n.RequestTimings[0].MeanInterTokenLatencyMS = nil }, "request 0: generation, TPOT or rates"},
		{"second legacy TPOT", "likewise", func(n *Native) { n.RequestTimings[0].MeanTimePerOutputTokenMS = nil }, "request 0: generation, TPOT or rates"},
		{"decode", "not 30 / 0.3 s", func(n *Native) { n.RequestTimings[0].DecodeTokS = ms(1) }, "request 0: generation, TPOT or rates"},
		{"prefill", "not 25000 / 0.1 s", func(n *Native) { n.RequestTimings[0].EffectivePrefillTokS = ms(1) }, "request 0: generation, TPOT or rates"},
		{"source", "usage without tokens", func(n *Native) { n.RequestTimings[0].OutputTokens = nil }, "request 0: output_token_source"},
		{"chunk tokens", "chunks are no tokens", func(n *Native) { n.RequestTimings[0].OutputTokenSource = record.SourceContentChunks }, "request 0: generation, TPOT or rates"},
		{"planned", "its size is not known", func(n *Native) { n.RequestTimings[0].PlannedContextTokens = nil }, "request 0: planned_context_tokens is missing"},
		{"no chunks", "an eligible answer has text", func(n *Native) { n.RequestTimings[0].ContentChunks = new(0) }, "request 0: content_chunks is 0"},
		{"reasoning chunks", "a key of a row", func(n *Native) { n.RequestTimings[0].ReasoningChunks = nil }, "request 0: reasoning_chunks is missing"},
		{"canary failed", "a failed one is eligible", func(n *Native) { n.RequestTimings[0].RequestCanary.Passed = false }, "request 0 is eligible without having passed its canary"},
		{"canary missing", "nobody looked", func(n *Native) { n.RequestTimings[0].RequestCanary = nil }, "request 0 is eligible without having passed its canary"},
		{"canary uncalled", "the artifact says none were asked", func(n *Native) { n.RequestCanaries = new(false) }, "belongs under canary_observation"},
		{"foreign marker", "another's answer", func(n *Native) { n.RequestTimings[0].RequestCanary.ForeignMarkerCount = 1 }, "request 0 is eligible with another request's marker"},
		{"words failed", "a wrong one is eligible", func(n *Native) { n.RequestTimings[0].ControlledOutput.Passed = false }, "request 0 is eligible without a controlled_output"},
		{"words missing", "nobody counted", func(n *Native) { n.RequestTimings[0].ControlledOutput = nil }, "request 0 is eligible without a controlled_output"},
		{"words of another cell", "3 are not 2", func(n *Native) { n.RequestTimings[0].ControlledOutput.RequestedWords = 3 }, "asked for another number of words than 2"},

		{"class", "not in the protocol", func(n *Native) { n.Failures[0].FailureClass = "bad_luck" }, `failure 1: failure_class is "bad_luck"`},
		{"no class", "not in the protocol", func(n *Native) { n.Failures[0].FailureClass = "" }, `failure 1: failure_class is ""`},
		{"detail", "not in the protocol", func(n *Native) { n.Failures[0].FailureDetail = new("gremlins") }, `failure 1: failure_detail is "gremlins"`},
		{"eligible failure", "a failure is in no distribution", func(n *Native) { n.Failures[0].PerformanceEligible = new(true) }, "failure 1: performance_eligible is true, want false"},
		{"no received", "a key of a failure", func(n *Native) { n.Failures[0].ResponseReceived = nil }, "failure 1: response_received is missing"},
		{"elapsed", "a key of a failure", func(n *Native) { n.Failures[0].ElapsedMS = nil }, "failure 1: elapsed_ms is missing"},
		{"elapsed negative", "no time runs backwards", func(n *Native) { n.Failures[0].ElapsedMS = ms(-1) }, "failure 1: elapsed_ms is missing or negative"},
		{"message", "an operator needs one", func(n *Native) { n.Failures[0].ErrorMessage = "" }, "failure 1: error_message is empty"},
		{"long message", "one character too many", func(n *Native) { n.Failures[0].ErrorMessage = strings.Repeat("é", 2049) }, "failure 1: error_message has more than 2048 characters"},
		{"failure timing", "out of order", func(n *Native) { n.Failures[1].ResponseTiming.TTFTMS = ms(500) }, "failure 3: response_timing is out of order"},

		{"distribution key", "no number", func(n *Native) { n.ContextDistribution["big"] = 1 }, `context_distribution has "big": 1`},
		{"distribution count", "none of them", func(n *Native) { n.ContextDistribution["64"] = 0 }, `context_distribution has "64": 0`},
		{"distribution sum", "one too many", func(n *Native) { n.ContextDistribution["32768"] = 7 }, "context_distribution counts 7 requests, requests is 6"},
		{"context of a distribution", "null for a distribution", func(n *Native) { n.ContextDistribution = map[string]int{"32768": 5, "64": 1} }, "context_tokens is 32768 although"},
		{"rows of another size", "the plan said otherwise", func(n *Native) { n.RequestTimings[0].PlannedContextTokens = new(64) }, "1 rows have planned_context_tokens 64, context_distribution says 0"},

		{"protocol", "the rows have reasoning", func(n *Native) { n.MeasurementProtocol = "capacity-v3" }, `measurement_protocol is "capacity-v3"`},
		{"no population", "a key of the protocol", func(n *Native) { n.MetricPopulation = nil }, "metric_population is missing"},
		{"population", "another number", func(n *Native) { n.MetricPopulation.ExcludedRequests = 0 }, "metric_population is not that of the rows"},
		{"failure policy", "words that must be there", func(n *Native) { n.MetricPopulation.FailurePolicy = "" }, "metric_population is not that of the rows"},
		{"no metrics", "the point of it all", func(n *Native) { n.Metrics = nil }, "metrics is missing"},
		{"metric", "the last bit", changeMetrics(func(m map[string]any) { m["ttft_p50_ms"] = math.Nextafter(200, 300) }), "metrics.ttft_p50_ms is 200.00000000000003, the rows give 200"},
		{"metric dropped", "a key of the protocol", changeMetrics(func(m map[string]any) { delete(m, "tpot_mean_ms") }), "metrics.tpot_mean_ms is null, the rows give 10"},
		{"metric made up", "a failed run has none", changeMetrics(func(m map[string]any) { m["throughput_tok_s"] = 12.5 }), "metrics.throughput_tok_s is 12.5, the rows give null"},
		{"sources", "all three were from usage", changeMetrics(func(m map[string]any) { m["output_token_sources"] = map[string]int{"usage": 2} }), "metrics.output_token_sources is map[usage:2]"},
		{"throughput eligible", "three failed", changeMetrics(func(m map[string]any) { m["throughput_performance_eligible"] = true }), "metrics.throughput_performance_eligible is true, the rows give false"},

		{"complete with a reason", "one of the two is wrong", func(n *Native) { n.Harness.IncompleteReason = new("killed") }, "harness.complete is true with incomplete_reason killed"},
		{"canary policy", "observe fails nothing", func(n *Native) { n.Harness.CanaryPolicy = contract.Observe }, `request_canaries is true with harness.canary_policy "observe"`},
		{"leaks", "one that the rows do not show", func(n *Native) { n.Harness.Leaks = []Leak{{RequestIndex: 0, FromRequestIndex: 1}} }, "harness.cross_request_leaks has 1 entries, the rows show 0"},
		{"scout", "a link without a hash", func(n *Native) { n.Harness.Scout = &Scout{Artifact: "s.json", SHA256: "abc", Requests: 8} }, "harness.scout must name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := through(t, Build(mixedRun())) // a deep copy
			require.Empty(t, violationsOf(t, &n), "valid before the change")
			tt.change(&n)
			found := violationsOf(t, &n)
			assert.Contains(t, strings.Join(found, "\n"), tt.want, tt.why)
		})
	}
}

// changeMetrics rewrites the metrics through their JSON, as a hand would.
func changeMetrics(change func(map[string]any)) func(*Native) {
	return func(n *Native) {
		data, err := json.Marshal(n.Metrics)
		if err != nil {
			panic(err)
		}
		var object map[string]any
		if err := json.Unmarshal(data, &object); err != nil {
			panic(err)
		}
		change(object)
		if data, err = json.Marshal(object); err != nil {
			panic(err)
		}
		if err := json.Unmarshal(data, n.Metrics); err != nil {
			panic(err)
		}
	}
}

// The wall may differ from the stamps by the larger of 5 ms and 0.01 %.
func TestWallTolerance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		requests int // 400 ms each
		offNS    int64
		valid    bool
	}{
		{"short run, 5 ms late", 6, 5e6, true},
		{"short run, 5 ms and 1 us late", 6, 5_001_000, false},
		{"short run, 5 ms early", 6, -5e6, true},
		{"short run, 5 ms and 1 us early", 6, -5_001_000, false},
		{"400 s, 40 ms late: 0.01 %", 1000, 40e6, true},
		{"400 s, 40.001 ms late", 1000, 40_001_000, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := smallRun(tt.requests)
			run.StartedAt = run.StartedAt.Truncate(1e9).Add(1e8) // no whole second nearby
			n := Build(run)
			*n.FinishedAtUnixNS += tt.offNS
			assert.Equal(t, tt.valid, len(violationsOf(t, &n)) == 0, violationsOf(t, &n))
		})
	}
}

// All violations come at once, and a flood of them does not flood a terminal.
func TestInvalidErrorTellsAll(t *testing.T) {
	t.Parallel()
	n := Build(smallRun(100))
	n.Model = ""
	for i := range n.RequestTimings {
		n.RequestTimings[i].ReasoningChunks = nil
	}
	found := violationsOf(t, &n)
	assert.GreaterOrEqual(t, len(found), 101)
	text := n.Validate().Error()
	assert.Contains(t, text, "model is empty")
	assert.Contains(t, text, "more")
	assert.Equal(t, maxShownViolations+2, len(strings.Split(text, "\n")))
}

// MarkPartial makes evidence out of anything, and eligible out of nothing.
func TestMarkPartial(t *testing.T) {
	t.Parallel()
	n := Build(smallRun(4))
	throughput, _ := n.Metrics.Get("throughput_tok_s")
	require.NotNil(t, throughput, "there is something to withhold")
	n.MarkPartial("interrupted by SIGINT")
	reason, partial := n.Partial()
	assert.True(t, partial)
	assert.Equal(t, "interrupted by SIGINT", reason)
	throughput, known := n.Metrics.Get("throughput_tok_s")
	assert.True(t, known && throughput == nil, "a reader that ignores harness must not find a throughput")
	assert.False(t, *n.PerformanceEligible)
	assert.False(t, n.MetricPopulation.AggregateThroughputEligible)
	assert.False(t, n.Eligible())
	ttft, _ := n.Metrics.Get("ttft_samples")
	assert.Equal(t, 4.0, *ttft, "distributions of what there is stay")
	assert.Empty(t, violationsOf(t, &n))

	n.MarkPartial("")
	reason, _ = n.Partial()
	assert.NotEmpty(t, reason)
}

// An artifact without rows, too, is not eligible once it is marked.
func TestMarkPartialWithoutRows(t *testing.T) {
	t.Parallel()
	n, err := ReadNative(realArtifacts + "/fp8-text-capacity-8k-c16.json")
	require.NoError(t, err)
	n.MarkPartial("half of it was lost")
	assert.False(t, *n.PerformanceEligible)
	p50, _ := n.Metrics.Get("ttft_p50_ms")
	assert.NotNil(t, p50, "metrics without rows are all that there is, and stay")
}

func TestEligible(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, why string
		change    func(*Native)
		want      bool
	}{
		{"complete", "all completed, none failed", func(*Native) {}, true},
		{"key missing", "older artifacts lack it: the definition decides", func(n *Native) { n.PerformanceEligible = nil }, true},
		{"key says no", "its writer knew why", func(n *Native) { n.PerformanceEligible = new(false) }, false},
		{"key says yes, a failure", "the counts decide", func(n *Native) { n.Failed, n.Completed = 1, 3 }, false},
		{"short", "the counts decide", func(n *Native) { n.Completed = 3 }, false},
		{"nothing planned", "0 of 0 is not success", func(n *Native) { n.Requests, n.Completed = 0, 0 }, false},
		{"partial", "the harness decides", func(n *Native) { n.Harness.Complete = false }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := Build(smallRun(4))
			tt.change(&n)
			assert.Equal(t, tt.want, n.Eligible(), tt.why)
		})
	}
}
