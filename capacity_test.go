// Package capacity is the suite: go test -run Capacity runs the cells that the
// CAPACITY_ variables name. README.md says how to use it, .env.example lists
// the variables.
package capacity

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/config"
	"anvil-capacity/internal/gate"
	"anvil-capacity/internal/load"
	"anvil-capacity/internal/report"
	"anvil-capacity/internal/suite"
)

// TestCapacity runs every cell of the matrix: one subtest a cell, and below it
// one a check, so that a JUnit file alone tells service, correctness, limit and
// harness apart.
func TestCapacity(t *testing.T) {
	require.NoError(t, suite.NeverCached("."))
	settings, err := config.Load(os.Environ(), os.DirFS("fixtures/cells"))
	if err != nil {
		t.Fatal(err)
	}
	session, err := suite.Open(settings, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	deadline, _ := t.Deadline()
	ctx, stop, err := suite.Watch(context.Background(), deadline)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if settings.Embedded() {
		fmt.Fprintln(t.Output(), embeddedNotice)
	}
	for _, cell := range session.Cells {
		t.Run(cell.Name, func(t *testing.T) { testCell(ctx, t, session, cell) })
	}
}

const embeddedNotice = `CAPACITY_BASE_URL is not set: this run measures the suite against its own embedded endpoint,
whose timings are known. No model is measured. To aim it at a server:
  CAPACITY_BASE_URL=http://localhost:8000/v1 CAPACITY_MODEL=name go test -run Capacity -count=1 -timeout 0 -v .`

// testCell runs one cell. Each step is a subtest; a step that the later ones
// stand on ends the cell when it fails.
func testCell(ctx context.Context, t *testing.T, session *suite.Session, settings config.Cell) {
	if ctx.Err() != nil {
		t.Fatalf("not started: %v", context.Cause(ctx))
	}
	cell, err := session.NewCell(settings)
	if err != nil {
		t.Fatal(err)
	}
	defer cell.Close()
	if !t.Run("preflight", func(t *testing.T) { testPreflight(ctx, t, cell) }) {
		return
	}
	if settings.ScoutRequests > 0 && !t.Run("scout", func(t *testing.T) { testScout(ctx, t, cell) }) {
		return
	}
	var out *suite.Outcome
	t.Run("service", func(t *testing.T) { out = testService(ctx, t, cell) })
	if out == nil {
		return
	}
	t.Run("evidence", func(t *testing.T) { testEvidence(t, out) })
	t.Run("canaries", func(t *testing.T) { check(t, cell.CanaryVerdict(out)) })
	t.Run("leak", func(t *testing.T) { check(t, cell.LeakVerdict(out)) })
	t.Run("words", func(t *testing.T) { check(t, cell.WordsVerdict(out)) })
	t.Run("client", func(t *testing.T) { testClient(t, out) })
	testThresholds(t, settings.Thresholds, out)
}

func testPreflight(ctx context.Context, t *testing.T, cell *suite.Cell) {
	if err := cell.Preflight(ctx); err != nil {
		t.Fatal(err)
	}
	server := cell.Server()
	t.Logf("%s serves %q, context %s", cell.Target(), server.Model, orUnknown(server.MaxModelLen))
	for _, note := range server.Notes {
		t.Log(note)
	}
}

func testScout(ctx context.Context, t *testing.T, cell *suite.Cell) {
	out, err := cell.Scout(ctx, progress(t))
	if err != nil {
		t.Fatal(err)
	}
	testEvidence(t, out)
	check(t, cell.ServiceVerdict(out))
}

// testService drives the cell and asserts that every planned request completed.
// The outcome is nil where nothing was sent.
func testService(ctx context.Context, t *testing.T, cell *suite.Cell) *suite.Outcome {
	out, err := cell.Run(ctx, progress(t))
	if err != nil {
		t.Error(err)
		return nil
	}
	check(t, cell.ServiceVerdict(out))
	if err := report.Text(t.Output(), &out.Native); err != nil {
		t.Error(err)
	}
	return out
}

// testEvidence asserts that what was measured is on disk, whole.
func testEvidence(t *testing.T, out *suite.Outcome) {
	if out.EvidenceErr != nil {
		t.Error(out.EvidenceErr)
	}
	if out.Cause != nil {
		t.Errorf("the evidence is partial (%s): %v", out.NativePath, out.Cause)
		return
	}
	t.Logf("native artifact %s, derived summary %s", out.NativePath, out.SummaryPath)
}

// testClient asserts that the suite's own error was measured, and prints it.
func testClient(t *testing.T, out *suite.Outcome) {
	if out.Native.Harness == nil || out.Native.Harness.SelfCheck == nil {
		t.Log("the suite's own error was not measured against this server; a run without CAPACITY_BASE_URL measures it")
		return
	}
	if err := report.SelfCheck(t.Output(), out.Native.Harness.SelfCheck); err != nil {
		t.Error(err)
	}
}

func testThresholds(t *testing.T, thresholds []config.Threshold, out *suite.Outcome) {
	if len(thresholds) == 0 {
		return
	}
	t.Run("threshold", func(t *testing.T) {
		for i, v := range gate.Evaluate(thresholds, *out.Native.Metrics) {
			t.Run(suite.ThresholdNames(thresholds)[i], func(t *testing.T) {
				partial := out.Cause != nil
				check(t, suite.Verdict{Passed: v.Passed() && !partial, Message: v.Message})
				if partial {
					t.Error("no threshold passes on a partial run")
				}
			})
		}
	})
}

// check reports a verdict: its message is a log line when it passed, the
// failure when it did not.
func check(t *testing.T, v suite.Verdict) {
	t.Helper()
	if v.Passed {
		t.Log(v.Message)
		return
	}
	t.Error(v.Message)
}

// progress writes the state of a run on the test's output, a line a beat.
func progress(t *testing.T) func(load.Progress) {
	out := t.Output()
	return func(p load.Progress) { fmt.Fprintln(out, p) }
}

func orUnknown(n int) string {
	if n == 0 {
		return "unknown"
	}
	return fmt.Sprint(n)
}
