package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/record"
)

func TestModels(t *testing.T) {
	rows := []struct {
		name, body string
		want       []Model
		why        string
	}{
		{"vLLM", `{"object":"list","data":[{"id":"org/m","object":"model","max_model_len":32768,"root":"org/m"}]}`,
			[]Model{{"org/m", 32768}}, "max_model_len"},
		{"LM Studio", `{"data":[{"id":"m","max_context_length":4096}]}`, []Model{{"m", 4096}}, "max_context_length"},
		{"OpenRouter", `{"data":[{"id":"m","context_length":131072}]}`, []Model{{"m", 131072}}, "context_length"},
		{"llama.cpp", `{"models":[{"name":"m"}],"data":[{"id":"m","meta":{"n_ctx":2048,"n_ctx_train":8192}}]}`, []Model{{"m", 2048}},
			"n_ctx is what the server was started with; n_ctx_train is the model's and more than it serves"},
		{"several names", `{"data":[{"id":"m","meta":{"n_ctx":1},"context_length":2,"max_context_length":3,"max_model_len":4}]}`, []Model{{"m", 4}},
			"the order of PROTOCOL section 2"},
		{"null and odd values", `{"data":[{"id":"a","max_model_len":null,"context_length":7},{"id":"b","max_model_len":"8"},{"id":"c","max_model_len":-1},{"id":"d","max_model_len":1e99},{"id":"e","meta":null}]}`,
			[]Model{{"a", 7}, {"b", 0}, {"c", 0}, {"d", 0}, {"e", 0}}, "what is not said is 0"},
		{"several models", `{"data":[{"id":"b"},{"id":"a"}]}`, []Model{{"b", 0}, {"a", 0}}, "in the server's order"},
		{"none", `{"data":[]}`, []Model{}, "an empty list is a list"},
		{"without id", `{"data":[{"object":"model"}]}`, []Model{}, "nothing that could be asked for"},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			c, s := scripted(t)
			s.answer(true, response("200 OK", "application/json", "", []byte(row.body)))
			models, err := c.Models(t.Context())
			require.NoError(t, err, row.why)
			assert.Equal(t, row.want, models, row.why)
			require.Len(t, s.got, 1)
			assert.Equal(t, "GET", s.got[0].Method)
			assert.Equal(t, "/v1/models", s.got[0].URL.String())
		})
	}
}

func TestModelsRefused(t *testing.T) {
	rows := []struct {
		name     string
		response []byte
		status   int // of a *StatusError; 0 wants a *NotJSONError
		html     bool
		says     []string
	}{
		{"wrong key", response("401 Unauthorized", "application/json", "X-Request-Id: r1\r\n", []byte(`{"error":{"message":"bad key","type":"auth","code":"invalid_api_key"}}`)), 401, false,
			[]string{"status 401 Unauthorized", "auth invalid_api_key: bad key", "request id r1"}},
		{"no such path", response("404 Not Found", "application/json", "", []byte(`{"detail":"Not Found"}`)), 404, false, []string{"Not Found"}},
		{"redirect", response("301 Moved", "", "Location: https://h.test/v1/models?key=k\r\n", nil), 301, false, []string{"not followed, to https://h.test/v1/models"}},
		{"page", response("200 OK", "text/html", "", []byte("<!doctype html><title>Welcome</title>")), 0, true, []string{"not a model list", "HTML page titled Welcome"}},
		{"text", response("200 OK", "text/plain", "", []byte("ok")), 0, false, []string{"not a model list", `"ok"`}},
		{"JSON of another kind", response("200 OK", "application/json", "", []byte(`{"status":"ok"}`)), 0, false, []string{"not a model list"}},
		{"error with status 200", response("200 OK", "application/json", "", []byte(`{"error":{"message":"loading"}}`)), 0, false, []string{"loading"}},
		{"empty", response("200 OK", "application/json", "", nil), 0, false, []string{"not a model list"}},
		{"list of another kind", response("200 OK", "application/json", "", []byte(`{"data":3}`)), 0, false, []string{"not a model list"}},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			c, s := scripted(t)
			s.answer(true, row.response)
			_, err := c.Models(t.Context())
			require.Error(t, err)
			for _, text := range row.says {
				assert.ErrorContains(t, err, text)
			}
			wrapped := fmt.Errorf("listing: %w", err)
			var status *StatusError
			assert.Equal(t, row.status != 0, errors.As(wrapped, &status))
			assert.Equal(t, row.status == 0, IsNotJSON(wrapped))
			assert.Equal(t, row.status == 404, IsNotFound(wrapped))
			if status != nil {
				assert.Equal(t, row.status, status.Status)
			}
			var not *NotJSONError
			if errors.As(err, &not) {
				assert.Equal(t, row.html, not.HTML)
			}
		})
	}
}

func TestModelsUnreachable(t *testing.T) {
	rows := []struct {
		name   string
		server func(testing.TB) string
		want   record.Detail
		says   string
	}{
		{"closed port", closedPort, record.Connect, "refused"},
		{"untrusted", func(t testing.TB) string { return tlsServer(t, nil).URL + "/v1" }, record.TLS, "unknown authority"},
		{"no answer", holds(""), record.StallTimeout, "no response header for 150ms"},
		{"cut", holds("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), record.StallTimeout, "no output for 150ms"},
		{"reset", resets("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), record.TransportReset, "model list"},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			o := Options{BaseURL: row.server(t), Timeout: 20 * time.Second}
			if row.want == record.StallTimeout {
				o.StallTimeout = shortLimit
			}
			c, err := New(o)
			require.NoError(t, err)
			t.Cleanup(c.Close)
			_, err = c.Models(t.Context())
			var broken *TransportError
			require.ErrorAs(t, err, &broken)
			assert.Equal(t, row.want, broken.Detail, err)
			assert.ErrorContains(t, err, row.says)
		})
	}
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c, err := New(Options{BaseURL: closedPort(t)})
		require.NoError(t, err)
		_, err = c.Models(ctx)
		require.Error(t, err)
		assert.ErrorContains(t, err, "the run ended")
	})
}

// TestWarm connects the pool, and then finds no request that has to.
func TestWarm(t *testing.T) {
	const crowd = 16
	var dials atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNotFound) // any status will do
			_, _ = io.WriteString(w, `{"detail":"Not Found"}`)
			return
		}
		okStream(w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			dials.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	c, err := New(Options{BaseURL: s.URL + "/v1", Concurrency: crowd, Timeout: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for range 2 {
		n, err := c.Warm(t.Context(), crowd)
		require.NoError(t, err)
		assert.Equal(t, crowd, n)
	}
	assert.EqualValues(t, crowd, dials.Load(), "a connection for each worker, and none twice")
	var wave sync.WaitGroup
	for range crowd {
		wave.Go(func() {
			obs := c.Complete(t.Context(), testBody)
			assert.Nil(t, obs.Failure)
			assert.True(t, obs.Response.Connection.Reused, "the first wave has no handshake in its times")
		})
	}
	wave.Wait()
	assert.EqualValues(t, crowd, dials.Load())
}

// TestWarmWaitsForAll has every connection take a second longer than the one
// before: an early one must not serve in place of those still being made.
func TestWarmWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd = 4
		var dials atomic.Int64
		c, stop := bubble(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"data":[]}`)
		}, func(o *Options) {
			connect := o.DialContext
			o.Concurrency = crowd
			o.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				time.Sleep(time.Duration(dials.Add(1)) * time.Second)
				return connect(ctx, network, address)
			}
		})
		defer stop()
		began := time.Now()
		n, err := c.Warm(t.Context(), crowd)
		require.NoError(t, err)
		assert.Equal(t, crowd, n)
		assert.Equal(t, crowd*time.Second, time.Since(began))
		assert.EqualValues(t, crowd, dials.Load())
	})
}

func TestWarmFails(t *testing.T) {
	c, err := New(Options{BaseURL: closedPort(t), Concurrency: 3})
	require.NoError(t, err)
	n, err := c.Warm(t.Context(), 3)
	assert.Zero(t, n)
	require.ErrorContains(t, err, "connecting 0 of 3 connections: ")
	assert.ErrorContains(t, err, "refused")
}

func TestWarmIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := bubble(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil)
		defer stop()
		began := time.Now()
		n, err := c.Warm(t.Context(), 2)
		assert.Zero(t, n)
		require.Error(t, err)
		assert.Equal(t, WarmTimeout, time.Since(began))
	})
}
