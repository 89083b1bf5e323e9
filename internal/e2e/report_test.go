package e2e

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/report"
)

// gated is a finished run of scripts/gate with the files that it left.
type gated struct {
	result
	cases []report.TestCase
	// page is the file of -markdown, step what GitHub Actions would collect.
	page, step string
}

// gatePage runs scripts/gate as a CI job does, with all its files in a folder of
// the test's own.
func gatePage(t *testing.T, vars ...string) gated {
	t.Helper()
	dir := t.TempDir()
	junit, page, step := filepath.Join(dir, "junit.xml"), filepath.Join(dir, "page.md"), filepath.Join(dir, "step.md")
	cmd := exec.Command("scripts/gate", "-junit", junit, "-markdown", page)
	cmd.Dir = moduleRoot
	vars = append(vars, "ARTIFACT_DIR="+filepath.Join(dir, "artifacts"), "SELF_CHECK=off")
	cmd.Env = append(environment(vars), "GITHUB_STEP_SUMMARY="+step)
	g := gated{result: finish(t, cmd, dir)}
	var err error
	g.cases, err = report.ReadJUnit(junit)
	require.NoError(t, err, g.output)
	for path, text := range map[string]*string{page: &g.page, step: &g.step} {
		raw, err := os.ReadFile(path)
		require.NoError(t, err, g.output)
		*text = string(raw)
	}
	return g
}

// properties gives those of one test.
func (g gated) properties(t *testing.T, test string) map[string]string {
	t.Helper()
	for _, c := range g.cases {
		if c.Name == test {
			require.NotEmpty(t, c.Properties, test)
			return c.Properties
		}
	}
	require.Fail(t, "no such test in the JUnit file", test)
	return nil
}

// exactMetrics are the metrics that PROTOCOL section 6 calls exact.
var exactMetrics = []string{"throughput_tok_s", "ttft_p50_ms", "e2e_p50_ms", "ttft_mean_ms", "e2e_mean_ms", "tpot_mean_ms"}

// TestJUnitHasTheExactMetrics reads the properties out of the JUnit file that the
// real gotestsum wrote, and holds each to the artifact bit by bit.
func TestJUnitHasTheExactMetrics(t *testing.T) {
	o := fast()
	o.DecodeBase = 2 * time.Millisecond // without, some answers take no time and have no TPOT
	ref := refTarget(t, o)
	g := gatePage(t, small(ref.URL, "CONCURRENCY=1,2", "THRESHOLDS=ttft_p50_ms<=60000, throughput_tok_s>=0.001")...)
	require.Zero(t, g.exit, g.output)
	for _, cell := range []string{"c1-ctx256-w4", "c2-ctx256-w4"} {
		of := g.properties(t, "TestCapacity/"+cell)
		n, err := artifact.ReadNative(of["artifact"])
		require.NoError(t, err)
		assert.Equal(t, cell, report.CellName(&n), "each cell has its own artifact")
		assert.Equal(t, "4", of["completed"])
		assert.Equal(t, "0", of["failed"])
		for _, key := range exactMetrics {
			want, known := n.Metrics.Get(key)
			require.True(t, known)
			require.NotNil(t, want, key)
			got, err := strconv.ParseFloat(of[key], 64)
			require.NoError(t, err, key)
			assert.Equal(t, math.Float64bits(*want), math.Float64bits(got), key)
		}
		limit := g.properties(t, "TestCapacity/"+cell+"/threshold/ttft_p50_ms")
		assert.Equal(t, map[string]string{"metric": "ttft_p50_ms", "limit": "ttft_p50_ms<=60000", "value": of["ttft_p50_ms"], "status": "pass"}, limit)
	}
	assert.Contains(t, g.page, "## Capacity gate: PASS\n")
	assert.Contains(t, g.page, "| `c1-ctx256-w4` | 4 of 4 | 0 | ")
	assert.Contains(t, g.page, "| `c2-ctx256-w4` | `throughput_tok_s>=0.001` | ")
	assert.NotContains(t, g.page, "What failed")
	assert.Equal(t, "\n"+g.page, g.step)
}

// TestPageOfAFailedGate says what failed in the suite's own words, and shows the
// texts of a hostile server as texts.
func TestPageOfAFailedGate(t *testing.T) {
	o := fast()
	o.Faults = "status=503@2"
	o.Model = "<img src=http://evil.example>|`x`"
	ref := refTarget(t, o)
	g := gatePage(t, small(ref.URL, "THRESHOLDS=ttft_p50_ms<=0.000001, throughput_tok_s>=1")...)
	assert.NotZero(t, g.exit)
	assert.Contains(t, g.page, "## Capacity gate: FAIL\n")
	assert.Contains(t, g.page, "`gate: FAIL: service (1), limit (")
	assert.Contains(t, g.page, "Model `` <img src=http://evil.example>│`x` ``", "a name in a code span, its pipe no cell's end")
	assert.Contains(t, g.page, "| `c2-ctx256-w4` | 3 of 4 | 1 | - |", "no throughput with a failed request")
	assert.Contains(t, g.page, "`service`: `TestCapacity/c2-ctx256-w4/service`\n\n```text\nof 4 planned requests 3 completed and 1 failed")
	assert.Contains(t, g.page, "status 503")
	assert.Contains(t, g.page, "| `c2-ctx256-w4` | `throughput_tok_s>=1` | - | `not_measured` |")
	assert.NotContains(t, g.page, "`harness`: `TestCapacity`", "a parent is no failure of its own")
	service := strings.Index(g.page, "/service`")
	limit := strings.Index(g.page, "/threshold/ttft_p50_ms`")
	assert.True(t, 0 < service && service < limit, "the gravest kind first")
}

// TestPageOfAComparison shows every compared metric, also the ones that passed.
func TestPageOfAComparison(t *testing.T) {
	ref := refTarget(t, fast())
	base := runSuite(t, small(ref.URL, "RUN=base", "REPEATS=3", "SELF_CHECK=off")...)
	require.Zero(t, base.exit, base.output)
	index, err := filepath.Abs(base.files(t, "base-index.json")[0])
	require.NoError(t, err)
	g := gatePage(t, small(ref.URL, "REPEATS=3", "BASELINE="+index, "MAX_REGRESSION=e2e_p50_ms=99%, ttft_p50_ms=99%")...)
	assert.Contains(t, g.page, "### Against the baseline\n")
	for _, metric := range []string{"e2e_p50_ms", "ttft_p50_ms"} {
		assert.Contains(t, g.page, "| `c2-ctx256-w4/baseline` | `"+metric+"` | ")
		of := g.properties(t, "TestCapacity/c2-ctx256-w4/baseline/"+metric)
		change, err := strconv.ParseFloat(of["change"], 64)
		require.NoError(t, err)
		before, err := strconv.ParseFloat(of["baseline_value"], 64)
		require.NoError(t, err)
		after, err := strconv.ParseFloat(of["value"], 64)
		require.NoError(t, err)
		assert.InDelta(t, after/before-1, change, 1e-9)
		assert.Equal(t, "0.99", of["margin"], "a ratio")
	}
}

// retime gives the requests of a run times without noise, and slows them down.
func retime(n *artifact.Native, factor float64) {
	for i := range n.RequestTimings {
		row := &n.RequestTimings[i]
		first := 100 + float64(i)
		row.TTFOMS, row.TTFTMS, row.E2EMS = new(factor*first), new(factor*(first+20)), new(factor*(first+310))
	}
}

// TestBenchstatReadsTheRuns writes a run and the same run with every time a fifth
// longer as benchmark lines, and lets the real benchstat find the fifth.
func TestBenchstatReadsTheRuns(t *testing.T) {
	ref := refTarget(t, fast())
	got := runSuite(t, small(ref.URL, "REQUESTS=12", "ENGINE=old 1.0", "SELF_CHECK=off")...)
	require.Zero(t, got.exit, got.output)
	before, after := one(t, got), one(t, got)
	after.Engine = new("new 2.0")
	retime(&before, 1)
	retime(&after, 1.2)
	dir := t.TempDir()
	write := func(name string, n artifact.Native) string {
		path := filepath.Join(dir, name)
		file, err := os.Create(path)
		require.NoError(t, err)
		require.NoError(t, report.Bench(file, report.BenchOptions{}, &n))
		require.NoError(t, file.Close())
		return path
	}
	cmd := exec.Command("go", "tool", "benchstat", write("old.txt", before), write("new.txt", after))
	cmd.Dir = moduleRoot
	stat := finish(t, cmd, dir)
	require.Zero(t, stat.exit, stat.output)
	t.Log("\n" + stat.output)
	assert.Equal(t, 1, strings.Count(stat.output, "protocol: "), "one configuration, so that the files are compared although the engines differ")
	for _, unit := range []string{"ttfo-sec", "ttft-sec", "e2e-sec", "tpot-sec", "tok/s"} {
		assert.Contains(t, stat.output, unit)
	}
	rows := 0
	for _, line := range strings.Split(stat.output, "\n") {
		if strings.HasPrefix(line, "Capacity/c=2/ctx=256/w=4") && strings.Contains(line, "n=12") {
			rows++
			assert.Contains(t, line, "+20.00%")
		}
	}
	assert.Equal(t, 4, rows, "ttfo, ttft, e2e and tpot")
	assert.NotContains(t, stat.output, "engine:")
}
