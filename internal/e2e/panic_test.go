package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/record"
)

// panicKey is the API key of the runs in this file; the broken suite panics
// with it.
const panicKey = "sk-canary-of-a-panic-0123456789"

// breaks are the places where a suite is broken on purpose: a function and the
// line that is put at its beginning. E2E_PANIC chooses one.
var breaks = []struct{ place, file, function, line string }{
	{"client", "internal/client/client.go", "func (c *Client) Complete(ctx context.Context, body []byte) Observation {",
		`if zos.Getenv("E2E_PANIC") == "client" && zstrings.Contains(string(body), "_00008") { panic("broken on purpose with " + zos.Getenv("CAPACITY_API_KEY")) }`},
	{"judge", "internal/contract/canary.go", "func JudgeCanary(text string, captureComplete bool, marker string, owner func(marker string) (index int, ok bool)) CanaryVerdict {",
		`if zos.Getenv("E2E_PANIC") == "judge" && zstrings.HasSuffix(marker, "_00004") { var m map[string]string; m["broken"] = text }`},
	{"outcome", "internal/suite/run.go", "func outcome(facts artifact.Facts, result load.Result) *Outcome {",
		`if zos.Getenv("E2E_PANIC") == "outcome" { panic("broken on purpose with " + zos.Getenv("CAPACITY_API_KEY")) }`},
	{"elsewhere", "internal/suite/keeper.go", "func (k *keeper) missing() error {",
		`if _, err := zos.Stat("panic-now"); err == nil { panic("broken on purpose elsewhere") }`},
}

// brokenBinary builds the suite with all of the breaks.
var brokenBinary = sync.OnceValues(func() (path string, err error) {
	dir := filepath.Join(filepath.Dir(binary), "broken")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := writeOverlay(dir, overlay); err != nil {
		return "", fmt.Errorf("breaking the suite: %w", err)
	}
	path = filepath.Join(dir, "capacity.test")
	build := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", path, ".")
	build.Dir = moduleRoot
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building a broken suite: %w\n%s", err, out)
	}
	return path, nil
})

func writeOverlay(dir, overlay string) error {
	root, err := filepath.Abs(moduleRoot)
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for _, b := range breaks {
		source, err := os.ReadFile(filepath.Join(root, b.file))
		if err != nil {
			return err
		}
		if strings.Count(string(source), b.function+"\n") != 1 {
			return fmt.Errorf("%s: the function to break is not there: %s", b.file, b.function)
		}
		text := strings.Replace(string(source), b.function, b.function+"\n"+b.line, 1)
		text = strings.Replace(text, "import (\n", "import (\n\tzos \"os\"\n\tzstrings \"strings\"\n", 1) + "\nvar _, _ = zos.Getenv, zstrings.Contains\n"
		broken := filepath.Join(dir, b.place+".go")
		replace[filepath.Join(root, b.file)] = broken
		if err := os.WriteFile(broken, []byte(text), 0o644); err != nil {
			return err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(overlay, list, 0o644)
}

// brokenCommand is suiteCommand for a suite that is broken at one place.
func brokenCommand(t *testing.T, dir, place string, vars ...string) *exec.Cmd {
	t.Helper()
	path, err := brokenBinary()
	require.NoError(t, err)
	cmd := suiteCommand(t, dir, append(vars, "API_KEY="+panicKey)...)
	cmd.Path, cmd.Args[0] = path, path
	cmd.Env = append(cmd.Env, "E2E_PANIC="+place)
	return cmd
}

// TestPanicInAWorker: a fault of the suite in the handling of one request ends
// the run like an interrupt; what was measured is kept.
func TestPanicInAWorker(t *testing.T) {
	for _, tt := range []struct {
		place     string
		index     int // of the request whose handling panics
		completed int // at most; the others of the first wave may be canceled
		says      string
	}{
		{"client", 8, heldFrom, "broken on purpose with [redacted]"},
		{"judge", 4, heldFrom - 1, "assignment to entry in nil map"},
	} {
		t.Run(tt.place, func(t *testing.T) {
			t.Parallel()
			h := newHolding(t, heldFrom)
			dir := suiteDir(t)
			got := start(t, brokenCommand(t, dir, tt.place, heldCell(h.URL)...), dir).wait(t)
			assert.NotZero(t, got.exit)
			assert.Contains(t, got.output, tt.says)
			assert.Contains(t, got.output, "a panic in the suite, a fault of its own, while it handled request")
			assert.Contains(t, got.output, "internal/load.(*run).one(", "the stack says where")
			assert.Contains(t, got.output, "--- FAIL: TestCapacity/c4-ctx256-w4/evidence", "a fault of the harness")
			assert.NotContains(t, got.output, "--- PASS: TestCapacity/c4-ctx256-w4/threshold")
			assert.NotContains(t, got.output, panicKey)
			assert.Zero(t, h.inFlight())
			assert.Empty(t, got.files(t, "*"+artifact.JournalSuffix))
			require.Len(t, got.files(t, "*.json"), 1)

			n, err := artifact.ReadPartial(got.files(t, "*.partial.json")[0])
			require.NoError(t, err)
			reason, _ := n.Partial()
			assert.Contains(t, reason, tt.says)
			assert.LessOrEqual(t, n.Completed, tt.completed)
			// One that was canceled on its way has a row, and the server never saw it.
			assert.LessOrEqual(t, h.completions.Load()-1, int64(n.Completed+n.Failed)+unsent(tt.place), "every request that was sent has its row")
			runner := 0
			for _, f := range n.Failures {
				if f.FailureClass == string(record.RunnerError) {
					runner++
					assert.Equal(t, tt.index, f.RequestIndex)
					assert.Equal(t, "panic", f.ErrorType)
					assert.NotContains(t, f.ErrorMessage, panicKey)
					continue
				}
				require.NotNil(t, f.FailureDetail)
				assert.Equal(t, string(record.Canceled), *f.FailureDetail)
			}
			assert.Equal(t, 1, runner)
		})
	}
}

// unsent counts the rows of requests that never reached the server.
func unsent(place string) int64 {
	if place == "client" {
		return -1
	}
	return 0
}

// TestPanicAfterTheRun: what panics is not the handling of a request but the
// making of the artifact. The rows are taken from the journal.
func TestPanicAfterTheRun(t *testing.T) {
	t.Parallel()
	ref := refTarget(t, fast())
	dir := suiteDir(t)
	got := finish(t, brokenCommand(t, dir, "outcome", small(ref.URL, "CONCURRENCY=2,4", "RUN=broken", "THRESHOLDS=ttft_p50_ms<=3600000")...), dir)
	const says = "a panic in the suite, a fault of its own: broken on purpose with [redacted]"
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, says)
	assert.Contains(t, got.output, "internal/suite.outcome(", "the stack says where")
	assert.NotContains(t, got.output, panicKey)
	assert.Contains(t, got.output, "--- FAIL: TestCapacity/c2-ctx256-w4/evidence", "a fault of the harness")
	assert.NotContains(t, got.output, "--- PASS: TestCapacity/c2-ctx256-w4/threshold")
	assert.Equal(t, int64(4+1), ref.completions.Load(), "no later cell has begun")
	partial := filepath.Join(dir, "artifacts", "broken-c2-ctx256-w4.partial.json")
	require.Equal(t, []string{partial}, got.files(t, "*"))
	cutShort{reason: says, completed: 4}.checkPartial(t, partial)
}

// TestPanicElsewhere: nothing can catch a panic in another goroutine. The
// process dies at once, and the next run finds its journal.
func TestPanicElsewhere(t *testing.T) {
	t.Parallel()
	h := newHolding(t, heldFrom)
	dir := suiteDir(t)
	p := start(t, brokenCommand(t, dir, "elsewhere", heldCell(h.URL)...), dir)
	awaitHeld(t, h, dir)
	since := time.Now()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "panic-now"), nil, 0o644))
	got := p.wait(t)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "panic: broken on purpose elsewhere")
	assert.NotContains(t, got.output, panicKey, "a stack dump shows no text")
	await(t, "the end of every request", func() bool { return h.inFlight() == 0 })
	held("").checkServer(t, h, since)
	require.Len(t, got.files(t, "*"), 1, "the journal alone")
	require.NoError(t, os.Remove(filepath.Join(dir, "panic-now")))
	recoverByNextRun(t, dir)
}

// recoverByNextRun runs another cell in the folder of one that died, and checks
// what it makes of the journal.
func recoverByNextRun(t *testing.T, dir string) {
	t.Helper()
	ref := refTarget(t, fast())
	next := finish(t, suiteCommand(t, dir, small(ref.URL, "RUN=next")...), dir)
	require.Zero(t, next.exit, next.output)
	assert.Contains(t, next.output, "5 of 40 requests had ended")
	assert.Empty(t, next.files(t, "*"+artifact.JournalSuffix))
	cutShort{reason: "recovered from journal", completed: heldFrom}.checkPartial(t, filepath.Join(dir, "artifacts", "held-c4-ctx256-w4.partial.json"))
}
