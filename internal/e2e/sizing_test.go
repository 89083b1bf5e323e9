package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/refserver"
)

// TestMeasuredSizing reaches the asked context in the server's own tokens, with
// its tokenizer and without, in the cell and in its scout.
func TestMeasuredSizing(t *testing.T) {
	for _, row := range []struct {
		name     string
		tokenize bool
		method   string
	}{{"tokenize", true, artifact.SizedByTokenizer}, {"usage", false, artifact.SizedByUsage}} {
		t.Run(row.name, func(t *testing.T) {
			o := refserver.Options{Model: "tiny", MaxModelLen: 8192, PrefixCache: true, Tokenize: row.tokenize}
			ref := refTarget(t, o)
			got := runSuite(t, small(ref.URL, "CONTEXT_SIZING=measured", "CONTEXT_TOKENS=1024x3+2048x1", "SCOUT_REQUESTS=4", "RUN=sized",
				"THRESHOLDS=prompt_tokens_min>=1013, prompt_tokens_max<=2068, prefix_cache_hit_rate<=0.01")...)
			require.Zero(t, got.exit, got.output)
			for _, name := range []string{"sized.json", "sized-scout.json"} {
				n, err := artifact.ReadNative(got.dir + "/artifacts/" + name)
				require.NoError(t, err)
				require.NoError(t, n.Validate())
				sizing := n.Harness.ContextSizing
				require.NotNil(t, sizing, name)
				assert.Equal(t, row.method, sizing.Method)
				require.Len(t, sizing.Sizes, 2)
				for _, r := range n.RequestTimings {
					asked := float64(*r.PlannedContextTokens)
					assert.Contains(t, []float64{1024, 2048}, asked, "what was asked is what is recorded")
					assert.InEpsilon(t, asked, *r.PromptTokens, 0.01, "%s, request %d", name, r.RequestIndex)
					assert.Zero(t, *r.CachedTokens, "sizing has warmed nothing")
				}
				for _, size := range sizing.Sizes {
					require.NotNil(t, size.Observed)
					assert.Equal(t, size.Requests, size.Observed.Requests)
				}
			}
		})
	}
}

// TestNominalSizing asks nothing and records nothing of it.
func TestNominalSizing(t *testing.T) {
	o := fast()
	o.Tokenize = true
	ref := refTarget(t, o)
	got := runSuite(t, small(ref.URL)...)
	require.Zero(t, got.exit, got.output)
	n := one(t, got)
	assert.Nil(t, n.Harness.ContextSizing)
	for _, r := range n.RequestTimings {
		assert.Equal(t, 192, *r.PromptTokens, "256 nominal tokens are 768 characters, and four make a token here")
	}
	assert.EqualValues(t, 5, ref.completions.Load(), "the preflight's and the cell's")
}

// TestMeasuredSizingFails before anything of the cell is sent, and says which
// setting it is about.
func TestMeasuredSizingFails(t *testing.T) {
	o := fast()
	o.RejectParams = []string{"stream_options"} // no usage, and no tokenizer
	ref := refTarget(t, o)
	got := runSuite(t, small(ref.URL, "CONTEXT_SIZING=measured", "USAGE=observe")...)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "--- FAIL: TestCapacity/c2-ctx256-w4/preflight")
	assert.Contains(t, got.output, "CAPACITY_CONTEXT_SIZING=measured")
	assert.Contains(t, got.output, "CAPACITY_CONTEXT_SIZING=nominal takes 3 characters for a token and asks nothing")
	assert.Empty(t, got.files(t, "*.json"), "nothing was measured")
}

// TestSharedPrefixSplit tells the requests that computed the shared prefix from
// those that found it cached.
func TestSharedPrefixSplit(t *testing.T) {
	ref := refTarget(t, refserver.Options{Model: "tiny", MaxModelLen: 8192, PrefixCache: true, PrefillTokS: 50_000})
	got := runSuite(t, small(ref.URL, "REQUESTS=8", "CONTEXT_TOKENS=4096", "MAX_TOKENS=32", "CONTEXT_SIZING=measured",
		"PROMPT_CACHE=shared", "SHARED_PREFIX_TOKENS=3072", "THRESHOLDS=prefix_cache_hit_rate>=0.5")...)
	require.Zero(t, got.exit, got.output)
	assert.Contains(t, got.output, "--- PASS: TestCapacity/c2-ctx4096-w4/threshold/prefix_cache_hit_rate (")
	n := one(t, got)
	split := n.Harness.CacheSplit
	require.NotNil(t, split)
	assert.Equal(t, artifact.SplitByCachedTokens, split.Basis)
	assert.Equal(t, 8, split.Cold.N+split.Warm.N)
	require.Positive(t, split.Cold.N, "sizing did not send the cell's prefix")
	assert.LessOrEqual(t, split.Cold.N, 2, "the first wave at most")
	assert.Equal(t, split.Cold.N, split.Cold.FirstWave)
	assert.Greater(t, *split.Cold.TTFTP50MS, *split.Warm.TTFTP50MS, "80 ms of prefill against 20")
	var cached, prompt float64
	for _, r := range n.RequestTimings {
		cached += float64(*r.CachedTokens)
		prompt += float64(*r.PromptTokens)
	}
	rate, _ := n.Metrics.Get("prefix_cache_hit_rate")
	require.NotNil(t, rate)
	assert.InDelta(t, cached/prompt, *rate, 1e-12)
}

// TestHitRateOfASilentServer is not measured, which no gate passes.
func TestHitRateOfASilentServer(t *testing.T) {
	o := fast()
	o.Faults = "no-usage@0,1,2,3"
	ref := refTarget(t, o)
	got := runSuite(t, small(ref.URL, "USAGE=observe", "THRESHOLDS=prefix_cache_hit_rate<=1")...)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "--- FAIL: TestCapacity/c2-ctx256-w4/threshold/prefix_cache_hit_rate (")
	assert.Contains(t, got.output, "the server returned no cached_tokens; unknown is not 0")
}
