package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fixture is a file of fixtures/engine.
func fixture(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "fixtures", "engine", name))
	require.NoError(t, err)
	return string(text)
}

var defaults = limits{bytes: MaxBytes, samples: MaxSamples}

// epoch is when the snapshots of tests were read.
var epoch = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

// snapshot reads a page as Read would.
func snapshot(t testing.TB, text, model string) *Snapshot {
	t.Helper()
	p, err := readPage(strings.NewReader(text), wantedAll, defaults)
	require.NoError(t, err)
	s, ok := newSnapshot(p, epoch, model, allRoles)
	require.True(t, ok, "no engine on the page")
	return s
}

// vllmPage is a small page: name and value pairs, names without the prefix.
func vllmPage(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("vllm:" + l + "\n")
	}
	return b.String()
}
