package stats

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/record"
)

// TestFoldDefinitions takes answers with round numbers (see answer), so that
// each key can be worked out by hand.
func TestFoldDefinitions(t *testing.T) {
	m := Fold(answers(4), 4, 2000)
	for key, want := range map[string]float64{
		"time_to_first_output_p50_ms":       100,
		"ttft_p50_ms":                       200,
		"e2e_mean_ms":                       1100,
		"generation_max_ms":                 1000,   // e2e - TTFO, not e2e - ttft
		"tpot_mean_ms":                      100,    // 1000 / (11 - 1)
		"mean_inter_token_latency_ms_mean":  100,    // the legacy name puts its unit first
		"mean_time_per_output_token_p99_ms": 100,    // the other follows the rule
		"decode_tok_s_min":                  10,     // 10 / 1 s
		"effective_prefill_tok_s_p95":       10_000, // 1000 / 0.1 s
		"prompt_tokens_mean":                1000,
		"completion_tokens_stddev":          0,
		"ttft_samples":                      4,
		"prompt_tokens":                     4000,
		"prompt_token_samples":              4,
		"output_tokens":                     44,
		"content_chunks":                    40,
		"reasoning_chunks":                  0,  // measured, and none
		"throughput_tok_s":                  22, // 44 / 2 s
	} {
		assert.Equal(t, want, value(t, m, key), key)
	}
	assert.Equal(t, Keys(), m.Keys(), "Keys must list what Fold gives")
	assert.Len(t, Keys(), 11*13+15)
}

// TestThroughputNeedsEverything: each row breaks one condition.
func TestThroughputNeedsEverything(t *testing.T) {
	tests := []struct {
		name    string
		records func() []record.Record
		planned int
		wallMS  float64
		why     string
		reason  string
	}{
		{"failed", func() []record.Record { return append(answers(3), failed(3)) }, 4, 2000,
			"tokens of 3 answers over the time of 4 requests", "not every planned request completed"},
		{"missing", func() []record.Record { return answers(3) }, 4, 2000,
			"an interrupted run has sent less than was planned", "not every planned request completed"},
		{"twice", func() []record.Record { return append(answers(3), answer(2)) }, 4, 2000,
			"a row counted twice hides a missing one", "not every planned request completed"},
		{"foreign index", func() []record.Record { return append(answers(3), answer(4)) }, 4, 2000,
			"indexes are 0..n-1", "not every planned request completed"},
		{"negative index", func() []record.Record { return append(answers(3), answer(-1)) }, 4, 2000,
			"indexes are 0..n-1", "not every planned request completed"},
		{"more than planned", func() []record.Record { return answers(5) }, 4, 2000,
			"not the planned run", "not every planned request completed"},
		{"no usage", func() []record.Record { rs := answers(4); rs[2].Tokens.Output = nil; return rs }, 4, 2000,
			"chunks never stand in for tokens", "1 of 4 completed requests carried no usage"},
		{"no wall", func() []record.Record { return answers(4) }, 4, 0, "nothing happens in no time", "not every"},
		{"wall NaN", func() []record.Record { return answers(4) }, 4, math.NaN(), "a broken clock", "not every"},
		{"wall Inf", func() []record.Record { return answers(4) }, 4, math.Inf(1), "would give 0, which is a number", "not every"},
		{"subnormal wall", func() []record.Record { return answers(4) }, 4, 5e-324, "44 / 0 is not a rate", "not every"},
		{"nothing planned", func() []record.Record { return nil }, 0, 2000, "0 of 0 is not all", "no request completed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := Fold(tt.records(), tt.planned, tt.wallMS)
			null(t, m, "throughput_tok_s")
			assert.Contains(t, m.WhyNil("throughput_tok_s"), tt.reason, tt.why)
			if tt.name != "subnormal wall" {
				assert.False(t, *m.ThroughputPerformanceEligible, tt.why)
			}
		})
	}
	assert.Equal(t, 22.0, value(t, Fold(answers(4), 4, 2000), "throughput_tok_s"), "the control: with all of it there is one")
}

// TestMissingUsage: tokens are from usage or null, and chunks are counted per
// second only where tokens are not.
func TestMissingUsage(t *testing.T) {
	records := answers(4)
	records[1].Tokens = record.Tokens{}
	m := Fold(records, 4, 2000)
	assert.Equal(t, map[string]int{"usage": 3, "content_chunks": 1}, m.OutputTokenSources)
	assert.Equal(t, 3.0, value(t, m, "tpot_samples"), "no TPOT without usage")
	assert.Equal(t, 3.0, value(t, m, "completion_tokens_samples"))
	assert.Equal(t, 3.0, value(t, m, "effective_prefill_tok_s_samples"))
	assert.Equal(t, 4.0, value(t, m, "ttft_samples"), "times need no usage")
	null(t, m, "output_tokens") // a sum of 3 would read as the sum of 4
	assert.Equal(t, 3000.0, value(t, m, "prompt_tokens"), "stands beside prompt_token_samples")
	assert.Equal(t, 3.0, value(t, m, "prompt_token_samples"))
	assert.Equal(t, 20.0, value(t, m, "content_chunks_s"), "40 chunks in 2 s")

	null(t, Fold(append(records[:3:3], failed(3)), 4, 2000), "content_chunks_s")
}

// TestFailedRequestsAreInNothing: a failed request has times and tokens here,
// and adds none of them.
func TestFailedRequestsAreInNothing(t *testing.T) {
	slow := failed(1)
	slow.Timing.TTFTMS = new(9e9)
	slow.Response.ReasoningChunks = 5
	slow.Canary = &contract.CanaryVerdict{}
	slow.Words = &contract.WordsVerdict{}
	m := Fold([]record.Record{answer(0), slow}, 2, 2000)
	assert.Equal(t, 200.0, value(t, m, "ttft_max_ms"))
	for _, key := range []string{"ttft_samples", "prompt_token_samples"} {
		assert.Equal(t, 1.0, value(t, m, key), key)
	}
	assert.Equal(t, 0.0, value(t, m, "reasoning_chunks"))
	assert.Equal(t, 0.0, value(t, m, "request_canary_samples"))
	assert.Equal(t, map[string]int{"usage": 1}, m.OutputTokenSources)
	assert.Equal(t, ProtocolVisible, Protocol([]record.Record{answer(0), slow}), "its reasoning does not choose the protocol")
}

// TestNothingCompleted: samples are 0 and all else is null, so that no gate of
// the kind "at most" passes because nothing ran.
func TestNothingCompleted(t *testing.T) {
	m := Fold([]record.Record{failed(0)}, 1, 2000)
	zero := map[string]bool{"prompt_token_samples": true, "request_canary_samples": true, "controlled_output_samples": true}
	for _, name := range Names() {
		zero[name+"_samples"] = true
	}
	for _, key := range Keys() {
		if zero[key] {
			assert.Equal(t, 0.0, value(t, m, key), key)
			continue
		}
		null(t, m, key)
		assert.Equal(t, "no request completed", m.WhyNil(key), key)
	}
	assert.Equal(t, map[string]int{}, m.OutputTokenSources)
}

func TestVerdictCounts(t *testing.T) {
	pass, fail := &contract.CanaryVerdict{Passed: true}, &contract.CanaryVerdict{}
	words := func(exact *bool) *contract.WordsVerdict { return &contract.WordsVerdict{ExactAdherence: exact} }
	records := answers(5)
	records[0].Canary, records[0].Words = pass, words(new(true))
	records[1].Canary, records[1].Words = fail, words(new(false))
	records[2].Canary, records[2].Words = pass, words(nil)
	records[3].Canary, records[3].CanaryObserved = pass, true // only observed: no sample
	records[3].Words = words(new(true))
	m := Fold(records, 5, 2000)
	for key, want := range map[string]float64{
		"request_canary_samples":                 3,
		"request_canary_passed":                  2,
		"controlled_output_samples":              4,
		"controlled_output_exact_adherence":      2,
		"controlled_output_unobservable":         1,
		"controlled_output_exact_adherence_rate": 2.0 / 3, // of those that could be counted
	} {
		assert.Equal(t, want, value(t, m, key), key)
	}

	off := Fold(answers(2), 2, 2000)
	for _, key := range []string{"request_canary_samples", "controlled_output_samples"} {
		assert.Equal(t, 0.0, value(t, off, key))
	}
	for _, key := range []string{
		"request_canary_passed", "controlled_output_exact_adherence",
		"controlled_output_unobservable", "controlled_output_exact_adherence_rate",
	} {
		null(t, off, key)
		assert.Contains(t, off.WhyNil(key), "no", key)
	}

	cut := answers(1)
	cut[0].Words = words(nil)
	null(t, Fold(cut, 1, 2000), "controlled_output_exact_adherence_rate") // 0 of 0
}

func TestPrefixCacheHit(t *testing.T) {
	records := answers(4)
	records[0].Tokens.Cached = new(500)                                 // 0.5
	records[1].Tokens.Cached = new(0)                                   // 0: the server says so
	records[2].Tokens.Cached, records[2].Tokens.Prompt = new(3), nil    // of how many?
	records[3].Tokens.Cached, records[3].Tokens.Prompt = new(0), new(0) // 0 of 0
	assert.Equal(t, 0.25, value(t, Fold(records, 4, 2000), "prefix_cache_hit_avg"), "silence is not 0")
	silent := Fold(answers(2), 2, 2000)
	null(t, silent, "prefix_cache_hit_avg")
	assert.Contains(t, silent.WhyNil("prefix_cache_hit_avg"), "no cached_tokens")
}

func TestPrefixCacheHitRate(t *testing.T) {
	usage := func(cached, prompt *int) record.Tokens {
		return record.Tokens{Prompt: prompt, Output: new(5), Cached: cached}
	}
	rows := []struct {
		name   string
		tokens []record.Tokens
		want   *float64
		why    string
	}{
		{"sizes differ", []record.Tokens{usage(new(900), new(1000)), usage(new(0), new(9000))}, new(0.09), "900 of 10,000 tokens, where the mean of the shares is 0.45"},
		{"said by some", []record.Tokens{usage(new(500), new(1000)), usage(nil, new(7000))}, new(0.5), "a request that the server is silent about is in neither sum"},
		{"cached of unknown", []record.Tokens{usage(new(500), new(1000)), usage(new(400), nil)}, new(0.5), "of how many? in neither sum"},
		{"none cached", []record.Tokens{usage(new(0), new(1000))}, new(0.0), "the server says 0"},
		{"silent", []record.Tokens{usage(nil, new(1000))}, nil, "unknown is not 0"},
		{"no prompt tokens", []record.Tokens{usage(new(0), new(0))}, nil, "0 of 0"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			records := answers(len(row.tokens))
			for i := range records {
				records[i].Tokens = row.tokens[i]
			}
			m := Fold(append(records, failed(len(records))), len(records)+1, 2000)
			got, known := m.Get("prefix_cache_hit_rate")
			require.True(t, known)
			assert.Equal(t, row.want, got, row.why)
		})
	}
	silent := Fold(answers(2), 2, 2000)
	assert.Contains(t, silent.WhyNil("prefix_cache_hit_rate"), "no cached_tokens")
	assert.True(t, IsAdded("prefix_cache_hit_rate"))
	assert.False(t, IsAdded("prefix_cache_hit_avg"), "the protocol has it")
}

// TestBrokenReadingIsNotMeasured: a NaN in a record empties its distributions
// and no other.
func TestBrokenReadingIsNotMeasured(t *testing.T) {
	records := answers(3)
	records[1].Timing.TTFTMS = new(math.NaN())
	m := Fold(records, 3, 2000)
	assert.Equal(t, 0.0, value(t, m, "ttft_samples"))
	null(t, m, "ttft_max_ms")
	assert.Equal(t, 3.0, value(t, m, "e2e_samples"))
	assert.Equal(t, 0, Population(records, 3).P99SamplesByMetric["ttft"])
}

func TestProtocol(t *testing.T) {
	thinking := answer(1)
	thinking.Response.ReasoningChunks = 1
	assert.Equal(t, "capacity-v3", Protocol(nil))
	assert.Equal(t, "capacity-v3", Protocol(answers(2)))
	assert.Equal(t, "capacity-v4-reasoning", Protocol([]record.Record{answer(0), thinking}), "one event in one request is enough")
}

func TestKeysAndNames(t *testing.T) {
	for _, name := range Names() {
		for _, statistic := range Statistics() {
			key, ok := Key(name, statistic)
			require.True(t, ok)
			gotName, gotStatistic, ok := SplitKey(key)
			require.True(t, ok, key)
			assert.Equal(t, []string{name, statistic}, []string{gotName, gotStatistic}, key)
			assert.Contains(t, Keys(), key)
		}
	}
	for _, tt := range []struct{ name, statistic, key, why string }{
		{"ttft", "p50", "ttft_p50_ms", "a time"},
		{"ttft", "samples", "ttft_samples", "a count has no unit"},
		{"e2e", "mean_ci95_low", "e2e_mean_ci95_low_ms", "as published"},
		{"decode_tok_s", "p50", "decode_tok_s_p50", "a rate"},
		{"mean_inter_token_latency_ms", "p50", "mean_inter_token_latency_ms_p50", "unit first, as published"},
		{"mean_time_per_output_token", "p50", "mean_time_per_output_token_p50_ms", "by the rule"},
	} {
		key, ok := Key(tt.name, tt.statistic)
		assert.True(t, ok)
		assert.Equal(t, tt.key, key, tt.why)
	}
	for _, bad := range [][2]string{{"ttft", "p80"}, {"itl", "p50"}, {"", ""}} {
		_, ok := Key(bad[0], bad[1])
		assert.False(t, ok, "%v", bad)
	}
	for _, key := range []string{"prompt_tokens", "throughput_tok_s", "ttft_p50", "prompt_token_samples", ""} {
		_, _, ok := SplitKey(key)
		assert.False(t, ok, key)
	}
	r := answer(0)
	v, known := Value(&r, "tpot")
	assert.True(t, known)
	assert.Equal(t, 100.0, *v)
	_, known = Value(&r, "itl")
	assert.False(t, known)
}

// TestFoldOrderDoesNotMatter on the real rows: all keys, to the last bit.
func TestFoldOrderDoesNotMatter(t *testing.T) {
	records, rng := realRecords(t, "final-rows.csv"), seeded(5)
	want, err := Fold(records, 100, finalWallMS).MarshalJSON()
	require.NoError(t, err)
	for range 10 {
		rng.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
		got, err := Fold(records, 100, finalWallMS).MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
}

// BenchmarkFold10k folds the largest cell there can be; the budget is 50 ms.
func BenchmarkFold10k(b *testing.B) {
	rng, records := seeded(6), answers(10_000)
	for i := range records {
		ttfo := math.Exp(8 + 0.4*rng.NormFloat64())
		ttft := ttfo + 1000*rng.ExpFloat64()
		records[i].Timing = record.Timing{TTFOMS: &ttfo, TTFTMS: &ttft, E2EMS: new(ttft + 5000*rng.Float64())}
		records[i].Tokens = record.Tokens{Prompt: new(25_000 + rng.IntN(100)), Output: new(100 + rng.IntN(100))}
	}
	for b.Loop() {
		Fold(records, len(records), 1e6)
	}
}
