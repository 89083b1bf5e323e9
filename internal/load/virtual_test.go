package load_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/client"
	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/load"
	"anvil-capacity/internal/memnet"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/refserver"
	"anvil-capacity/internal/workload"
)

// virtualCell is a cell whose every time is known before it runs.
type virtualCell struct {
	requests, concurrency, contextTokens, words int
	server                                      refserver.Options
}

// realCell is like the published run: concurrency 4, 100 requests, 32,768
// nominal tokens, reasoning before 16 words.
var realCell = virtualCell{
	requests: 100, concurrency: 4, contextTokens: 32_768, words: 16,
	server: refserver.Options{
		Slots: 4, PrefillTokS: 4_000, ReasoningTokens: 92,
		DecodeBase: 100 * time.Millisecond, DecodePerActive: 10_795_853 * time.Nanosecond,
	},
}

// largeCell is the largest load of the protocol's requests.
var largeCell = virtualCell{
	requests: 10_000, concurrency: 256, contextTokens: 256, words: 4,
	server: refserver.Options{
		Slots: 256, PrefillTokS: 8_000, ReasoningTokens: 3,
		DecodeBase: 21 * time.Millisecond, DecodePerActive: 333 * time.Microsecond,
	},
}

// run drives the cell in a bubble and gives the records beside the server's log.
func (c virtualCell) run(t *testing.T) (load.Result, []refserver.Exchange) {
	t.Helper()
	plan, err := workload.New(workload.Spec{
		Requests: c.requests, Parts: []workload.Part{{Tokens: c.contextTokens, Weight: 1}},
		ResponseWords: c.words, Canaries: true,
	})
	require.NoError(t, err)
	template, err := client.NewTemplate(client.Params{Model: refserver.DefaultModel, MaxTokens: 2048})
	require.NoError(t, err)
	server, err := refserver.New(c.server)
	require.NoError(t, err)
	listener := memnet.Listen()
	go func() { _ = server.Serve(listener) }()
	target, err := client.New(client.Options{
		BaseURL: "http://mem/v1", Concurrency: c.concurrency, DialContext: listener.DialContext,
		Timeout: time.Hour, StallTimeout: time.Hour,
	})
	require.NoError(t, err)
	result, err := load.Run(t.Context(), load.Options{
		Plan: plan, Client: target, Concurrency: c.concurrency,
		Body: func(i int) ([]byte, error) { return template.Append(nil, plan.AppendPrompt(nil, i)), nil },
		Policy: load.Policy{
			Canaries: contract.Strict, Words: contract.Strict, ResponseWords: c.words, RequireUsage: true,
		},
	})
	require.NoError(t, err)
	target.Close()
	require.NoError(t, server.Shutdown(context.Background()))
	synctest.Wait()
	return result, server.Log()
}

// planned is the closed form for a batch that is always full and in step: equal
// prompts, so all slots are filled and emptied at one instant.
func (c virtualCell) planned(promptTokens int) (ttfo, ttft, e2e, step time.Duration, outputTokens int) {
	step = c.server.DecodeBase + time.Duration(c.concurrency-1)*c.server.DecodePerActive
	outputTokens = c.server.ReasoningTokens + 1 + c.words // one token for the marker
	ttfo = time.Duration(float64(promptTokens) / c.server.PrefillTokS * float64(time.Second))
	ttft = ttfo + time.Duration(c.server.ReasoningTokens)*step
	e2e = ttfo + time.Duration(outputTokens-1)*step
	return ttfo, ttft, e2e, step, outputTokens
}

func TestVirtualTimeIsExact(t *testing.T) {
	for _, tt := range []struct {
		name string
		cell virtualCell
		why  string
	}{
		{"real_cell_c4_n100", realCell, "the published cell's shape: 25 waves of 4"},
		{"large_cell_c256_n10000", largeCell, "39 full waves of 256; the last, of 16, decodes faster and is held to the server's own plan"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				result, log := tt.cell.run(t)
				require.True(t, result.Complete())
				require.Len(t, result.Records, tt.cell.requests)
				fullWaves := tt.cell.requests / tt.cell.concurrency * tt.cell.concurrency
				assertClosedForm(t, tt.cell, result.Records[:fullWaves])
				assertAsPlanned(t, result.Records, log)
			})
		})
	}
}

// TestVirtualTimeIsExactOutOfStep holds a run whose requests start and end at
// instants of their own (jitter, queueing beyond the slots) to the timetable
// that the server computed, and the timetable to a replay without a clock.
func TestVirtualTimeIsExactOutOfStep(t *testing.T) {
	cell := realCell
	cell.concurrency = 7 // three of them always wait in line
	cell.server.JitterFraction = 0.3
	synctest.Test(t, func(t *testing.T) {
		result, log := cell.run(t)
		require.True(t, result.Complete())
		assertAsPlanned(t, result.Records, log)
		require.NoError(t, refserver.Replay(cell.server, log))
		distinct := map[float64]bool{}
		for _, r := range result.Records {
			distinct[*r.Timing.E2EMS] = true
		}
		assert.Greater(t, len(distinct), cell.requests/2, "requests in step would prove nothing about those out of step")
	})
}

func assertClosedForm(t *testing.T, cell virtualCell, records []record.Record) {
	t.Helper()
	require.NotEmpty(t, records)
	inexact := 0
	for _, r := range records {
		require.Nil(t, r.Failure, "request %d", r.RequestIndex)
		ttfo, ttft, e2e, step, output := cell.planned(*r.Tokens.Prompt)
		require.Equal(t, output, *r.Tokens.Output)
		if *r.Timing.TTFOMS != record.MS(ttfo) || *r.Timing.TTFTMS != record.MS(ttft) || *r.Timing.E2EMS != record.MS(e2e) {
			inexact++
		}
		// (E2E - TTFO) in milliseconds is not always a float64 of whole
		// nanoseconds, so TPOT is held to the nanosecond that it stands for.
		if got := time.Duration(*r.TPOTMS()*1e6 + 0.5); got != step {
			inexact++
		}
	}
	assert.Zero(t, inexact, "of %d requests", len(records))
}

func assertAsPlanned(t *testing.T, records []record.Record, log []refserver.Exchange) {
	t.Helper()
	require.Len(t, log, len(records))
	plans := make(map[string]refserver.Exchange, len(log))
	for _, e := range log {
		plans[e.RequestID] = e
	}
	inexact := 0
	for _, r := range records {
		require.Nil(t, r.Failure, "request %d", r.RequestIndex)
		e, ok := plans[r.Response.RequestID]
		require.True(t, ok, "request %d has no exchange", r.RequestIndex)
		if *r.Timing.TTFOMS != record.MS(e.Planned.TTFO) || *r.Timing.TTFTMS != record.MS(e.Planned.TTFT) || *r.Timing.E2EMS != record.MS(e.Planned.E2E) {
			inexact++
		}
	}
	assert.Zero(t, inexact, "of %d requests", len(records))
}
