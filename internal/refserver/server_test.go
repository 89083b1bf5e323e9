package refserver

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/memnet"
)

// onSockets starts a server on the loopback for a plain client.
func onSockets(t *testing.T, o Options, h2c bool) *rig {
	t.Helper()
	s, err := New(o)
	require.NoError(t, err)
	s.instructionsOf = testInstructions
	require.NoError(t, s.Start(""))
	tr := &http.Transport{MaxIdleConnsPerHost: 1 << 12, DisableCompression: true, Protocols: protocols(h2c)}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		assert.NoError(t, s.Close())
	})
	return &rig{s, &http.Client{Transport: tr}}
}

func protocols(h2c bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(!h2c)
	p.SetUnencryptedHTTP2(h2c)
	return p
}

func TestBothProtocolsOnSockets(t *testing.T) {
	for _, h2c := range []bool{false, true} {
		t.Run(protocols(h2c).String(), func(t *testing.T) {
			r := onSockets(t, Options{Slots: 8, PrefillTokS: 1e6, DecodeBase: time.Millisecond, KeepEvents: true}, h2c)
			assert.True(t, strings.HasPrefix(r.URL(), "http://127.0.0.1:"), r.URL())
			replies := closedLoop(r, 40, 16, func(i int) string { return prompt(i, 5, 100) })
			log := byIndex(t, r.Log())
			require.Len(t, log, 40)
			for i, got := range replies {
				require.NoError(t, got.err)
				assert.Equal(t, marker(i)+" code code code code code", got.text())
				e := log[i]
				require.Equal(t, OutcomeDone, e.Outcome)
				assert.False(t, e.Joined.Before(e.Arrived))
				for k, late := range e.Lateness() {
					assert.GreaterOrEqual(t, late, time.Duration(0), "token %d left before its time", k)
				}
				out := got.outputs()
				require.Len(t, e.Writes, len(out))
				for k, o := range out {
					assert.False(t, got.start.Add(o.at).Before(e.Joined.Add(e.Writes[k])), "token %d was read before it was written", k)
				}
				assert.False(t, got.start.Add(got.events[got.index(isDone)].at).Before(e.DoneAt))
			}
			require.NoError(t, Replay(r.opts, r.Log()), "the timetable on sockets is the computed one as well")
		})
	}
}

func TestHTTP2InTheBubbleIsExact(t *testing.T) {
	o := Options{Slots: 20, PrefillTokS: 1000, DecodeBase: 10 * time.Millisecond, DecodePerActive: time.Millisecond, KeepEvents: true}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, o)
		r.client.Transport.(*http.Transport).Protocols = protocols(true)
		replies := closedLoop(r, 300, 64, func(i int) string { return prompt(i, 1+i%9, 20+i%50) })
		log := byIndex(t, r.Log())
		require.Len(t, log, 300)
		for i, got := range replies {
			assertExact(t, log[i], got)
		}
		r.client.CloseIdleConnections()
		require.NoError(t, r.Close())
	})
}

func TestResetOfAnHTTP2StreamLeavesTheOthers(t *testing.T) {
	for _, fault := range []string{"reset-before@0", "reset-stream=2@0", "stall=2@0"} {
		t.Run(fault, func(t *testing.T) {
			r := onSockets(t, Options{DecodeBase: time.Millisecond, Faults: fault}, true)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			assert.Error(t, r.send(ctx, body(prompt(0, 5, 20), nil)).err)
			assert.Equal(t, marker(1)+" code", r.ask(prompt(1, 1, 20)).text())
		})
	}
}

func TestResetOnSocketsIsAReset(t *testing.T) {
	r := onSockets(t, Options{DecodeBase: time.Millisecond, Faults: "reset-before@0;reset-stream=2@1"}, false)
	assert.ErrorContains(t, r.ask(prompt(0, 5, 20)).err, "connection reset by peer")
	got := r.ask(prompt(1, 5, 20))
	assert.ErrorContains(t, got.err, "connection reset by peer")
	assert.Equal(t, 200, got.status)
}

func TestClose(t *testing.T) {
	o := Options{Slots: 1, PrefillTokS: 1000, DecodeBase: 100 * time.Millisecond}
	// ask sends request i and gives its answer on a channel.
	ask := func(r *rig, i, words int) <-chan reply {
		got := make(chan reply, 1)
		go func() { got <- r.ask(prompt(i, words, 100)) }()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		return got
	}
	t.Run("lets answers finish", func(t *testing.T) {
		inBubble(t, o, func(t *testing.T, r *rig) {
			first, waiting := ask(r, 0, 3), ask(r, 1, 3)
			began := time.Now()
			require.NoError(t, r.Close())
			assert.Equal(t, marker(0)+" code code code", (<-first).text())
			assert.Equal(t, marker(1)+" code code code", (<-waiting).text())
			assert.Less(t, time.Since(began), CloseGrace)
		})
	})
	t.Run("cuts off what takes longer", func(t *testing.T) {
		inBubble(t, o, func(t *testing.T, r *rig) {
			first, waiting := ask(r, 0, 1000), ask(r, 1, 3)
			began := time.Now()
			require.NoError(t, r.Close())
			assert.Equal(t, CloseGrace, time.Since(began))
			assert.Error(t, (<-first).err)
			assert.Error(t, (<-waiting).err)
			for _, e := range r.Log() {
				assert.Contains(t, []Outcome{OutcomeClosed, OutcomeLeft}, e.Outcome)
			}
			assert.Len(t, r.Log(), 2)
		})
	})
	t.Run("says so to those who set the time", func(t *testing.T) {
		inBubble(t, o, func(t *testing.T, r *rig) {
			first := ask(r, 0, 1000)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.ErrorIs(t, r.Shutdown(ctx), context.DeadlineExceeded)
			assert.Error(t, (<-first).err)
		})
	})
	t.Run("twice, and before Start", func(t *testing.T) {
		s, err := New(Options{})
		require.NoError(t, err)
		assert.Empty(t, s.URL())
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		require.ErrorContains(t, s.Start(""), "closed already")
	})
	t.Run("does not wait for connections that were never used", func(t *testing.T) {
		inBubble(t, o, func(t *testing.T, r *rig) {
			conn, err := r.client.Transport.(*http.Transport).DialContext(t.Context(), "tcp", "x")
			require.NoError(t, err)
			defer conn.Close()
			synctest.Wait()
			began := time.Now()
			require.NoError(t, r.Close())
			assert.Less(t, time.Since(began), time.Second)
		})
	})
	t.Run("closes a connection that slips in", func(t *testing.T) {
		s, err := New(Options{})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		near, far := net.Pipe()
		defer far.Close()
		s.connState(near, http.StateNew)
		_, err = far.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
	t.Run("refuses new requests", func(t *testing.T) {
		s, err := New(Options{})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil))
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	})
}

// Behind a web server that is not its own, the server can only ask its handlers.
func TestShutdownBehindAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{Slots: 2, PrefillTokS: 1000, DecodeBase: time.Second, Faults: "stall=1@1"})
		require.NoError(t, err)
		s.instructionsOf = testInstructions
		ln := memnet.Listen()
		web := &http.Server{Handler: s.Handler()}
		served := make(chan error, 1)
		go func() { served <- web.Serve(ln) }()
		client := &http.Client{Transport: &http.Transport{DialContext: ln.DialContext}}
		var wg sync.WaitGroup
		for i := range 3 { // one decodes, one stalls, one waits for a slot
			wg.Go(func() {
				res, err := client.Post("http://x/v1/chat/completions", "", bytes.NewReader(body(prompt(i, 1000, 100), nil)))
				if assert.NoError(t, err) {
					_, err = io.Copy(io.Discard, res.Body)
					assert.Error(t, err, "request %d", i)
					assert.NoError(t, res.Body.Close())
				}
			})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(1500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
		assert.Equal(t, 100*time.Second, time.Since(began))
		wg.Wait()
		log := byIndex(t, s.Log())
		require.Len(t, log, 3)
		assert.Equal(t, OutcomeClosed, log[0].Outcome)
		assert.Equal(t, OutcomeFault, log[1].Outcome)
		assert.Equal(t, OutcomeClosed, log[2].Outcome)
		assert.Equal(t, began, log[1].EndedAt, "a stall is let go at once")
		require.NoError(t, web.Shutdown(t.Context()))
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}

func TestServeOnce(t *testing.T) {
	r := onSockets(t, Options{}, false)
	require.ErrorContains(t, r.Start(""), "serves or is closed already")
	s, err := New(Options{})
	require.NoError(t, err)
	require.ErrorContains(t, s.Start(strings.TrimPrefix(r.Origin(), "http://")), "starting the reference server on")
}

func TestHandlerOfAnotherServer(t *testing.T) {
	s, err := New(Options{})
	require.NoError(t, err)
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	res, err := http.Get(web.URL + "/v1/models")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, 200, res.StatusCode)
}

// A client that asks and never reads must not hold up the closing for ever.
func TestClientThatNeverReads(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		conn, err := r.client.Transport.(*http.Transport).DialContext(t.Context(), "tcp", "x")
		require.NoError(t, err)
		defer conn.Close()
		raw := body(prompt(0, MaxOutputTokens, 20), nil)
		req, err := http.NewRequest(http.MethodPost, r.URL()+"/chat/completions", bytes.NewReader(raw))
		require.NoError(t, err)
		require.NoError(t, req.Write(conn))
		synctest.Wait() // the connection's buffer is full
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Shutdown(ctx), context.DeadlineExceeded)
		require.Len(t, r.Log(), 1)
		e := r.Log()[0]
		assert.Contains(t, []Outcome{OutcomeClosed, OutcomeLeft}, e.Outcome)
		assert.Positive(t, e.Sent)
		assert.Less(t, e.Sent, MaxOutputTokens)
	})
}

// On sockets the server is late by what timers and the machine add; the test
// prints it and asserts only what holds on a busy machine.
func TestLatenessOnSockets(t *testing.T) {
	o := EmbeddedOptions()
	o.Model, o.Slots, o.KeepEvents = "", 64, true
	for _, streams := range []int{1, 8, 64} {
		r := onSockets(t, o, false)
		var wg sync.WaitGroup
		for i := range streams {
			wg.Go(func() { r.ask(prompt(i, 60, 400)) })
		}
		wg.Wait()
		var late []time.Duration
		for _, e := range r.Log() {
			require.Equal(t, OutcomeDone, e.Outcome)
			late = append(late, e.Lateness()...)
		}
		require.Len(t, late, streams*65)
		slices.Sort(late)
		t.Logf("%d streams: written after plan: p50 %v, p99 %v, max %v", streams, late[len(late)/2], late[len(late)*99/100], late[len(late)-1])
		assert.GreaterOrEqual(t, late[0], time.Duration(0))
		assert.Less(t, late[len(late)/2], 250*time.Millisecond)
	}
}
