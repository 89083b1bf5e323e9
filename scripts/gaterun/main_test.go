package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		exit int
		says string
	}{
		{"help", []string{"-h"}, exitPass, "exit status: 0 passed"},
		{"unknown flag", []string{"-juint", "x"}, exitUsage, "-juint"},
		{"stray argument", []string{"everything"}, exitUsage, "CAPACITY_ variables"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			assert.Equal(t, tt.exit, run(&stdout, &stderr, tt.args))
			assert.Contains(t, stderr.String(), tt.says)
		})
	}
}

// TestStaleJUnitFileThatStays: when the file of an earlier run cannot be removed
// nothing is run, or it would speak for this run.
func TestStaleJUnitFileThatStays(t *testing.T) {
	t.Parallel()
	junit := filepath.Join(t.TempDir(), "junit.xml")
	require.NoError(t, os.MkdirAll(filepath.Join(junit, "full"), 0o755)) // a folder that is not empty stays, also for root
	var stdout, stderr bytes.Buffer
	assert.Equal(t, exitHarness, run(&stdout, &stderr, []string{"-junit", junit}))
	assert.Contains(t, stderr.String(), "removing the JUnit file of an earlier run")
}
