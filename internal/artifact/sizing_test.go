package artifact

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/record"
)

func sizingOf(asked ...int) *ContextSizing {
	s := &ContextSizing{Method: SizedByTokenizer, Source: "/tokenize", CharactersPerToken: 4, ToleranceShare: 0.01}
	for _, n := range asked {
		s.Sizes = append(s.Sizes, SizedContext{AskedTokens: n, Requests: 3, Samples: 3, CharactersMin: 4 * n, CharactersMax: 4*n + 2, MeasuredTokens: float64(n), MeasuredMin: n, MeasuredMax: n})
	}
	return s
}

// prompts makes records with these prompt tokens by planned size.
func promptsOf(planned int, tokens ...int) []record.Record {
	records := make([]record.Record, len(tokens))
	for i, n := range tokens {
		records[i] = record.Record{RequestIndex: i, PlannedContextTokens: planned, Tokens: record.Tokens{Prompt: new(n)}}
	}
	return records
}

func TestObservedSizes(t *testing.T) {
	records := append(promptsOf(1000, 990, 1000, 1016), promptsOf(2000, 2100)...)
	failed, silent := promptsOf(1000, 5)[0], promptsOf(1000, 5)[0]
	failed.Failure, silent.Tokens.Prompt = &record.Failure{}, nil
	records = append(records, failed, silent)
	before := sizingOf(1000, 2000, 3000)
	got := before.observed(records)

	o := got.Sizes[0].Observed
	require.NotNil(t, o)
	assert.Equal(t, 3, o.Requests, "neither the failed one nor the one without usage")
	assert.Equal(t, 990, o.MinTokens)
	assert.Equal(t, 1016, o.MaxTokens)
	assert.InDelta(t, 1002, o.MeanTokens, 1e-9)
	assert.InDelta(t, 0.002, o.ErrorShare, 1e-12)
	assert.InDelta(t, 0.016, o.WorstErrorShare, 1e-12)
	assert.InDelta(t, 0.05, got.Sizes[1].Observed.ErrorShare, 1e-12)
	assert.Nil(t, got.Sizes[2].Observed, "no request had that size")
	assert.Nil(t, before.Sizes[0].Observed, "what was measured is not changed")

	deviations := got.Deviations()
	require.Len(t, deviations, 1)
	assert.Contains(t, deviations[0], "prompts of 2000 tokens (CAPACITY_CONTEXT_SIZING=measured) had 2100.0 on average by the usage of 1 requests, +5.0 %")
	assert.Contains(t, got.String(), "1000 tokens asked: 4000 to 4002 characters, 1000.0 tokens measured (+0.00 %), 3 samples; 3 requests had 990 to 1016, mean 1002.0 (+0.20 %)")

	var none *ContextSizing
	assert.Nil(t, none.observed(records))
	assert.Nil(t, none.Deviations())
}

func TestObservedWorstIsTheFurthest(t *testing.T) {
	o := sizingOf(1000).observed(promptsOf(1000, 980, 1010)).Sizes[0].Observed
	assert.InDelta(t, -0.02, o.WorstErrorShare, 1e-12, "below counts as much as above")
}

// The limit of 1 % counts as within.
func TestDeviationsAtTheLimit(t *testing.T) {
	for _, row := range []struct {
		tokens int
		lines  int
	}{{989, 1}, {990, 0}, {1010, 0}, {1011, 1}} {
		assert.Len(t, sizingOf(1000).observed(promptsOf(1000, row.tokens)).Deviations(), row.lines, "%d tokens of 1000", row.tokens)
	}
}

func TestSizingInTheArtifact(t *testing.T) {
	run := smallRun(3) // of 25,000 prompt tokens each
	run.ContextSizing = sizingOf(32768)
	n := Build(run)
	require.NoError(t, n.Validate())
	require.NotNil(t, n.Harness.ContextSizing)
	assert.Equal(t, 25000.0, n.Harness.ContextSizing.Sizes[0].Observed.MeanTokens)
	require.Len(t, n.Harness.Notes, 1)
	assert.Contains(t, n.Harness.Notes[0], "-23.7 %", "said, not hidden")

	written, err := json.Marshal(n.Harness)
	require.NoError(t, err)
	var back Harness
	require.NoError(t, json.Unmarshal(written, &back))
	assert.Equal(t, n.Harness.ContextSizing, back.ContextSizing)

	nominal, err := json.Marshal(Build(smallRun(3)).Harness)
	require.NoError(t, err)
	assert.NotContains(t, string(nominal), "context_sizing", "nominal prompts have no such record")
}

// A journal holds the sizing too, so that a run that was killed has it.
func TestSizingSurvivesTheJournal(t *testing.T) {
	run := smallRun(2)
	run.ContextSizing = sizingOf(32768)
	path := t.TempDir() + "/run.journal"
	j, err := CreateJournal(path, run.Facts)
	require.NoError(t, err)
	require.NoError(t, j.Append(run.Records[0]))
	require.NoError(t, j.Close())
	found, err := Recover(path)
	require.NoError(t, err)
	require.NotNil(t, found.Native.Harness.ContextSizing)
	assert.Equal(t, 1, found.Native.Harness.ContextSizing.Sizes[0].Observed.Requests)
}
