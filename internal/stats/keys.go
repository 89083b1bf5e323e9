package stats

import (
	"slices"
	"strings"

	"anvil-capacity/internal/record"
)

// The keys of the metrics that are no distribution (PROTOCOL section 5).
const (
	keyPromptTokens       = "prompt_tokens"
	keyPromptTokenSamples = "prompt_token_samples"
	keyOutputTokens       = "output_tokens"
	keyContentChunks      = "content_chunks"
	keyContentChunksS     = "content_chunks_s"
	keyReasoningChunks    = "reasoning_chunks"
	keyCanarySamples      = "request_canary_samples"
	keyCanaryPassed       = "request_canary_passed"
	keyWordsSamples       = "controlled_output_samples"
	keyWordsExact         = "controlled_output_exact_adherence"
	keyWordsUnobservable  = "controlled_output_unobservable"
	keyWordsExactRate     = "controlled_output_exact_adherence_rate"
	keyThroughput         = "throughput_tok_s"
	keyPrefixCacheHitAvg  = "prefix_cache_hit_avg"
	keyPrefixCacheHitRate = "prefix_cache_hit_rate"

	// The two keys of a metrics object whose values are not numbers.
	keyTokenSources       = "output_token_sources"
	keyThroughputEligible = "throughput_performance_eligible"
)

var totalKeys = []string{
	keyPromptTokens, keyPromptTokenSamples, keyOutputTokens,
	keyContentChunks, keyContentChunksS, keyReasoningChunks,
	keyCanarySamples, keyCanaryPassed,
	keyWordsSamples, keyWordsExact, keyWordsUnobservable, keyWordsExactRate,
	keyThroughput, keyPrefixCacheHitAvg, keyPrefixCacheHitRate,
}

// addedKeys are those of totalKeys that PROTOCOL section 5 does not have: the
// metrics of another implementation, or of an older artifact, lack them.
var addedKeys = []string{keyPrefixCacheHitRate}

// IsAdded says that a metric key is this suite's own and not the protocol's. An
// artifact without it is none the worse.
func IsAdded(key string) bool { return slices.Contains(addedKeys, key) }

// family is one measured quantity of a request and the shape of its keys.
type family struct {
	name string
	// unitSuffix ends the keys of a time, `ttft_p50_ms`; rates and counts carry
	// their unit in the name or have none.
	unitSuffix string
	// needs completes "no completed request had ...".
	needs string
	value func(*record.Record) *float64
}

const (
	needsTPOT   = "two or more output tokens from usage and a generation time above 0"
	needsPrompt = "a prompt token count in its usage"
	needsOutput = "an output token count in its usage"
)

// families lists the distributions of PROTOCOL section 4. TPOT stands three
// times, under its two legacy names as well. mean_inter_token_latency_ms puts
// its unit first, as the published artifacts do; mean_time_per_output_token is
// spelled by the general rule for times (`mean_time_per_output_token_p50_ms`),
// for the protocol makes an exception of the first alone.
var families = []family{
	{"time_to_first_output", "_ms", "a first output", func(r *record.Record) *float64 { return r.Timing.TTFOMS }},
	{"ttft", "_ms", "a first visible token", func(r *record.Record) *float64 { return r.Timing.TTFTMS }},
	{"generation", "_ms", "a first output and an end", func(r *record.Record) *float64 { return r.Timing.GenerationMS() }},
	{"e2e", "_ms", "an end", func(r *record.Record) *float64 { return r.Timing.E2EMS }},
	{"effective_prefill_tok_s", "", needsPrompt, (*record.Record).EffectivePrefillTokS},
	{"decode_tok_s", "", needsTPOT, (*record.Record).DecodeTokS},
	{"tpot", "_ms", needsTPOT, (*record.Record).TPOTMS},
	{"mean_inter_token_latency_ms", "", needsTPOT, (*record.Record).TPOTMS},
	{"mean_time_per_output_token", "_ms", needsTPOT, (*record.Record).TPOTMS},
	{"prompt_tokens", "", needsPrompt, func(r *record.Record) *float64 { return count(r.Tokens.Prompt) }},
	{"completion_tokens", "", needsOutput, func(r *record.Record) *float64 { return count(r.Tokens.Output) }},
}

func count(n *int) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

func (f family) key(statistic string) string {
	if statistic == statSamples {
		return f.name + "_" + statistic
	}
	return f.name + "_" + statistic + f.unitSuffix
}

// sample gives the family's value of every row that has one.
func (f family) sample(rows []*record.Record) []float64 {
	xs := make([]float64, 0, len(rows))
	for _, r := range rows {
		if v := f.value(r); v != nil {
			xs = append(xs, *v)
		}
	}
	return xs
}

func familyOf(name string) (family, bool) {
	i := slices.IndexFunc(families, func(f family) bool { return f.name == name })
	if i < 0 {
		return family{}, false
	}
	return families[i], true
}

// Names lists the distributions that Fold gives, `ttft` and its sisters, in the
// order of PROTOCOL section 4. The slice is the caller's.
func Names() []string {
	names := make([]string, len(families))
	for i, f := range families {
		names[i] = f.name
	}
	return names
}

// Statistics lists what each distribution holds, from samples to max. The slice
// is the caller's.
func Statistics() []string {
	names := make([]string, len(statistics))
	for i, s := range statistics {
		names[i] = s.name
	}
	return names
}

// Key spells the metric key of a statistic of a distribution: Key("ttft", "p50")
// is "ttft_p50_ms". ok is false for a name or statistic that is not listed.
func Key(name, statistic string) (key string, ok bool) {
	f, ok := familyOf(name)
	if !ok || !slices.Contains(Statistics(), statistic) {
		return "", false
	}
	return f.key(statistic), true
}

// SplitKey is the reverse of Key. ok is false for a key that is not a statistic
// of a distribution, such as throughput_tok_s or prompt_tokens.
func SplitKey(key string) (name, statistic string, ok bool) {
	for _, f := range families {
		if !strings.HasPrefix(key, f.name+"_") {
			continue
		}
		for _, s := range statistics {
			if f.key(s.name) == key {
				return f.name, s.name, true
			}
		}
	}
	return "", "", false
}

// Keys lists every numeric metric key that Fold gives, sorted: what a threshold
// may name. The slice is the caller's.
func Keys() []string {
	keys := slices.Clone(totalKeys)
	for _, f := range families {
		for _, s := range statistics {
			keys = append(keys, f.key(s.name))
		}
	}
	slices.Sort(keys)
	return keys
}

// Value gives what one request adds to the distribution of that name: nil when
// it was not measured. known is false for a name that Names does not list. It
// does not look at the failure: callers leave failed requests out.
func Value(r *record.Record, name string) (v *float64, known bool) {
	f, known := familyOf(name)
	if !known {
		return nil, false
	}
	return f.value(r), true
}
