package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/record"
)

// deadJournal writes the journal of a run that was killed after some rows.
func deadJournal(t *testing.T, path string, rows int) {
	t.Helper()
	j, err := artifact.CreateJournal(path, artifact.Facts{
		BaseURL: "http://localhost:1/v1", Model: "tiny", Requests: 4, Concurrency: 2, MaxTokens: 16,
		ContextTokens: 256, ContextDistribution: map[int]int{256: 4}, PromptCacheMode: "unique",
	})
	require.NoError(t, err)
	for i := range rows {
		require.NoError(t, j.Append(record.Record{RequestIndex: i, PlannedContextTokens: 256, ElapsedMS: float64(1 + i),
			Failure: record.NewFailure(record.HTTPStatus, "status 500")}))
	}
	require.NoError(t, j.Close())
}

func TestRecover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first.journal"), filepath.Join(dir, "second.journal")
	deadJournal(t, first, 3)
	deadJournal(t, second, 0)
	var out bytes.Buffer
	require.NoError(t, run(&out, []string{"recover", first, second}))
	assert.Contains(t, out.String(), "3 of 4 requests had ended")
	assert.Contains(t, out.String(), "0 of 4 requests had ended")
	for name, rows := range map[string]int{"first": 3, "second": 0} {
		n, err := artifact.ReadPartial(filepath.Join(dir, name+".partial.json"))
		require.NoError(t, err)
		assert.Len(t, n.Failures, rows)
		assert.NoFileExists(t, filepath.Join(dir, name+".journal"), "its rows stand in the artifact")
	}
}

// TestRecoverTwice meets a journal whose rows an artifact has already: the run
// was killed between writing the one and removing the other.
func TestRecoverTwice(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.journal")
	deadJournal(t, path, 2)
	journal, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, run(&bytes.Buffer{}, []string{"recover", path}))

	require.NoError(t, os.WriteFile(path, journal, 0o644))
	var out bytes.Buffer
	require.NoError(t, run(&out, []string{"recover", path}))
	assert.Contains(t, out.String(), "all of them stand in")
	assert.NoFileExists(t, path)

	// Another run of that name, which is not in the artifact.
	deadJournal(t, path, 3)
	out.Reset()
	require.NoError(t, run(&out, []string{"recover", path}))
	assert.Contains(t, out.String(), "run.partial-2.json", "no evidence is overwritten")
}

func TestRecoverDamaged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.journal")
	deadJournal(t, path, 3)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines[2] = []byte("garbage\n")
	require.NoError(t, os.WriteFile(path, bytes.Join(lines, nil), 0o644))
	var out bytes.Buffer
	require.NoError(t, run(&out, []string{"recover", path}))
	assert.Contains(t, out.String(), "2 of 4 requests had ended")
	assert.NoFileExists(t, path)
	assert.FileExists(t, path+".damaged", "what could not be read is kept")
}

func TestRecoverRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	live, good := filepath.Join(dir, "live.journal"), filepath.Join(dir, "good.journal")
	j, err := artifact.CreateJournal(live, artifact.Facts{Requests: 1})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	empty := filepath.Join(dir, "empty.journal")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	deadJournal(t, good, 1)
	var out bytes.Buffer
	err = run(&out, []string{"recover", filepath.Join(dir, "none.journal"), live, empty, good})
	assert.ErrorContains(t, err, "none.journal")
	assert.ErrorIs(t, err, artifact.ErrJournalLive)
	assert.ErrorIs(t, err, artifact.ErrEmpty)
	assert.FileExists(t, live, "a run is writing it")
	assert.FileExists(t, empty, "nothing is thrown away that was not understood")
	assert.Contains(t, out.String(), "good.journal", "one that fails does not keep the others from being recovered")
	assert.NoFileExists(t, good)
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		want int
	}{
		{"nothing", nil, 2},
		{"unknown verb", []string{"recuver", "x"}, 2},
		{"no file", []string{"recover"}, 2},
		{"no such file", []string{"recover", filepath.Join(t.TempDir(), "x.journal")}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stderr bytes.Buffer
			assert.Equal(t, tt.want, exitStatus(&stderr, run(&bytes.Buffer{}, tt.args)))
			assert.NotEmpty(t, stderr.String())
			if tt.want == 2 {
				assert.Contains(t, stderr.String(), "scripts/evidence recover FILE.journal...")
			}
		})
	}
	assert.Zero(t, exitStatus(nil, nil))
}
