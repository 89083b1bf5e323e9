package engine

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/config"
	"anvil-capacity/internal/memnet"
)

const smallPage = "vllm:num_requests_running 1\nvllm:prompt_tokens_total 5\n"

func newReader(t *testing.T, o Options) *Reader {
	t.Helper()
	r, err := New(o)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func TestDefaultURL(t *testing.T) {
	for base, want := range map[string]string{
		"http://host:8000/v1":         "http://host:8000/metrics",
		"http://host:8000/v1/":        "http://host:8000/metrics",
		"https://host/llm/v1":         "https://host/llm/metrics",
		"https://host/api/v3":         "https://host/api/metrics",
		"http://host:8000":            "http://host:8000/metrics",
		"http://host/v1x":             "http://host/v1x/metrics",
		"http://[::1]:8000/v1":        "http://[::1]:8000/metrics",
		"https://host/a%2Fb/v1":       "https://host/a%2Fb/metrics",
		"http://host/openai/v1/azure": "http://host/openai/v1/azure/metrics",
		"":                            "",
		"host:8000":                   "",
		"http://a b/":                 "",
	} {
		assert.Equal(t, want, DefaultURL(base), base)
	}
}

func TestTarget(t *testing.T) {
	for setting, want := range map[string]struct {
		address string
		implied bool
	}{
		"":                   {"http://host/metrics", true},
		"off":                {"", false},
		"http://other/stats": {"http://other/stats", false},
	} {
		address, implied := Target(setting, "http://host/v1")
		assert.Equal(t, want.address, address, setting)
		assert.Equal(t, want.implied, implied, setting)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, row := range []struct {
		name string
		o    Options
		want string // "" is fine
	}{
		{"nothing", Options{}, ""},
		{"an address", Options{URL: "http://host:8000/metrics"}, ""},
		{"no scheme", Options{URL: "host:8000/metrics"}, "scheme"},
		{"a file", Options{URL: "file:///etc/passwd"}, "scheme"},
		{"no host", Options{URL: "http:///metrics"}, "no host"},
		{"none at all", Options{URL: "http://%zz"}, "no URL"},
		{"a control character", Options{URL: "http://user:hunter2@host/\x7f"}, "no URL"},
		{"a negative timeout", Options{Timeout: -1}, "negative"},
		{"a negative limit", Options{MaxBytes: -1}, "negative"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := New(row.o)
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.want)
			assert.NotContains(t, err.Error(), "hunter2")
			assert.NotContains(t, err.Error(), "passwd", "nothing of the URL is shown")
		})
	}
}

func TestNoAddressIsNoReading(t *testing.T) {
	r := newReader(t, Options{})
	_, err := r.Read(t.Context())
	var gone *Unavailable
	require.ErrorAs(t, err, &gone)
	assert.Equal(t, NotConfigured, gone.Kind)
	assert.True(t, gone.Fine())
	assert.Empty(t, r.URL())
	assert.False(t, r.KeySent())
}

func TestRead(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/metrics", r.URL.Path)
		assert.Equal(t, "identity", r.Header.Get("Accept-Encoding"))
		assert.Contains(t, r.Header.Get("Accept"), "text/plain;version=0.0.4")
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, smallPage)
	})
	r := newReader(t, Options{URL: s.URL + "/metrics"})
	before := time.Now()
	got, err := r.Read(t.Context())
	require.NoError(t, err)
	assert.Equal(t, VLLM, got.Engine)
	assert.Equal(t, new(5.0), got.Value(PromptTokens))
	assert.False(t, got.At.Before(before) || got.At.After(time.Now()))
	assert.Equal(t, s.URL+"/metrics", r.URL())
}

func TestOneConnectionIsUsedForAllReadings(t *testing.T) {
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, smallPage) }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	r := newReader(t, Options{URL: s.URL})
	for range 5 {
		_, err := r.Read(t.Context())
		require.NoError(t, err)
	}
	assert.EqualValues(t, 1, connections.Load())
}

// Every way in which an address can be wrong says so, and in its own words.
func TestWhyThereAreNoMetrics(t *testing.T) {
	answer := func(status int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if name, value, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, row := range []struct {
		name    string
		handler http.HandlerFunc
		o       Options
		kind    Kind
		says    []string
		fine    bool // as the default address
	}{
		{name: "nothing is there", handler: answer(404, "", "not found"), kind: NotFound, says: []string{"404 Not Found", "--metrics"}, fine: true},
		{name: "llama.cpp without --metrics", handler: answer(501, "Content-Type: application/json", `{"error":{}}`), kind: NotFound, says: []string{"501", "--metrics"}, fine: true},
		{name: "only POST", handler: answer(405, "", ""), kind: NotFound, says: []string{"405"}, fine: true},
		{name: "a login page", handler: answer(200, "Content-Type: text/html; charset=utf-8", "<html>"), kind: NotPrometheus, says: []string{"HTML", "login"}, fine: true},
		{name: "a login page that says nothing of itself", handler: answer(200, "Content-Type: text/plain", "<!doctype html>"), kind: NotPrometheus, says: []string{"HTML"}, fine: true},
		{name: "trtllm-serve's JSON", handler: answer(200, "Content-Type: application/json", "[]"), kind: NotPrometheus, says: []string{"JSON", "/prometheus/metrics"}, fine: true},
		{name: "an empty page", handler: answer(200, "", ""), kind: NotPrometheus, says: []string{"empty"}, fine: true},
		{name: "a text", handler: answer(200, "", "It works!\n"), kind: NotPrometheus, says: []string{"no Prometheus text"}, fine: true},
		{name: "protobuf", handler: answer(200, "Content-Type: application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily", "\x0a"), kind: NotPrometheus, says: []string{"protobuf"}, fine: true},
		{name: "gzip", handler: answer(200, "Content-Encoding: gzip", "\x1f\x8b"), kind: NotPrometheus, says: []string{"gzip"}, fine: true},
		{name: "node exporter", handler: answer(200, "", "node_cpu_seconds_total{cpu=\"0\"} 5\n"), kind: UnknownEngine, says: []string{"vllm, sglang"}, fine: true},
		{name: "the server is broken", handler: answer(500, "", "boom"), kind: BadStatus, says: []string{"500 Internal Server Error"}},
		{name: "the server is overloaded", handler: answer(503, "", ""), kind: BadStatus, says: []string{"503"}},
		{name: "a redirect", handler: answer(302, "Location: https://login.example/?next=secret", ""), kind: BadStatus, says: []string{"302", "https://login.example", "not followed"}},
		{name: "a redirect to nowhere", handler: answer(301, "", ""), kind: BadStatus, says: []string{"nowhere"}},
		{name: "too long", handler: answer(200, "", smallPage+strings.Repeat("# x\n", 100)), o: Options{MaxBytes: 100}, kind: TooLarge, says: []string{"longer than 100 bytes"}},
		{name: "another key", handler: answer(401, "", `{"error":"sk-other"}`), kind: Unauthorized, says: []string{"401", "key of its own", "base URL's origin"}, fine: true},
		{name: "forbidden", handler: answer(403, "", ""), kind: Unauthorized, says: []string{"403"}, fine: true},
		{name: "the connection ends within the page", handler: cutShort, kind: Broken, says: []string{"ended within"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serve(t, row.handler)
			row.o.URL = s.URL + "/metrics"
			gone := mustFail(t, newReader(t, row.o))
			assert.Equal(t, row.kind, gone.Kind, gone.Reason)
			for _, part := range row.says {
				assert.Contains(t, gone.Reason, part)
			}
			assert.NotContains(t, gone.Error(), "secret")
			assert.NotContains(t, gone.Error(), "sk-other", "an answer to a wrong key may repeat it")
			assert.Contains(t, gone.Error(), s.URL+"/metrics")
			assert.False(t, gone.Fine(), "this address was asked for")
			row.o.Implied = true
			assert.Equal(t, row.fine, mustFail(t, newReader(t, row.o)).Fine(), "as the default address")
		})
	}
}

func mustFail(t *testing.T, r *Reader) *Unavailable {
	t.Helper()
	_, err := r.Read(t.Context())
	var gone *Unavailable
	require.ErrorAs(t, err, &gone)
	return gone
}

// cutShort promises more than it sends.
func cutShort(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, smallPage)
}

func TestTooManySamples(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, smallPage) })
	r := newReader(t, Options{URL: s.URL})
	r.maxSamples = 1
	gone := mustFail(t, r)
	assert.Equal(t, TooLarge, gone.Kind)
	assert.Contains(t, gone.Reason, "more than 1 samples")
}

// An endless page ends at the limit, and so does what it costs.
func TestAnEndlessPageIsBounded(t *testing.T) {
	line := `vllm:prompt_tokens_total{engine="` + strings.Repeat("e", 1000) + "\"} 1\n"
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}
	})
	r := newReader(t, Options{URL: s.URL})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	assert.Equal(t, TooLarge, mustFail(t, r).Kind)
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4*MaxBytes))
}

func TestRefusedConnection(t *testing.T) {
	s := serve(t, nil)
	s.Close()
	r := newReader(t, Options{URL: s.URL, Implied: true})
	gone := mustFail(t, r)
	assert.Equal(t, Unreachable, gone.Kind)
	assert.Contains(t, gone.Reason, "nothing listens there")
	assert.True(t, gone.Fine())
}

func TestUnknownHost(t *testing.T) {
	r := newReader(t, Options{URL: "http://user:hunter2@no-such-host.invalid/metrics?token=hunter3"})
	r.client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "no-such-host.invalid", IsNotFound: true}}
	}
	gone := mustFail(t, r)
	assert.Equal(t, Unreachable, gone.Kind)
	assert.Contains(t, gone.Error(), "http://no-such-host.invalid/metrics?[redacted]: no such host")
	assert.NotContains(t, gone.Error(), "hunter")
	assert.NotContains(t, r.URL(), "hunter")
	r.client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("something else")
	}
	gone = mustFail(t, r)
	assert.Equal(t, Broken, gone.Kind)
	assert.NotContains(t, gone.Error(), "hunter", "net/http repeats the query in its errors")
}

func TestDialError(t *testing.T) {
	r := newReader(t, Options{URL: "http://host/metrics", DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("network is unreachable")}
	}})
	gone := mustFail(t, r)
	assert.Equal(t, Unreachable, gone.Kind)
	assert.Contains(t, gone.Reason, "network is unreachable")
}

func TestPrivateAuthority(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, smallPage) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	gone := mustFail(t, newReader(t, Options{URL: s.URL}))
	assert.Equal(t, Unreachable, gone.Kind)
	assert.Contains(t, gone.Reason, "CAPACITY_CA_FILE")
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	_, err := newReader(t, Options{URL: s.URL, RootCAs: pool}).Read(t.Context())
	require.NoError(t, err)
}

func TestHTTP2InClearText(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "vllm:num_requests_running %d\n", r.ProtoMajor)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	for _, row := range []struct {
		o    Options
		want float64
		why  string
	}{
		{Options{BaseURL: s.URL + "/v1", HTTP2: true}, 2, ""},
		{Options{BaseURL: s.URL + "/v1"}, 1, ""},
		{Options{BaseURL: "http://elsewhere/v1", HTTP2: true}, 1, "what the base URL speaks says nothing of another server"},
	} {
		row.o.URL = s.URL + "/metrics"
		got, err := newReader(t, row.o).Read(t.Context())
		require.NoError(t, err)
		assert.Equal(t, row.want, got.Values[Running], row.why)
	}
}

// slowly answers after a time, or in pieces with a time between them.
func slowly(delay time.Duration, pieces ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, p := range pieces {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(delay):
			}
			_, _ = io.WriteString(w, p)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// inBubble serves h in virtual time; get makes a reader for it.
func inBubble(t *testing.T, h http.HandlerFunc, test func(t *testing.T, o Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		server := &http.Server{Handler: h}
		go func() { _ = server.Serve(l) }()
		test(t, Options{URL: "http://server/metrics", BaseURL: "http://server/v1", DialContext: l.DialContext})
		require.NoError(t, server.Shutdown(context.Background()))
	})
}

func TestTimeLimit(t *testing.T) {
	for _, row := range []struct {
		name    string
		handler http.HandlerFunc
		ok      bool
		took    time.Duration
	}{
		{"just in time", slowly(4*time.Second, smallPage), true, 4 * time.Second},
		{"no answer", slowly(time.Hour, smallPage), false, 5 * time.Second},
		{"drop by drop", slowly(time.Second, "vllm:num_requests_running 1\n", "# a\n", "# b\n", "# c\n", "# d\n", "# e\n"), false, 5 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, row.handler, func(t *testing.T, o Options) {
				r := newReader(t, o)
				began := time.Now()
				_, err := r.Read(t.Context())
				assert.Equal(t, row.took, time.Since(began))
				if row.ok {
					require.NoError(t, err)
				} else {
					var gone *Unavailable
					require.ErrorAs(t, err, &gone)
					assert.Equal(t, TooSlow, gone.Kind)
					assert.Contains(t, gone.Reason, "5s")
				}
				r.Close()
			})
		})
	}
}

func TestCallerGivesUp(t *testing.T) {
	inBubble(t, slowly(time.Hour, smallPage), func(t *testing.T, o Options) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("ctrl-C"))
		defer cancel()
		r := newReader(t, o)
		_, err := r.Read(ctx)
		var gone *Unavailable
		require.ErrorAs(t, err, &gone)
		assert.Equal(t, Interrupted, gone.Kind)
		assert.Contains(t, gone.Reason, "ctrl-C")
		r.Close()
	})
}

// The key goes to the one host it is for (WIRE 25).
func TestWhereTheKeyGoes(t *testing.T) {
	for _, row := range []struct {
		name, base, url string
		sent            bool
	}{
		{"beside the base URL", "http://host:8000/v1", "http://host:8000/metrics", true},
		{"the default port written out", "http://host/v1", "http://host:80/metrics", true},
		{"and of https", "https://host:443/v1", "https://host/metrics", true},
		{"upper case", "http://HOST:8000/v1", "http://host:8000/metrics", true},
		{"another port", "http://host:8000/v1", "http://host:8002/metrics", false},
		{"another host", "http://host/v1", "http://other/metrics", false},
		{"a host that begins alike", "http://host/v1", "http://host.evil.example/metrics", false},
		{"the host as userinfo", "http://host/v1", "http://host@evil.example/metrics", false},
		{"another scheme", "https://host:8000/v1", "http://host:8000/metrics", false},
		{"no base URL", "", "http://host:8000/metrics", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newReader(t, Options{URL: row.url, BaseURL: row.base, APIKey: "sk-key", Headers: []config.Header{{Name: "X-Tenant", Value: "t1"}, {Name: "Host", Value: "virtual"}}})
			req := r.request(t.Context(), r.places[0], acceptText)
			assert.Equal(t, row.sent, r.KeySent())
			if row.sent {
				assert.Equal(t, "Bearer sk-key", req.Header.Get("Authorization"))
				assert.Equal(t, "t1", req.Header.Get("X-Tenant"))
				assert.Equal(t, "virtual", req.Host)
				return
			}
			assert.Empty(t, req.Header.Get("Authorization"))
			assert.Empty(t, req.Header.Get("X-Tenant"))
			assert.NotEqual(t, "virtual", req.Host)
		})
	}
}

func TestKeyOnTheWire(t *testing.T) {
	var seen atomic.Value
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, smallPage)
	})
	for _, row := range []struct {
		name string
		o    Options
		want string
	}{
		{"the key", Options{BaseURL: s.URL + "/v1", APIKey: "sk-key"}, "Bearer sk-key"},
		{"a header of that name replaces it", Options{BaseURL: s.URL + "/v1", APIKey: "sk-key", Headers: []config.Header{{Name: "Authorization", Value: "Basic x"}}}, "Basic x"},
		{"none is set", Options{BaseURL: s.URL + "/v1"}, ""},
		{"elsewhere", Options{BaseURL: "http://elsewhere/v1", APIKey: "sk-key"}, ""},
		{"the address has its own", Options{URL: strings.Replace(s.URL, "http://", "http://me:pw@", 1), BaseURL: "http://elsewhere/v1", APIKey: "sk-key"}, "Basic bWU6cHc="},
		{"the address has its own, at the base URL", Options{URL: strings.Replace(s.URL, "http://", "http://me:pw@", 1), BaseURL: s.URL + "/v1", APIKey: "sk-key"}, "Basic bWU6cHc="},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.o.URL == "" {
				row.o.URL = s.URL + "/metrics"
			}
			_, err := newReader(t, row.o).Read(t.Context())
			require.NoError(t, err)
			assert.Equal(t, row.want, seen.Load())
		})
	}
}

func TestAboutTheKey(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	for _, row := range []struct {
		o    Options
		says string
	}{
		{Options{BaseURL: "http://elsewhere/v1", APIKey: "sk-key"}, "a key of its own"},
		{Options{BaseURL: s.URL + "/v1"}, "CAPACITY_API_KEY is not set"},
		{Options{BaseURL: s.URL + "/v1", APIKey: "sk-key"}, "behind another key"},
	} {
		row.o.URL = s.URL + "/metrics"
		gone := mustFail(t, newReader(t, row.o))
		assert.Contains(t, gone.Reason, row.says)
		assert.NotContains(t, gone.Error(), "sk-key")
	}
}

func TestTheSecondPlace(t *testing.T) {
	var asked atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path == "/prometheus/metrics" {
			_, _ = io.WriteString(w, "trtllm_num_requests_running 3\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "[]")
	})
	base := s.URL + "/v1"
	r := newReader(t, Options{URL: DefaultURL(base), BaseURL: base, Implied: true})
	got, err := r.Read(t.Context())
	require.NoError(t, err)
	assert.Equal(t, TensorRT, got.Engine)
	assert.Equal(t, s.URL+"/prometheus/metrics", r.URL())
	assert.EqualValues(t, 2, asked.Load())
	_, err = r.Read(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 3, asked.Load(), "from then on the first is left alone: reading trtllm-serve's JSON takes it from another reader")

	gone := mustFail(t, newReader(t, Options{URL: DefaultURL(base), BaseURL: base}))
	assert.Equal(t, NotPrometheus, gone.Kind, "an address that was asked for is the only one")
}

func TestNoSecondPlaceBehindADeadServer(t *testing.T) {
	dials := 0
	r := newReader(t, Options{URL: "http://host/metrics", BaseURL: "http://host/v1", Implied: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		dials++
		return nil, &net.OpError{Op: "dial", Err: errors.New("host is down")}
	}})
	mustFail(t, r)
	assert.Equal(t, 1, dials)
}

func TestStartInTheHeader(t *testing.T) {
	var start atomic.Value
	start.Store("536971077")
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Process-Start-Time-Unix", start.Load().(string))
		_, _ = io.WriteString(w, fixture(t, "llamacpp-b11549.prom"))
	})
	r := newReader(t, Options{URL: s.URL})
	read := func() *Snapshot {
		got, err := r.Read(t.Context())
		require.NoError(t, err)
		return got
	}
	a, b := read(), read()
	assert.False(t, Between(a, b).Restarted)
	start.Store("536990000")
	c := read()
	assert.True(t, Between(a, c).Restarted, "the same numbers from another process")
	start.Store("NaN")
	assert.False(t, Between(a, read()).Restarted)
}

func TestSameOrigin(t *testing.T) {
	u, err := url.Parse("http://host")
	require.NoError(t, err)
	assert.False(t, sameOrigin(u, nil))
	assert.False(t, sameOrigin(nil, nil), "nothing is not the same as nothing")
}
