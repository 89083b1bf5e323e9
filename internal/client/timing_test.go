package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/memnet"
	"anvil-capacity/internal/record"
)

// bubble starts a server on a network in memory and makes its client, both in
// the running synctest bubble; stop ends them.
func bubble(t *testing.T, h http.HandlerFunc, change func(*Options)) (c *Client, stop func()) {
	t.Helper()
	ln := memnet.Listen()
	srv := &http.Server{Handler: h, ErrorLog: quiet}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	o := Options{BaseURL: "http://mem/v1", Concurrency: 4, DialContext: ln.DialContext}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	require.NoError(t, err)
	return c, func() {
		c.Close()
		require.NoError(t, srv.Shutdown(context.Background()))
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		synctest.Wait()
	}
}

// step is something that a server sends at a time after the request arrived.
type step struct {
	at   time.Duration
	text string
}

// forever keeps a handler until its client is gone.
const forever = -1

// timetable serves steps exactly when they are due. The header goes out at
// once, unless the first step is later and empty.
func timetable(steps []step) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		begin := time.Now()
		w.Header().Set("Content-Type", "text/event-stream")
		for _, s := range steps {
			if s.at == forever {
				<-r.Context().Done()
				return
			}
			time.Sleep(s.at - time.Since(begin))
			_, _ = io.WriteString(w, s.text)
			w.(http.Flusher).Flush()
		}
	}
}

const (
	ttfo = 21977700 * time.Microsecond // the real cell's 21.9777 s
	gap  = 132387560 * time.Nanosecond // and 132.38756 ms
	ms   = time.Millisecond
	sec  = time.Second
)

// at gives an observed time, and absent for one that was not seen.
func at(d time.Duration, seen bool) time.Duration {
	if !seen {
		return absent
	}
	return d
}

const absent = time.Duration(-1)

// TestTimesAreExact holds every clock reading to the nanosecond. Each time is a
// row's own, counted from the request; the network and the parser take none.
func TestTimesAreExact(t *testing.T) {
	rows := []struct {
		name            string
		steps           []step
		ttfo, ttft, e2e time.Duration
		returns         time.Duration // when Complete does
		detail          record.Detail
		flags           []string
		output          int // tokens by usage, 0 for none
		change          func(*Options)
		why             string
	}{
		{name: "plain", steps: []step{{0, ""}, {ttfo, sayHello}, {ttfo + gap, sayHello}, {ttfo + 2*gap, finishes("stop")}, {ttfo + 3*gap, useCount}, {ttfo + 4*gap, saysDone}},
			ttfo: ttfo, ttft: ttfo, e2e: ttfo + 4*gap, returns: ttfo + 4*gap, output: 2, why: "[DONE] ends the clock, not the finish event before it"},
		{name: "reasoning first", steps: []step{{sec, think}, {2 * sec, sayHello}, {3 * sec, finishes("stop")}, {3 * sec, saysDone}},
			ttfo: sec, ttft: 2 * sec, e2e: 3 * sec, returns: 3 * sec, why: "TTFO is reasoning or visible, TTFT is visible"},
		{name: "role, heartbeat, comment and usage are not output",
			steps: []step{{1 * sec, `data: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n"}, {2 * sec, "data:\n\n: ping\n\n" + useCount}, {3 * sec, sayHello}, {4 * sec, saysDone}},
			ttfo:  3 * sec, ttft: 3 * sec, e2e: 4 * sec, returns: 4 * sec, output: 2, flags: []string{record.FlagMissingFinishReason}, why: "WIRE 14"},
		{name: "an event over two reads", steps: []step{{1 * sec, sayHello[:30]}, {2 * sec, sayHello[30:]}, {3 * sec, finishes("stop") + saysDone}},
			ttfo: 2 * sec, ttft: 2 * sec, e2e: 3 * sec, returns: 3 * sec, why: "it arrived when the read that completed it returned"},
		{name: "a blank line alone", steps: []step{{1 * sec, strings.TrimSuffix(sayHello, "\n")}, {2 * sec, "\n"}, {3 * sec, finishes("stop") + saysDone}},
			ttfo: 2 * sec, ttft: 2 * sec, e2e: 3 * sec, returns: 3 * sec, why: "WIRE 4: it dispatches, without waiting for what follows"},
		{name: "lingers after [DONE]", steps: []step{{1 * sec, sayHello + finishes("stop") + saysDone}, {at: forever}},
			ttfo: 1 * sec, ttft: 1 * sec, e2e: 1 * sec, returns: 1*sec + DrainTimeout, why: "WIRE 9: the connection is let go, whatever the server does"},
		{name: "ends soon after [DONE]", steps: []step{{1 * sec, sayHello + finishes("stop") + saysDone}, {1*sec + DrainTimeout - 1, ""}},
			ttfo: 1 * sec, ttft: 1 * sec, e2e: 1 * sec, returns: 1*sec + DrainTimeout - 1, why: "one nanosecond before the drain's end, and in time for the connection"},
		{name: "usage after [DONE]", steps: []step{{1 * sec, sayHello + finishes("stop") + saysDone}, {1*sec + ms, useCount}},
			ttfo: 1 * sec, ttft: 1 * sec, e2e: 1 * sec, returns: 1*sec + ms, flags: []string{record.FlagDataAfterDone}, why: "not part of the answer"},
		{name: "no [DONE], usage late, then the end", steps: []step{{1 * sec, sayHello}, {2 * sec, finishes("stop")}, {2*sec + EndLinger - 1, useCount}},
			ttfo: 1 * sec, ttft: 1 * sec, e2e: 2 * sec, returns: 2*sec + EndLinger - 1, output: 2, why: "without [DONE] the finish event ends the clock; usage is waited for"},
		{name: "no [DONE] and no end", steps: []step{{1 * sec, sayHello}, {2 * sec, finishes("stop")}, {at: forever}},
			ttfo: 1 * sec, ttft: 1 * sec, e2e: 2 * sec, returns: 2*sec + EndLinger, why: "the wait for the rest is bounded, the answer whole"},
		{name: "finish reasons on every event", steps: []step{{1 * sec, sayHello + finishes("stop")}, {2 * sec, sayHello + finishes("stop")}, {4*sec - 1, sayHello + finishes("stop")}, {5 * sec, saysDone}},
			ttfo: 1 * sec, ttft: 1 * sec, e2e: 5 * sec, returns: 5 * sec, why: "the last one is the finish event, and output extends the wait"},
		{name: "text after the finish event", steps: []step{{1 * sec, finishes("stop")}, {2 * sec, sayHello}},
			ttfo: 2 * sec, ttft: 2 * sec, e2e: 2 * sec, returns: 2 * sec, why: "an answer does not end before its text"},
		{name: "total limit after the finish event", steps: []step{{1 * sec, sayHello + finishes("stop")}, {at: forever}},
			change: func(o *Options) { o.Timeout = 1500 * ms }, ttfo: 1 * sec, ttft: 1 * sec, e2e: 1 * sec, returns: 1500 * ms, why: "the answer was whole in time"},
		{name: "clean end without anything", steps: []step{{1 * sec, sayHello}, {2 * sec, ""}},
			ttfo: 1 * sec, ttft: 1 * sec, e2e: 2 * sec, returns: 2 * sec, detail: record.TruncatedStream, why: "a clean end is the end, and proves nothing"},
		{name: "stall after output", steps: []step{{1 * sec, sayHello}, {at: forever}},
			change: func(o *Options) { o.StallTimeout = 30 * sec; o.Timeout = 60 * sec },
			ttfo:   1 * sec, ttft: 1 * sec, e2e: absent, returns: 31 * sec, detail: record.StallTimeout, why: "from the last output on"},
		{name: "stall among heartbeats", steps: []step{{1 * sec, sayHello}, {20 * sec, ": ping\n\n"}, {30 * sec, "data:\n\n"}, {31*sec - 1, useCount}, {at: forever}},
			change: func(o *Options) { o.StallTimeout = 30 * sec },
			ttfo:   1 * sec, ttft: 1 * sec, e2e: absent, returns: 31 * sec, detail: record.StallTimeout, output: 2, why: "WIRE 5: only output breaks the silence"},
		{name: "reasoning breaks the silence", steps: []step{{20 * sec, think}, {40 * sec, think}, {60 * sec, sayHello + saysDone}},
			change: func(o *Options) { o.StallTimeout = 30 * sec },
			ttfo:   20 * sec, ttft: 60 * sec, e2e: 60 * sec, returns: 60 * sec, flags: []string{record.FlagMissingFinishReason}, why: "reasoning is output"},
		{name: "stall before any output", steps: []step{{5 * sec, ": queued\n\n"}, {at: forever}},
			change: func(o *Options) { o.StallTimeout = 30 * sec },
			ttfo:   absent, ttft: absent, e2e: absent, returns: 30 * sec, detail: record.StallTimeout, why: "from t0, a header is not output"},
		{name: "no header", steps: []step{{at: forever}},
			change: func(o *Options) { o.StallTimeout = 30 * sec },
			ttfo:   absent, ttft: absent, e2e: absent, returns: 30 * sec, detail: record.StallTimeout, why: "the header limit is the stall limit unless it is given"},
		{name: "no header, own limit", steps: []step{{at: forever}},
			change: func(o *Options) { o.StallTimeout, o.HeaderTimeout = 30*sec, 10*sec },
			ttfo:   absent, ttft: absent, e2e: absent, returns: 10 * sec, detail: record.StallTimeout, why: "WIRE 12: headers by their own"},
		{name: "header in time, then the stall limit", steps: []step{{10*sec - 1, ""}, {at: forever}},
			change: func(o *Options) { o.StallTimeout, o.HeaderTimeout = 30*sec, 10*sec },
			ttfo:   absent, ttft: absent, e2e: absent, returns: 30 * sec, detail: record.StallTimeout, why: "one timer serves both"},
		{name: "total", steps: []step{{10 * sec, sayHello}, {20 * sec, sayHello}, {30 * sec, sayHello}, {40 * sec, sayHello}},
			change: func(o *Options) { o.StallTimeout, o.Timeout = 15*sec, 35*sec },
			ttfo:   10 * sec, ttft: 10 * sec, e2e: absent, returns: 35 * sec, detail: record.TotalTimeout, why: "each event breaks the silence, the whole is bounded"},
		{name: "total before stall", steps: []step{{10 * sec, sayHello}, {at: forever}},
			change: func(o *Options) { o.StallTimeout, o.Timeout = 15*sec, 20*sec },
			ttfo:   10 * sec, ttft: 10 * sec, e2e: absent, returns: 20 * sec, detail: record.TotalTimeout, why: "the earliest limit ends it"},
		{name: "both limits at once", steps: []step{{at: forever}},
			change: func(o *Options) { o.StallTimeout, o.Timeout = 15*sec, 15*sec },
			ttfo:   absent, ttft: absent, e2e: absent, returns: 15 * sec, detail: record.StallTimeout, why: "silence says more"},
		{name: "error, and no end", steps: []step{{1 * sec, sayHello}, {2 * sec, `data: {"error":"boom"}` + "\n\n"}, {3 * sec, ": ping\n\n"}, {at: forever}},
			ttfo: 1 * sec, ttft: 1 * sec, e2e: absent, returns: 2*sec + EndLinger, detail: record.InBandError, why: "how the stream ends is waited for, for a while"},
		{name: "error, then more text without end", steps: []step{{1 * sec, "data: oops\n\n"}, {2 * sec, sayHello}, {2500 * ms, sayHello}, {3500 * ms, sayHello}, {at: forever}},
			ttfo: 2 * sec, ttft: 2 * sec, e2e: absent, returns: 1*sec + EndLinger, detail: record.MalformedEvent, why: "text does not extend the wait for a lost answer"},
		{name: "error, then [DONE]", steps: []step{{1 * sec, `data: {"error":"boom"}` + "\n\n"}, {2 * sec, saysDone}},
			ttfo: absent, ttft: absent, e2e: 2 * sec, returns: 2 * sec, detail: record.InBandError, flags: []string{record.FlagMissingFinishReason}, why: "[DONE] does not make it a success"},
	}
	for _, row := range rows {
		t.Run(strings.NewReplacer(" ", "_", "[", "", "]", "", ",", "").Replace(row.name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, stop := bubble(t, timetable(row.steps), row.change)
				defer stop()
				began := time.Now()
				obs := c.Complete(t.Context(), testBody)
				assert.Equal(t, began, obs.Start, "t0 is when the request is handed over: %s", row.why)
				assert.Equal(t, row.ttfo, at(obs.TTFO, obs.HasTTFO), "TTFO: %s", row.why)
				assert.Equal(t, row.ttft, at(obs.TTFT, obs.HasTTFT), "TTFT: %s", row.why)
				assert.Equal(t, row.e2e, at(obs.E2E, obs.HasE2E), "E2E: %s", row.why)
				assert.Equal(t, row.returns, time.Since(began), "Complete returns: %s", row.why)
				end := row.returns
				if row.e2e != absent {
					end = row.e2e
				}
				assert.Equal(t, end, obs.End.Sub(obs.Start), "End: %s", row.why)
				var detail record.Detail
				if obs.Failure != nil {
					detail = obs.Failure.Detail
				}
				assert.Equal(t, row.detail, detail, "%s: %+v", row.why, obs.Failure)
				assert.Equal(t, row.flags, obs.Response.Flags, row.why)
				if row.output > 0 {
					require.NotNil(t, obs.Tokens.Output, row.why)
					assert.Equal(t, row.output, *obs.Tokens.Output, row.why)
				} else {
					assert.Nil(t, obs.Tokens.Output, row.why)
				}
			})
		})
	}
}

// TestConnectionAfterTheEnd looks at what the ends above do to the connection.
func TestConnectionAfterTheEnd(t *testing.T) {
	rows := []struct {
		name   string
		steps  []step
		reused bool
	}{
		{"ends with [DONE]", []step{{0, sayHello + finishes("stop") + saysDone}}, true},
		{"ends after [DONE], in time", []step{{0, sayHello + finishes("stop") + saysDone}, {DrainTimeout - 1, ""}}, true},
		{"lingers after [DONE]", []step{{0, sayHello + finishes("stop") + saysDone}, {at: forever}}, false},
		{"ends without [DONE]", []step{{0, sayHello + finishes("stop")}}, true},
		{"little after [DONE]", []step{{0, sayHello + finishes("stop") + saysDone}, {1, strings.Repeat("\n", DrainBytes-1)}}, true},
		{"as much as may be after [DONE]", []step{{0, sayHello + finishes("stop") + saysDone}, {1, strings.Repeat("\n", DrainBytes)}}, true},
		{"too much after [DONE]", []step{{0, sayHello + finishes("stop") + saysDone}, {1, strings.Repeat("\n", DrainBytes+2)}}, false}, // with one more the end may come in the same read
	}
	for _, row := range rows {
		t.Run(strings.NewReplacer(" ", "_", "[", "", "]", "", ",", "").Replace(row.name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, stop := bubble(t, timetable(row.steps), nil)
				defer stop()
				for i := range 2 {
					obs := c.Complete(t.Context(), testBody)
					require.Nil(t, obs.Failure)
					assert.Equal(t, i > 0 && row.reused, obs.Response.Connection.Reused)
					assert.Equal(t, time.Duration(0), obs.E2E)
				}
			})
		})
	}
}

// TestHeadOfARefusalIsBounded holds HeadTimeout to the nanosecond.
func TestHeadOfARefusalIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := bubble(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "loading")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, nil)
		defer stop()
		began := time.Now()
		obs := c.Complete(t.Context(), testBody)
		require.NotNil(t, obs.Failure)
		assert.Equal(t, record.HTTPStatus, obs.Failure.Detail)
		assert.Contains(t, obs.Failure.Message, "loading", "what came is kept")
		assert.Equal(t, HeadTimeout, time.Since(began))
	})
}

// TestCancelIsExact ends a request in the instant its context does.
func TestCancelIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan time.Time, 1)
		c, stop := bubble(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, sayHello)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			gone <- time.Now()
		}, nil)
		defer stop()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		obs := c.Complete(ctx, testBody)
		require.NotNil(t, obs.Failure)
		assert.Equal(t, record.Canceled, obs.Failure.Detail)
		assert.Equal(t, 5*time.Second, obs.End.Sub(began))
		assert.Equal(t, "hello", obs.Text, "what arrived is kept")
		assert.Equal(t, 5*time.Second, (<-gone).Sub(began), "the server sees it at once")
	})
}

// TestManyAtOnce runs a crowd of requests with times of their own and finds
// each exact: nothing is shared that should not be.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd, rounds = 64, 5
		c, stop := bubble(t, func(w http.ResponseWriter, r *http.Request) {
			var n int
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Sscanf(string(body), `{"n":%d}`, &n)
			timetable([]step{
				{time.Duration(n) * gap, fmt.Sprintf(`data: {"choices":[{"delta":{"content":"answer %d"}}]}`+"\n\n", n)},
				{time.Duration(n)*gap + ttfo, finishes("stop") + saysDone},
			})(w, r)
		}, func(o *Options) { o.Concurrency = crowd })
		defer stop()
		results := make(chan string, crowd*rounds)
		for worker := range crowd {
			go func() {
				for round := range rounds {
					n := worker*rounds + round + 1
					obs := c.Complete(t.Context(), fmt.Appendf(nil, `{"n":%d}`, n))
					want := time.Duration(n) * gap
					if obs.Failure != nil || obs.TTFT != want || obs.E2E != want+ttfo || obs.Text != fmt.Sprintf("answer %d", n) {
						results <- fmt.Sprintf("request %d: %+v", n, obs)
						continue
					}
					results <- ""
				}
			}()
		}
		for range crowd * rounds {
			assert.Empty(t, <-results)
		}
	})
}
