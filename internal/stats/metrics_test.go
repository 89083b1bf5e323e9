package stats

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// published is part of a real artifact of the capacity-v3 protocol, as another
// implementation wrote it: whole numbers with and without ".0", nulls, an
// object, and fewer keys than Fold gives; and two keys that aggregates have.
const published = `{
	"content_chunks": 460,
	"content_chunks_s": null,
	"decode_tok_s_p50": 76.53764121009965,
	"mean_inter_token_latency_ms_p50": 13.064325581369705,
	"output_token_sources": {"usage": 10},
	"prefix_cache_hit_avg": null,
	"prompt_tokens_p50": 3613.0,
	"throughput_tok_s": 49.30263158410785,
	"throughput_tok_s_lower_bound": 49.3,
	"throughput_estimate_kind": "exact",
	"ttft_samples": 10
}`

func TestReadingOtherImplementations(t *testing.T) {
	var m Metrics
	require.NoError(t, json.Unmarshal([]byte(published), &m))
	assert.Equal(t, 460.0, value(t, m, "content_chunks"))
	assert.Equal(t, 3613.0, value(t, m, "prompt_tokens_p50"))
	assert.Equal(t, 13.064325581369705, value(t, m, "mean_inter_token_latency_ms_p50"))
	assert.Equal(t, 49.3, value(t, m, "throughput_tok_s_lower_bound"), "a numeric key that Fold does not give is kept")
	null(t, m, "prefix_cache_hit_avg")
	assert.Equal(t, map[string]int{"usage": 10}, m.OutputTokenSources)
	assert.Nil(t, m.ThroughputPerformanceEligible, "not said is not false")

	_, known := m.Get("ttft_p50_ms")
	assert.False(t, known, "an older artifact has no such key; it is not a null one")
	assert.Equal(t, "these metrics have no such key", m.WhyNil("ttft_p50_ms"))
	_, known = m.Get("throughput_estimate_kind")
	assert.False(t, known, "text is no metric")

	written, err := json.Marshal(m)
	require.NoError(t, err)
	assert.JSONEq(t, published, string(written), "nothing is lost by reading and writing")
}

func TestRefusedMetrics(t *testing.T) {
	for _, tt := range []struct{ name, json, want, why string }{
		{"not an object", `[1]`, "reading metrics", "a list has no keys"},
		{"NaN", `{"ttft_p50_ms": NaN}`, "invalid character 'N'", "no JSON, though Python writes it"},
		{"too large", `{"ttft_p50_ms": 1e999}`, `reading metric "ttft_p50_ms"`, "no float64 holds it"},
		{"text", `{"ttft_p50_ms": "21 s"}`, `reading metric "ttft_p50_ms": got "21 s", want a number or null`, "a metric of ours must be a number"},
		{"bool", `{"throughput_tok_s": true}`, `reading metric "throughput_tok_s": got true`, "likewise"},
		{"sources", `{"output_token_sources": {"usage": "10"}}`, `reading metric "output_token_sources"`, "counts are numbers"},
		{"eligible", `{"throughput_performance_eligible": 1}`, `reading metric "throughput_performance_eligible"`, "1 is not true"},
	} {
		m := Metrics{OutputTokenSources: map[string]int{"usage": 1}}
		err := json.Unmarshal([]byte(tt.json), &m)
		require.Error(t, err, "%s: %s", tt.name, tt.why)
		assert.Contains(t, err.Error(), tt.want, tt.name)
		assert.Equal(t, 1, m.OutputTokenSources["usage"], "%s: a failed read must change nothing", tt.name)
	}
}

// TestMetricsRoundTrip: what Fold gives is written with sorted keys, read back
// to the same bits, and written to the same bytes.
func TestMetricsRoundTrip(t *testing.T) {
	m := Fold(realRecords(t, "final-rows.csv"), 100, finalWallMS)
	first, err := json.Marshal(m)
	require.NoError(t, err)
	var back Metrics
	require.NoError(t, json.Unmarshal(first, &back))
	assert.Equal(t, m, back)
	second, err := json.Marshal(back)
	require.NoError(t, err)
	assert.Equal(t, string(first), string(second))

	keys := topLevelKeys(t, first)
	assert.True(t, slices.IsSorted(keys), "keys are not sorted")
	assert.Subset(t, keys, Keys())
	assert.Subset(t, keys, []string{"output_token_sources", "throughput_performance_eligible"})
	assert.Len(t, keys, len(Keys())+2)
}

// topLevelKeys lists the keys of a JSON object in the order of the text.
func topLevelKeys(t *testing.T, data []byte) []string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(data)))
	_, err := dec.Token()
	require.NoError(t, err)
	var keys []string
	for dec.More() {
		key, err := dec.Token()
		require.NoError(t, err)
		keys = append(keys, key.(string))
		var v json.RawMessage
		require.NoError(t, dec.Decode(&v))
	}
	return keys
}

func TestZeroMetrics(t *testing.T) {
	var m Metrics
	written, err := json.Marshal(m)
	require.NoError(t, err)
	assert.Equal(t, "{}", string(written))
	_, known := m.Get("ttft_p50_ms")
	assert.False(t, known)
	assert.Empty(t, m.Keys())
}

func TestWhyNil(t *testing.T) {
	thirsty := answers(2)
	for i := range thirsty {
		thirsty[i].Tokens.Prompt = nil
		thirsty[i].Tokens.Output = new(1)
	}
	m := Fold(thirsty, 2, 2000)
	for _, tt := range []struct{ key, want string }{
		{"ttft_p50_ms", ""},
		{"prompt_tokens", "no completed request had a prompt token count in its usage"},
		{"prompt_tokens_p50", "zero samples: no completed request had a prompt token count"},
		{"effective_prefill_tok_s_p50", "zero samples: no completed request had a prompt token count"},
		{"tpot_mean_ms", "zero samples: no completed request had two or more output tokens"},
		{"mean_time_per_output_token_mean_ms", "zero samples: no completed request had two or more output tokens"},
		{"content_chunks_s", "tokens are counted from usage"},
		{"nonsense", "no such key"},
	} {
		got := m.WhyNil(tt.key)
		assert.True(t, strings.Contains(got, tt.want) && (got == "") == (tt.want == ""), "%s: %q, want %q", tt.key, got, tt.want)
	}

	extreme := Fold(withTTFO(-1e308, 1.7e308), 2, 2000)
	null(t, extreme, "time_to_first_output_stddev_ms")
	assert.Contains(t, extreme.WhyNil("time_to_first_output_stddev_ms"), "not a finite number")

	var foreign Metrics
	require.NoError(t, json.Unmarshal([]byte(`{"made_up": null, "ttft_p50_ms": null}`), &foreign))
	assert.Equal(t, "it was not recorded", foreign.WhyNil("made_up"))
	assert.Contains(t, foreign.WhyNil("ttft_p50_ms"), "was not recorded")
}
