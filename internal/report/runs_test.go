package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/config"
)

// written puts an artifact into a folder.
func written(t *testing.T, dir, name string, n *artifact.Native) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, artifact.Write(path, n))
	return path
}

func TestReadRuns(t *testing.T) {
	dir := t.TempDir()
	one := written(t, dir, "one.json", built(t, 2))
	written(t, dir, "b.json", built(t, 3))
	index := filepath.Join(dir, "x-index.json")
	require.NoError(t, artifact.Write(index, artifact.Index{Schema: artifact.IndexSchema, Run: "x", Runs: []artifact.IndexRun{
		{Cell: "c4-ctx2048-w16", Arm: "a", Repeat: 1, Artifact: "one.json"},
		{Cell: "c4-ctx2048-w16", Arm: "b", Repeat: 1, Artifact: "b.json"},
		{Cell: "c4-ctx2048-w16", Arm: "a", Repeat: 2, Artifact: "one.json"},
	}}))
	runs, err := ReadRuns(one, index)
	require.NoError(t, err)
	require.Len(t, runs, 3, "the second arm of an A/A comparison is a control")
	assert.Equal(t, Run{Name: "c4-ctx2048-w16", File: one, Native: runs[0].Native}, runs[0])
	assert.Equal(t, "c4-ctx2048-w16/r1", runs[1].Name)
	assert.Equal(t, "c4-ctx2048-w16/r2", runs[2].Name)
	for _, r := range runs {
		assert.Equal(t, 2, r.Native.Requests)
	}
}

func TestReadRunsRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	for _, tt := range []struct{ name, path, want, why string }{
		{"missing", filepath.Join(dir, "no.json"), "no.json", "the name is what the reader can check"},
		{"empty", write("empty.json", ""), "empty.json", "a disk that was full"},
		{"summary", write("s.json", `{"schema":"`+artifact.SummarySchema+`"}`), "name the native artifact", "it has no requests to sample"},
		{"other_schema", write("o.json", `{"schema":"x/v1"}`), "x/v1", "someone else's file"},
		{"index_of_nothing", write("i.json", `{"schema":"`+artifact.IndexSchema+`","runs":[]}`), "no run of arm a", "no sample is not a fast one"},
		{"index_without_file", write("j.json", `{"schema":"`+artifact.IndexSchema+`","runs":[{"arm":"a","artifact":"gone.json"}]}`), "gone.json", "half of the runs is another sample"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runs, err := ReadRuns(tt.path)
			assert.ErrorContains(t, err, tt.want, tt.why)
			assert.Empty(t, runs)
		})
	}
}

// TestCellNameIsTheSuites holds the name, which an artifact does not carry, to
// the one that the settings give.
func TestCellNameIsTheSuites(t *testing.T) {
	s, err := config.Load([]string{"CAPACITY_CONCURRENCY=1,16", "CAPACITY_CONTEXT_TOKENS=2048,8192x3+32768x1", "CAPACITY_RESPONSE_WORDS=0,16"}, nil)
	require.NoError(t, err)
	cells := s.Cells()
	require.Len(t, cells, 8)
	for _, cell := range cells {
		n := &artifact.Native{Concurrency: cell.Concurrency, ResponseWords: &cell.ResponseWords, ContextDistribution: map[string]int{"8192": 24, "32768": 8}}
		if len(cell.Context.Parts) == 1 {
			n.ContextTokens = &cell.Context.Parts[0].Tokens
		}
		assert.Equal(t, cell.Name, CellName(n))
	}
}

func TestCellNameOfOthers(t *testing.T) {
	for _, tt := range []struct {
		name string
		n    artifact.Native
		want string
		why  string
	}{
		{"nothing_said", artifact.Native{Concurrency: 2}, "c2-ctxunknown-w0", "an older implementation"},
		{"one_size", artifact.Native{Concurrency: 2, ContextDistribution: map[string]int{"512": 9}}, "c2-ctx512-w0", "a distribution of one size is that size"},
		{"no_requests", artifact.Native{ContextDistribution: map[string]int{"1": 0, "2": 0}}, "c0-ctx1x0_2x0-w0", "no division by zero"},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, CellName(&tt.n), tt.why) })
	}
}
