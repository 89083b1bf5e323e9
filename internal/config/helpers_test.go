package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// realCells holds the cell files of the repository.
func realCells() fs.FS { return os.DirFS("../../fixtures/cells") }

// oneCell is a folder with one cell file, x.env.
func oneCell(content string) fs.FS {
	return fstest.MapFS{"x.env": &fstest.MapFile{Data: []byte(content)}}
}

// mustLoad loads NAME=VALUE pairs, written without CAPACITY_.
func mustLoad(t *testing.T, cells fs.FS, pairs ...string) Settings {
	t.Helper()
	s, err := Load(environment(pairs), cells)
	require.NoError(t, err)
	return s
}

// faultsOf loads pairs that must not load, and gives the faults, a line each.
func faultsOf(t *testing.T, cells fs.FS, pairs ...string) []string {
	t.Helper()
	s, err := Load(environment(pairs), cells)
	var all *Error
	require.ErrorAs(t, err, &all)
	require.NotEmpty(t, all.Faults)
	require.Equal(t, Settings{}, s, "settings at fault must not be used")
	lines := strings.Split(err.Error(), "\n  ")
	require.Len(t, lines, 1+len(all.Faults), "one line a fault, after the line that counts them")
	require.NotContains(t, strings.Join(lines, ""), "\n")
	return lines[1:]
}

func environment(pairs []string) []string {
	environ := []string{"PATH=/bin", "OPENAI_API_KEY=sk-not-ours", "OPENAI_BASE_URL=https://not.ours/v1"}
	for _, p := range pairs {
		environ = append(environ, Prefix+p)
	}
	return environ
}

// writeFile makes a file in a temporary folder and gives its path.
func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
