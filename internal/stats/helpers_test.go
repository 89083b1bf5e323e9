package stats

import (
	"encoding/csv"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/record"
)

const realCell = "../../fixtures/glm-c4-16word"

// The wall clocks of the two real runs, from the README beside their rows.
const (
	finalWallMS = 621629.899090156
	scoutWallMS = 47884.24774305895
)

// realRecords reads the rows of a real run. What the rows leave out is known
// from their README: every canary passed and every answer was exact.
func realRecords(t testing.TB, name string) []record.Record {
	t.Helper()
	f, err := os.Open(filepath.Join(realCell, name))
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{
		"request_index", "prompt_tokens", "output_tokens", "reasoning_chunks", "content_chunks",
		"time_to_first_output_ms", "ttft_ms", "e2e_ms",
	}, lines[0])
	require.Greater(t, len(lines), 1, "no rows")
	records := make([]record.Record, 0, len(lines)-1)
	for _, cells := range lines[1:] {
		records = append(records, realRecord(t, cells))
	}
	return records
}

func realRecord(t testing.TB, cells []string) record.Record {
	t.Helper()
	whole := func(i int) int {
		n, err := strconv.Atoi(cells[i])
		require.NoError(t, err)
		return n
	}
	ms := func(i int) *float64 {
		x, err := strconv.ParseFloat(cells[i], 64)
		require.NoError(t, err)
		return &x
	}
	return record.Record{
		RequestIndex:         whole(0),
		PlannedContextTokens: 32768,
		ElapsedMS:            *ms(7),
		ResponseReceived:     true,
		Timing:               record.Timing{TTFOMS: ms(5), TTFTMS: ms(6), E2EMS: ms(7)},
		Tokens:               record.Tokens{Prompt: new(whole(1)), Output: new(whole(2))},
		Response:             record.Response{ReasoningChunks: whole(3), ContentChunks: whole(4)},
		Canary:               &contract.CanaryVerdict{MarkerAtStart: true, CaptureComplete: true, Passed: true},
		Words:                &contract.WordsVerdict{Policy: contract.Strict, ExactAdherence: new(true), Passed: true},
	}
}

// readJSON reads a file of the real cell as published numbers.
func readJSON[T any](t testing.TB, name string) T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(realCell, name))
	require.NoError(t, err)
	var v T
	require.NoError(t, json.Unmarshal(data, &v))
	return v
}

// answer is a completed request with round numbers: TTFO 100 ms, TTFT 200 ms,
// E2E 1100 ms, 1000 prompt tokens and 11 output tokens, so generation is 1000
// ms, TPOT 100 ms, decode 10 tok/s and prefill 10,000 tok/s.
func answer(index int) record.Record {
	return record.Record{
		RequestIndex:         index,
		PlannedContextTokens: 1000,
		ElapsedMS:            1100,
		ResponseReceived:     true,
		Timing:               record.Timing{TTFOMS: new(100.0), TTFTMS: new(200.0), E2EMS: new(1100.0)},
		Tokens:               record.Tokens{Prompt: new(1000), Output: new(11)},
		Response:             record.Response{ContentChunks: 10},
	}
}

func answers(n int) []record.Record {
	records := make([]record.Record, n)
	for i := range records {
		records[i] = answer(i)
	}
	return records
}

func failed(index int) record.Record {
	r := answer(index)
	r.Failure = &record.Failure{Class: record.RequestError, Detail: record.TotalTimeout}
	return r
}

// seeded gives the same numbers in every run of the tests.
func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func value(t testing.TB, m Metrics, key string) float64 {
	t.Helper()
	v, known := m.Get(key)
	require.True(t, known, "no key %q", key)
	require.NotNil(t, v, "%q is null", key)
	return *v
}

func null(t testing.TB, m Metrics, key string) {
	t.Helper()
	v, known := m.Get(key)
	require.True(t, known, "no key %q", key)
	if v != nil {
		require.Fail(t, "want null", "%q is %v", key, *v)
	}
}
