package engine

import "slices"

// Role is what a metric is for, whatever an engine calls it.
type Role string

// Gauges: a value of the moment.
const (
	// Running is how many requests the engine works on.
	Running Role = "requests_running"
	// Waiting is how many requests it has taken and not begun.
	Waiting Role = "requests_waiting"
	// KVCacheUse is the share of the KV cache in use, 0 to 1; of several engines
	// behind one address, the fullest one's.
	KVCacheUse Role = "kv_cache_use"
)

// Counters: they only rise while the process lives.
const (
	// Requests counts the requests that ended with an answer; those that were
	// aborted are left out where the engine tells them apart.
	Requests Role = "requests"
	// PromptTokens counts prompt tokens as usage does, the cached ones included.
	PromptTokens Role = "prompt_tokens"
	// GenerationTokens counts generated tokens, reasoning included.
	GenerationTokens Role = "generation_tokens"
	// Preemptions counts requests that lost their place in the batch for want of
	// KV cache and had to be computed again; SGLang calls it retraction.
	Preemptions Role = "preemptions"
	// PrefixCacheQueries counts what was looked up in the prefix cache and
	// PrefixCacheHits what was found there, both in the unit of
	// [Delta.PrefixUnit].
	PrefixCacheQueries Role = "prefix_cache_queries"
	PrefixCacheHits    Role = "prefix_cache_hits"
)

// Histograms of seconds.
const (
	// TTFT is the engine's time to its first token, from the arrival of the
	// request at the engine. It knows no visible or reasoning text, so what it
	// stands beside is the client's TTFO.
	TTFT Role = "time_to_first_token"
	// TPOT has one value a request: its mean time per output token.
	TPOT Role = "time_per_output_token"
	// ITL has one value a token: the gap before it. Its mean weighs long answers
	// more than TPOT's does.
	ITL Role = "inter_token_latency"
)

var (
	gauges     = []Role{Running, Waiting, KVCacheUse}
	counters   = []Role{Requests, PromptTokens, GenerationTokens, Preemptions, PrefixCacheQueries, PrefixCacheHits}
	histograms = []Role{TTFT, TPOT, ITL}
	allRoles   = slices.Concat(gauges, counters, histograms)
)
