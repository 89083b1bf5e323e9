package artifact

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/record"
)

const (
	realCell      = "../../fixtures/glm-c4-16word"
	realArtifacts = "../../fixtures/artifacts"
)

// realRecords reads a CSV of the real cell. Its README says that every canary
// passed and every response was exact, so each record gets those verdicts.
func realRecords(t testing.TB, name string, seed int) []record.Record {
	t.Helper()
	f, err := os.Open(filepath.Join(realCell, name))
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Greater(t, len(lines), 1, "a CSV without rows proves nothing")
	require.Equal(t, []string{"request_index", "prompt_tokens", "output_tokens", "reasoning_chunks", "content_chunks", "time_to_first_output_ms", "ttft_ms", "e2e_ms"}, lines[0])
	records := make([]record.Record, 0, len(lines)-1)
	for _, line := range lines[1:] {
		records = append(records, realRecord(t, line, seed))
	}
	return records
}

func realRecord(t testing.TB, cells []string, seed int) record.Record {
	t.Helper()
	whole := func(i int) int {
		v, err := strconv.Atoi(cells[i])
		require.NoError(t, err)
		return v
	}
	ms := func(i int) *float64 {
		v, err := strconv.ParseFloat(cells[i], 64)
		require.NoError(t, err)
		return &v
	}
	return record.Record{
		RequestIndex: whole(0), PlannedContextTokens: 32768, ElapsedMS: *ms(7), ResponseReceived: true,
		Timing:   record.Timing{TTFOMS: ms(5), TTFTMS: ms(6), E2EMS: ms(7)},
		Tokens:   record.Tokens{Prompt: new(whole(1)), Output: new(whole(2))},
		Response: record.Response{ReasoningChunks: whole(3), ContentChunks: whole(4), TerminalObserved: true, FinishReasons: []string{"stop"}},
		Canary:   passedCanary(seed, whole(0)), Words: exactWords(16),
	}
}

func passedCanary(seed, index int) *contract.CanaryVerdict {
	return &contract.CanaryVerdict{
		Marker: fmt.Sprintf("ANVIL_REQ_%d_%05d", seed, index), MarkerAtStart: true, ObservedMarkerCount: 1, CaptureComplete: true, Passed: true,
	}
}

func exactWords(n int) *contract.WordsVerdict {
	return &contract.WordsVerdict{
		Policy: contract.Strict, RequestedWords: n, ObservedCodeWords: n, CaptureComplete: true, ExactAdherence: new(true), Passed: true,
	}
}

// realFinal is the final of the real cell, with the facts of its README. The
// scout's link is added by whoever has its file.
func realFinal(t testing.TB) Run {
	return Run{
		Facts:     realFacts(100),
		Records:   realRecords(t, "final-rows.csv", 0),
		StartedAt: time.Unix(0, 1790043590591971073),
		WallMS:    621629.899090156,
	}
}

// realScout is its scout of eight.
func realScout(t testing.TB) Run {
	return Run{
		Facts:     realFacts(8),
		Records:   realRecords(t, "scout-rows.csv", 0),
		StartedAt: time.Unix(0, 1790043514969457888),
		WallMS:    47884.24774305895,
	}
}

func realFacts(requests int) Facts {
	return Facts{
		BaseURL: "http://127.0.0.1:8000/v1", Model: "glm", Engine: "sglang",
		Requests: requests, Concurrency: 4, ContextTokens: 32768, ContextDistribution: map[int]int{32768: requests},
		MaxContextTokens: 327680, MaxTokens: 2048, ResponseWords: 16, PromptCacheMode: CacheUnique,
		CanaryPolicy: contract.Strict, ControlledOutputPolicy: contract.Strict, UsagePolicy: "require",
		Sampling:   Sampling{Requested: SamplingValues{Temperature: new(0.0)}, Sent: SamplingValues{Temperature: new(0.0)}},
		ServeFlags: ServeFlags{ThinkingMode: "default"},
	}
}

// smallRun is a made-up run of n requests at concurrency 1, each of 100 ms to
// first output and 400 ms in all: valid, complete, and small enough to read.
func smallRun(n int) Run {
	facts := realFacts(n)
	facts.Concurrency = 1
	facts.ResponseWords = 2
	run := Run{Facts: facts, StartedAt: time.Date(2026, 9, 22, 1, 39, 50, 591971073, time.UTC), WallMS: float64(n) * 400}
	for i := range n {
		run.Records = append(run.Records, record.Record{
			RequestIndex: i, PlannedContextTokens: 32768, StartMS: float64(i) * 400, ElapsedMS: 400, ResponseReceived: true,
			Timing:   record.Timing{TTFOMS: new(100.0), TTFTMS: new(200.0), E2EMS: new(400.0)},
			Tokens:   record.Tokens{Prompt: new(25000), Output: new(31), Reasoning: new(20), Cached: new(0)},
			Response: record.Response{HTTPStatus: 200, RequestID: fmt.Sprintf("req-%d", i), ContentChunks: 3, ReasoningChunks: 20, Events: 25, BytesRead: 4096, FinishReasons: []string{"stop"}, TerminalObserved: true, DoneObserved: true},
			Canary:   passedCanary(0, i), Words: exactWords(2),
		})
	}
	return run
}

// fail makes one record of a run a failed one.
func (run *Run) fail(index int, f record.Failure, received bool) {
	r := &run.Records[index]
	r.Failure, r.ResponseReceived = &f, received
	if !received {
		r.Timing, r.Tokens, r.Response, r.Canary, r.Words = record.Timing{}, record.Tokens{}, record.Response{}, nil, nil
	}
}

// writeNative writes an artifact into a fresh folder and gives its path.
func writeNative(t testing.TB, name string, n Native) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, Write(path, n))
	return path
}
