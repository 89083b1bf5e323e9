package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// published is an artifact of 100 requests, all completed.
const published = "../../fixtures/artifacts/fp8-moe-ab-tuned-v3-primary-r2.json"

func TestRun(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(&out, &out, []string{published}))
	assert.Greater(t, strings.Count(out.String(), "\nBenchmarkCapacity/"), 2, "one a request")
	perRequest := strings.Count(out.String(), " ttft-ns ")
	out.Reset()
	require.NoError(t, run(&out, &out, []string{"-per", "run", "-key", "engine,model", published, published}))
	assert.Equal(t, 2, strings.Count(out.String(), "\nBenchmarkCapacity/"), "one a run")
	assert.Greater(t, perRequest, 2)
	assert.Contains(t, out.String(), "\nmodel: ")
	assert.Contains(t, out.String(), "\n# gpu: ")
}

func TestExitStatus(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.json")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	for _, tt := range []struct {
		name string
		args []string
		want int
		says string
		why  string
	}{
		{"help", []string{"-h"}, 0, "usage: benchlines", "asked for"},
		{"nothing", nil, 2, "no file named", "a shell glob that found nothing"},
		{"flag", []string{"-x"}, 2, "-x", "unknown"},
		{"per", []string{"-per", "token", published}, 2, `"token"`, "neither"},
		{"key", []string{"-key", "engin", published}, 1, `"engin"`, "would stay a comment"},
		{"missing", []string{"no.json"}, 1, "no.json", "names the file"},
		{"empty", []string{published, empty}, 1, "empty.json", "half of the files is another sample"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			assert.Equal(t, tt.want, exitStatus(&stderr, run(&stdout, &stderr, tt.args)), tt.why)
			assert.Contains(t, stderr.String(), tt.says)
			assert.Empty(t, stdout.String(), "half a file would be read as a whole one")
		})
	}
}
