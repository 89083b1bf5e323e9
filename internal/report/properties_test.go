package report

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/config"
	"anvil-capacity/internal/gate"
	"anvil-capacity/internal/stats"
)

// values reads properties as a map and holds them to what testing.T.Attr takes:
// it fails the test for white space in a key or a line end in a value, and what
// is longer than some KiB does not arrive.
func values(t *testing.T, properties []Property) map[string]string {
	t.Helper()
	require.NotEmpty(t, properties)
	of := map[string]string{}
	for _, p := range properties {
		assert.NotContains(t, of, p.Key, "a second value would replace the first")
		assert.False(t, strings.ContainsFunc(p.Key, unicode.IsSpace), "key %q", p.Key)
		assert.False(t, strings.ContainsAny(p.Value, "\r\n"), "value %q", p.Value)
		assert.LessOrEqual(t, len(p.Value), maxPropertyBytes)
		assert.True(t, utf8.ValidString(p.Value))
		of[p.Key] = p.Value
	}
	return of
}

func TestRunPropertiesAreExact(t *testing.T) {
	n := built(t, 7, func(r *artifact.Run) { r.WallMS = 433.3 })
	of := values(t, RunProperties(n, "artifacts/x.json"))
	assert.Equal(t, "artifacts/x.json", of[PropertyArtifact])
	assert.Equal(t, "7", of[PropertyCompleted])
	assert.Equal(t, "0", of[PropertyFailed])
	require.Len(t, exactKeys, 6)
	for _, key := range exactKeys {
		want, known := n.Metrics.Get(key)
		require.True(t, known, key)
		require.NotNil(t, want, key)
		got, err := strconv.ParseFloat(of[key], 64)
		require.NoError(t, err, key)
		assert.Equal(t, math.Float64bits(*want), math.Float64bits(got), "%s: every digit, or it is not the metric", key)
	}
}

// TestRunPropertiesOfFailures: what was not measured is null, and not left out.
func TestRunPropertiesOfFailures(t *testing.T) {
	of := values(t, RunProperties(built(t, 3, failed), "x.json"))
	assert.Equal(t, "2", of[PropertyCompleted])
	assert.Equal(t, "1", of[PropertyFailed])
	assert.Equal(t, PropertyNull, of["throughput_tok_s"], "no throughput with a failed request")
	assert.NotEqual(t, PropertyNull, of["ttft_p50_ms"])

	of = values(t, RunProperties(&artifact.Native{}, ""))
	for _, key := range exactKeys {
		assert.Equal(t, PropertyNull, of[key], "an artifact without metrics")
	}
}

func TestPropertyValues(t *testing.T) {
	for _, tt := range []struct{ name, in, want, why string }{
		{"plain", "artifacts/a b.json", "artifacts/a b.json", "a space is fine in a value"},
		{"line_ends", "a\nb\r\nc\td", "a b  c d", "Attr fails a test for a line end"},
		{"control", "a\x1b[31mb\x00", "a\ufffd[31mb\ufffd", "the terminal of whoever reads the log"},
		{"not_utf8", "a\xffb", "a\ufffdb", "XML holds no such byte"},
		{"bidi", "a\u202eb", "a\ufffdb", "turns the direction of what follows"},
		{"below_limit", strings.Repeat("x", maxPropertyBytes-1), strings.Repeat("x", maxPropertyBytes-1), "n-1"},
		{"at_limit", strings.Repeat("x", maxPropertyBytes), strings.Repeat("x", maxPropertyBytes), "n"},
		{"above_limit", strings.Repeat("x", maxPropertyBytes+1), strings.Repeat("x", maxPropertyBytes-3) + "...", "n+1"},
		{"cut_between_characters", strings.Repeat("é", maxPropertyBytes), strings.Repeat("é", (maxPropertyBytes-3)/2) + "...", "half a character is no UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, property("k", tt.in).Value, tt.why)
		})
	}
}

func TestThresholdProperties(t *testing.T) {
	limit := config.Threshold{Metric: "ttft_p50_ms", Op: "<=", Limit: 5, Source: "ttft_p50_ms<=5"}
	of := values(t, ThresholdProperties(gate.Verdict{Threshold: limit, Status: gate.Fail, Got: new(5.25)}))
	assert.Equal(t, map[string]string{"metric": "ttft_p50_ms", "limit": "ttft_p50_ms<=5", "value": "5.25", "status": "fail"}, of)
	of = values(t, ThresholdProperties(gate.Verdict{Threshold: limit, Status: gate.NotMeasured}))
	assert.Equal(t, "null", of["value"], "not measured is not 0")
}

func TestComparedProperties(t *testing.T) {
	c := gate.Compared{Metric: "ttft_mean_ms", Margin: new(0.05), Status: gate.Fail, Comparison: stats.Comparison{
		Baseline: stats.Side{Value: new(100.0)}, Candidate: stats.Side{Value: new(120.0)},
		Change: new(0.2), Low: new(0.1), Confidence: 0.95, Verdict: stats.Worse, Method: stats.MethodRuns,
	}}
	assert.Equal(t, map[string]string{
		"metric": "ttft_mean_ms", "baseline_value": "100", "value": "120", "change": "0.2", "change_low": "0.1", "change_high": "null",
		"confidence": "0.95", "margin": "0.05", "status": "fail", "verdict": "worse", "method": "runs-welch-t",
	}, values(t, ComparedProperties(c)))
}
