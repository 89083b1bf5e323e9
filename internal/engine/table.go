package engine

import (
	"slices"
	"strings"
)

// Names of engines, as reports and artifacts have them.
const (
	VLLM      = "vllm"
	SGLang    = "sglang"
	LlamaCPP  = "llama.cpp"
	TGI       = "tgi"
	TensorRT  = "tensorrt-llm"
	RefServer = "refserver"
)

// Units of the prefix-cache counters.
const (
	unitTokens = "tokens"
	unitBlocks = "blocks"
)

// part says which number of a metric is meant.
type part int

const (
	value    part = iota // of a gauge or a counter
	histSum              // the sum of a histogram's values
	histFull             // the whole histogram
)

// fold says how the series of one metric (of several models, or engines behind
// one address) become one number.
type fold int

const (
	sum fold = iota
	most
)

// term is one metric, or the series of it that have certain values of a label.
type term struct {
	// name is the family's, without the _total that counters are exposed with.
	// A colon in it stands for an underscore too: collectors rename them.
	name  string
	part  part
	label string   // what in and notIn are about; "" takes every series
	in    []string // takes only series with one of these
	notIn []string // takes none of these; a series without the label is taken
}

// source is one way to read a role: terms added up, divided by over where there
// is any.
type source struct {
	terms []term
	over  []term
	fold  fold
	// since says with which version the name came or went, for people.
	since string
	// computedOnly says that the prompt tokens leave out those from the cache.
	computedOnly bool
	// unit is that of a prefix-cache counter.
	unit string
}

// dialect is how one engine names its metrics. Every role lists its sources
// newest first, and the first one that is exposed counts. The sources of
// PrefixCacheQueries and PrefixCacheHits are pairs: a ratio of two different
// kinds would be no ratio.
type dialect struct {
	engine  string
	sources map[Role][]source
	// rankLabels tell apart the ranks of one engine, which all report the same
	// requests: of series that differ only in them, one counts.
	rankLabels []string
	// partLabel is a label whose non-empty values are parts of the series where
	// it is empty.
	partLabel string
}

func named(name, since string) source { return source{terms: []term{{name: name}}, since: since} }

func histogram(name, since string) source {
	return source{terms: []term{{name: name, part: histFull}}, since: since}
}

func peak(name, since string) source {
	return source{terms: []term{{name: name}}, since: since, fold: most}
}

func tokens(since string, terms ...term) source {
	return source{terms: terms, since: since, unit: unitTokens}
}

// finishedReason is vLLM's label on its counter of ended requests, which counts
// the aborted ones as well.
func finishedReason(name, since string, notIn ...string) source {
	return source{terms: []term{{name: name, label: "finished_reason", notIn: notIn}}, since: since}
}

// dialects is the table of names. Sources: vLLM's docs/usage/metrics.md,
// docs/design/metrics.md and vllm/v1/metrics/loggers.py (0.8 to 0.30), SGLang's
// metrics collectors (0.4 to 0.5.21) and docs/references/production_metrics.md,
// llama.cpp's tools/server/README.md and b11549 itself, TGI's
// docs/source/reference/metrics.md (3.3), TensorRT-LLM's
// tensorrt_llm/metrics/collector.py (1.1 to 1.3) and the Triton backend's
// README.
var dialects = []dialect{
	{engine: VLLM, sources: map[Role][]source{
		Running: {named("vllm:num_requests_running", "")},
		Waiting: {named("vllm:num_requests_waiting", "")},
		KVCacheUse: {
			peak("vllm:kv_cache_usage_perc", "0.9.2"),
			peak("vllm:gpu_cache_usage_perc", "gone in 0.12"),
		},
		Requests:         {finishedReason("vllm:request_success", "", "abort", "error")},
		PromptTokens:     {named("vllm:prompt_tokens", "")},
		GenerationTokens: {named("vllm:generation_tokens", "")},
		Preemptions:      {named("vllm:num_preemptions", "")},
		PrefixCacheQueries: {
			tokens("0.9.2", term{name: "vllm:prefix_cache_queries"}),
			tokens("V1 engine, deprecated in 0.9", term{name: "vllm:gpu_prefix_cache_queries"}),
		},
		PrefixCacheHits: {
			tokens("0.9.2", term{name: "vllm:prefix_cache_hits"}),
			tokens("V1 engine, deprecated in 0.9", term{name: "vllm:gpu_prefix_cache_hits"}),
		},
		TTFT: {histogram("vllm:time_to_first_token_seconds", "")},
		TPOT: {histogram("vllm:request_time_per_output_token_seconds", "seen in 0.30, not in 0.10")},
		ITL: {
			histogram("vllm:inter_token_latency_seconds", "0.10.2"),
			histogram("vllm:time_per_output_token_seconds", "deprecated in 0.11, hidden in 0.12"),
		},
	}},
	{engine: SGLang, rankLabels: []string{"tp_rank", "pp_rank", "moe_ep_rank"}, partLabel: "priority", sources: map[Role][]source{
		Running:          {named("sglang:num_running_reqs", "")},
		Waiting:          {named("sglang:num_queue_reqs", "")},
		KVCacheUse:       {peak("sglang:token_usage", "")},
		Requests:         {named("sglang:num_requests", "")},
		PromptTokens:     {named("sglang:prompt_tokens", "")},
		GenerationTokens: {named("sglang:generation_tokens", "")},
		Preemptions:      {named("sglang:num_retracted_requests", "seen in 0.5")},
		PrefixCacheQueries: {
			tokens("seen in 0.5.21", term{name: "sglang:prefill_effective_tokens"}),
			tokens("", term{name: "sglang:prompt_tokens"}),
		},
		PrefixCacheHits: {
			tokens("seen in 0.5.21", term{name: "sglang:prefill_effective_tokens", label: "mode", in: []string{"device_hit", "host_hit", "storage_hit"}}),
			tokens("", term{name: "sglang:cached_tokens"}),
		},
		TTFT: {histogram("sglang:time_to_first_token_seconds", "")},
		TPOT: {histogram("sglang:time_per_output_token_seconds", "older versions")},
		ITL:  {histogram("sglang:inter_token_latency_seconds", "seen in 0.5")},
	}},
	{engine: LlamaCPP, sources: map[Role][]source{
		Running:    {named("llamacpp:requests_processing", "")},
		Waiting:    {named("llamacpp:requests_deferred", "")},
		KVCacheUse: {peak("llamacpp:kv_cache_usage_ratio", "gone since May 2025")},
		PromptTokens: {
			{terms: []term{{name: "llamacpp:prompt_tokens"}, {name: "llamacpp:prompt_tokens_cached"}}, since: "2026"},
			{terms: []term{{name: "llamacpp:prompt_tokens"}}, computedOnly: true},
		},
		GenerationTokens: {named("llamacpp:tokens_predicted", "")},
		PrefixCacheQueries: {
			tokens("2026", term{name: "llamacpp:prompt_tokens"}, term{name: "llamacpp:prompt_tokens_cached"}),
		},
		PrefixCacheHits: {tokens("2026", term{name: "llamacpp:prompt_tokens_cached"})},
	}},
	{engine: TGI, sources: map[Role][]source{
		Running:          {named("tgi_batch_current_size", "")},
		Waiting:          {named("tgi_queue_size", "")},
		Requests:         {named("tgi_request_success", "")},
		PromptTokens:     {{terms: []term{{name: "tgi_request_input_length", part: histSum}}}},
		GenerationTokens: {{terms: []term{{name: "tgi_request_generated_tokens", part: histSum}}}},
		TPOT:             {histogram("tgi_request_mean_time_per_token_duration", "")},
	}},
	{engine: TensorRT, sources: map[Role][]source{
		Running: {
			named("trtllm_num_requests_running", "1.3.0rc12"),
			named("trtllm_num_active_requests", "1.3 development"),
			{terms: []term{{name: "nv_trt_llm_request_metrics", label: "request_type", in: []string{"active"}}}, since: "Triton 23.11"},
		},
		Waiting: {
			named("trtllm_num_requests_waiting", "1.3.0rc12"),
			named("trtllm_server_queue_length", "1.3 development"),
			{terms: []term{{name: "nv_trt_llm_request_metrics", label: "request_type", in: []string{"waiting"}}}, since: "Triton 23.11"},
		},
		KVCacheUse: {
			peak("trtllm_kv_cache_utilization", "2026"),
			{
				terms: []term{{name: "nv_trt_llm_kv_cache_block_metrics", label: "kv_cache_block_type", in: []string{"used"}}},
				over:  []term{{name: "nv_trt_llm_kv_cache_block_metrics", label: "kv_cache_block_type", in: []string{"max"}}},
				since: "Triton 23.11",
			},
		},
		Requests: {
			finishedReason("trtllm_request_success", "after 1.1", "cancelled", "timeout"),
			finishedReason("request_success", "1.1", "cancelled", "timeout"),
			peak("nv_inference_request_success", "Triton 23.12; the models of an ensemble count the same requests"),
		},
		PromptTokens:     {named("trtllm_prompt_tokens", "seen in 1.3")},
		GenerationTokens: {named("trtllm_generation_tokens", "seen in 1.3")},
		PrefixCacheQueries: {
			tokens("seen in 1.3", term{name: "trtllm_prompt_tokens"}),
			{terms: []term{{name: "trtllm_kv_cache_reused_blocks"}, {name: "trtllm_kv_cache_missed_blocks"}}, since: "seen in 1.3", unit: unitBlocks},
		},
		PrefixCacheHits: {
			tokens("seen in 1.3", term{name: "trtllm_prompt_cached_tokens"}),
			{terms: []term{{name: "trtllm_kv_cache_reused_blocks"}}, since: "seen in 1.3", unit: unitBlocks},
		},
		TTFT: {histogram("trtllm_time_to_first_token_seconds", "after 1.1"), histogram("time_to_first_token_seconds", "1.1")},
		TPOT: {histogram("trtllm_time_per_output_token_seconds", "after 1.1"), histogram("time_per_output_token_seconds", "1.1")},
	}},
	{engine: RefServer, sources: map[Role][]source{
		Running:            {named("refserver:num_requests_running", "")},
		Waiting:            {named("refserver:num_requests_waiting", "")},
		Requests:           {finishedReason("refserver:request_success", "", "abort")},
		PromptTokens:       {named("refserver:prompt_tokens", "")},
		GenerationTokens:   {named("refserver:generation_tokens", "")},
		PrefixCacheQueries: {tokens("", term{name: "refserver:prefix_cache_queries"})},
		PrefixCacheHits:    {tokens("", term{name: "refserver:prefix_cache_hits"})},
		TTFT:               {histogram("refserver:time_to_first_token_seconds", "")},
		TPOT:               {histogram("refserver:request_time_per_output_token_seconds", "")},
	}},
}

// Engines lists the engines whose metrics are known.
func Engines() []string {
	names := make([]string, len(dialects))
	for i, d := range dialects {
		names[i] = d.engine
	}
	return names
}

// processStart is the start of the server's process in Unix seconds: the one
// sign of a restart that a counter which has overtaken its old value cannot
// hide. Python and Rust clients expose it, vLLM and SGLang only without
// multiprocess mode.
const processStart = "process_start_time_seconds"

// familyKind says how the lines of a family are read.
type familyKind int

const (
	plainFamily familyKind = iota
	histogramFamily
)

// wanted are the families worth keeping of a page, by familyKey.
type wanted map[string]familyKind

// wantedAll is every family of the table, wantedGauges those of gauges alone,
// for the reads during the load.
var wantedAll, wantedGauges = want(allRoles), want(gauges)

func want(roles []Role) wanted {
	w := wanted{familyKey(processStart): plainFamily}
	for _, d := range dialects {
		for _, role := range roles {
			for _, s := range d.sources[role] {
				for _, t := range slices.Concat(s.terms, s.over) {
					w[familyKey(t.name)] = t.kind()
				}
			}
		}
	}
	return w
}

func (t term) kind() familyKind {
	if t.part == value {
		return plainFamily
	}
	return histogramFamily
}

// takes says whether a series with these labels belongs to the term.
func (t term) takes(labels []label) bool {
	if t.label == "" {
		return true
	}
	got := labelValue(labels, t.label)
	if t.in != nil {
		return slices.Contains(t.in, got)
	}
	return !slices.Contains(t.notIn, got)
}

// familyKey is the name under which spellings of one family meet.
func familyKey(name string) string {
	return strings.TrimSuffix(strings.ReplaceAll(name, ":", "_"), "_total")
}
