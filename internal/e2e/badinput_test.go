package e2e

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBadInput gives every wrong setting that a user is likely to make, and
// wants one clear message, a failed run, and nothing of the cell sent.
func TestBadInput(t *testing.T) {
	ref := refTarget(t, fast())
	keyed := fast()
	keyed.APIKey = "the-right-key"
	locked := refTarget(t, keyed)
	page := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>Welcome</title>"))
	}))
	picky := fast()
	picky.RejectParams = []string{"stream_options"}
	noOptions := refTarget(t, picky)

	for _, tt := range []struct {
		name   string
		target *target
		vars   []string
		want   []string // all stand in the output
		why    string
	}{
		{"no_such_model", ref, small(ref.URL, "MODEL=tinny"), []string{`"tinny"`, "CAPACITY_MODEL", `served: "tiny"`}, "the model list tells what there is"},
		{"wrong_key", locked, small(locked.URL, "API_KEY=not-this-one"), []string{"401", "the key was not accepted", "CAPACITY_API_KEY"}, "the key itself must not be repeated"},
		{"no_key", locked, small(locked.URL), []string{"401", "a key is demanded and none is set"}, "another hint than for a wrong one"},
		{"html_at_the_base_url", page, small(page.URL), []string{"not a model list", "usually ends in /v1"}, "a web site answers 200 to anything"},
		{"stream_options_refused", noOptions, small(noOptions.URL), []string{"stream_options", "CAPACITY_USAGE=observe"}, "an option stops in the preflight, not at request 1 of 100"},
		{"context_larger_than_the_model", ref, small(ref.URL, "CONTEXT_TOKENS=16384"), []string{"CAPACITY_CONTEXT_TOKENS=16384", "8192"}, "the server says 8192"},
		{"base_url_without_v1", ref, small("http://127.0.0.1:1"), []string{"CAPACITY_BASE_URL", "/v1"}, "the usual slip"},
		{"base_url_with_userinfo", ref, small("http://user:hunter2@127.0.0.1:1/v1"), []string{"CAPACITY_BASE_URL", "CAPACITY_API_KEY"}, "a password must not be repeated"},
		{"base_url_without_scheme", ref, small("localhost:8000/v1"), []string{"CAPACITY_BASE_URL", "http://"}, "url.Parse takes localhost for a scheme"},
		{"strict_without_words", ref, small(ref.URL, "RESPONSE_WORDS=0", "CONTROLLED_OUTPUT=strict"), []string{"CAPACITY_CONTROLLED_OUTPUT", "CAPACITY_RESPONSE_WORDS"}, "nothing to be strict about"},
		{"canaries_with_few_tokens", ref, small(ref.URL, "MAX_TOKENS=4"), []string{"CAPACITY_MAX_TOKENS", "16"}, "no marker fits"},
		{"threshold_with_a_typo", ref, small(ref.URL, "THRESHOLDS=ttft_p50<=100"), []string{"ttft_p50", "ttft_p50_ms"}, "an unknown metric would never fail"},
		{"cell_file_missing", ref, small(ref.URL, "CELL=nope"), []string{"CAPACITY_CELL", "nope", "smoke"}, "the message lists those that exist"},
		{"unknown_variable", ref, small(ref.URL, "CONCURENCY=4"), []string{"CAPACITY_CONCURENCY", "CAPACITY_CONCURRENCY"}, "a typo would silently measure the default"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.target.completions.Load()
			got := runSuite(t, tt.vars...)
			assert.NotZero(t, got.exit, tt.why)
			for _, want := range tt.want {
				assert.Contains(t, got.output, want, tt.why)
			}
			assert.NotContains(t, got.output, "not-this-one")
			assert.NotContains(t, got.output, "hunter2")
			assert.NotContains(t, got.output, "/service", "the cell must not start")
			// A preflight is one completion at most; a refused option may be
			// tried in its other spelling.
			assert.LessOrEqual(t, tt.target.completions.Load()-before, int64(1))
			assert.Empty(t, got.files(t, "*.json"), "nothing was measured")
		})
	}
}

func TestConnectionRefused(t *testing.T) {
	// A port that was just free: bound, and let go.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	url := "http://" + l.Addr().String() + "/v1"
	require.NoError(t, l.Close())
	got := runSuite(t, small(url)...)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "refused")
	assert.Contains(t, got.output, "is the server running")
}

func TestTrailingSlashIsTheSameServer(t *testing.T) {
	ref := refTarget(t, fast())
	got := runSuite(t, small(ref.URL+"/")...)
	require.Zero(t, got.exit, got.output)
	assert.Equal(t, int64(4+1), ref.completions.Load(), "four requests and the preflight's")
}

func TestCellFileWithAnUnknownName(t *testing.T) {
	dir := suiteDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fixtures", "cells", "mine.env"), []byte("REQUESTS=4\nREQUSTS=5\n"), 0o644))
	got := finish(t, suiteCommand(t, dir, "CELL=mine"), dir)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "mine.env:2")
	assert.Contains(t, got.output, "REQUESTS")
}

// TestArtifactDirThatCannotBeWritten is found before the first request. The
// folder is a file, which stops root as well.
func TestArtifactDirThatCannotBeWritten(t *testing.T) {
	ref := refTarget(t, fast())
	dir := suiteDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "taken"), nil, 0o644))
	got := finish(t, suiteCommand(t, dir, small(ref.URL, "ARTIFACT_DIR=taken/evidence")...), dir)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "CAPACITY_ARTIFACT_DIR")
	assert.Zero(t, ref.requests.Load(), "nothing at all is sent")
}

// TestRunThatWouldOverwrite keeps the evidence of the first run.
func TestRunThatWouldOverwrite(t *testing.T) {
	ref := refTarget(t, fast())
	dir := suiteDir(t)
	first := finish(t, suiteCommand(t, dir, small(ref.URL, "RUN=same")...), dir)
	require.Zero(t, first.exit, first.output)
	sent := ref.requests.Load()
	second := finish(t, suiteCommand(t, dir, small(ref.URL, "RUN=same")...), dir)
	assert.NotZero(t, second.exit)
	assert.Contains(t, second.output, "CAPACITY_RUN")
	assert.Equal(t, sent, ref.requests.Load())
}

// TestMaxTokensUnderItsOtherName is no bad input: the preflight finds the name
// that the server takes, and the cell uses it.
func TestMaxTokensUnderItsOtherName(t *testing.T) {
	o := fast()
	o.RejectParams = []string{"max_tokens"}
	ref := refTarget(t, o)
	got := runSuite(t, small(ref.URL)...)
	require.Zero(t, got.exit, got.output)
	assert.Contains(t, got.output, "max_completion_tokens instead of max_tokens")
}
