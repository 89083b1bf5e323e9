package artifact

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/record"
)

// populate sets every field of a value, at every depth, to something that is
// not its zero: a field that a conversion forgets cannot come back by luck.
func populate(v reflect.Value, next *int) {
	*next++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		populate(v.Elem(), next)
	case reflect.Struct:
		for i := range v.NumField() {
			populate(v.Field(i), next)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		populate(v.Index(0), next)
		populate(v.Index(1), next)
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", *next))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*next) + 0.1)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*next))
	case reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(*next))
	default:
		panic("populate does not know " + v.Kind().String())
	}
}

func fullRecord() record.Record {
	var r record.Record
	populate(reflect.ValueOf(&r).Elem(), new(0))
	r.ElapsedMS = *r.Timing.E2EMS // record's own rule for completed requests
	return r
}

// through sends a row through JSON, as a file does.
func through[T any](t *testing.T, row T) T {
	t.Helper()
	data, err := json.Marshal(row)
	require.NoError(t, err)
	var back T
	require.NoError(t, json.Unmarshal(data, &back))
	return back
}

func TestRecordsSurviveTheArtifact(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, why string
		change    func(*record.Record)
	}{
		{"completed, everything set", "no field of a record may be lost", func(r *record.Record) { r.Failure = nil; r.CanaryObserved = false }},
		{"completed, canary observed", "the verdict moves to another key and back", func(r *record.Record) { r.Failure = nil; r.CanaryObserved = true }},
		{"failed, everything set", "a failed request keeps its timing and metadata", func(r *record.Record) { r.CanaryObserved = false }},
		{"failed, canary observed", "a foreign marker under observe", func(*record.Record) {}},
		{"failed, nothing arrived", "nil stays nil and is no zero", func(r *record.Record) {
			*r = record.Record{RequestIndex: 3, PlannedContextTokens: 64, StartMS: 1, ElapsedMS: 2,
				Failure: &record.Failure{Class: record.RequestError, Detail: record.Connect, ErrorType: "*net.OpError", Message: "refused"}}
		}},
		{"failed, only a status", "the header is the answer of a 503", func(r *record.Record) {
			*r = record.Record{Failure: &record.Failure{Class: record.RequestError, Detail: record.HTTPStatus, Message: "503"}, Response: record.Response{HTTPStatus: 503}}
		}},
		{"completed, no usage", "output tokens are null and never chunks", func(r *record.Record) {
			r.Failure, r.CanaryObserved, r.Tokens = nil, false, record.Tokens{}
		}},
		{"completed, no words and no canary", "nil verdicts stay nil", func(r *record.Record) {
			r.Failure, r.CanaryObserved, r.Canary, r.Words = nil, false, nil, nil
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := fullRecord()
			tt.change(&r)
			var back record.Record
			if r.Completed() {
				row := through(t, rowOf(&r))
				back = row.Record()
			} else {
				row := through(t, failureRowOf(&r))
				back = row.Record()
			}
			assert.Equal(t, r, back, tt.why)
		})
	}
}

// The limit of the message holds whatever a caller puts into a record.
func TestFailureMessageLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		chars int
		kept  int
		cut   bool
	}{
		{"one below", record.MessageLimitChars - 1, record.MessageLimitChars - 1, false},
		{"at the limit", record.MessageLimitChars, record.MessageLimitChars, false},
		{"one above", record.MessageLimitChars + 1, record.MessageLimitChars, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := record.Record{Failure: &record.Failure{Message: strings.Repeat("é", tt.chars)}}
			row := failureRowOf(&r)
			assert.Equal(t, tt.kept, len([]rune(row.ErrorMessage)), "counted in characters, not bytes")
			assert.Equal(t, tt.cut, row.ErrorMessageTruncated)
		})
	}
}

// A row without time_to_first_output gets one only where its own generation
// shows that TTFT stood in for it.
func TestOldRowsFirstOutput(t *testing.T) {
	t.Parallel()
	ms := func(v float64) *float64 { return &v }
	tests := []struct {
		name, why string
		row       Timings
		want      *float64
	}{
		{"generation is E2E - TTFT", "the old methodology: first output was first visible", Timings{TTFTMS: ms(100), E2EMS: ms(400), GenerationMS: ms(300)}, ms(100)},
		{"off by rounding", "two ways to subtract", Timings{TTFTMS: ms(100), E2EMS: ms(400), GenerationMS: ms(300 + 1e-7)}, ms(100)},
		{"longer generation", "there was an earlier output that the row does not time", Timings{TTFTMS: ms(100), E2EMS: ms(400), GenerationMS: ms(350)}, nil},
		{"no generation", "nothing says what it was", Timings{TTFTMS: ms(100), E2EMS: ms(400)}, nil},
		{"its own value", "is never replaced", Timings{TTFOMS: ms(50), TTFTMS: ms(100), E2EMS: ms(400), GenerationMS: ms(300)}, ms(50)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			row := Row{Timings: tt.row}
			r := row.Record()
			assert.Equal(t, tt.want, r.Timing.TTFOMS, tt.why)
		})
	}
}

// Counts of chunks never become tokens on the way back.
func TestChunkCountsAreNoTokens(t *testing.T) {
	t.Parallel()
	row := Row{OutputTokens: new(25), OutputTokenSource: record.SourceContentChunks}
	r := row.Record()
	assert.Nil(t, r.Tokens.Output)
	row.OutputTokenSource = record.SourceUsage
	r = row.Record()
	assert.Equal(t, 25, *r.Tokens.Output)
}

// Build leaves the caller's records as they are and puts its rows in order.
func TestBuildSortsWithoutTouching(t *testing.T) {
	t.Parallel()
	run := smallRun(4)
	run.Records[0], run.Records[3] = run.Records[3], run.Records[0]
	run.fail(1, record.Failure{Class: record.RequestError, Detail: record.Connect, Message: "refused"}, false)
	n := Build(run)
	assert.Equal(t, 3, run.Records[0].RequestIndex, "the caller's order is the caller's")
	indexes := []int{}
	for _, row := range n.RequestTimings {
		indexes = append(indexes, row.RequestIndex)
	}
	assert.Equal(t, []int{0, 2, 3}, indexes)
	assert.Equal(t, 1, n.Failures[0].RequestIndex)
	assert.Equal(t, 3, *n.ResponsesReceived)
	assert.NoError(t, n.Validate())
}

func TestBuildCountsResponses(t *testing.T) {
	t.Parallel()
	run := smallRun(4)
	run.fail(0, record.Failure{Class: record.RequestError, Detail: record.Connect, Message: "refused"}, false)
	run.fail(1, record.Failure{Class: record.WordsFailed, Message: "3 words, want 2"}, true)
	n := Build(run)
	assert.Equal(t, []int{2, 2, 3}, []int{n.Completed, n.Failed, *n.ResponsesReceived}, "the wrong answer was an answer, the refused connection was none")
	throughput, known := n.Metrics.Get("throughput_tok_s")
	assert.True(t, known && throughput == nil, "a run with a failure has no throughput")
	assert.False(t, *n.PerformanceEligible)
	assert.NotNil(t, n.Failures[1].ResponseTiming)
	assert.Nil(t, n.Failures[0].ResponseTiming)
	assert.Nil(t, n.Failures[0].ResponseMetadata)
	assert.NoError(t, n.Validate())
}

func TestSafeBaseURL(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, raw, want, why string }{
		{"plain", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1", "nothing to drop"},
		{"userinfo", "https://user:sekrit@host/v1", "https://host/v1", "a password in a URL is a secret"},
		{"user only", "https://sekrit@host/v1", "https://host/v1", "a token is often given as the user"},
		{"query", "https://host/v1?api_key=sekrit", "https://host/v1", "keys are given in queries"},
		{"fragment", "https://host/v1#sekrit", "https://host/v1", "nor is a fragment any use"},
		{"escaped path", "https://host/a%2Fb", "https://host/a%2Fb", "the path is kept as it was"},
		{"no scheme", "user:sekrit@host/v1", refusedBaseURL, "it parses as scheme user: nothing of it is safe"},
		{"other scheme", "ftp://user:sekrit@host", refusedBaseURL, "not an endpoint"},
		{"broken", "http://user:sekrit@ho st/", refusedBaseURL, "what cannot be parsed cannot be cleaned"},
		{"empty", "", refusedBaseURL, "a caller's mistake is visible"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := SafeBaseURL(tt.raw)
			assert.Equal(t, tt.want, got, tt.why)
			assert.NotContains(t, got, "sekrit")
		})
	}
}

// protocolKeys are the top-level keys of PROTOCOL section 5, in its order.
var protocolKeys = strings.Fields(`schema measurement_protocol run_id started_at finished_at started_at_unix_ns
	finished_at_unix_ns timestamp_precision clock_domain_id configuration_fingerprint wall_clock_ms base_url model engine gpu
	tier manifest source_recipe requests completed responses_received failed failures concurrency context_tokens context_seed
	context_distribution max_context_tokens max_tokens response_words prompt_cache_mode shared_prefix_tokens request_canaries
	controlled_output_policy performance_eligible metric_population sampling serve_flags timing_methodology request_timings metrics`)

func TestNativeHasEveryProtocolKeyInOrder(t *testing.T) {
	t.Parallel()
	data, err := encode(Build(smallRun(2)))
	require.NoError(t, err)
	var top []string
	extras := 0
	for _, key := range keyOrder(t, data) {
		switch {
		case key == "harness":
			extras++
		case !strings.Contains(key, "."):
			top = append(top, key)
		}
	}
	assert.Equal(t, 1, extras, "everything of this suite stands under one key")
	require.Len(t, protocolKeys, 41)
	assert.ElementsMatch(t, protocolKeys, top)
	for _, want := range []string{"sampling.requested.temperature", "sampling.effective.top_p", "serve_flags.no_thinking", "serve_flags.thinking_mode",
		"harness.suite.cpus", "harness.complete", "harness.incomplete_reason", "harness.scout", "harness.self_check", "harness.endpoint.embedded",
		"harness.canary_policy", "harness.usage_policy", "harness.notes", "metrics.throughput_tok_s", "metric_population.failure_policy",
		"request_timings.mean_time_per_output_token_ms", "request_timings.request_canary.marker"} {
		assert.Contains(t, keyOrder(t, data), want)
	}
}

// A leak names both requests, and stands in the artifact beside the failure.
func TestLeaks(t *testing.T) {
	t.Parallel()
	run := smallRun(4)
	leak := func(index int, own int, from ...int) {
		run.Records[index].Canary = &contract.CanaryVerdict{ForeignMarkerCount: len(from), LeakedFrom: from, ObservedMarkerCount: own}
		run.fail(index, record.Failure{Class: record.CanaryFailed, Message: "another request's marker"}, true)
	}
	leak(0, 0, 1)
	leak(2, 1, 0, 3)
	n := Build(run)
	want := []Leak{{0, 1, false}, {2, 0, true}, {2, 3, true}}
	assert.Equal(t, want, n.Harness.Leaks)
	assert.NoError(t, n.Validate())
	assert.Equal(t, "the answer to request 0 carries the marker of request 1 and not its own", want[0].String())
	assert.Equal(t, "the answer to request 2 carries the marker of request 3 beside its own", want[2].String())
	assert.Equal(t, []Leak{}, Build(smallRun(2)).Harness.Leaks, "none is an empty list and not null")
}

// A prefix length that a cell of unique prompts carries along shares nothing.
func TestUniquePromptsShareNoPrefix(t *testing.T) {
	t.Parallel()
	run := smallRun(2)
	run.SharedPrefixTokens = 512
	n := Build(run)
	assert.Equal(t, 0, *n.SharedPrefixTokens)
	assert.NoError(t, n.Validate())
	run.PromptCacheMode = CacheShared
	assert.Equal(t, 512, *Build(run).SharedPrefixTokens)
}

// What is not given is null, and what is given is kept.
func TestBuildOptionalFacts(t *testing.T) {
	t.Parallel()
	bare := Build(smallRun(1))
	for name, isNil := range map[string]bool{
		"gpu": bare.GPU == nil, "tier": bare.Tier == nil, "manifest": bare.Manifest == nil, "source_recipe": bare.SourceRecipe == nil,
		"clock_domain_id": bare.ClockDomainID == nil, "configuration_fingerprint": bare.ConfigurationFingerprint == nil,
	} {
		assert.True(t, isNil, name)
	}
	run := smallRun(2)
	run.GPU, run.Tier, run.Manifest, run.SourceRecipe, run.ClockDomainID = "g", "t", "m", "s", "c"
	run.ContextTokens, run.ContextDistribution = 0, map[int]int{32768: 1, 8192: 1}
	run.Records[1].PlannedContextTokens = 8192
	run.CanaryPolicy = contract.Observe
	for i := range run.Records {
		run.Records[i].CanaryObserved = true
	}
	n := Build(run)
	assert.Equal(t, []string{"g", "t", "m", "s", "c"}, []string{*n.GPU, *n.Tier, *n.Manifest, *n.SourceRecipe, *n.ClockDomainID})
	assert.Nil(t, n.ContextTokens, "null for a distribution")
	assert.Equal(t, map[string]int{"32768": 1, "8192": 1}, n.ContextDistribution, "keys are strings")
	assert.False(t, *n.RequestCanaries, "observe fails no request, so the artifact may not claim canaries")
	assert.Equal(t, contract.Observe, n.Harness.CanaryPolicy)
	assert.NotNil(t, n.RequestTimings[0].CanaryObservation)
	assert.NoError(t, n.Validate())
}

// Sampling of another shape is not a broken artifact.
func TestSamplingTakesAnyShape(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"strings":     `{"requested":"default","sent":null,"effective":"server"}`,
		"wrong types": `{"requested":{"temperature":"hot","top_p":[1]},"sent":{},"effective":{"temperature":null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s Sampling
			require.NoError(t, json.Unmarshal([]byte(text), &s))
			assert.Equal(t, Sampling{}, s)
		})
	}
	var s Sampling
	require.NoError(t, json.Unmarshal([]byte(`{"requested":{"temperature":0,"top_p":0.9}}`), &s))
	assert.Equal(t, 0.0, *s.Requested.Temperature)
	assert.Equal(t, 0.9, *s.Requested.TopP)
}
