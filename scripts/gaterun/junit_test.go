package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// junitOf writes a JUnit file as gotestsum does, of tests that failed and tests
// that passed. A failed name may be followed by " | " and its output; without one
// it is that of a test that came to its end.
func junitOf(t *testing.T, failed, passed []string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("<testsuites><testsuite>")
	for _, f := range failed {
		name, output, given := strings.Cut(f, " | ")
		if !given {
			output = "=== RUN   " + name + "\n    --- FAIL: " + name + " (0.01s)\n"
		}
		fmt.Fprintf(&b, "<testcase name=%q><failure message=\"Failed\">%s</failure></testcase>", name, strings.ReplaceAll(output, "\n", "&#xA;"))
	}
	for _, name := range passed {
		fmt.Fprintf(&b, "<testcase name=%q></testcase>", name)
	}
	b.WriteString("</testsuite></testsuites>")
	path := filepath.Join(t.TempDir(), "junit.xml")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const cell = "TestCapacity/c4-ctx256-w4"
	checks := []string{"preflight", "scout", "service", "evidence", "canaries", "leak", "words", "client", "threshold/ttft_p50_ms"}
	all := []string{"TestCapacity", cell}
	for _, c := range checks {
		all = append(all, cell+"/"+c)
	}
	below := func(names ...string) []string {
		failed := []string{"TestCapacity", cell}
		for _, n := range names {
			failed = append(failed, cell+"/"+n)
		}
		return failed
	}
	for _, tt := range []struct {
		name           string
		failed, passed []string
		status         int // gotestsum's
		exit           int
		says, why      string
	}{
		{"pass", nil, all, 0, exitPass, "gate: PASS: 11 tests", ""},
		{"preflight", below("preflight"), nil, 1, exitHarness, "harness (1)", "nothing was measured"},
		{"scout", below("scout"), nil, 1, exitHarness, "harness (1)", "nothing of the cell was measured"},
		{"evidence", below("evidence"), nil, 1, exitHarness, "harness (1)", "what was measured is not on disk"},
		{"client", below("client"), nil, 1, exitHarness, "harness (1)", "the suite's own error is too large"},
		{"service", below("service"), nil, 1, exitService, "service (1)", ""},
		{"canaries", below("canaries"), nil, 1, exitCorrectness, "correctness (1)", ""},
		{"leak", below("leak"), nil, 1, exitCorrectness, "correctness (1)", ""},
		{"words", below("words"), nil, 1, exitCorrectness, "correctness (1)", ""},
		{"threshold", below("threshold", "threshold/ttft_p50_ms"), nil, 1, exitLimit, "limit (2)", ""},
		{"baseline", below("baseline", "baseline/ttft_p50_ms"), nil, 1, exitBaseline, "baseline (2)", ""},
		{"a wrong answer is also not completed", below("service", "canaries"), nil, 1, exitCorrectness, "correctness (1), service (1)", "the graver finding first"},
		{"the harness before all", below("service", "canaries", "evidence", "threshold"), nil, 1, exitHarness, "harness (1), correctness (1), service (1), limit (1)", "findings of a harness that failed are none"},
		{"the cell alone", below(), nil, 1, exitHarness, "gate: FAIL: harness", "no check names the reason"},
		{"the test alone", []string{"TestCapacity"}, nil, 1, exitHarness, "gate: FAIL: harness", "settings, an interrupt"},
		{"an interrupt", below("service", "evidence"), nil, 130, exitHarness, "harness (1)", "gotestsum gives 130"},
		{"no test", nil, nil, 0, exitHarness, "no test was executed", "a pattern that matches nothing passes in go test"},
		{"no test and a failure", nil, nil, 1, exitHarness, "no test was executed", ""},
		{"failed in the file alone", below("service"), nil, 0, exitHarness, "they disagree", "gotestsum has been seen to exit 0"},
		{"failed in the status alone", nil, all, 1, exitHarness, "they disagree", "a result that is missing from the file"},
		{"a panic in a check", below("service | panic: broken\n\ngoroutine 7 [running]:\n"), nil, 1, exitHarness, "the suite panicked: broken", "go test blames the check that ran"},
		{"a panic that is told to the parent", []string{"TestCapacity | === RUN   TestCapacity\npanic: broken [recovered]\n\ngoroutine 7 [running]:\n", cell + "/service"}, nil, 1, exitHarness, "the suite panicked: broken", ""},
		{"a panic as a word", below("service | the server says: panic: out of memory\n--- FAIL: " + cell + "/service (0.01s)\n"), nil, 1, exitService, "service (1)", "it is the server's"},
		{"a check that has no end", below("service | === RUN   " + cell + "/service\nno newline\n"), nil, 1, exitHarness, "the test process ended in the middle of " + cell + "/service", "os.Exit, a signal"},
		{"a check behind an unfinished line", below("service | text without an end    --- FAIL: " + cell + "/service (0.01s)\n"), nil, 1, exitService, "service (1)", "its result is there"},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			v := judge(junitOf(t, tt.failed, tt.passed), tt.status)
			assert.Equal(t, tt.exit, v.Exit, tt.why)
			assert.Contains(t, v.String(), tt.says, tt.why)
		})
	}
}

func TestJudgeSkipped(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "junit.xml")
	const skipped = `<testsuites><testsuite><testcase name="TestCapacity"><skipped message="short"></skipped></testcase></testsuite></testsuites>`
	require.NoError(t, os.WriteFile(path, []byte(skipped), 0o644))
	v := judge(path, 0)
	assert.Equal(t, exitHarness, v.Exit, "a skipped test is none that was executed")
}

func TestJudgeWithoutAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	none := judge(filepath.Join(dir, "none.xml"), 130)
	assert.Equal(t, exitHarness, none.Exit)
	assert.Contains(t, none.String(), "gotestsum exited 130")
	whole, err := os.ReadFile(junitOf(t, nil, []string{"TestCapacity"}))
	require.NoError(t, err)
	for cut := range whole {
		path := filepath.Join(dir, "cut.xml")
		require.NoError(t, os.WriteFile(path, whole[:cut], 0o644))
		assert.Equal(t, exitHarness, judge(path, 0).Exit, "a file cut at byte %d", cut)
	}
}

// TestKindsAreTold keeps the help in step with the table.
func TestKindsAreTold(t *testing.T) {
	t.Parallel()
	help := exitHelp()
	for _, k := range kinds {
		assert.Contains(t, help, fmt.Sprintf("%d %s", k.exit, k.name))
	}
}
