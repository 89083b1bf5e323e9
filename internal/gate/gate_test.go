package gate

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/config"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/stats"
)

func metricsOf(t testing.TB, text string) stats.Metrics {
	t.Helper()
	var m stats.Metrics
	require.NoError(t, json.Unmarshal([]byte(text), &m))
	return m
}

// realMetrics are the published metrics of the real cell.
const realMetrics = `{
	"ttft_p50_ms": 21977.72536193952, "ttft_samples": 100, "ttft_p99_ms": 33826.24505599961,
	"throughput_tok_s": 21.765362347922913, "tpot_mean_ms": 132.38756074134355,
	"mean_inter_token_latency_ms_p50": 138.94374930380803,
	"prompt_tokens": 2530110, "completion_tokens_p50": 122, "content_chunks": 2500, "content_chunks_s": 1.5,
	"request_canary_passed": 100, "prefix_cache_hit_avg": 0.03715889297656392}`

func threshold(metric, op string, limit float64) config.Threshold {
	return config.Threshold{Metric: metric, Op: op, Limit: limit}
}

func TestEvaluate(t *testing.T) {
	tests := []struct {
		name      string
		threshold config.Threshold
		status    Status
		message   string
		why       string
	}{
		{"over", threshold("ttft_p50_ms", "<=", 20000), Fail,
			"ttft_p50_ms = 21977.7 ms, limit <= 20000 ms: over by 1977.7 ms (9.9 %)", "1977.7 / 20000"},
		{"within", threshold("ttft_p50_ms", "<=", 22500), Pass,
			"ttft_p50_ms = 21977.7 ms, limit <= 22500 ms: under by 522.3 ms (2.3 %)", "522.3 / 22500"},
		{"rate met", threshold("throughput_tok_s", ">=", 21), Pass,
			"throughput_tok_s = 21.7654 tok/s, limit >= 21 tok/s: over by 0.7654 tok/s (3.6 %)", "more is better"},
		{"rate missed", threshold("throughput_tok_s", ">", 22), Fail,
			"throughput_tok_s = 21.7654 tok/s, limit > 22 tok/s: under by 0.2346 tok/s (1.1 %)", "0.2346 / 22"},
		{"equal, at most", threshold("completion_tokens_p50", "<=", 122), Pass,
			"completion_tokens_p50 = 122 tokens, limit <= 122 tokens: equal to it", "<= includes the limit"},
		{"equal, less than", threshold("completion_tokens_p50", "<", 122), Fail,
			"completion_tokens_p50 = 122 tokens, limit < 122 tokens: equal to it, and < leaves that out", "< does not"},
		{"equal, at least", threshold("completion_tokens_p50", ">=", 122), Pass,
			"completion_tokens_p50 = 122 tokens, limit >= 122 tokens: equal to it", ">= includes the limit"},
		{"equal, more than", threshold("completion_tokens_p50", ">", 122), Fail,
			"completion_tokens_p50 = 122 tokens, limit > 122 tokens: equal to it, and > leaves that out", "> does not"},
		{"less than, met", threshold("completion_tokens_p50", "<", 122.5), Pass,
			"completion_tokens_p50 = 122 tokens, limit < 122.5 tokens: under by 0.5 tokens (0.4 %)", "half a token"},
		{"by a hair", threshold("ttft_p50_ms", "<=", 21977.72536193951), Fail,
			"ttft_p50_ms = 21977.72536193952 ms, limit <= 21977.72536193951 ms: over by 1.09e-11 ms (4.97e-14 %)",
			"a miss never looks like a hit"},
		{"by little", threshold("ttft_p50_ms", "<=", 21977.72), Fail,
			"ttft_p50_ms = 21977.7254 ms, limit <= 21977.72 ms: over by 0.0054 ms (0.00002 %)", "as many digits as it takes"},
		{"limit zero", threshold("tpot_mean_ms", "<=", 0), Fail,
			"tpot_mean_ms = 132.388 ms, limit <= 0 ms: over by 132.388 ms", "no share of 0"},
		{"negative limit", threshold("tpot_mean_ms", "<=", -100), Fail,
			"tpot_mean_ms = 132.388 ms, limit <= -100 ms: over by 232.388 ms (232.4 %)", "the share of its size"},
		{"unit first", threshold("mean_inter_token_latency_ms_p50", "<=", 140), Pass,
			"mean_inter_token_latency_ms_p50 = 138.944 ms, limit <= 140 ms: under by 1.056 ms (0.8 %)", "the legacy spelling is a time too"},
		{"samples", threshold("ttft_samples", ">=", 200), Fail,
			"ttft_samples = 100, limit >= 200: under by 100 (50.0 %)", "a count of samples has no unit"},
		{"large count", threshold("prompt_tokens", "<=", 2530000), Fail,
			"prompt_tokens = 2530110 tokens, limit <= 2530000 tokens: over by 110 tokens (0.004 %)", "no digits lost, and not 0.0 %"},
		{"ratio", threshold("prefix_cache_hit_avg", ">=", 0.5), Fail,
			"prefix_cache_hit_avg = 0.0371589, limit >= 0.5: under by 0.4628411 (92.6 %)", "a ratio has no unit"},
		{"chunks", threshold("content_chunks", ">", 2499), Pass,
			"content_chunks = 2500 chunks, limit > 2499 chunks: over by 1 chunks (0.04 %)", ""},
		{"chunk rate", threshold("content_chunks_s", "<", 1), Fail,
			"content_chunks_s = 1.5 chunks/s, limit < 1 chunks/s: over by 0.5 chunks/s (50.0 %)", ""},
		{"huge limit", threshold("tpot_mean_ms", "<=", 1e300), Pass,
			"tpot_mean_ms = 132.388 ms, limit <= 1e+300 ms: under by 1e+300 ms (100.0 %)", "written with an exponent"},
	}
	m := metricsOf(t, realMetrics)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			verdicts := Evaluate([]config.Threshold{tt.threshold}, m)
			require.Len(t, verdicts, 1)
			v := verdicts[0]
			assert.Equal(t, tt.status, v.Status, tt.why)
			assert.Equal(t, tt.status == Pass, v.Passed(), tt.why)
			assert.Equal(t, tt.message, v.Message, tt.why)
			assert.Equal(t, tt.threshold, v.Threshold)
			want, _ := m.Get(tt.threshold.Metric)
			assert.Equal(t, *want, *v.Got)
		})
	}
}

// TestNothingToJudgeNeverPasses: for every operator and a limit that any number
// would meet.
func TestNothingToJudgeNeverPasses(t *testing.T) {
	tests := []struct {
		name, metrics, metric string
		status                Status
		message               string
		why                   string
	}{
		{"null throughput", `{"throughput_tok_s": null, "output_token_sources": {"usage": 99}}`, "throughput_tok_s", NotMeasured,
			"not every planned request completed", "a request failed or is missing"},
		{"no usage", `{"throughput_tok_s": null, "output_token_sources": {"usage": 90, "content_chunks": 10}}`, "throughput_tok_s", NotMeasured,
			"10 of 100 completed requests carried no usage", "chunks never stand in"},
		{"zero samples", `{"tpot_mean_ms": null, "tpot_samples": 0, "output_token_sources": {"content_chunks": 4}}`, "tpot_mean_ms", NotMeasured,
			"zero samples: no completed request had two or more output tokens from usage", "nothing to average"},
		{"nothing completed", `{"ttft_p50_ms": null, "ttft_samples": 0, "output_token_sources": {}}`, "ttft_p50_ms", NotMeasured,
			"no request completed", "the first cause, not the second"},
		{"cache silent", `{"prefix_cache_hit_avg": null}`, "prefix_cache_hit_avg", NotMeasured,
			"no cached_tokens", "unknown is not 0"},
		{"older artifact", `{"ttft_p50_ms": 1}`, "ttft_p90_ms", Unknown,
			"written without it", "the key exists, in other artifacts"},
		{"typo", `{"ttft_p50_ms": 1}`, "ttft_p50", Unknown,
			"did you mean ttft_p50_ms?", "no such key"},
		{"no metrics", `{}`, "ttft_p50_ms", Unknown, "is not among the metrics", "nothing at all"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := metricsOf(t, tt.metrics)
			for op, limit := range map[string]float64{"<=": 1e9, "<": 1e9, ">=": -1e9, ">": -1e9} {
				v := Evaluate([]config.Threshold{threshold(tt.metric, op, limit)}, m)[0]
				assert.Equal(t, tt.status, v.Status, tt.why)
				assert.False(t, v.Passed())
				assert.Nil(t, v.Got)
				assert.Contains(t, v.Message, tt.metric)
				assert.Contains(t, v.Message, "limit "+op)
				assert.Contains(t, v.Message, tt.message, tt.why)
			}
		})
	}
}

// TestNoNumberNeverPasses: limits that are no number, and operators that are
// none. Metrics themselves can hold no NaN: JSON has none and Fold gives none.
func TestNoNumberNeverPasses(t *testing.T) {
	m := metricsOf(t, realMetrics)
	for _, op := range []string{"<=", "<", ">=", ">"} {
		for _, limit := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			v := Evaluate([]config.Threshold{threshold("ttft_p50_ms", op, limit)}, m)[0]
			assert.Equal(t, Fail, v.Status, "%s %v", op, limit)
			assert.Contains(t, v.Message, "never passes")
		}
	}
	for _, op := range []string{"", "=", "==", "!=", "=<", "le"} {
		v := Evaluate([]config.Threshold{threshold("ttft_p50_ms", op, 1e9)}, m)[0]
		assert.Equal(t, Unknown, v.Status, op)
		assert.Contains(t, v.Message, "is not one of <= < >= >")
		assert.False(t, holds(1, op, 1))
	}
	for _, op := range []string{"<=", "<", ">=", ">"} {
		assert.False(t, holds(math.NaN(), op, 0), op)
		assert.False(t, holds(0, op, math.NaN()), op)
	}
}

func TestUnits(t *testing.T) {
	for key, want := range map[string]string{
		"ttft_p50_ms":                            "ms",
		"mean_inter_token_latency_ms_p50":        "ms",
		"mean_inter_token_latency_ms_samples":    "",
		"decode_tok_s_p50":                       "tok/s",
		"decode_tok_s_samples":                   "",
		"throughput_tok_s":                       "tok/s",
		"prompt_tokens":                          "tokens",
		"prompt_tokens_mean":                     "tokens",
		"prompt_tokens_samples":                  "",
		"prompt_token_samples":                   "",
		"output_tokens":                          "tokens",
		"reasoning_chunks":                       "chunks",
		"content_chunks_s":                       "chunks/s",
		"request_canary_passed":                  "",
		"controlled_output_exact_adherence_rate": "",
	} {
		assert.Equal(t, want, unitOf(key), key)
	}
}

// TestEvaluateKeepsTheOrder and judges each on its own.
func TestEvaluateKeepsTheOrder(t *testing.T) {
	asked := []config.Threshold{
		threshold("tpot_mean_ms", "<=", 140), threshold("nonsense", "<=", 1), threshold("ttft_p50_ms", "<=", 1),
	}
	verdicts := Evaluate(asked, metricsOf(t, realMetrics))
	require.Len(t, verdicts, 3)
	for i, status := range []Status{Pass, Unknown, Fail} {
		assert.Equal(t, asked[i], verdicts[i].Threshold)
		assert.Equal(t, status, verdicts[i].Status)
	}
	assert.Empty(t, Evaluate(nil, metricsOf(t, realMetrics)))
}

func TestP99Note(t *testing.T) {
	for _, tt := range []struct {
		samples, metric string
		noted           bool
		why             string
	}{
		{"99", "ttft_p99_ms", true, "below 100 the p99 is the maximum"},
		{"100", "ttft_p99_ms", false, "from 100 on it is an estimate"},
		{"99", "ttft_p95_ms", false, "only the p99 is labelled"},
		{"null", "ttft_p99_ms", false, "an artifact that does not say"},
	} {
		m := metricsOf(t, `{"ttft_p99_ms": 5, "ttft_p95_ms": 4, "ttft_samples": `+tt.samples+`}`)
		v := Evaluate([]config.Threshold{threshold(tt.metric, "<=", 9)}, m)[0]
		assert.Equal(t, Pass, v.Status, "a note is no verdict")
		assert.Equal(t, tt.noted, strings.Contains(v.Message, "a p99 of 99 samples"), tt.why)
	}
}

// TestFoldedMetricsCanBeGated: every key of Fold is known to Evaluate, and a
// run in which all failed passes no threshold at all, whatever it asks.
func TestFoldedMetricsCanBeGated(t *testing.T) {
	lost := []record.Record{{Failure: &record.Failure{Class: record.RequestError, Detail: record.Connect}}}
	m := stats.Fold(lost, 1, 1000)
	require.NotEmpty(t, stats.Keys())
	for _, key := range stats.Keys() {
		if strings.HasSuffix(key, "_samples") {
			continue // measured: there were 0
		}
		for _, asked := range []config.Threshold{threshold(key, "<=", 1e18), threshold(key, ">=", -1e18)} {
			v := Evaluate([]config.Threshold{asked}, m)[0]
			assert.Equal(t, NotMeasured, v.Status, key)
			assert.Contains(t, v.Message, "no request completed")
		}
	}
}
