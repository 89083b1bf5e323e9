package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/stats"
)

func text(t *testing.T, n *artifact.Native) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Text(&b, n))
	return b.String()
}

func TestText(t *testing.T) {
	assert.Equal(t, `3 requests, concurrency 4, 2048 nominal tokens, 16 words, unique prompts on tiny at http://127.0.0.1:8000/v1
completed 3 of 3, failed 0, wall clock 1000.000 ms, capacity-v4-reasoning

                      samples       mean   stddev        p50        p90        p95        p99        max
             TTFO ms        3    101.000    1.000    101.000    102.000    102.000    102.000    102.000
             TTFT ms        3    121.000    1.000    121.000    122.000    122.000    122.000    122.000
              E2E ms        3    411.000    1.000    411.000    412.000    412.000    412.000    412.000
             TPOT ms        3     10.000    0.000     10.000     10.000     10.000     10.000     10.000
        decode tok/s        3    100.000    0.000    100.000    100.000    100.000    100.000    100.000
  eff. prefill tok/s        3  14852.456  147.061  14851.485  15000.000  15000.000  15000.000  15000.000
       prompt tokens        3   1500.000    0.000   1500.000   1500.000   1500.000   1500.000   1500.000
       output tokens        3     32.000    0.000     32.000     32.000     32.000     32.000     32.000

exact metrics, as a threshold sees them
  throughput_tok_s   96
  ttft_p50_ms        121
  e2e_p50_ms         411
  ttft_mean_ms       121
  e2e_mean_ms        411
  tpot_mean_ms       10
`, text(t, built(t, 3)))
}

// TestTextOfWhatIsMissing: a null is a dash with its reason, and never 0.
func TestTextOfWhatIsMissing(t *testing.T) {
	got := text(t, built(t, 3, failed, cutShort))
	assert.Contains(t, got, "completed 2 of 3, failed 1")
	assert.Contains(t, got, "PARTIAL: interrupted by a test")
	assert.Contains(t, got, "throughput_tok_s   null (")
	assert.NotContains(t, got, "throughput_tok_s   0")

	n := built(t, 3)
	n.ContextTokens, n.ResponseWords, n.PromptCacheMode, n.WallClockMS, n.Metrics = nil, new(0), nil, nil, nil
	n.Harness.Endpoint.Embedded = true
	got = text(t, n)
	assert.Contains(t, got, "3 requests, concurrency 4, a context distribution, no words asked, prompts on the suite's own embedded endpoint\n")
	assert.Contains(t, got, "wall clock -,")
	assert.Contains(t, got, "TTFT ms        -     -       -    -    -    -    -    -")
	assert.Contains(t, got, "ttft_p50_ms        null\n")
}

// TestTextOfRealArtifacts renders every published artifact: none breaks it, and
// what it shows is what they hold.
func TestTextOfRealArtifacts(t *testing.T) {
	names := realArtifacts(t)
	for _, name := range names {
		n, err := artifact.ReadNative(name)
		require.NoError(t, err)
		got := text(t, &n)
		assert.Contains(t, got, n.Model)
		for _, key := range exactKeys {
			assert.Contains(t, got, "  "+key, name)
		}
	}
}

func TestTableRowsAreMetrics(t *testing.T) {
	require.NotEmpty(t, tableRows)
	for _, row := range tableRows {
		for _, statistic := range tableStatistics {
			_, ok := stats.Key(row.name, statistic)
			assert.True(t, ok, "%s of %s", statistic, row.name)
		}
	}
	for _, key := range exactKeys {
		assert.Contains(t, strings.Join(stats.Keys(), " "), key)
	}
}
