package artifact

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGapsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "run"+GapsSuffix)
	g, err := CreateGapsFile(path, "run.json")
	require.NoError(t, err)
	require.NoError(t, g.Append(2, []time.Duration{10 * time.Millisecond, 10 * time.Millisecond, 12*time.Millisecond + 1}, false))
	require.NoError(t, g.Append(0, nil, false), "a request without output has no row")
	require.NoError(t, g.Append(1, []time.Duration{time.Second}, true))
	require.NoError(t, g.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, `{"schema":"anvil-capacity.gaps/v1","artifact":"run.json"}
{"request_index":2,"first_output_ms":10,"gaps_ms":[0,2.000001]}
{"request_index":1,"first_output_ms":1000,"gaps_ms":[],"truncated":true}
`, string(text))

	_, err = CreateGapsFile(path, "run.json")
	assert.ErrorIs(t, err, os.ErrExist, "nothing is overwritten")
	assert.ErrorContains(t, err, path)
}

// TestGapsFileStopsAtItsFirstFault: after a line that may be half written nothing
// follows.
func TestGapsFileStopsAtItsFirstFault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run"+GapsSuffix)
	g, err := CreateGapsFile(path, "run.json")
	require.NoError(t, err)
	require.NoError(t, g.lines.file.Close())
	first := g.Append(0, []time.Duration{1}, false)
	require.ErrorContains(t, first, path)
	assert.Equal(t, first.Error(), g.Append(0, []time.Duration{1}, false).Error())
}
