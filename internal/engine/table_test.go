package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A page of each engine and version, and what is to be read from it. A role that
// a row does not have must not be read at all: it is not exposed, and not 0.
var pages = []struct {
	file, model, engine string
	values              map[Role]float64
	counts              map[Role]float64 // observations of the histograms
	why                 string
}{
	{"vllm-0.30.prom", "glm", VLLM, map[Role]float64{
		Running: 4, Waiting: 3, KVCacheUse: 0.4375, Requests: 100, PromptTokens: 2530000, GenerationTokens: 3400,
		Preemptions: 2, PrefixCacheQueries: 2530000, PrefixCacheHits: 506000,
	}, map[Role]float64{TTFT: 100, TPOT: 100, ITL: 3300},
		"88 stop + 12 length: 3 aborted and 1 error had no answer; waiting is not added to its own parts by reason"},
	{"vllm-v0.prom", "", VLLM, map[Role]float64{
		Running: 2, Waiting: 1, KVCacheUse: 0.25, Requests: 12, PromptTokens: 40000, GenerationTokens: 1200, Preemptions: 0,
	}, map[Role]float64{TTFT: 12, ITL: 1188},
		"the V0 engine had a rate gauge and no counters of the prefix cache; its time per output token is per token"},
	{"vllm-two-engines.prom", "glm", VLLM, map[Role]float64{
		Running: 7, Waiting: 2, KVCacheUse: 0.6, PromptTokens: 4000, GenerationTokens: 300,
	}, map[Role]float64{TTFT: 10},
		"the engines of the model are added, the other model's 9 running are not; the fullest cache counts"},
	{"vllm-two-engines.prom", "served-under-another-name", VLLM, map[Role]float64{
		Running: 16, Waiting: 7, KVCacheUse: 0.9, PromptTokens: 74000, GenerationTokens: 7300,
	}, map[Role]float64{TTFT: 110},
		"no series has the name, an alias perhaps, so all count"},
	{"sglang-0.5.prom", "glm", SGLang, map[Role]float64{
		Running: 4, Waiting: 1, KVCacheUse: 0.5, Requests: 100, PromptTokens: 2500000, GenerationTokens: 3360,
		Preemptions: 1, PrefixCacheQueries: 2400000, PrefixCacheHits: 600000,
	}, map[Role]float64{TTFT: 100, ITL: 3260},
		"streaming and not are added; the prefix cache is read from prefill_effective_tokens, where hits and queries belong together, not from cached_tokens"},
	{"sglang-ranks.prom", "glm", SGLang, map[Role]float64{
		Running: 8, Waiting: 2, KVCacheUse: 0.7, PromptTokens: 9000, GenerationTokens: 900, Preemptions: 3,
		PrefixCacheQueries: 9000,
	}, nil, "two ranks of a replica are one engine: 5 + 3; priorities 1 and 2 are parts of the 5"},
	{"sglang-0.4.prom", "", SGLang, map[Role]float64{
		Running: 162, Waiting: 2826, KVCacheUse: 0.28, PromptTokens: 8128902, GenerationTokens: 7557572, PrefixCacheQueries: 8128902,
	}, map[Role]float64{TTFT: 2124, TPOT: 2124}, "no counter of cached tokens yet: the hits are not known, though the queries are"},
	{"llamacpp-b11549.prom", "smollm2-135m-instruct", LlamaCPP, map[Role]float64{
		Running: 0, Waiting: 0, PromptTokens: 50, GenerationTokens: 64, PrefixCacheQueries: 50, PrefixCacheHits: 0,
	}, nil, "a real page: computed 50 + cached 0; no counter of requests, no histogram, no KV cache use"},
	{"llamacpp-2024.prom", "", LlamaCPP, map[Role]float64{
		Running: 2, Waiting: 1, KVCacheUse: 0.0625, PromptTokens: 143, GenerationTokens: 673,
	}, nil, "prompt tokens are the computed ones alone"},
	{"tgi-3.prom", "", TGI, map[Role]float64{
		Running: 6, Waiting: 4, Requests: 50, PromptTokens: 208000, GenerationTokens: 1600,
	}, map[Role]float64{TPOT: 50}, "tokens are sums of histograms: 52 x 4000 and 50 x 32; TGI has no first token"},
	{"tensorrt-llm-1.3.prom", "glm", TensorRT, map[Role]float64{
		Running: 5, Waiting: 2, KVCacheUse: 0.125, Requests: 40, PromptTokens: 1000000, GenerationTokens: 4000,
		PrefixCacheQueries: 1000000, PrefixCacheHits: 250000,
	}, map[Role]float64{TTFT: 42, TPOT: 42}, "2 were cancelled; tokens come before blocks"},
	{"tensorrt-llm-1.1.prom", "glm", TensorRT, map[Role]float64{Requests: 2},
		map[Role]float64{TTFT: 2, TPOT: 2}, "names without a prefix, and five metrics in all"},
	{"triton-tensorrt-llm.prom", "", TensorRT, map[Role]float64{Running: 7, Waiting: 1, KVCacheUse: 0.25, Requests: 25}, nil,
		"each of the ensemble's four models counts the same 25 requests; 1560 of 6240 blocks"},
}

func TestEveryEngineIsRead(t *testing.T) {
	for _, page := range pages {
		t.Run(page.file+" "+page.model, func(t *testing.T) {
			s := snapshot(t, fixture(t, page.file), page.model)
			assert.Equal(t, page.engine, s.Engine)
			assert.Equal(t, page.values, s.Values, page.why)
			counts := make(map[Role]float64)
			for role, h := range s.Histograms {
				counts[role] = h.Count
			}
			if page.counts == nil {
				assert.Empty(t, counts, page.why)
			} else {
				assert.Equal(t, page.counts, counts, page.why)
			}
			assert.Zero(t, s.Faults, s.Fault)
			for role := range s.Values {
				assert.NotEmpty(t, s.Names[role], "%s was read from somewhere", role)
			}
		})
	}
}

func TestNamesAreTheServersOwn(t *testing.T) {
	s := snapshot(t, fixture(t, "vllm-0.30.prom"), "glm")
	assert.Equal(t, []string{"vllm:prompt_tokens_total"}, s.Names[PromptTokens])
	assert.Equal(t, []string{"vllm:time_to_first_token_seconds"}, s.Names[TTFT])
	s = snapshot(t, fixture(t, "llamacpp-b11549.prom"), "")
	assert.Equal(t, []string{"llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"}, s.Names[PromptTokens])
}

// Every name in the table is a claim about an engine. This one fails for a name
// that no fixture has, unless it is listed here with the reason.
func TestEveryNameOfTheTableHasAFixture(t *testing.T) {
	without := map[string]string{
		"vllm:gpu_prefix_cache_queries": "the V1 engine's name before 0.9.2; see TestOlderNamesTakeOver",
		"vllm:gpu_prefix_cache_hits":    "the V1 engine's name before 0.9.2; see TestOlderNamesTakeOver",
		"trtllm_num_active_requests":    "between 1.2 and 1.3; see TestOlderNamesTakeOver",
		"trtllm_server_queue_length":    "between 1.2 and 1.3; see TestOlderNamesTakeOver",
	}
	all := make(map[string]bool)
	for _, page := range pages {
		p, err := readPage(strings.NewReader(fixture(t, page.file)), wantedAll, defaults)
		require.NoError(t, err)
		for key := range p.families {
			all[key] = true
		}
	}
	looked := 0
	for _, d := range dialects {
		if d.engine == RefServer {
			continue // the server itself is in the tests
		}
		for _, sources := range d.sources {
			for _, s := range sources {
				for _, term := range append(s.terms, s.over...) {
					looked++
					if without[term.name] == "" {
						assert.True(t, all[familyKey(term.name)], "%s is in no fixture", term.name)
					}
				}
			}
		}
	}
	assert.Greater(t, looked, 60)
}

// The ranks of an engine count the same; one that is late does not lower it.
func TestOfTheRanksTheFurthestCounts(t *testing.T) {
	for _, order := range []string{"0 9000 1 8990", "0 8990 1 9000"} {
		f := strings.Fields(order)
		page := fmt.Sprintf("sglang:prompt_tokens_total{tp_rank=%q} %s\nsglang:prompt_tokens_total{tp_rank=%q} %s\n", f[0], f[1], f[2], f[3])
		assert.Equal(t, 9000.0, snapshot(t, page, "").Values[PromptTokens], order)
	}
}

func TestOlderNamesTakeOver(t *testing.T) {
	for _, row := range []struct {
		name, page string
		want       map[Role]float64
	}{
		{"vLLM V1 before 0.9.2", vllmPage("gpu_prefix_cache_queries_total 100", "gpu_prefix_cache_hits_total 40", "gpu_cache_usage_perc 0.5"),
			map[Role]float64{PrefixCacheQueries: 100, PrefixCacheHits: 40, KVCacheUse: 0.5}},
		{"vLLM 0.9.2 has both, which are not added", vllmPage("gpu_cache_usage_perc 0.5", "kv_cache_usage_perc 0.5", "gpu_prefix_cache_hits_total 40", "prefix_cache_hits_total 40"),
			map[Role]float64{PrefixCacheHits: 40, KVCacheUse: 0.5}},
		{"trtllm-serve between 1.2 and 1.3", "trtllm_num_active_requests 3\ntrtllm_server_queue_length 2\n",
			map[Role]float64{Running: 3, Waiting: 2}},
	} {
		t.Run(row.name, func(t *testing.T) { assert.Equal(t, row.want, snapshot(t, row.page, "").Values) })
	}
}

// The sources of queries and hits are pairs by index, with one unit.
func TestPrefixCacheSourcesArePairs(t *testing.T) {
	pairs := 0
	for _, d := range dialects {
		queries, hits := d.sources[PrefixCacheQueries], d.sources[PrefixCacheHits]
		require.Len(t, hits, len(queries), d.engine)
		for i := range queries {
			pairs++
			assert.NotEmpty(t, queries[i].unit, d.engine)
			assert.Equal(t, queries[i].unit, hits[i].unit, d.engine)
		}
	}
	assert.Greater(t, pairs, 5)
}

func TestEveryRoleIsOfOneKind(t *testing.T) {
	for _, d := range dialects {
		for role, sources := range d.sources {
			for _, s := range sources {
				isHistogram := false
				for _, h := range histograms {
					isHistogram = isHistogram || h == role
				}
				assert.Equal(t, isHistogram, s.isHistogram(), "%s %s", d.engine, role)
			}
		}
	}
	assert.Equal(t, []string{VLLM, SGLang, LlamaCPP, TGI, TensorRT, RefServer}, Engines())
}

// A page of a proxy can have names of two engines; the one with more is meant.
func TestTheEngineWithMostNamesIsMeant(t *testing.T) {
	page := "llamacpp:requests_processing 1\n" + vllmPage("num_requests_running 2", "num_requests_waiting 0")
	assert.Equal(t, VLLM, snapshot(t, page, "").Engine)
	page = "llamacpp:requests_processing 1\n" + vllmPage("num_requests_running 2")
	assert.Equal(t, VLLM, snapshot(t, page, "").Engine, "a tie goes to the first of the table, so that it is always the same one")
}

func TestCollectorsRenameTheColon(t *testing.T) {
	s := snapshot(t, strings.ReplaceAll(fixture(t, "vllm-0.30.prom"), "vllm:", "vllm_"), "glm")
	assert.Equal(t, 2530000.0, s.Values[PromptTokens])
	assert.Equal(t, []string{"vllm_prompt_tokens_total"}, s.Names[PromptTokens])
}
