package engine

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func between(t *testing.T, before, after, model string) Delta {
	t.Helper()
	a, b := snapshot(t, before, model), snapshot(t, after, model)
	b.At = a.At.Add(90 * time.Second)
	return Between(a, b)
}

func TestDeltas(t *testing.T) {
	for _, row := range []struct {
		name          string
		before, after string
		model         string
		want          map[Role]float64
		resets        []Role
		why           string
	}{
		{name: "a counter rises", before: vllmPage("prompt_tokens_total 100"), after: vllmPage("prompt_tokens_total 350"),
			want: map[Role]float64{PromptTokens: 250}},
		{name: "a counter stands", before: vllmPage("prompt_tokens_total 100"), after: vllmPage("prompt_tokens_total 100"),
			want: map[Role]float64{PromptTokens: 0}, why: "0 is known here"},
		{name: "a counter falls", before: vllmPage("prompt_tokens_total 100", "generation_tokens_total 5"), after: vllmPage("prompt_tokens_total 99", "generation_tokens_total 7"),
			want: map[Role]float64{GenerationTokens: 2}, resets: []Role{PromptTokens}, why: "what it did is not known, and not 99"},
		{name: "one engine of two begins anew", before: vllmPage(`prompt_tokens_total{engine="0"} 1000`, `prompt_tokens_total{engine="1"} 1000`),
			after: vllmPage(`prompt_tokens_total{engine="0"} 1900`, `prompt_tokens_total{engine="1"} 200`),
			want:  map[Role]float64{}, resets: []Role{PromptTokens}, why: "the sum rose from 2000 to 2100"},
		{name: "an engine goes away", before: vllmPage(`prompt_tokens_total{engine="0"} 1000`, `prompt_tokens_total{engine="1"} 10`),
			after: vllmPage(`prompt_tokens_total{engine="0"} 1900`),
			want:  map[Role]float64{}, resets: []Role{PromptTokens}, why: "its last tokens are lost"},
		{name: "an engine joins", before: vllmPage(`prompt_tokens_total{engine="0"} 1000`),
			after: vllmPage(`prompt_tokens_total{engine="0"} 1900`, `prompt_tokens_total{engine="1"} 30`),
			want:  map[Role]float64{PromptTokens: 930}, why: "labels appear with their first value, so it counts from 0"},
		{name: "a counter is born", before: vllmPage("num_requests_running 0"), after: vllmPage("num_requests_running 0", "prompt_tokens_total 40"),
			want: map[Role]float64{PromptTokens: 40}, why: "clients of Prometheus create a labelled counter at its first use"},
		{name: "a counter vanishes", before: vllmPage("num_requests_running 0", "prompt_tokens_total 40"), after: vllmPage("num_requests_running 0"),
			want: map[Role]float64{}, resets: []Role{PromptTokens}},
		{name: "another process", before: "process_start_time_seconds 100\n" + vllmPage("prompt_tokens_total 40"),
			after: "process_start_time_seconds 200\n" + vllmPage("prompt_tokens_total 50"),
			want:  map[Role]float64{}, resets: []Role{PromptTokens}, why: "a restart that has overtaken the old value"},
		{name: "the start is known once", before: vllmPage("prompt_tokens_total 40"),
			after: "process_start_time_seconds 200\n" + vllmPage("prompt_tokens_total 50"),
			want:  map[Role]float64{PromptTokens: 10}, why: "not knowing is no restart"},
		{name: "another engine", before: "llamacpp:prompt_tokens_total 10\n", after: vllmPage("prompt_tokens_total 50", "prefix_cache_hits_total 1", "num_requests_running 1"),
			want: map[Role]float64{}, resets: []Role{PrefixCacheHits, PromptTokens}, why: "an address that leads to two servers"},
		{name: "a better source is born", before: "llamacpp:prompt_tokens_total 50\n",
			after: "llamacpp:prompt_tokens_total 80\nllamacpp:prompt_tokens_cached_total 7\n",
			want:  map[Role]float64{PromptTokens: 30, PrefixCacheQueries: 37, PrefixCacheHits: 7}, why: "prompt tokens by the source that both have; queries are 30 computed and 7 cached, not 87 from nothing"},
		{name: "a part of a source is born", before: "llamacpp:requests_processing 0\n", after: "llamacpp:requests_processing 0\nllamacpp:prompt_tokens_total 40\n",
			want: map[Role]float64{PromptTokens: 40}, why: "no queries of the cache: for those the cached tokens are missing"},
		{name: "another engine with fewer sources", before: "llamacpp:prompt_tokens_total 10\nllamacpp:prompt_tokens_cached_total 3\n", after: vllmPage("gpu_prefix_cache_hits_total 1"),
			want: map[Role]float64{}, resets: []Role{PrefixCacheHits}, why: "their sources do not correspond"},
		{name: "gauges have no difference", before: vllmPage("num_requests_running 1", "prompt_tokens_total 1"), after: vllmPage("num_requests_running 5", "prompt_tokens_total 1"),
			want: map[Role]float64{PromptTokens: 0}},
		{name: "the model's series alone", model: "glm",
			before: vllmPage(`prompt_tokens_total{model_name="glm"} 10`, `prompt_tokens_total{model_name="other"} 500`),
			after:  vllmPage(`prompt_tokens_total{model_name="glm"} 30`, `prompt_tokens_total{model_name="other"} 900`),
			want:   map[Role]float64{PromptTokens: 20}},
		{name: "the model's first request is in the cell", model: "glm",
			before: vllmPage(`prompt_tokens_total{model_name="other"} 500`),
			after:  vllmPage(`prompt_tokens_total{model_name="glm"} 30`, `prompt_tokens_total{model_name="other"} 900`),
			want:   map[Role]float64{PromptTokens: 30}, why: "the other's 500 are neither taken off nor missed"},
		{name: "the other model goes away", model: "glm",
			before: vllmPage(`prompt_tokens_total{model_name="glm"} 10`, `prompt_tokens_total{model_name="other"} 500`),
			after:  vllmPage(`prompt_tokens_total{model_name="glm"} 30`),
			want:   map[Role]float64{}, resets: []Role{PromptTokens}, why: "all series count then, and one of them is gone: doubt, and no number"},
		{name: "the ensemble of Triton", before: "nv_inference_request_success{model=\"a\"} 1\nnv_inference_request_success{model=\"b\"} 5\n",
			after: "nv_inference_request_success{model=\"a\"} 11\nnv_inference_request_success{model=\"b\"} 15\n",
			want:  map[Role]float64{Requests: 10}, why: "the larger of the increases, not the increase of the larger"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := between(t, row.before, row.after, row.model)
			assert.Equal(t, row.want, d.Values, row.why)
			assert.Equal(t, row.resets, d.Resets, row.why)
			assert.Equal(t, 90*time.Second, d.Elapsed)
			for _, role := range d.Resets {
				assert.Nil(t, d.Value(role))
			}
		})
	}
}

func TestNothingHappenedOnAnyFixture(t *testing.T) {
	for _, page := range pages {
		s := snapshot(t, fixture(t, page.file), page.model)
		d := Between(s, s)
		assert.Empty(t, d.Resets, page.file)
		assert.False(t, d.Restarted, page.file)
		for role, v := range d.Values {
			assert.Zero(t, v, "%s %s", page.file, role)
		}
		for role, h := range d.Histograms {
			assert.Zero(t, h.Count, "%s %s", page.file, role)
			assert.Nil(t, h.Mean(), "%s %s", page.file, role)
		}
		assert.NotEmpty(t, d.Values, page.file)
	}
}

func TestHistogramDelta(t *testing.T) {
	hist := func(series string, low, all int, sum string) string {
		name := "vllm:time_to_first_token_seconds"
		s := strings.NewReplacer("#", strconv.Itoa(low), "%", strconv.Itoa(all), "@", sum).Replace(
			name + `_bucket{` + series + `le="0.5"} #` + "\n" + name + `_bucket{` + series + `le="+Inf"} %` + "\n" + name + `_sum{` + series + `} @` + "\n" + name + `_count{` + series + `} %` + "\n")
		return "# TYPE " + name + " histogram\n" + s
	}
	d := between(t, hist("", 2, 4, "3"), hist("", 3, 8, "13"), "")
	h := d.Histogram(TTFT)
	require.NotNil(t, h)
	assert.Equal(t, new(2.5), h.Mean(), "10 s in 4 requests, whatever came before")
	assert.Equal(t, Bounds{new(0.0), new(0.5)}, h.Quantile(25))
	assert.Equal(t, Bounds{new(0.5), nil}, h.Quantile(50))

	d = between(t, hist("", 2, 8, "13"), hist("", 3, 4, "3"), "")
	assert.Nil(t, d.Histogram(TTFT))
	assert.Equal(t, []Role{TTFT}, d.Resets)

	d = between(t, hist("", 3, 8, "13"), hist("", 2, 9, "14"), "")
	assert.Equal(t, []Role{TTFT}, d.Resets, "count and sum rose, but a bucket fell")

	two := hist(`engine="0",`, 1, 2, "4") + strings.SplitN(hist(`engine="1",`, 0, 2, "8"), "\n", 2)[1]
	d = between(t, "vllm:num_requests_running 0\n", two, "")
	assert.Equal(t, new(3.0), d.Histogram(TTFT).Mean(), "two engines: 12 s in 4 requests")
}

func TestPrefixCacheCountersAreOfOneKind(t *testing.T) {
	for _, row := range []struct {
		name          string
		before, after string
		queries, hits *float64
		rate          *float64
		unit          string
		why           string
	}{
		{"vLLM", vllmPage("prefix_cache_queries_total 100", "prefix_cache_hits_total 10"), vllmPage("prefix_cache_queries_total 300", "prefix_cache_hits_total 60"),
			new(200.0), new(50.0), new(0.25), "tokens", ""},
		{"nothing was looked up", vllmPage("prefix_cache_queries_total 100", "prefix_cache_hits_total 10"), vllmPage("prefix_cache_queries_total 100", "prefix_cache_hits_total 10"),
			new(0.0), new(0.0), nil, "tokens", "0 of 0 is no rate"},
		{"queries alone", vllmPage("prefix_cache_queries_total 100"), vllmPage("prefix_cache_queries_total 300"),
			new(200.0), nil, nil, "tokens", "and the hits are not 0"},
		{"more hits than queries", vllmPage("prefix_cache_queries_total 1", "prefix_cache_hits_total 1"), vllmPage("prefix_cache_queries_total 2", "prefix_cache_hits_total 3"),
			new(1.0), new(2.0), nil, "tokens", "no share is above 1"},
		{"the hits went back", vllmPage("prefix_cache_queries_total 1", "prefix_cache_hits_total 9"), vllmPage("prefix_cache_queries_total 2", "prefix_cache_hits_total 3"),
			new(1.0), nil, nil, "tokens", ""},
		{"llama.cpp", "llamacpp:prompt_tokens_total 50\nllamacpp:prompt_tokens_cached_total 0\n", "llamacpp:prompt_tokens_total 80\nllamacpp:prompt_tokens_cached_total 70\n",
			new(100.0), new(70.0), new(0.7), "tokens", "queries are computed and cached together"},
		{"TensorRT-LLM in blocks", "trtllm_kv_cache_reused_blocks_total 10\ntrtllm_kv_cache_missed_blocks_total 10\n", "trtllm_kv_cache_reused_blocks_total 30\ntrtllm_kv_cache_missed_blocks_total 90\n",
			new(100.0), new(20.0), new(0.2), "blocks", ""},
		{"TensorRT-LLM without cached tokens", "trtllm_prompt_tokens_total 10\ntrtllm_kv_cache_reused_blocks_total 10\ntrtllm_kv_cache_missed_blocks_total 10\n", "trtllm_prompt_tokens_total 9999\ntrtllm_kv_cache_reused_blocks_total 30\ntrtllm_kv_cache_missed_blocks_total 90\n",
			new(100.0), new(20.0), new(0.2), "blocks", "blocks over tokens would be no rate"},
		{"TensorRT-LLM, cached tokens are born in the cell", "trtllm_prompt_tokens_total 10\ntrtllm_kv_cache_reused_blocks_total 10\ntrtllm_kv_cache_missed_blocks_total 10\n",
			"trtllm_prompt_tokens_total 9999\ntrtllm_prompt_cached_tokens_total 5\ntrtllm_kv_cache_reused_blocks_total 30\ntrtllm_kv_cache_missed_blocks_total 90\n",
			new(100.0), new(20.0), new(0.2), "blocks", "the first reading has hits in blocks alone"},
		{"SGLang, first hit in the cell", "sglang:prompt_tokens_total 100\n", "sglang:prompt_tokens_total 500\nsglang:cached_tokens_total{cache_source=\"device\"} 100\n",
			new(400.0), new(100.0), new(0.25), "tokens", "the counter of hits is born with the first"},
		{"SGLang, the better counter is born in the cell", "sglang:prompt_tokens_total 100\nsglang:cached_tokens_total 0\n",
			"sglang:prompt_tokens_total 500\nsglang:cached_tokens_total 100\nsglang:prefill_effective_tokens_total{mode=\"input\"} 300\n",
			new(400.0), new(100.0), new(0.25), "tokens", "both readings by the same counter"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := between(t, row.before, row.after, "")
			assert.Equal(t, row.queries, d.Value(PrefixCacheQueries), row.why)
			assert.Equal(t, row.hits, d.Value(PrefixCacheHits), row.why)
			assert.Equal(t, row.rate, d.HitRate(), row.why)
			assert.Equal(t, row.unit, d.PrefixUnit)
		})
	}
}

func TestComputedOnly(t *testing.T) {
	old := fixture(t, "llamacpp-2024.prom")
	assert.True(t, between(t, old, old, "").ComputedOnly)
	current := fixture(t, "llamacpp-b11549.prom")
	assert.False(t, between(t, current, current, "").ComputedOnly)
}
