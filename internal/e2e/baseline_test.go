package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/refserver"
)

// steady is a server whose times are long beside the noise of this machine.
func steady() refserver.Options {
	o := fast()
	o.Slots, o.DecodeBase, o.PrefillTokS = 4, 10*time.Millisecond, 4000
	return o
}

// compared is a cell of five repeats; medians of it stand against a stray hiccup
// of the machine that the tests run on.
func compared(url string, more ...string) []string {
	return append(small(url, "REQUESTS=8", "RESPONSE_WORDS=8", "REPEATS=5"), more...)
}

// TestBaselineGate is the gate in its whole life on real sockets: a baseline is
// taken, an unchanged server passes, one that is 20 % slower fails, and a cell
// that is not the baseline's is refused.
func TestBaselineGate(t *testing.T) {
	unchanged := refTarget(t, steady())
	slowed := steady()
	slowed.Faults = "slow=1.2@all"
	slower := refTarget(t, slowed)

	dir := suiteDir(t)
	base := finish(t, suiteCommand(t, dir, compared(unchanged.URL, "RUN=base")...), dir)
	require.Zero(t, base.exit, base.output)
	baseline := "BASELINE=artifacts/base-index.json"
	margins := "MAX_REGRESSION=tpot_p50_ms=8%, e2e_p50_ms=10%"

	t.Run("unchanged_server_passes", func(t *testing.T) {
		got := finish(t, suiteCommand(t, dir, compared(unchanged.URL, "RUN=same", baseline, margins)...), dir)
		assert.Zero(t, got.exit, got.output)
		assert.Contains(t, got.output, "--- PASS: TestCapacity/c2-ctx256-w8/baseline/comparable")
		assert.NotContains(t, got.output, "worse,")
	})
	t.Run("slower_server_fails", func(t *testing.T) {
		got := finish(t, suiteCommand(t, dir, compared(slower.URL, "RUN=slower", baseline, margins)...), dir)
		assert.NotZero(t, got.exit)
		assert.Contains(t, got.output, "--- FAIL: TestCapacity/c2-ctx256-w8/baseline/tpot_p50_ms")
		assert.Contains(t, got.output, "tpot_p50_ms: worse, +")
		assert.Contains(t, got.output, "runs-welch-t; 5 and 5 runs", "repeats are the unit")
	})
	t.Run("another_cell_is_refused", func(t *testing.T) {
		got := finish(t, suiteCommand(t, dir, compared(unchanged.URL, "RUN=other", "MAX_TOKENS=65", "CONTEXT_SEED=5",
			"BASELINE=artifacts/base-r1.json")...), dir)
		assert.NotZero(t, got.exit)
		assert.Contains(t, got.output, "max_tokens is 64, and 65 here")
		assert.Contains(t, got.output, "context_seed is 0 in the baseline, and 5, 6, 7", "every difference is listed")
		assert.Contains(t, got.output, "CAPACITY_BASELINE_ALLOW")
	})
	t.Run("allowed_difference_is_compared", func(t *testing.T) {
		got := finish(t, suiteCommand(t, dir, compared(unchanged.URL, "RUN=allowed", "MAX_TOKENS=65",
			baseline, "BASELINE_ALLOW=max_tokens")...), dir)
		assert.Zero(t, got.exit, got.output)
	})
}

// TestBaselinesThatSayNothing: none of them is a pass.
func TestBaselinesThatSayNothing(t *testing.T) {
	ref := refTarget(t, fast())
	published, err := os.ReadFile(filepath.Join(moduleRoot, "fixtures", "artifacts", "deepseek-v4-flash-0731-capacity-32k-c1-reasoning-v4.json"))
	require.NoError(t, err)
	for _, tt := range []struct{ name, content, want, why string }{
		{"empty", "", "file is empty", "a truncated download"},
		{"not_json", "<html>", "baseline.json", "an error page saved under the name"},
		{"nan", `{"schema":"anvil-serving.benchmark/v1","wall_clock_ms":NaN}`, "baseline.json", "NaN is not JSON"},
		{"other_schema", `{"schema":"somebody.else/v3"}`, "schema", "another tool's file"},
		{"failed_run", string(published), "1 of 12 requests failed", "a real artifact with a failed request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := suiteDir(t)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "baseline.json"), []byte(tt.content), 0o644))
			got := finish(t, suiteCommand(t, dir, small(ref.URL, "BASELINE=baseline.json", "MAX_REGRESSION=ttft=5%")...), dir)
			assert.NotZero(t, got.exit, tt.why)
			assert.Contains(t, got.output, tt.want, tt.why)
		})
	}
}

// TestBaselineOfThreeRequests has an interval of nothing: it fails as not
// measured, and does not pass by lack of data.
func TestBaselineOfThreeRequests(t *testing.T) {
	ref := refTarget(t, fast())
	dir := suiteDir(t)
	first := finish(t, suiteCommand(t, dir, small(ref.URL, "REQUESTS=3", "RUN=few")...), dir)
	require.Zero(t, first.exit, first.output)
	got := finish(t, suiteCommand(t, dir, small(ref.URL, "REQUESTS=3", "BASELINE=artifacts/few.json", "MAX_REGRESSION=ttft=5%")...), dir)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "ttft_mean_ms: cannot tell")
}

// TestAA runs a cell against itself: two arms with seeds of their own, in turn.
func TestAA(t *testing.T) {
	ref := refTarget(t, steady())
	got := runSuite(t, compared(ref.URL, "AA=on", "REPEATS=2")...)
	require.Zero(t, got.exit, got.output)
	assert.Contains(t, got.output, "--- PASS: TestCapacity/c2-ctx256-w8/aa/comparable")
	assert.Contains(t, got.output, "a gate must not flag")
	assert.Len(t, got.files(t, "*-index.json"), 1)
}

// TestMatrix: a failed cell does not hide the others.
func TestMatrix(t *testing.T) {
	o := fast()
	o.MaxModelLen = 4096
	ref := refTarget(t, o)
	got := runSuite(t, small(ref.URL, "CONTEXT_TOKENS=256,8192,512")...)
	assert.NotZero(t, got.exit, "8,192 tokens do not fit")
	assert.Contains(t, got.output, "--- PASS: TestCapacity/c2-ctx256-w4 ")
	assert.Contains(t, got.output, "--- FAIL: TestCapacity/c2-ctx8192-w4 ")
	assert.Contains(t, got.output, "--- PASS: TestCapacity/c2-ctx512-w4 ")
	assert.Len(t, got.files(t, "*-summary.json"), 2)
}
