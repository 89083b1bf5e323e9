package gate

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/config"
)

// published reads a real artifact of another implementation, with its rows.
func published(t *testing.T, name string) Run {
	t.Helper()
	n, err := artifact.ReadNative(filepath.Join("..", "..", "fixtures", "artifacts", name))
	require.NoError(t, err)
	return Run{Name: name, Native: &n}
}

const (
	defaultBuild = "fp8-moe-ab-default-v3-primary-r1.json"
	tunedBuild   = "fp8-moe-ab-tuned-v3-primary-r2.json"
)

// TestPublishedBuildsAreComparable: engine and recipe differ, and that is what
// one compares.
func TestPublishedBuildsAreComparable(t *testing.T) {
	b := Baseline{Earlier: []Run{published(t, defaultBuild)}, Cell: []Run{published(t, tunedBuild)}}
	assert.Empty(t, b.Refusal())
}

func TestRefusalListsEveryDifference(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*artifact.Native)
		want   string
		why    string
	}{
		{"protocol", func(n *artifact.Native) { n.MeasurementProtocol = "capacity-v4-reasoning" }, "measurement_protocol is capacity-v3, and capacity-v4-reasoning here", "TTFT means something else"},
		{"concurrency", func(n *artifact.Native) { n.Concurrency = 8 }, "concurrency is 16, and 8 here", "another load"},
		{"max_tokens", func(n *artifact.Native) { n.MaxTokens = 128 }, "max_tokens is 64, and 128 here", "longer answers"},
		{"context", func(n *artifact.Native) { n.ContextDistribution = map[string]int{"4096": 32} }, "context is 8192", "shorter prompts"},
		{"seed", func(n *artifact.Native) { n.ContextSeed = new(7) }, "context_seed is 0 in the baseline, and 7 here", "other prompts"},
		{"cache", func(n *artifact.Native) { n.PromptCacheMode = new("shared") }, "prompt_cache_mode is not said, and shared here", "what the baseline does not say was not looked at"},
		{"failed", func(n *artifact.Native) { n.Completed, n.Failed = 31, 1 }, "1 of 32 requests failed", "no evidence of performance"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cell := published(t, tunedBuild)
			tt.change(cell.Native)
			b := Baseline{Earlier: []Run{published(t, defaultBuild)}, Cell: []Run{cell}}
			assert.Contains(t, b.Refusal(), tt.want, tt.why)
		})
	}
}

func TestAllowedDifferenceIsNotRefused(t *testing.T) {
	cell := published(t, tunedBuild)
	cell.Native.MaxTokens, cell.Native.ContextSeed = 128, new(7)
	b := Baseline{Earlier: []Run{published(t, defaultBuild)}, Cell: []Run{cell}, Allow: []string{"max_tokens"}}
	assert.NotContains(t, b.Refusal(), "max_tokens")
	assert.Contains(t, b.Refusal(), "context_seed", "what is not named still refuses")
	b.Allow = append(b.Allow, "context_seed")
	assert.Empty(t, b.Refusal())
}

// TestFactsHaveEveryName: a name that can be allowed and is never compared would
// promise a check that is not made.
func TestFactsHaveEveryName(t *testing.T) {
	facts := factsOf(published(t, defaultBuild).Native)
	require.NotEmpty(t, config.AllowedDifferences)
	for _, name := range config.AllowedDifferences {
		assert.Contains(t, facts, name)
	}
	assert.Len(t, facts, len(config.AllowedDifferences))
}

// TestTwoWavesSayNothing: 32 requests at concurrency 16 are two waves, so the
// real pair cannot be told apart, and the gate says so.
func TestTwoWavesSayNothing(t *testing.T) {
	b := Baseline{Earlier: []Run{published(t, defaultBuild)}, Cell: []Run{published(t, tunedBuild)}}
	for _, c := range b.Compare([]config.Regression{{Metric: "ttft", Margin: 0.05}, {Metric: "throughput", Margin: 0.03}}) {
		assert.NotEqual(t, Pass, c.Status, c.Message)
		assert.NotEqual(t, Fail, c.Status, c.Message)
		assert.Contains(t, c.Message, "cannot tell")
	}
}

func TestRegressionOfAnUnknownMetric(t *testing.T) {
	err := CheckRegressions([]config.Regression{{Metric: "ttft", Margin: 0.05}, {Metric: "tttf", Margin: 0.05}, {Metric: "prompt_tokens", Margin: 0.05}})
	require.Error(t, err)
	assert.Contains(t, err.Error(), `"tttf"`)
	assert.Contains(t, err.Error(), `"prompt_tokens"`, "neither more nor less of it is better")
	assert.NotContains(t, err.Error(), `"ttft"`)
	assert.NoError(t, CheckRegressions(nil))
}

// TestBoundedThresholds holds a limit to the interval's end: it is stricter than
// the value, and data that give no such end do not pass.
func TestBoundedThresholds(t *testing.T) {
	n := published(t, defaultBuild).Native
	value, _ := n.Metrics.Get("e2e_p50_ms")
	require.NotNil(t, value)
	judge := func(threshold config.Threshold) Verdict { return EvaluateRun([]config.Threshold{threshold}, n)[0] }

	plain := judge(config.Threshold{Metric: "e2e_p50_ms", Op: "<=", Limit: *value})
	assert.Equal(t, Pass, plain.Status, "the value itself is at its limit")
	bounded := judge(config.Threshold{Metric: "e2e_p50_ms", Op: "<=", Limit: *value, Bound: 0.95})
	assert.NotEqual(t, Pass, bounded.Status, "its upper bound is above it: %s", bounded.Message)
	far := judge(config.Threshold{Metric: "e2e_p50_ms", Op: "<=", Limit: 1e9, Bound: 0.95})
	if far.Status == Pass {
		assert.Contains(t, far.Message, "the upper bound at 95.0 %")
		assert.Greater(t, *far.Got, *value)
	} else {
		assert.Equal(t, NotMeasured, far.Status, far.Message)
	}
	tail := judge(config.Threshold{Metric: "e2e_p95_ms", Op: "<=", Limit: 1e9, Bound: 0.95})
	assert.Equal(t, NotMeasured, tail.Status, "32 requests give no upper bound of a p95, whatever the limit: %s", tail.Message)
	count := judge(config.Threshold{Metric: "prompt_tokens", Op: "<=", Limit: 1e9, Bound: 0.95})
	assert.Equal(t, Unknown, count.Status, "a sum has no interval")
}

// TestSpreadsOfOneBuild: two runs say how much runs differ, also where each arm
// of an A/A comparison has but one; a single run says nothing.
func TestSpreadsOfOneBuild(t *testing.T) {
	a, b := published(t, defaultBuild), published(t, tunedBuild)
	regressions := []config.Regression{{Metric: "ttft", Margin: 0.05}}
	spread, ok := SpreadsOf(regressions, []Run{a, b})["ttft_mean_ms"]
	require.True(t, ok)
	assert.Equal(t, 1.0, spread.DF, "two runs have one degree of freedom")
	assert.Greater(t, spread.CV, 0.0)
	assert.Empty(t, SpreadsOf(regressions, []Run{a}))
	assert.Len(t, DescribeSpreads(regressions, 0.95, []Run{a}, []Run{b}), 1)
}
