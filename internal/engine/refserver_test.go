package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/client"
	"anvil-capacity/internal/config"
	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/engine"
	"anvil-capacity/internal/load"
	"anvil-capacity/internal/memnet"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/refserver"
	"anvil-capacity/internal/workload"
)

// live is a refserver in virtual time with a client and a reader of its metrics.
type live struct {
	t      *testing.T
	target *client.Client
	reader *engine.Reader
}

const liveKey = config.Secret("sk-live")

func inVirtualTime(t *testing.T, test func(t *testing.T, l live)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := refserver.New(refserver.Options{
			Model: "ref", APIKey: liveKey.Reveal(), Slots: 4, PrefillTokS: 4_000, ReasoningTokens: 3, PrefixCache: true,
			DecodeBase: 20 * time.Millisecond, DecodePerActive: time.Millisecond,
		})
		require.NoError(t, err)
		listener := memnet.Listen()
		go func() { _ = server.Serve(listener) }()
		target, err := client.New(client.Options{
			BaseURL: "http://mem/v1", APIKey: liveKey, Concurrency: 16, DialContext: listener.DialContext,
			Timeout: time.Hour, StallTimeout: time.Hour,
		})
		require.NoError(t, err)
		reader, err := engine.New(engine.Options{
			URL: engine.DefaultURL("http://mem/v1"), Implied: true, BaseURL: "http://mem/v1",
			Model: "ref", APIKey: liveKey, DialContext: listener.DialContext,
		})
		require.NoError(t, err)
		defer func() { // also when a check has failed: the bubble must be empty
			target.Close()
			reader.Close()
			assert.NoError(t, server.Shutdown(context.Background()))
			synctest.Wait()
		}()
		test(t, live{t, target, reader})
	})
}

// run is a cell of the seed: requests of 256 nominal tokens, 6 at once on 4 slots.
func (l live) run(seed, requests int) []record.Record {
	l.t.Helper()
	plan, err := workload.New(workload.Spec{
		Requests: requests, Seed: seed, Parts: []workload.Part{{Tokens: 256, Weight: 1}}, ResponseWords: 8, Canaries: true,
		Shared: true, SharedPrefixTokens: 128,
	})
	require.NoError(l.t, err)
	template, err := client.NewTemplate(client.Params{Model: "ref", MaxTokens: 2048})
	require.NoError(l.t, err)
	result, err := load.Run(l.t.Context(), load.Options{
		Plan: plan, Client: l.target, Concurrency: 6,
		Body:   func(i int) ([]byte, error) { return template.Append(nil, plan.AppendPrompt(nil, i)), nil },
		Policy: load.Policy{Canaries: contract.Strict, Words: contract.Strict, ResponseWords: 8, RequireUsage: true},
	})
	require.NoError(l.t, err)
	require.True(l.t, result.Complete())
	return result.Records
}

// Against a server whose counters are right, both views are the same to the
// token, and the latencies to the nanosecond: the network takes no time here.
func TestBothViewsOfTheReferenceServerAgree(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l live) {
		l.run(1, 10) // what runs before the cell is in neither view
		sampler := l.reader.Start(t.Context(), 100*time.Millisecond)
		records := l.run(2, 60)
		session := sampler.Stop(t.Context())
		r := engine.NewReport(session, l.reader.Identify(t.Context(), "refserver"), engine.ClientOf(records))

		assert.Empty(t, r.Findings)
		require.Len(t, r.Comparisons, 3)
		for _, c := range r.Comparisons {
			assert.Equal(t, engine.Agree, c.Verdict, c.What)
			assert.Equal(t, new(0.0), c.Difference, c.What)
		}
		assert.Equal(t, new(60.0), r.Counters.Requests)
		assert.Equal(t, new(engine.RefServer), r.Engine)
		assert.Equal(t, new(engine.RefServer), r.Identity.Engine)
		assert.True(t, r.KeySent)
		for _, latency := range r.Latencies {
			require.NotNil(t, latency.MeanGapMS, latency.What)
			assert.InDelta(t, 0, *latency.MeanGapMS, 1e-6, latency.What)
			assert.Equal(t, 60.0, latency.Server.Samples)
			assert.LessOrEqual(t, *latency.Server.P50.LowMS, *latency.Client.P50.LowMS)
			assert.GreaterOrEqual(t, *latency.Server.P50.HighMS, *latency.Client.P50.HighMS)
		}
		assert.Equal(t, 4.0, r.Gauges.Running.Max, "the slots")
		assert.Equal(t, 2.0, r.Gauges.Waiting.Max, "6 at once on 4 slots")
		assert.Nil(t, r.Gauges.KVCacheUse, "refserver has no KV cache")
		assert.Greater(t, session.Reads, 10)
		assert.Zero(t, session.ReadErrors)
	})
}

// The hit rate is what the answers say, token for token.
func TestHitRateOfTheReferenceServer(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l live) {
		sampler := l.reader.Start(t.Context(), time.Second)
		records := l.run(3, 40)
		r := engine.NewReport(sampler.Stop(t.Context()), nil, engine.ClientOf(records))
		c := engine.ClientOf(records)
		rate, why := r.HitRate()
		require.NotNil(t, rate, why)
		require.Zero(t, c.WithoutCached)
		assert.InDelta(t, *c.CachedTokens / *c.PromptTokens, *rate, 1e-12)
		assert.Greater(t, *rate, 0.1, "the prompts share a prefix")
	})
}

// Someone else's requests are in the engine's counters and not in ours.
func TestOtherTrafficIsAFinding(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l live) {
		sampler := l.reader.Start(t.Context(), time.Second)
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.run(9, 5)
		}()
		records := l.run(4, 40)
		<-done
		r := engine.NewReport(sampler.Stop(t.Context()), nil, engine.ClientOf(records))
		require.Len(t, r.Findings, 1, "%q", r.Findings)
		assert.Contains(t, r.Findings[0], "45 requests, 12.5 % more than the client's 40, and ")
		assert.Contains(t, r.Findings[0], "other traffic")
	})
}
