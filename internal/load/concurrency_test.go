package load_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/client"
	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/load"
	"anvil-capacity/internal/refserver"
	"anvil-capacity/internal/workload"
)

const (
	// closeLimit bounds the wait for connections to end. It is below
	// client.IdleTimeout, after which they end without a Close.
	closeLimit = client.IdleTimeout * 3 / 4
	// settleLimit bounds the wait for goroutines to end.
	settleLimit = 10 * time.Second
)

// falls polls for so long until got gives want or less, and gives what it gave last.
func falls(limit time.Duration, want int, got func() int) int {
	beat := time.NewTicker(5 * time.Millisecond)
	defer beat.Stop()
	for end := time.Now().Add(limit); got() > want && time.Now().Before(end); {
		<-beat.C
	}
	return got()
}

// crowd lets no request through before all of them have come, so that so many
// are in flight at once, whatever the machine does.
type crowd struct {
	next    http.Handler
	size    int64
	arrived atomic.Int64
	all     chan struct{}
}

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.arrived.Add(1) == c.size {
		close(c.all)
	}
	select {
	case <-c.all:
		c.next.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}

// TestThousandStreams has 1,000 streams open at once over real sockets, all of
// them right, and nothing left of them afterwards. It is for the race detector
// too. What a finished request keeps is in internal/bench
// (TestMemoryOfAFinishedRequest).
func TestThousandStreams(t *testing.T) {
	const streams = 1_000
	before := runtime.NumGoroutine()

	server, err := refserver.New(refserver.Options{ReasoningTokens: 2, DecodeBase: 10 * time.Millisecond})
	require.NoError(t, err)
	var open atomic.Int64
	web := httptest.NewUnstartedServer(&crowd{next: server.Handler(), size: streams, all: make(chan struct{})})
	web.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	web.Start()
	target, err := client.New(client.Options{BaseURL: web.URL + "/v1", Concurrency: streams, Timeout: time.Minute, StallTimeout: time.Minute})
	require.NoError(t, err)
	plan, err := workload.New(workload.Spec{Requests: streams, Parts: []workload.Part{{Tokens: 256, Weight: 1}}, ResponseWords: 8, Canaries: true})
	require.NoError(t, err)
	template, err := client.NewTemplate(client.Params{Model: refserver.DefaultModel, MaxTokens: 64})
	require.NoError(t, err)

	result, err := load.Run(t.Context(), load.Options{
		Plan: plan, Client: target, Concurrency: streams,
		Body:   func(i int) ([]byte, error) { return template.Append(nil, plan.AppendPrompt(nil, i)), nil },
		Policy: load.Policy{Canaries: contract.Strict, Words: contract.Strict, ResponseWords: 8, RequireUsage: true},
	})
	require.NoError(t, err)
	require.True(t, result.Complete())
	for _, r := range result.Records {
		require.Nil(t, r.Failure, "request %d", r.RequestIndex)
	}

	target.Close()
	assert.Zero(t, falls(closeLimit, 0, func() int { return int(open.Load()) }), "connections that are open after the client's Close")
	web.Close()
	require.NoError(t, server.Shutdown(context.Background()))
	if left := falls(settleLimit, before, runtime.NumGoroutine); left > before {
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		t.Errorf("%d goroutines, want the %d from before the run:\n%s", left, before, stacks.String())
	}
	t.Logf("%d streams at once in %s, nothing left of them", streams, result.Wall.Round(time.Millisecond))
}
