package engine

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// script is a metrics page that a test changes while it is read.
type script struct {
	mu       sync.Mutex
	page     string
	delay    time.Duration
	status   int
	requests int
}

func (s *script) set(page string) { s.mu.Lock(); s.page = page; s.mu.Unlock() }

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	page, delay, status := s.page, s.delay, s.status
	s.requests++
	s.mu.Unlock()
	select {
	case <-r.Context().Done():
		return
	case <-time.After(delay):
	}
	if status != 0 {
		w.WriteHeader(status)
	}
	_, _ = io.WriteString(w, page)
}

func (s *script) count() int { s.mu.Lock(); defer s.mu.Unlock(); return s.requests }

func busy(running, tokens int) string {
	return vllmPage(fmt.Sprintf("num_requests_running %d", running), "num_requests_waiting 2", "kv_cache_usage_perc 0.5", fmt.Sprintf("prompt_tokens_total %d", tokens))
}

func idle(tokens int) string {
	return vllmPage("num_requests_running 0", "num_requests_waiting 0", fmt.Sprintf("prompt_tokens_total %d", tokens))
}

func TestSession(t *testing.T) {
	sc := &script{page: idle(100)}
	inBubble(t, sc.ServeHTTP, func(t *testing.T, o Options) {
		s := newReader(t, o).Start(t.Context(), time.Second)
		began := time.Now()
		time.Sleep(500 * time.Millisecond) // between two ticks
		for i, running := range []int{4, 8, 6} {
			sc.set(busy(running, 100+i))
			time.Sleep(time.Second)
		}
		sc.set(idle(400))
		got := s.Stop(t.Context())
		assert.Equal(t, new(100.0), got.Before.Value(PromptTokens))
		assert.Equal(t, new(400.0), got.After.Value(PromptTokens))
		assert.Equal(t, 3, got.Reads, "one a second for 3.5 s")
		assert.Equal(t, Series{Samples: 3, Mean: 6, Min: 4, Max: 8}, got.Gauges[Running])
		assert.Equal(t, Series{Samples: 3, Mean: 2, Min: 2, Max: 2}, got.Gauges[Waiting])
		assert.Equal(t, Series{Samples: 3, Mean: 0.5, Min: 0.5, Max: 0.5}, got.Gauges[KVCacheUse])
		assert.NotContains(t, got.Gauges, PromptTokens, "a counter is no gauge")
		d, ok := got.Delta()
		assert.True(t, ok)
		assert.Equal(t, new(300.0), d.Value(PromptTokens))
		assert.Equal(t, 3500*time.Millisecond+SettlePause, time.Since(began))
		assert.Equal(t, "http://server/metrics", got.URL)
		assert.Nil(t, got.Unavailable)
		assert.Equal(t, got, s.Stop(t.Context()), "a second Stop reads nothing")
	})
}

// The load waits for the first reading and for no other.
func TestStartReturnsBeforeTheFirstTick(t *testing.T) {
	sc := &script{page: idle(1)}
	inBubble(t, sc.ServeHTTP, func(t *testing.T, o Options) {
		began := time.Now()
		s := newReader(t, o).Start(t.Context(), time.Second)
		assert.Equal(t, SettlePause, time.Since(began))
		assert.Equal(t, 2, sc.count(), "two readings that are equal")
		s.Stop(t.Context())
	})
}

func TestAServerThatNeverRests(t *testing.T) {
	var n atomic.Int64
	h := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, idle(int(n.Add(1)))) }
	inBubble(t, h, func(t *testing.T, o Options) {
		began := time.Now()
		s := newReader(t, o).Start(t.Context(), 0)
		assert.Equal(t, SettleLimit, time.Since(began), "other traffic does not hold the load up for ever")
		got := s.Stop(t.Context())
		assert.NotNil(t, got.Before)
		assert.Zero(t, got.Reads, "no interval, no reading during the load")
	})
}

// Engines count a request a little after its last byte.
func TestTheLastRequestsAreWaitedFor(t *testing.T) {
	sc := &script{page: idle(0)}
	inBubble(t, sc.ServeHTTP, func(t *testing.T, o Options) {
		s := newReader(t, o).Start(t.Context(), time.Second)
		sc.set(busy(1, 900))
		time.AfterFunc(350*time.Millisecond, func() { sc.set(idle(1000)) })
		got := s.Stop(t.Context())
		d, _ := got.Delta()
		assert.Equal(t, new(1000.0), d.Value(PromptTokens))
	})
}

func TestReadErrorsAreCounted(t *testing.T) {
	sc := &script{page: idle(1)}
	inBubble(t, sc.ServeHTTP, func(t *testing.T, o Options) {
		s := newReader(t, o).Start(t.Context(), time.Second)
		sc.mu.Lock()
		sc.status = 503
		sc.mu.Unlock()
		time.Sleep(2*time.Second + time.Millisecond)
		sc.mu.Lock()
		sc.status = 0
		sc.mu.Unlock()
		time.Sleep(time.Second)
		got := s.Stop(t.Context())
		assert.Equal(t, 2, got.ReadErrors)
		assert.Equal(t, 1, got.Reads)
		assert.Contains(t, got.LastReadError, "503")
		assert.NotNil(t, got.After)
	})
}

func TestASlowServerIsNotAskedMore(t *testing.T) {
	sc := &script{page: idle(1)}
	inBubble(t, sc.ServeHTTP, func(t *testing.T, o Options) {
		s := newReader(t, o).Start(t.Context(), time.Second)
		before := sc.count()
		sc.mu.Lock()
		sc.delay = 3500 * time.Millisecond
		sc.mu.Unlock()
		time.Sleep(9 * time.Second) // readings at 1.0, 4.5 and 8.0 s
		assert.Equal(t, 3, sc.count()-before, "one at a time, and no arrears")
		sc.mu.Lock()
		sc.delay = 0
		sc.mu.Unlock()
		began := time.Now()
		got := s.Stop(t.Context())
		assert.Equal(t, SettlePause, time.Since(began), "Stop does not wait for the reading under way")
		assert.Equal(t, 2, got.Reads)
		assert.Zero(t, got.ReadErrors, "that Stop cut one short is no fault of the server's")
	})
}

func TestNoMetricsNoGoroutine(t *testing.T) {
	sc := &script{status: 404}
	inBubble(t, sc.ServeHTTP, func(t *testing.T, o Options) {
		o.Implied = true
		began := time.Now()
		s := newReader(t, o).Start(t.Context(), time.Second)
		assert.Zero(t, time.Since(began))
		time.Sleep(time.Minute)
		got := s.Stop(t.Context())
		assert.Equal(t, 2, sc.count(), "both places, once")
		assert.Nil(t, got.Before)
		assert.Nil(t, got.After)
		assert.Equal(t, NotFound, got.Unavailable.Kind)
		assert.Equal(t, "http://server/metrics", got.URL)
		_, ok := got.Delta()
		assert.False(t, ok)
	})
}

func TestTheServerDiesDuringTheLoad(t *testing.T) {
	sc := &script{page: idle(1)}
	inBubble(t, sc.ServeHTTP, func(t *testing.T, o Options) {
		s := newReader(t, o).Start(t.Context(), time.Second)
		sc.mu.Lock()
		sc.status = 500
		sc.mu.Unlock()
		time.Sleep(1500 * time.Millisecond)
		got := s.Stop(t.Context())
		assert.NotNil(t, got.Before)
		assert.Nil(t, got.After)
		assert.Equal(t, BadStatus, got.Unavailable.Kind)
		_, ok := got.Delta()
		assert.False(t, ok)
	})
}

func TestAnInterruptEndsTheReadings(t *testing.T) {
	sc := &script{page: busy(1, 1)}
	inBubble(t, sc.ServeHTTP, func(t *testing.T, o Options) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newReader(t, o).Start(ctx, time.Second)
		time.Sleep(2500 * time.Millisecond)
		cancel()
		n := sc.count()
		time.Sleep(time.Minute)
		assert.Equal(t, n, sc.count(), "no reading after the interrupt")
		got := s.Stop(ctx)
		assert.Equal(t, Interrupted, got.Unavailable.Kind)
		assert.Equal(t, 2, got.Reads)
		assert.Zero(t, got.ReadErrors)
	})
}

func TestAnInterruptWhileSettling(t *testing.T) {
	sc := &script{page: busy(1, 1)} // runs on, so that it would settle for SettleLimit
	inBubble(t, sc.ServeHTTP, func(t *testing.T, o Options) {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		began := time.Now()
		s := newReader(t, o).Start(ctx, time.Second)
		assert.Equal(t, 250*time.Millisecond, time.Since(began))
		got := s.Stop(t.Context())
		assert.NotNil(t, got.Before, "the reading that there is")
		assert.NotNil(t, got.After)
	})
}

func TestSamplerOnSockets(t *testing.T) {
	sc := &script{page: idle(7)}
	s := serve(t, sc.ServeHTTP)
	before := runtime.NumGoroutine()
	r, err := New(Options{URL: s.URL})
	require.NoError(t, err)
	sampler := r.Start(t.Context(), time.Millisecond)
	require.Eventually(t, func() bool { return sc.count() > 5 }, 10*time.Second, time.Millisecond)
	got := sampler.Stop(t.Context())
	assert.Positive(t, got.Reads)
	assert.NotNil(t, got.After)
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, idleTimeout/2, time.Millisecond, "the connection does not wait for its time to run out; one goroutine is this check's")
}

// During the load only gauges are read: a page's counters and histograms are
// most of its bytes and are not parsed.
func TestGaugeReadingsAreCheap(t *testing.T) {
	text := fixture(t, "vllm-0.30.prom")
	cost := func(w wanted, roles []Role) float64 {
		return testing.AllocsPerRun(10, func() {
			p, err := readPage(strings.NewReader(text), w, defaults)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := newSnapshot(p, epoch, "glm", roles); !ok {
				t.Fatal("no engine")
			}
		})
	}
	all, few := cost(wantedAll, allRoles), cost(wantedGauges, gauges)
	assert.Less(t, few*3, all, "allocations of a reading during the load and of a whole one")
}
