package artifact

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// writeReal writes the real cell and its scout as this suite would, and gives
// the path of the final.
func writeReal(t testing.TB) string {
	t.Helper()
	scoutPath := writeNative(t, "glm-scout.json", Build(realScout(t)))
	scout, err := ScoutFrom(scoutPath)
	require.NoError(t, err)
	run := realFinal(t)
	run.Scout = &scout
	return writeNative(t, "glm-capacity-c4-16word-final.json", Build(run))
}

// The published summary of the real cell has 2 numbers of timing and 6 exact
// metrics; all come out of Build, Write and Summarize as the same tokens.
func TestRealCellKeepsEveryPublishedNumber(t *testing.T) {
	t.Parallel()
	published := publishedSummary(t)
	got, err := Summarize(writeReal(t))
	require.NoError(t, err)

	pairs := map[string][2]Exact{
		"throughput_tok_s": {published.ExactMetrics.ThroughputTokS, got.ExactMetrics.ThroughputTokS},
		"ttft_p50_ms":      {published.ExactMetrics.TTFTP50MS, got.ExactMetrics.TTFTP50MS},
		"e2e_p50_ms":       {published.ExactMetrics.E2EP50MS, got.ExactMetrics.E2EP50MS},
		"ttft_mean_ms":     {published.ExactMetrics.TTFTMeanMS, got.ExactMetrics.TTFTMeanMS},
		"e2e_mean_ms":      {published.ExactMetrics.E2EMeanMS, got.ExactMetrics.E2EMeanMS},
		"tpot_mean_ms":     {published.ExactMetrics.TPOTMeanMS, got.ExactMetrics.TPOTMeanMS},
		"wall_clock_ms":    {published.Timing.WallClockMS, got.Timing.WallClockMS},
	}
	require.Len(t, pairs, 7)
	for key, pair := range pairs {
		require.NotNil(t, pair[0].Float64(), "%s must be published for the comparison to mean something", key)
		assert.Equal(t, pair[0].String(), pair[1].String(), key)
	}
	assert.Equal(t, published.Completion, got.Completion)
	assert.Equal(t, published.Workload, got.Workload)
	assert.Equal(t, published.MeasurementProtocol, got.MeasurementProtocol)
	assert.Equal(t, published.SourceArtifact, got.SourceArtifact)
	assert.Equal(t, published.SourceSchema, got.SourceSchema)
	assert.Equal(t, published.Schema, got.Schema)
}

// All metrics of both runs, not only the six, come back from the written file
// with the bits that the fixture says.
func TestRealCellMetricsSurviveTheFile(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]Run{"final": realFinal(t), "scout": realScout(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, err := ReadNative(writeNative(t, name+".json", Build(run)))
			require.NoError(t, err)
			data, err := os.ReadFile(filepath.Join(realCell, name+"-metrics.json"))
			require.NoError(t, err)
			var want map[string]float64
			require.NoError(t, json.Unmarshal(data, &want))
			require.Greater(t, len(want), 100)
			for key, w := range want {
				got, known := n.Metrics.Get(key)
				if assert.True(t, known && got != nil, key) {
					assert.Equal(t, w, *got, key)
				}
			}
		})
	}
}

// The derived summary has the keys of the published one, in the same order, at
// every depth.
func TestSummaryHasThePublishedShape(t *testing.T) {
	t.Parallel()
	native := writeReal(t)
	path := filepath.Join(t.TempDir(), "summary.json")
	require.NoError(t, WriteSummary(native, path))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join(realCell, "final-summary.json"))
	require.NoError(t, err)

	wantKeys := keyOrder(t, want)
	require.Greater(t, len(wantKeys), 40, "the walk must have found the published keys")
	assert.Equal(t, wantKeys, keyOrder(t, got))
	assert.True(t, bytes.HasPrefix(got, []byte("{\n  \"schema\"")), "two-space indent")
	assert.True(t, bytes.HasSuffix(got, []byte("}\n")), "final newline")
}

// Deriving twice, from a copy of the file in another folder too, gives the same bytes.
func TestSummaryIsByteIdenticalWhenDerivedAgain(t *testing.T) {
	t.Parallel()
	native := writeReal(t)
	data, err := os.ReadFile(native)
	require.NoError(t, err)
	elsewhere := filepath.Join(t.TempDir(), filepath.Base(native))
	require.NoError(t, os.WriteFile(elsewhere, data, 0o600))

	dir := t.TempDir()
	first, second := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
	require.NoError(t, WriteSummary(native, first))
	require.NoError(t, WriteSummary(elsewhere, second))
	require.NoError(t, WriteSummary(native, first), "deriving again over the same summary is not an overwrite")
	a, err := os.ReadFile(first)
	require.NoError(t, err)
	b, err := os.ReadFile(second)
	require.NoError(t, err)
	require.NotEmpty(t, a)
	assert.Equal(t, string(a), string(b))
}

// The real cell's caveat is worked out and says what the published one says,
// and which rows show it, in other words.
func TestRealCellCaveatSaysWhatThePublishedOneSays(t *testing.T) {
	t.Parallel()
	s, err := Summarize(writeReal(t))
	require.NoError(t, err)
	for fact, words := range map[string]string{
		"unique within the cell":          "unique within this cell",
		"a scout of eight, same seed":     "scout of eight requests with the same canary seed (0) ran just before it",
		"the first eight possibly warm":   "its first eight requests: those were possibly warm",
		"no engine counters":              "engine cache counters were returned",
		"no cached_tokens":                "Neither cached_tokens nor",
		"the rows that the README names":  "requests 0, 4, 5, 6 and 7 look warm: first output after 515 to 986 ms",
		"what the rest took":              "a median of 6252 ms for the rest",
		"what a comparison has to keep":   "must retain the matched sequence, this scout and then this cell",
		"the other way to compare fairly": "leave the first eight requests out on both sides",
	} {
		assert.Contains(t, s.CacheCaveat, words, fact)
	}
	assert.NotContains(t, s.CacheCaveat, "does not explain", "all warm rows are among the scout's eight")
	assert.NotEqual(t, publishedSummary(t).CacheCaveat, s.CacheCaveat, "in our own words")

	assert.Contains(t, s.P99Interpretation, "N=100:")
	assert.Contains(t, s.P99Interpretation, "number 99 of 100")
	assert.Contains(t, s.P99Interpretation, "not a stable service level")
}

// Without the scout's link the same rows give another text: it is evidence and
// no fixed string.
func TestRealCellWithoutScoutSaysSo(t *testing.T) {
	t.Parallel()
	s, err := Summarize(writeNative(t, "final.json", Build(realFinal(t))))
	require.NoError(t, err)
	assert.Contains(t, s.CacheCaveat, "No scout ran before it")
	assert.Contains(t, s.CacheCaveat, "requests 0, 4, 5, 6 and 7 look warm")
	assert.Contains(t, s.CacheCaveat, "Unique prompts do not explain that")
}

// The artifact's timestamps are those of the README but for the finish, which
// is derived: it lies 0.35 ms before the published one, within the tolerance.
func TestRealCellTimestamps(t *testing.T) {
	t.Parallel()
	n := Build(realFinal(t))
	assert.Equal(t, int64(1790043590591971073), *n.StartedAtUnixNS)
	assert.Equal(t, int64(1790043590591971073+621629899090), *n.FinishedAtUnixNS)
	assert.InDelta(t, 1790044212221874463, *n.FinishedAtUnixNS, 1e6)
	assert.Equal(t, "2026-09-22T02:19:50Z", *n.StartedAt)
	assert.Equal(t, "benchmark-20260922T021950Z", n.RunID)
	assert.Equal(t, "2026-09-22T02:30:12Z", *n.FinishedAt, "590.59 s + 621.63 s = 1212.22 s past 02:10")
}

func publishedSummary(t testing.TB) Summary {
	t.Helper()
	s, err := ReadSummary(filepath.Join(realCell, "final-summary.json"))
	require.NoError(t, err)
	return s
}

// keyOrder lists every key of a JSON text with its path, in order of appearance.
func keyOrder(t testing.TB, data []byte) []string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	var keys, path []string
	var walk func()
	walk = func() {
		token, err := dec.Token()
		require.NoError(t, err)
		switch token {
		case json.Delim('{'):
			for dec.More() {
				key, err := dec.Token()
				require.NoError(t, err)
				path = append(path, key.(string))
				keys = append(keys, strings.Join(path, "."))
				walk()
				path = path[:len(path)-1]
			}
			_, err = dec.Token()
			require.NoError(t, err)
		case json.Delim('['):
			for dec.More() {
				walk()
			}
			_, err = dec.Token()
			require.NoError(t, err)
		}
	}
	walk()
	return keys
}
