package report

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
)

// kindOf takes the last part of a test's name for its kind.
func kindOf(test string) string {
	for _, kind := range []string{"service", "words", "threshold"} {
		if len(test) >= len(kind) && test[len(test)-len(kind):] == kind {
			return kind
		}
	}
	return "harness"
}

func source(cases ...TestCase) PageSource {
	return PageSource{
		Verdict: "gate: FAIL", Cases: cases, KindOf: kindOf, KindOrder: []string{"words", "service"},
		Read: func(string) (artifact.Native, error) { return artifact.Native{}, errors.New("no such file") },
	}
}

func TestPageNamesWhatFailed(t *testing.T) {
	p := NewPage(source(
		TestCase{Name: "TestCapacity/c1/service", Failed: true, Message: "2 of 3 failed"},
		TestCase{Name: "TestCapacity/c1/words", Failed: true, Message: "too many"},
		TestCase{Name: "TestCapacity/c1/other", Failed: true},
		TestCase{Name: "TestCapacity/c1", Failed: true},
		TestCase{Name: "TestCapacity", Failed: true, Message: "panic: boom"},
		TestCase{Name: "TestCapacity/c1/baseline/ttft", Skipped: true, Message: "WARNING"},
		TestCase{Name: "TestCapacity/c1/leak"},
	))
	assert.Equal(t, []Finding{
		{"words", "TestCapacity/c1/words", "too many"},
		{"service", "TestCapacity/c1/service", "2 of 3 failed"},
		{"harness", "TestCapacity/c1/other", ""},
		{"harness", "TestCapacity", "panic: boom"},
	}, p.Failures, "the gravest kind first; a parent only where it says something itself; what says nothing all the same")
	assert.Equal(t, []Finding{{"harness", "TestCapacity/c1/baseline/ttft", "WARNING"}}, p.Skips)
	assert.False(t, p.Passed)
	assert.Equal(t, "gate: FAIL", p.Verdict)
}

func TestPageReadsTheArtifactsOfItsTests(t *testing.T) {
	of := func(file string) map[string]string { return map[string]string{PropertyArtifact: file} }
	s := source(
		TestCase{Name: "TestCapacity/c4/r2", Properties: of("late.json")},
		TestCase{Name: "TestCapacity/c4/r3", Properties: of("gone.json")},
		TestCase{Name: "TestCapacity/c4/r1", Properties: of("early.json")},
		TestCase{Name: "TestCapacity/c4", Properties: map[string]string{"cross_request_leaks": "0"}},
	)
	start := map[string]int64{"early.json": 1, "late.json": 2}
	s.Read = func(path string) (artifact.Native, error) {
		at, ok := start[path]
		if !ok {
			return artifact.Native{}, errors.New("gone")
		}
		return artifact.Native{StartedAtUnixNS: &at}, nil
	}
	runs := NewPage(s).Runs
	require.Len(t, runs, 3, "no artifact, no row")
	assert.Equal(t, []string{"c4/r1", "c4/r2", "c4/r3"}, []string{runs[0].Name, runs[1].Name, runs[2].Name}, "as they were taken")
	assert.EqualError(t, runs[2].Err, "gone")
	assert.Nil(t, runs[2].Native)
}

// TestPageReadsRealArtifacts uses the default reader.
func TestPageReadsRealArtifacts(t *testing.T) {
	path := written(t, t.TempDir(), "x.json", built(t, 2))
	s := source(TestCase{Name: "TestCapacity/c4", Properties: map[string]string{PropertyArtifact: path}})
	s.Read = nil
	runs := NewPage(s).Runs
	require.Len(t, runs, 1)
	require.NoError(t, runs[0].Err)
	assert.Equal(t, 2, runs[0].Native.Requests)
}

func TestPageRows(t *testing.T) {
	limit := map[string]string{"metric": "ttft_p50_ms", "limit": "ttft_p50_ms<=5", "value": "4", "status": "pass"}
	compared := map[string]string{
		"metric": "ttft_mean_ms", "baseline_value": "100", "value": "120", "change": "0.2", "change_low": "0.1", "change_high": "0.3",
		"margin": "0.05", "status": "warn", "verdict": "cannot_tell",
	}
	p := NewPage(source(
		TestCase{Name: "TestCapacity/c4/r1/threshold/ttft_p50_ms", Properties: limit},
		TestCase{Name: "TestCapacity/c4/r2/threshold/ttft_p50_ms", Properties: limit, Failed: true, Message: "no threshold passes on a partial run"},
		TestCase{Name: "TestCapacity/c4/baseline/ttft_mean_ms", Properties: compared, Skipped: true},
	))
	assert.Equal(t, []LimitRow{
		{"c4/r1", "ttft_p50_ms<=5", "4", "pass"},
		{"c4/r2", "ttft_p50_ms<=5", "4", "fail"},
	}, p.Limits, "no row says pass where the test did not")
	assert.Equal(t, []ComparedRow{{
		Cell: "c4/baseline", Metric: "ttft_mean_ms", Baseline: "100", Value: "120", Change: "0.2", Low: "0.1", High: "0.3",
		Margin: "0.05", Status: "warn", Verdict: "cannot_tell",
	}}, p.Comparisons)
	assert.Empty(t, p.Runs)
}
