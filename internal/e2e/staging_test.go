package e2e

import (
	"context"
	"math"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stagingURL is the base URL of a real llama.cpp server: what
// scripts/staging-llamacpp start prints. .ci/run sets it.
func stagingURL(t *testing.T) string {
	t.Helper()
	url := os.Getenv("ANVIL_STAGING_URL")
	if url == "" {
		t.Skip("ANVIL_STAGING_URL is not set: start scripts/staging-llamacpp and name its base URL; .ci/run does")
	}
	return url
}

// live is a cell that a 135-million-parameter model on two cores gets through:
// it is let off counting its words.
func live(url string, more ...string) []string {
	return append([]string{
		"BASE_URL=" + url, "REQUESTS=20", "CONCURRENCY=2", "CONTEXT_TOKENS=128", "MAX_TOKENS=32",
		"CANARIES=observe", "CONTROLLED_OUTPUT=observe", "SELF_CHECK=off",
	}, more...)
}

// liveLimit bounds a run against a real model, which can be slow on a busy machine.
const liveLimit = 10 * time.Minute

// runLive is runSuite with time for a real model.
func runLive(t *testing.T, vars ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), liveLimit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, "-test.run=^TestCapacity$", "-test.v", "-test.timeout=0")
	cmd.Dir = suiteDir(t)
	cmd.Env = environment(vars)
	return finish(t, cmd, cmd.Dir)
}

// How far our clock may lie from llama.cpp's own. Its prompt_ms begins when a
// slot takes the request up, which is when it sends the response header, and ends
// at the first token; predicted_ms runs from there to the last. Ours add the way
// through the socket, and on a machine with two cores the wait for a processor
// that the model itself keeps busy.
const (
	agreeTypicalMS, agreeTypicalShare = 25, 0.03
	agreeWorstMS, agreeWorstShare     = 150, 0.15
)

// TestStagingServer measures a real model server and holds the numbers, request
// by request, to those that the server reports about itself.
func TestStagingServer(t *testing.T) {
	got := runLive(t, live(stagingURL(t))...)
	require.Zero(t, got.exit, got.output)
	n := one(t, got)
	assert.Equal(t, 20, n.Completed)
	assert.True(t, n.Eligible())
	throughput, _ := n.Metrics.Get("throughput_tok_s")
	require.NotNil(t, throughput)
	assert.Greater(t, *throughput, 0.1)

	var prompt, output []disagreement
	for _, row := range n.RequestTimings {
		require.NotNil(t, row.ServerTimings, "request %d: llama.cpp sends its timings with the last event", row.RequestIndex)
		require.NotNil(t, row.Connection)
		s := row.ServerTimings
		prompt = append(prompt, disagreement{*row.TTFTMS - *row.Connection.HeaderMS, s.PromptMS})
		output = append(output, disagreement{*row.GenerationMS, s.OutputMS})
		assert.Equal(t, s.OutputTokens, *row.OutputTokens, "request %d", row.RequestIndex)
	}
	assertAgree(t, "TTFT after the header against prompt_ms", prompt)
	assertAgree(t, "generation against predicted_ms, which is TPOT for equal token counts", output)
}

// disagreement is one duration as this suite and as the server measured it.
type disagreement struct{ oursMS, theirsMS float64 }

func (d disagreement) ms() float64 { return math.Abs(d.oursMS - d.theirsMS) }

func (d disagreement) within(ms, share float64) bool { return d.ms() <= max(ms, share*d.theirsMS) }

func assertAgree(t *testing.T, what string, all []disagreement) {
	t.Helper()
	require.NotEmpty(t, all)
	slices.SortFunc(all, func(a, b disagreement) int { return int(math.Copysign(1, a.ms()-b.ms())) })
	median, worst := all[len(all)/2], all[len(all)-1]
	t.Logf("%s: %d requests, median difference %.2f ms (ours %.1f, theirs %.1f), largest %.2f ms (ours %.1f, theirs %.1f)",
		what, len(all), median.ms(), median.oursMS, median.theirsMS, worst.ms(), worst.oursMS, worst.theirsMS)
	assert.True(t, median.within(agreeTypicalMS, agreeTypicalShare), "%s: the median difference is %.2f ms", what, median.ms())
	assert.True(t, worst.within(agreeWorstMS, agreeWorstShare), "%s: the largest difference is %.2f ms", what, worst.ms())
}

// TestStagingServerCannotCount holds the same model to what it cannot do: the
// run fails, and its evidence is all there.
func TestStagingServerCannotCount(t *testing.T) {
	got := runLive(t, live(stagingURL(t), "CONTROLLED_OUTPUT=strict", "REQUESTS=4", "THRESHOLDS=throughput_tok_s>=0.001")...)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "--- FAIL: TestCapacity/c2-ctx128-w16/words")
	assert.Contains(t, got.output, "--- FAIL: TestCapacity/c2-ctx128-w16/threshold/throughput_tok_s")
	n := one(t, got)
	_, partial := n.Partial()
	assert.False(t, partial, "a failed run is a whole one")
	assert.Equal(t, 4, n.Completed+n.Failed)
	require.NotEmpty(t, n.Failures)
	for _, f := range n.Failures {
		assert.Equal(t, "controlled_output_failed", f.FailureClass)
		assert.NotNil(t, f.ResponseTiming, "a failed request keeps its timing")
	}
	throughput, known := n.Metrics.Get("throughput_tok_s")
	assert.True(t, known)
	assert.Nil(t, throughput)
}
