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
	for _, note := range suite.RecoverJournals(settings.ArtifactDir) {
		fmt.Fprintln(t.Output(), note)
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
	outcomes := runTurns(ctx, t, session)
	if ctx.Err() != nil {
		t.Errorf("the run was ended: %v", context.Cause(ctx))
	}
	if ctx.Err() != nil || session.Halted() {
		return
	}
	if len(session.Turns) > 1 {
		t.Run("index", func(t *testing.T) { testIndex(t, session, outcomes) })
	}
}

// runTurns runs every cell, and every repeat of one, as subtests: <cell> where a
// cell runs once, <cell>/<repeat> where it runs several times in a row, and
// turns/<number>-<cell>-<repeat> where cells take turns.
func runTurns(ctx context.Context, t *testing.T, session *suite.Session) suite.Outcomes {
	outcomes := suite.Outcomes{}
	for _, group := range session.Groups() {
		t.Run(group.Name, func(t *testing.T) {
			for i, turn := range group.Turns {
				if group.Names[i] == "" {
					outcomes.Add(turn, testCell(ctx, t, session, turn))
					continue
				}
				t.Run(group.Names[i], func(t *testing.T) { outcomes.Add(turn, testCell(ctx, t, session, turn)) })
			}
			for _, cell := range group.Compared {
				testComparisons(t, session, cell, outcomes)
			}
		})
	}
	return outcomes
}

const embeddedNotice = `CAPACITY_BASE_URL is not set: this run measures the suite against its own embedded endpoint,
whose timings are known. No model is measured. To aim it at a server:
  CAPACITY_BASE_URL=http://localhost:8000/v1 CAPACITY_MODEL=name go test -run Capacity -count=1 -timeout 0 -v .`

// testCell runs one cell once. Each step is a subtest; a step that the later
// ones stand on ends the cell when it fails. The outcome is nil where nothing
// was measured.
func testCell(ctx context.Context, t *testing.T, session *suite.Session, turn suite.Turn) *suite.Outcome {
	if ctx.Err() != nil {
		t.Fatalf("not started: %v", context.Cause(ctx))
	}
	cell, err := session.NewCell(turn)
	if err != nil {
		t.Fatal(err)
	}
	defer cell.Close()
	if !t.Run("preflight", func(t *testing.T) { testPreflight(ctx, t, cell) }) {
		return nil
	}
	if cell.ScoutRequests > 0 && !t.Run("scout", func(t *testing.T) { testScout(ctx, t, cell) }) {
		return nil
	}
	var out *suite.Outcome
	t.Run("service", func(t *testing.T) { out = testService(ctx, t, cell) })
	if out == nil {
		return nil
	}
	attributes(t, report.RunProperties(&out.Native, out.NativePath))
	t.Run("evidence", func(t *testing.T) { testEvidence(t, out) })
	t.Run("canaries", func(t *testing.T) { check(t, cell.CanaryVerdict(out)) })
	t.Run("leak", func(t *testing.T) { testLeak(t, cell, out) })
	t.Run("words", func(t *testing.T) { check(t, cell.WordsVerdict(out)) })
	if verdict, asked := cell.EngineVerdict(out); asked {
		t.Run("engine", func(t *testing.T) { testEngine(t, out, verdict) })
	}
	t.Run("client", func(t *testing.T) { testClient(t, cell, out) })
	testThresholds(t, cell, out)
	return out
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
	if err := report.Prompts(t.Output(), out.Native.Harness); err != nil {
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

// testLeak asserts that no answer went to the wrong request, and puts their
// count into the JUnit file.
func testLeak(t *testing.T, cell *suite.Cell, out *suite.Outcome) {
	t.Attr("cross_request_leaks", fmt.Sprint(len(out.Native.Harness.Leaks)))
	check(t, cell.LeakVerdict(out))
}

// testEngine prints the engine's own view of the cell beside the client's.
func testEngine(t *testing.T, out *suite.Outcome, verdict suite.Verdict) {
	if verdict.Passed {
		if err := report.EngineView(t.Output(), out.Engine); err != nil {
			t.Error(err)
		}
	}
	check(t, verdict)
}

// testClient prints the suite's own error and asserts that it is small enough.
func testClient(t *testing.T, cell *suite.Cell, out *suite.Outcome) {
	if err := report.OwnError(t.Output(), out.Native.Harness); err != nil {
		t.Error(err)
	}
	check(t, cell.ClientVerdict(out))
}

func testThresholds(t *testing.T, cell *suite.Cell, out *suite.Outcome) {
	if len(cell.Thresholds) == 0 {
		return
	}
	names := suite.ThresholdNames(cell.Thresholds)
	t.Run("threshold", func(t *testing.T) {
		for i, v := range gate.EvaluateRun(cell.Thresholds, &out.Native) {
			t.Run(names[i], func(t *testing.T) {
				attributes(t, report.ThresholdProperties(v))
				check(t, suite.Verdict{Passed: v.Passed() && !out.Partial(), Message: v.Message})
				if out.Partial() {
					t.Error("no threshold passes on a partial run")
				}
			})
		}
	})
}

// testIndex writes the list of all runs, where there are several.
func testIndex(t *testing.T, session *suite.Session, outcomes suite.Outcomes) {
	path, err := session.WriteIndex(outcomes)
	if err != nil {
		t.Error(err)
	}
	t.Logf("index of the runs: %s", path)
}

// testComparisons holds a cell against itself (CAPACITY_AA) and against an
// earlier build (CAPACITY_BASELINE), once all its runs are there.
func testComparisons(t *testing.T, session *suite.Session, cell config.Cell, outcomes suite.Outcomes) {
	if session.Halted() {
		return
	}
	if cell.AA {
		t.Run("aa", func(t *testing.T) { testComparison(t, session.AgainstItself(cell, outcomes)) })
	}
	if len(cell.Baseline) > 0 {
		t.Run("baseline", func(t *testing.T) { testComparison(t, session.AgainstBaseline(cell, outcomes)) })
	}
}

// testComparison asserts every gated metric. One that the data do not settle is
// skipped with a warning: it neither passed nor failed.
func testComparison(t *testing.T, c suite.Comparison) {
	t.Run("comparable", func(t *testing.T) {
		if c.Refusal != "" {
			t.Fatal(c.Refusal)
		}
		for _, note := range c.Notes {
			t.Log(note)
		}
	})
	for _, m := range c.Compared {
		t.Run(m.Metric, func(t *testing.T) {
			attributes(t, report.ComparedProperties(m))
			switch m.Status {
			case gate.Pass:
				t.Log(m.Message)
			case gate.Warn:
				t.Skip("WARNING: " + m.Message)
			default:
				t.Error(m.Message)
			}
		})
	}
}

// attributes puts what a job's page shows into the JUnit file.
func attributes(t *testing.T, properties []report.Property) {
	for _, p := range properties {
		t.Attr(p.Key, p.Value)
	}
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
