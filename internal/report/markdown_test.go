package report

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
)

func TestMarkdownOfAPass(t *testing.T) {
	got := markdown(t, Page{
		Passed: true, Verdict: "gate: PASS: 12 tests",
		Runs:        []PageRun{{Name: "c4-ctx2048-w16", File: "artifacts/x.json", Native: built(t, 3)}},
		Limits:      []LimitRow{{"c4-ctx2048-w16", "ttft_p50_ms<=500", "121", "pass"}},
		Comparisons: []ComparedRow{{"c4-ctx2048-w16/baseline", "ttft_mean_ms", "120", "121.0005", "0.00833", "-0.012", "0.03", "0.05", "pass", "no_difference"}},
	})
	assert.Equal(t, strings.ReplaceAll(`## Capacity gate: PASS

'gate: PASS: 12 tests'

Model 'tiny', engine 'vllm 0.10', GPU 'H100', at 'http://127.0.0.1:8000/v1', protocol 'capacity-v4-reasoning'

| cell | completed | failed | throughput tok/s | TTFT p50 ms | TTFT p95 ms | E2E p50 ms | TPOT mean ms | artifact |
| :-- | --: | --: | --: | --: | --: | --: | --: | :-- |
| 'c4-ctx2048-w16' | 3 of 3 | 0 | 96.000 | 121.000 | 122.000 | 411.000 | 10.000 | 'artifacts/x.json' |

'-' was not measured, which is not 0.

### Limits

| cell | limit | got | status |
| :-- | :-- | --: | :-- |
| 'c4-ctx2048-w16' | 'ttft_p50_ms<=500' | 121.000 | 'pass' |

### Against the baseline

| cell | metric | baseline | here | change | interval | margin | verdict | status |
| :-- | :-- | --: | --: | --: | --: | --: | :-- | :-- |
| 'c4-ctx2048-w16/baseline' | 'ttft_mean_ms' | 120.000 | 121.001 | +0.8 % | -1.2 % to +3.0 % | 5.0 % | 'no difference' | 'pass' |
`, "'", "`"), got)
}

func TestMarkdownOfAFailure(t *testing.T) {
	got := markdown(t, Page{
		Verdict: "gate: FAIL: service (1), exit status 12",
		Runs: []PageRun{
			{Name: "c4", File: "x.partial.json", Native: built(t, 3, failed, cutShort)},
			{Name: "c8", File: "y.json", Err: errors.New("reading y.json: gone")},
		},
		Limits:   []LimitRow{{"c4", "throughput_tok_s>=1", "null", "not_measured"}},
		Failures: []Finding{{"service", "TestCapacity/c4/service", "1 of 3 failed"}},
		Skips:    []Finding{{"baseline", "TestCapacity/c4/baseline/ttft_mean_ms", ""}},
	})
	assert.Contains(t, got, "## Capacity gate: FAIL\n")
	assert.Contains(t, got, "| `c4` | 2 of 3 | 1 | - | ")
	assert.Contains(t, got, "`c4`: **PARTIAL**: `interrupted by a test`")
	assert.Contains(t, got, "| `c8` | - | - | - | - | - | - | - | `y.json` |")
	assert.Contains(t, got, "`c8`: the artifact could not be read: `reading y.json: gone`")
	assert.Contains(t, got, "| `c4` | `throughput_tok_s>=1` | - | `not_measured` |")
	assert.Contains(t, got, "### What failed\n\n`service`: `TestCapacity/c4/service`\n\n```text\n1 of 3 failed\n```\n")
	assert.Contains(t, got, "### Not settled\n\n`baseline`: `TestCapacity/c4/baseline/ttft_mean_ms`\n")
}

// TestMarkdownWithoutATarget must not look like a gate that holds a model.
func TestMarkdownWithoutATarget(t *testing.T) {
	n := built(t, 2, func(r *artifact.Run) { r.Facts.Endpoint.Embedded = true })
	got := markdown(t, Page{Passed: true, Verdict: "gate: PASS", Runs: []PageRun{{Name: "c4", Native: n}}})
	assert.Contains(t, got, "**No model was measured**")
	assert.NotContains(t, got, "tiny")
	assert.Contains(t, markdown(t, Page{Verdict: "gate: FAIL"}), "Nothing was measured.")
}

// TestMarkdownNamesEveryTarget: two models in one table would pass for one.
func TestMarkdownNamesEveryTarget(t *testing.T) {
	runs := []PageRun{{Name: "a", Native: built(t, 2)}, {Name: "b", Native: built(t, 2)}, {Name: "c", Native: built(t, 2)}}
	runs[2].Native.Model = "other"
	got := markdown(t, Page{Verdict: "x", Runs: runs})
	assert.Equal(t, 1, strings.Count(got, "Model `tiny`"))
	assert.Equal(t, 1, strings.Count(got, "Model `other`"))
}

func TestMarkdownCountsWhatItLeavesOut(t *testing.T) {
	for _, extra := range []int{-1, 0, 1} {
		var p Page
		for i := range maxPageRuns + extra {
			p.Runs = append(p.Runs, PageRun{Name: fmt.Sprintf("run%d", i), Native: built(t, 1)})
		}
		for i := range maxPageRows + extra {
			p.Limits = append(p.Limits, LimitRow{Cell: fmt.Sprintf("limit%d", i)})
			p.Comparisons = append(p.Comparisons, ComparedRow{Cell: fmt.Sprintf("compared%d", i)})
		}
		for i := range maxPageFindings + extra {
			p.Failures = append(p.Failures, Finding{Kind: fmt.Sprintf("failure%d", i)})
		}
		got := markdown(t, p)
		for prefix, limit := range map[string]int{"run": maxPageRuns, "limit": maxPageRows, "compared": maxPageRows, "failure": maxPageFindings} {
			want := min(limit, limit+extra)
			assert.Equal(t, want, strings.Count(got, "`"+prefix), "%s at limit%+d", prefix, extra)
		}
		assert.Equal(t, 4*max(extra, 0), strings.Count(got, "and 1 more"), "limit%+d", extra)
	}
}

// TestMarkdownIsSmallEnough builds the largest page there can be.
func TestMarkdownIsSmallEnough(t *testing.T) {
	text := strings.Repeat("`", maxBackticks) + strings.Repeat("\xff", maxMessageBytes)
	one := pageOf(text)
	var p Page
	for i := range 2 * maxPageRuns {
		n := *one.Runs[0].Native
		n.Model = fmt.Sprint(i, text)
		p.Runs = append(p.Runs, PageRun{Name: text, File: text, Native: &n})
	}
	for range 2 * maxPageRows {
		p.Limits = append(p.Limits, one.Limits[0])
		p.Comparisons = append(p.Comparisons, one.Comparisons[0])
	}
	for range 2 * maxPageFindings {
		p.Failures = append(p.Failures, one.Failures[0])
		p.Skips = append(p.Skips, one.Skips[0])
	}
	got := markdown(t, p)
	t.Logf("%d bytes", len(got))
	assert.Less(t, len(got), MaxPageBytes)
	assert.Greater(t, len(got), MaxPageBytes/4, "a page that is not filled proves nothing")
}

func TestMarkdownTellsAWriteError(t *testing.T) {
	broken := errors.New("disk full")
	require.ErrorIs(t, Markdown(failingWriter{broken}, Page{}), broken)
}

func TestNumbersOfProperties(t *testing.T) {
	for _, tt := range []struct{ in, number, percent, why string }{
		{"null", "-", "-", "not measured"},
		{"", "-", "-", "not said"},
		{"0", "0.000", "+0.0 %", "zero is a value"},
		{"0.1", "0.100", "+10.0 %", "a ratio"},
		{"-0.1234", "-0.123", "-12.3 %", "a change for the better, or worse"},
		{"12,5", "`12,5`", "`12,5`", "shown as it is"},
	} {
		assert.Equal(t, tt.number, shortNumber(tt.in), tt.why)
		assert.Equal(t, tt.percent, percentText(tt.in, true), tt.why)
	}
	assert.Equal(t, "5.0 %", percentText("0.05", false), "a margin has no sign")
}
