package gate

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/config"
	"anvil-capacity/internal/stats"
)

func TestCheckAcceptsEveryKey(t *testing.T) {
	require.NoError(t, Check(nil))
	keys := stats.Keys()
	require.NotEmpty(t, keys)
	for _, key := range keys {
		require.NoError(t, Check([]config.Threshold{threshold(key, "<=", 1)}), key)
	}
}

// TestCheckListsEveryFault: one message, a line each, in the order typed.
func TestCheckListsEveryFault(t *testing.T) {
	err := Check([]config.Threshold{
		{Metric: "ttft_p50", Op: "<=", Limit: 20000, Source: "ttft_p50 <= 20000"},
		{Metric: "ttft_p50_ms", Op: "<=", Limit: 20000, Source: "ttft_p50_ms<=20000"},
		{Metric: "troughput_tok_s", Op: ">=", Limit: 21, Source: "troughput_tok_s>=21"},
		{Metric: "e2e_p50_ms", Op: "==", Limit: 1},
		{Metric: "e2e_p50_ms", Op: "<", Limit: math.NaN(), Source: "e2e_p50_ms<NaN"},
	})
	require.Error(t, err)
	assert.Equal(t, `checking thresholds: 4 of 5 cannot be judged
  "ttft_p50 <= 20000": no metric "ttft_p50": did you mean ttft_p50_ms?
  "troughput_tok_s>=21": no metric "troughput_tok_s": did you mean throughput_tok_s?
  "e2e_p50_ms==1": operator "==", want one of <= < >= >
  "e2e_p50_ms<NaN": limit NaN, want a finite number`, err.Error())
}

func TestSuggestion(t *testing.T) {
	tests := []struct{ key, want, why string }{
		{"ttft_p50", "did you mean ttft_p50_ms?", "the unit was forgotten"},
		{"ttft_ms_p50", "did you mean ttft_p50_ms?", "the unit in the wrong place"},
		{"p50_ttft_ms", "did you mean ttft_p50_ms?", "the statistic first"},
		{"TTFT_P50_MS", "did you mean ttft_p50_ms?", "capitals"},
		{"ttft-p50-ms", "did you mean ttft_p50_ms?", "dashes"},
		{"ttft_p50_s", "did you mean ttft_p50_ms?", "another unit: the suggestion shows ours"},
		{"ttft_median", "did you mean ttft_p50_ms?", "another word"},
		{"avg_tpot", "did you mean tpot_mean_ms?", "another word, in front"},
		{"ttfo_p95_ms", "did you mean time_to_first_output_p95_ms?", "the field's abbreviation"},
		{"time_to_first_token_p50", "did you mean ttft_p50_ms?", "written out"},
		{"itl_p50", "did you mean tpot_p50_ms?", "what is measured here is TPOT"},
		{"inter_token_latency_p50_ms", "did you mean tpot_p50_ms?", "the same, written out"},
		{"latency_p99", "did you mean e2e_p99_ms?", "the usual word for end to end"},
		{"prefill_p50", "did you mean effective_prefill_tok_s_p50?", "shortened"},
		{"throughput", "did you mean throughput_tok_s?", "the unit was forgotten"},
		{"tokens_per_second", "did you mean throughput_tok_s?", "the usual words"},
		{"output_tokens_p50", "did you mean completion_tokens_p50?", "the usage field's other name"},
		{"ttft_stdev_ms", "did you mean ttft_stddev_ms?", "another abbreviation"},
		{"tttf_p50_ms", "did you mean ttft_p50_ms?", "a slip: two replaced letters"},
		{"throughput_toks", "did you mean throughput_tok_s?", "a missing underscore"},
		{"ttft_p80_ms", "did you mean ttft_p50_ms or ttft_p90_ms?", "a percentile that is not kept: its neighbours"},
		{"ttft_p5_ms", "did you mean ttft_p25_ms, ttft_p50_ms or ttft_p75_ms?", "four are as near; three are enough"},
		{"ttft", "a statistic is missing, as in ttft_p50_ms, ttft_p95_ms or ttft_mean_ms", "a name is no key"},
		{"e2e_ms", "a statistic is missing, as in e2e_p50_ms, e2e_p95_ms or e2e_mean_ms", "with its unit"},
		{"decode_tok_s", "a statistic is missing, as in decode_tok_s_p50, decode_tok_s_p95 or decode_tok_s_mean", "a rate"},
		{"failure_rate", "failed requests are judged by the service check, see CAPACITY_MAX_FAILURE_RATE", "no metric, another gate"},
		{"errors", "failed requests are judged by the service check, see CAPACITY_MAX_FAILURE_RATE", "likewise"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, suggestion(tt.key), "%s: %s", tt.key, tt.why)
	}
	for _, key := range []string{"gpu_temperature", "", "___", "x", "ms"} {
		assert.Contains(t, suggestion(key), "nothing is near it; keys are spelled like ttft_p50_ms", key)
	}
}

func TestSuggestionsExist(t *testing.T) {
	for _, name := range stats.Names() {
		for _, key := range someStatistics(name) {
			assert.Contains(t, stats.Keys(), key)
		}
		assert.Len(t, someStatistics(name), 3)
	}
}
