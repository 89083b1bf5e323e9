package artifact

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/record"
)

// sharedRun is a run of prompts that share 1,000 nominal tokens, at concurrency
// 2: two cold requests of 1 s to first output, then warm ones of 100 ms.
func sharedRun(n int) Run {
	run := smallRun(n)
	run.Concurrency = 2
	run.PromptCacheMode, run.SharedPrefixTokens = CacheShared, 1000
	for i := range run.Records {
		r := &run.Records[i]
		r.Tokens.Cached = new(768)
		if r.FirstWave = i < 2; r.FirstWave {
			r.Tokens.Cached = new(16) // the chat template, which the preflight had sent
			r.Timing = record.Timing{TTFOMS: new(1000.0), TTFTMS: new(1100.0), E2EMS: new(1300.0)}
		}
	}
	return run
}

func TestCacheSplitByCachedTokens(t *testing.T) {
	s := Build(sharedRun(8)).Harness.CacheSplit
	require.NotNil(t, s)
	assert.Equal(t, SplitByCachedTokens, s.Basis)
	assert.Equal(t, 500, s.WarmFromTokens, "half of the shared prefix")
	assert.Equal(t, CacheSide{N: 2, TTFOP50MS: new(1000.0), TTFTP50MS: new(1100.0), TTFTMeanMS: new(1100.0), CachedTokens: new(16.0), FirstWave: 2}, s.Cold)
	assert.Equal(t, CacheSide{N: 6, TTFOP50MS: new(100.0), TTFTP50MS: new(200.0), TTFTMeanMS: new(200.0), CachedTokens: new(768.0)}, s.Warm)
	assert.Equal(t, "shared prefix: 2 cold requests with TTFT p50 1100.0 ms, 6 warm ones with 200.0 ms (by cached_tokens)", s.String())
}

func TestCacheSplit(t *testing.T) {
	rows := []struct {
		name       string
		change     func(*Run)
		cold, warm int // -1: no split
		basis, why string
	}{
		{"as it is", func(*Run) {}, 2, 6, SplitByCachedTokens, "the first wave computed the prefix"},
		{"unique", func(r *Run) { r.PromptCacheMode, r.SharedPrefixTokens = CacheUnique, 0 }, -1, 0, "", "there is no shared prefix to be warm"},
		{"all warm", func(r *Run) { r.Records[0].Tokens.Cached, r.Records[1].Tokens.Cached = new(768), new(768) }, 0, 8, SplitByCachedTokens,
			"a scout had sent the prefix: the server's word goes before the order of arrival"},
		{"no cache", func(r *Run) {
			for i := range r.Records {
				r.Records[i].Tokens.Cached = new(0)
			}
		}, 8, 0, SplitByCachedTokens, "the server says that nothing was cached"},
		{"half less one", func(r *Run) { r.Records[7].Tokens.Cached = new(499) }, 3, 5, SplitByCachedTokens, "the limit at n-1"},
		{"half", func(r *Run) { r.Records[7].Tokens.Cached = new(500) }, 2, 6, SplitByCachedTokens, "at n"},
		{"half and one", func(r *Run) { r.Records[7].Tokens.Cached = new(501) }, 2, 6, SplitByCachedTokens, "at n+1"},
		{"failed", func(r *Run) { r.fail(7, *record.NewFailure(record.TransportReset, "reset"), false) }, 2, 5, SplitByCachedTokens, "a failed request is on neither side"},
		{"silent", func(r *Run) {
			for i := range r.Records {
				r.Records[i].Tokens.Cached = nil
			}
		}, -1, 0, "", "mostly warm, with times in which no request stands out as warm: nothing is known, and nothing is said"},
		{"silent about one", func(r *Run) { r.Records[3].Tokens.Cached = nil }, -1, 0, "", "silence is not 0, so it goes by times"},
		{"silent, warm by times", func(r *Run) {
			for i := range r.Records {
				r.Records[i].Tokens.Cached = nil
				if i != 5 && i != 6 {
					r.Records[i].Timing = record.Timing{TTFOMS: new(1000.0), TTFTMS: new(1100.0), E2EMS: new(1300.0)}
				}
			}
		}, 6, 2, SplitByTimes, "two rows are ten times faster than the rest"},
		{"prefix of one token", func(r *Run) { r.SharedPrefixTokens, r.Records[0].Tokens.Cached = 1, new(0) }, 1, 7, SplitByCachedTokens, "at least one cached token makes warm"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			run := sharedRun(8)
			row.change(&run)
			n := Build(run)
			s := n.Harness.CacheSplit
			if row.cold < 0 {
				assert.Nil(t, s, row.why)
				return
			}
			require.NotNil(t, s, row.why)
			assert.Equal(t, row.basis, s.Basis)
			assert.Equal(t, row.cold, s.Cold.N, row.why)
			assert.Equal(t, row.warm, s.Warm.N, row.why)
			if row.warm == 0 {
				assert.Nil(t, s.Warm.TTFTP50MS, "no sample is not 0")
			}
		})
	}
	empty := sharedRun(2)
	empty.Records = nil
	assert.Nil(t, Build(empty).Harness.CacheSplit)
}
