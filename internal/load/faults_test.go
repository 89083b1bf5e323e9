package load_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/client"
	"anvil-capacity/internal/load"
	"anvil-capacity/internal/memnet"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/refserver"
	"anvil-capacity/internal/workload"
)

// faultRun runs a few requests against a reference server with a fault plan, in
// the bubble of the test. ctx ends the run.
func faultRun(ctx context.Context, t *testing.T, faults string, requests, concurrency int, policy load.Policy) load.Result {
	t.Helper()
	server, err := refserver.New(refserver.Options{Faults: faults, DecodeBase: 100 * time.Millisecond})
	require.NoError(t, err)
	listener := memnet.Listen()
	require.NoError(t, server.Serve(listener))
	target, err := client.New(client.Options{
		BaseURL: "http://mem/v1", Concurrency: concurrency, DialContext: listener.DialContext, Timeout: time.Hour, StallTimeout: time.Hour,
	})
	require.NoError(t, err)
	plan, err := workload.New(workload.Spec{Requests: requests, Parts: []workload.Part{{Tokens: 256, Weight: 1}}, ResponseWords: 4, Canaries: true})
	require.NoError(t, err)
	template, err := client.NewTemplate(client.Params{Model: refserver.DefaultModel, MaxTokens: 64})
	require.NoError(t, err)
	result, err := load.Run(ctx, load.Options{
		Plan: plan, Client: target, Concurrency: concurrency, Policy: policy,
		Body: func(i int) ([]byte, error) { return template.Append(nil, plan.AppendPrompt(nil, i)), nil },
	})
	require.NoError(t, err)
	target.Close()
	require.NoError(t, server.Shutdown(context.Background()))
	synctest.Wait()
	return result
}

// TestMissingUsage has a server leave out the usage that it was asked for, in one
// answer of four.
func TestMissingUsage(t *testing.T) {
	for _, demanded := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			result := faultRun(t.Context(), t, "no-usage@1", 4, 2, load.Policy{RequireUsage: demanded})
			require.Len(t, result.Records, 4)
			for i, r := range result.Records {
				assert.Equal(t, i != 1, r.Tokens.Output != nil, "request %d", i)
				if i != 1 || !demanded {
					assert.Nil(t, r.Failure, "request %d", i)
					continue
				}
				require.NotNil(t, r.Failure)
				assert.Equal(t, record.MissingUsage, r.Failure.Detail)
				assert.Equal(t, record.StreamInvalid, r.Failure.Class)
				assert.Contains(t, r.Failure.Message, "CAPACITY_USAGE=observe")
				assert.True(t, r.ResponseReceived, "the answer was there")
			}
			assert.True(t, result.Complete(), "a failed request ends no run")
		})
	}
}

// TestCanceledInFlight ends a run while a request waits for the rest of its
// answer: the server goes silent in the third of six.
func TestCanceledInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interrupt = 10 * time.Second
		ctx, cancel := context.WithTimeoutCause(t.Context(), interrupt, errInterrupt)
		defer cancel()
		began := time.Now()
		result := faultRun(ctx, t, "stall=2@2", 6, 1, load.Policy{RequireUsage: true})
		require.Len(t, result.Records, 3, "the others are not started")
		for _, r := range result.Records[:2] {
			assert.Nil(t, r.Failure)
		}
		last := result.Records[2]
		require.NotNil(t, last.Failure)
		assert.Equal(t, record.Canceled, last.Failure.Detail)
		assert.Equal(t, record.RequestError, last.Failure.Class)
		assert.Contains(t, last.Failure.Message, "the run ended while the answer arrived")
		assert.NotNil(t, last.Timing.TTFOMS, "what had come of it is kept")
		assert.ErrorIs(t, result.Cause, errInterrupt)
		assert.False(t, result.Complete())
		assert.Equal(t, interrupt, result.FinishedAt.Sub(began), "canceled at once")
	})
}
