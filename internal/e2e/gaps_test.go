package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
)

// readGaps reads a gaps file: its header, and its rows by request index.
func readGaps(t *testing.T, path string) (artifact.GapsHeader, map[int]artifact.GapsRow) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	var header artifact.GapsHeader
	require.True(t, lines.Scan())
	require.NoError(t, json.Unmarshal(lines.Bytes(), &header))
	rows := map[int]artifact.GapsRow{}
	for lines.Scan() {
		var row artifact.GapsRow
		require.NoError(t, json.Unmarshal(lines.Bytes(), &row))
		require.NotContains(t, rows, row.RequestIndex, "a request has one row")
		rows[row.RequestIndex] = row
	}
	require.NoError(t, lines.Err())
	return header, rows
}

// TestAllGaps asks for every gap and holds the file to the histograms of the
// artifact beside it.
func TestAllGaps(t *testing.T) {
	got := runSuite(t, "CELL=smoke", "GAPS=all", "RUN=r")
	require.Zero(t, got.exit, got.output)
	native, err := artifact.ReadNative(filepath.Join(got.dir, "artifacts", "r.json"))
	require.NoError(t, err)
	require.Equal(t, "r-gaps.jsonl", native.Harness.GapsFile)

	header, rows := readGaps(t, filepath.Join(got.dir, "artifacts", native.Harness.GapsFile))
	assert.Equal(t, artifact.GapsHeader{Schema: artifact.GapsSchema, Artifact: "r.json"}, header)
	records := native.Records()
	require.NotEmpty(t, records)
	require.Len(t, rows, len(records))
	for _, r := range records {
		row := rows[r.RequestIndex]
		assert.InDelta(t, *r.Timing.TTFOMS, row.FirstOutputMS, 1e-9)
		assert.False(t, row.Truncated)
		require.Len(t, row.GapsMS, r.Response.Gaps.Count)
		require.NotEmpty(t, row.GapsMS)
		sum, longest := 0.0, 0.0
		for _, ms := range row.GapsMS {
			sum, longest = sum+ms, max(longest, ms)
		}
		assert.InDelta(t, r.Response.Gaps.SumMS, sum, 1e-6)
		assert.InDelta(t, r.Response.Gaps.MaxMS, longest, 1e-9)
	}
}

// TestGapsAreHistogramsUnlessAskedFor: nothing is written that nobody asked for,
// and a word that is none is refused.
func TestGapsAreHistogramsUnlessAskedFor(t *testing.T) {
	got := runSuite(t, "CELL=smoke", "RUN=r")
	require.Zero(t, got.exit, got.output)
	assert.Empty(t, got.files(t, "*"+artifact.GapsSuffix))

	refused := runSuite(t, "CELL=smoke", "GAPS=al")
	assert.NotZero(t, refused.exit)
	assert.Contains(t, refused.output, `CAPACITY_GAPS: got "al", want histogram or all; did you mean all?`)
}
