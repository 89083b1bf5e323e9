package report

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/record"
)

// madeUp is a complete run of n requests at concurrency 4. Request i has its
// first output after 100+i ms, its first token after 120+i ms and its end 310 ms
// after its first output, with 32 tokens: 10 ms a token.
func madeUp(n int) artifact.Run {
	run := artifact.Run{
		Facts: artifact.Facts{
			BaseURL: "http://127.0.0.1:8000/v1", Model: "tiny", Engine: "vllm 0.10", GPU: "H100",
			Requests: n, Concurrency: 4, ContextTokens: 2048, ContextDistribution: map[int]int{2048: n}, ContextSeed: 7,
			MaxContextTokens: 8192, MaxTokens: 256, ResponseWords: 16, PromptCacheMode: artifact.CacheUnique,
			CanaryPolicy: contract.Strict, ControlledOutputPolicy: contract.Observe, UsagePolicy: "require",
			Sampling:   artifact.Sampling{Requested: artifact.SamplingValues{Temperature: new(0.0)}},
			ServeFlags: artifact.ServeFlags{ThinkingMode: "default"},
			Suite:      artifact.Suite{Name: "anvil-capacity", OS: "linux", Arch: "amd64"},
		},
		StartedAt: time.Date(2026, 9, 22, 1, 39, 50, 0, time.UTC), WallMS: 1000,
	}
	for i := range n {
		first := 100 + float64(i)
		run.Records = append(run.Records, record.Record{
			RequestIndex: i, PlannedContextTokens: 2048, ElapsedMS: first + 310, ResponseReceived: true,
			Timing:   record.Timing{TTFOMS: new(first), TTFTMS: new(first + 20), E2EMS: new(first + 310)},
			Tokens:   record.Tokens{Prompt: new(1500), Output: new(32)},
			Response: record.Response{HTTPStatus: 200, ContentChunks: 17, ReasoningChunks: 15, Events: 34, BytesRead: 4096, FinishReasons: []string{"stop"}, TerminalObserved: true, DoneObserved: true},
			Canary:   &contract.CanaryVerdict{Marker: fmt.Sprintf("ANVIL_REQ_7_%05d", i), MarkerAtStart: true, ObservedMarkerCount: 1, CaptureComplete: true, Passed: true},
			Words:    &contract.WordsVerdict{Policy: contract.Observe, RequestedWords: 16, ObservedCodeWords: 16, CaptureComplete: true, ExactAdherence: new(true), Passed: true},
		})
	}
	return run
}

// built is the artifact of a run of n requests, changed before it is built.
func built(t testing.TB, n int, changes ...func(*artifact.Run)) *artifact.Native {
	t.Helper()
	run := madeUp(n)
	for _, change := range changes {
		change(&run)
	}
	native := artifact.Build(run)
	require.NoError(t, native.Validate(), "a test must not stand on an artifact that cannot be")
	return &native
}

// failed makes the first request of a run a failed one.
func failed(run *artifact.Run) {
	r := &run.Records[0]
	r.Failure = &record.Failure{Class: record.RequestError, Detail: record.HTTPStatus, ErrorType: "http", Message: "status 503"}
	r.ResponseReceived, r.Timing, r.Tokens, r.Response, r.Canary, r.Words = false, record.Timing{}, record.Tokens{}, record.Response{}, nil, nil
}

// cutShort makes a run a partial one.
func cutShort(run *artifact.Run) { run.IncompleteReason = "interrupted by a test" }

// realArtifacts are the published artifacts in fixtures/.
func realArtifacts(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob("../../fixtures/artifacts/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(names), 5, "a glob that finds nothing proves nothing")
	return names
}
