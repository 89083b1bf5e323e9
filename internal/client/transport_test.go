package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/config"
	"anvil-capacity/internal/record"
)

// okStream is a whole answer as a handler gives it.
func okStream(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, sayHello+finishes("stop")+useCount+saysDone)
}

// okResponse is the same as bytes.
var okResponse = append([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"),
	chunked([]byte(sayHello+finishes("stop")+useCount+saysDone))...)

// TestEnvironmentIsNotRead sets every variable that openai-go reads, and the
// proxies, and finds none of it on the wire.
func TestEnvironmentIsNotRead(t *testing.T) {
	const canary = "env-canary"
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_WEBHOOK_SECRET"} {
		t.Setenv(name, canary)
	}
	t.Setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer "+canary+"\nCookie: "+canary)
	proxied := make(chan string, 8)
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { proxied <- r.URL.String() }))
	t.Cleanup(proxy.Close)
	t.Setenv("OPENAI_BASE_URL", proxy.URL+"/"+canary)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	found := 0
	for _, pair := range os.Environ() {
		if strings.HasPrefix(pair, "OPENAI_") {
			found++
		}
	}
	require.Equal(t, 7, found, "all variables of openai-go are set")

	for _, key := range []config.Secret{"", "sk-mine"} {
		// A host that is not on loopback, since net/http never proxies loopback.
		c, s := scripted(t, func(o *Options) { o.APIKey = key })
		assert.Nil(t, c.conns.pool.Proxy, "net/http reads the proxy variables once a process, so a look at the wire could be too late")
		s.answer(true, okResponse)
		require.Nil(t, c.Complete(t.Context(), testBody).Failure)
		s.answer(true, response("200 OK", "application/json", "", []byte(`{"data":[]}`)))
		_, err := c.Models(t.Context())
		require.NoError(t, err)
		require.Len(t, s.got, 2)
		for _, req := range s.got {
			want := ""
			if key != "" {
				want = "Bearer sk-mine"
			}
			assert.Equal(t, want, req.Header.Get("Authorization"))
			assert.NotContains(t, fmt.Sprint(req.Header), canary)
			assert.Empty(t, req.Header.Get("Openai-Organization")+req.Header.Get("Openai-Project")+req.Header.Get("Cookie"))
			assert.Equal(t, "scripted.test", req.Host)
		}
	}
	assert.Empty(t, proxied, "nothing went through a proxy or to another base URL")
}

// TestRequestOnTheWire holds the exact request: nobody's defaults.
func TestRequestOnTheWire(t *testing.T) {
	c, s := scripted(t, func(o *Options) {
		o.APIKey = "sk-mine"
		o.Headers = []config.Header{{Name: "X-Tenant", Value: "blue"}, {Name: "Host", Value: "virtual.test"}}
	})
	s.answer(false, okResponse)
	require.Nil(t, c.Complete(t.Context(), testBody).Failure)
	req := s.got[0]
	assert.Equal(t, "POST", req.Method)
	assert.Equal(t, "/v1/chat/completions", req.URL.String())
	assert.Equal(t, "virtual.test", req.Host)
	assert.Equal(t, http.Header{
		"Accept":          {"text/event-stream"},
		"Accept-Encoding": {"identity"},
		"Authorization":   {"Bearer sk-mine"},
		"Content-Length":  {fmt.Sprint(len(testBody))},
		"Content-Type":    {"application/json"},
		"User-Agent":      {"anvil-capacity"},
		"X-Tenant":        {"blue"},
	}, req.Header, "no X-Stainless, no Expect, nothing else")
	assert.Equal(t, string(testBody), string(s.bodies[0]))
	assert.Empty(t, req.TransferEncoding, "the length is known")
}

func TestPaths(t *testing.T) {
	for base, want := range map[string]string{
		"http://h.test/v1":        "/v1/chat/completions",
		"http://h.test/v1/":       "/v1/chat/completions",
		"http://h.test":           "/chat/completions",
		"http://h.test/a%2Fb/v1":  "/a%2Fb/v1/chat/completions",
		"http://h.test:8080/x/v1": "/x/v1/chat/completions",
	} {
		c, s := scripted(t, func(o *Options) { o.BaseURL = base })
		s.answer(true, okResponse)
		require.Nil(t, c.Complete(t.Context(), testBody).Failure, base)
		assert.Equal(t, want, s.got[0].RequestURI, base)
	}
}

func TestAuthorizationHeaderReplacesTheKey(t *testing.T) {
	c, s := scripted(t, func(o *Options) {
		o.APIKey = "sk-mine"
		o.Headers = []config.Header{{Name: "Authorization", Value: "Basic abc"}, {Name: "User-Agent", Value: "mine"}}
	})
	s.answer(false, okResponse)
	require.Nil(t, c.Complete(t.Context(), testBody).Failure)
	assert.Equal(t, []string{"Basic abc"}, s.got[0].Header["Authorization"])
	assert.Equal(t, []string{"mine"}, s.got[0].Header["User-Agent"])
}

// writeCounter counts the writes on a connection.
type writeCounter struct {
	net.Conn
	writes *atomic.Int64
}

func (w writeCounter) Write(p []byte) (int, error) {
	w.writes.Add(1)
	return w.Conn.Write(p)
}

// TestRequestIsOneWrite counts the writes of a request: a second one would be a
// packet of its own, and under Nagle or delayed acknowledgements a wait.
func TestRequestIsOneWrite(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(okStream))
	t.Cleanup(s.Close)
	var writes atomic.Int64
	c, err := New(Options{BaseURL: s.URL + "/v1", DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return writeCounter{conn, &writes}, err
	}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for range 3 {
		require.Nil(t, c.Complete(t.Context(), testBody).Failure)
	}
	assert.EqualValues(t, 3, writes.Load(), "header and body go out together")
}

func TestNewRefuses(t *testing.T) {
	rows := []struct {
		name string
		o    Options
		says string
	}{
		{"nothing", Options{}, "not http:// or https:// and a host"},
		{"no scheme", Options{BaseURL: "localhost:8000/v1"}, "not http:// or https://"},
		{"another scheme", Options{BaseURL: "ftp://h/v1"}, "not http:// or https://"},
		{"no host", Options{BaseURL: "http:///v1"}, "and a host"},
		{"userinfo", Options{BaseURL: "http://u:sk-canary@h/v1"}, "userinfo"},
		{"query", Options{BaseURL: "http://h/v1?key=sk-canary"}, "query"},
		{"fragment", Options{BaseURL: "http://h/v1#sk-canary"}, "fragment"},
		{"unparsable", Options{BaseURL: "http://sk-canary\x7f"}, "does not parse"},
		{"HTTP version", Options{BaseURL: "http://h/v1", HTTPVersion: "3"}, `"3"`},
		{"concurrency", Options{BaseURL: "http://h/v1", Concurrency: -1}, "concurrency -1"},
		{"timeout", Options{BaseURL: "http://h/v1", StallTimeout: -1}, "below 0"},
		{"key with a line end", Options{BaseURL: "http://h/v1", APIKey: "sk-canary\n"}, "control character"},
		{"header without a name", Options{BaseURL: "http://h/v1", Headers: []config.Header{{Name: "", Value: "sk-canary"}}}, "header 1"},
		{"header with a bad name", Options{BaseURL: "http://h/v1", Headers: []config.Header{{Name: "sk-canary x", Value: "y"}}}, "token of RFC 9110"},
		{"header with a line end", Options{BaseURL: "http://h/v1", Headers: []config.Header{{Name: "X", Value: "sk-canary\r\nY: z"}}}, "control character"},
		{"managed header", Options{BaseURL: "http://h/v1", Headers: []config.Header{{Name: "accept-encoding", Value: "gzip"}}}, "set by the suite"},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			_, err := New(row.o)
			require.ErrorContains(t, err, row.says)
			assert.ErrorContains(t, err, "making a client: ")
			assert.NotContains(t, err.Error(), "sk-canary")
		})
	}
}

func TestEventLimit(t *testing.T) {
	for _, row := range []struct {
		concurrency, bytes int
		why                string
	}{
		{0, 8 << 20, "taken as 1"},
		{1, 8 << 20, "documents in one event are a few MiB"},
		{64, 8 << 20, "64 of these are EventMemoryBytes"},
		{65, EventMemoryBytes / 65, "from here on they share it"},
		{256, 2 << 20, "a quarter"},
		{4096, 128 << 10, "the most that a cell can have"},
		{100000, 128 << 10, "a chunk has to fit"},
	} {
		assert.Equal(t, row.bytes, EventLimitBytes(row.concurrency), "concurrency %d: %s", row.concurrency, row.why)
	}
}

// TestEventLimitHolds reads events at the limit's n-1, n and n+1 bytes.
func TestEventLimitHolds(t *testing.T) {
	const frame = `data: {"choices":[{"delta":{"content":""}}]}`
	limit := EventLimitBytes(4096)
	for n := limit - 1; n <= limit+1; n++ {
		c, s := scripted(t, func(o *Options) { o.Concurrency = 4096 })
		event := strings.Replace(frame, `""`, `"`+strings.Repeat("x", n-len(frame))+`"`, 1)
		require.Len(t, event, n)
		s.answer(true, []byte(okHead+event+"\n\n"+finishes("stop")+saysDone))
		obs := c.Complete(t.Context(), testBody)
		if n <= limit {
			assert.Nil(t, obs.Failure, "%d bytes", n)
			continue
		}
		require.NotNil(t, obs.Failure, "%d bytes", n)
		assert.Equal(t, record.LineTooLong, obs.Failure.Detail)
	}
}

// http2Server serves HTTP/2 alone and gives options for its client.
func http2Server(t *testing.T, overTLS bool, h http.HandlerFunc) Options {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = quiet
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP2(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	o := Options{HTTPVersion: HTTP2, Concurrency: 8, Timeout: 10 * time.Second}
	if overTLS {
		s.EnableHTTP2 = true
		s.StartTLS()
		o.RootCAs = pool(s)
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	o.BaseURL = s.URL + "/v1"
	return o
}

// TestHTTP2 goes over TLS and in clear text, and has the server leave the
// connection (GOAWAY) while a stream runs on it.
func TestHTTP2(t *testing.T) {
	for name, overTLS := range map[string]bool{"over_TLS": true, "in_clear_text": false} {
		t.Run(name, func(t *testing.T) {
			var others atomic.Int64 // requests not over HTTP/2
			running, finish := make(chan struct{}), make(chan struct{})
			c, err := New(http2Server(t, overTLS, func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 {
					others.Add(1)
				}
				switch body, _ := io.ReadAll(r.Body); string(body) {
				case "long":
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, sayHello)
					w.(http.Flusher).Flush()
					close(running)
					<-finish
					_, _ = io.WriteString(w, finishes("stop")+saysDone)
				case "leave":
					w.Header().Set("Connection", "close") // over HTTP/2 this is a GOAWAY
					okStream(w, r)
				default:
					okStream(w, r)
				}
			}))
			require.NoError(t, err)
			defer c.Close()

			var crowd sync.WaitGroup
			for range 8 {
				crowd.Go(func() { assert.Nil(t, c.Complete(t.Context(), testBody).Failure) })
			}
			crowd.Wait()
			assert.True(t, c.Complete(t.Context(), testBody).Response.Connection.Reused)

			long := make(chan Observation, 1)
			go func() { long <- c.Complete(t.Context(), []byte("long")) }()
			<-running
			require.Nil(t, c.Complete(t.Context(), []byte("leave")).Failure)
			reused := true
			for range 1000 { // until the GOAWAY has come
				obs := c.Complete(t.Context(), testBody)
				if obs.Failure != nil {
					require.Equal(t, record.StaleConnection, obs.Failure.Detail, obs.Failure.Message)
				}
				if reused = obs.Response.Connection.Reused; !reused {
					break
				}
			}
			assert.False(t, reused, "later requests take another connection")
			close(finish)
			obs := <-long
			require.Nil(t, obs.Failure, "a stream that runs is not harmed")
			assert.Equal(t, "hello", obs.Text)
			assert.Zero(t, others.Load())
		})
	}
}

// TestHTTP2IsNotOffered has a server that speaks both get HTTP/1.1, and one that
// speaks only HTTP/1.1 get a hint.
func TestHTTP2IsNotOffered(t *testing.T) {
	var proto atomic.Value
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proto.Store(r.Proto)
		okStream(w, r)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	c, err := New(Options{BaseURL: s.URL + "/v1", RootCAs: pool(s)})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	obs := c.Complete(t.Context(), testBody)
	require.Nil(t, obs.Failure)
	assert.Equal(t, "HTTP/1.1", proto.Load(), "one connection a request in flight, as documented")
	require.NotNil(t, obs.Response.Connection.TLSMS, "the handshake is timed")
	require.NotNil(t, obs.Response.Connection.ConnectMS)
	require.NotNil(t, obs.Response.Connection.HeaderMS)
	assert.Nil(t, obs.Response.Connection.DNSMS, "an address needs no lookup")
	assert.LessOrEqual(t, *obs.Response.Connection.ConnectMS+*obs.Response.Connection.TLSMS, *obs.Response.Connection.HeaderMS)

	again := c.Complete(t.Context(), testBody).Response.Connection
	assert.True(t, again.Reused)
	assert.Nil(t, again.ConnectMS, "nothing was connected")
	assert.Nil(t, again.TLSMS)

	plain := httptest.NewServer(http.HandlerFunc(okStream))
	t.Cleanup(plain.Close)
	two, err := New(Options{BaseURL: plain.URL + "/v1", HTTPVersion: HTTP2, Timeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(two.Close)
	failed := two.Complete(t.Context(), testBody)
	require.NotNil(t, failed.Failure)
	assert.Equal(t, record.TransportReset, failed.Failure.Detail)
	assert.Contains(t, failed.Failure.Message, "does the server speak HTTP/2?")
}

// TestRedirectKeepsTheKey has a server send the client to another one, which
// must hear nothing.
func TestRedirectKeepsTheKey(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var heard atomic.Int64
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard.Add(1) }))
		url := tcpServer(t, func(c *net.TCPConn, _ *http.Request) bool {
			_, _ = c.Write(response(fmt.Sprintf("%d X", status), "", "Location: "+other.URL+"\r\n", nil))
			return false
		})
		c, err := New(Options{BaseURL: url, APIKey: "sk-mine"})
		require.NoError(t, err)
		obs := c.Complete(t.Context(), testBody)
		require.NotNil(t, obs.Failure)
		assert.Equal(t, record.HTTPStatus, obs.Failure.Detail)
		assert.Equal(t, status, obs.Response.HTTPStatus)
		_, err = c.Models(t.Context())
		var refused *StatusError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, other.URL, refused.Location)
		other.Close()
		assert.Zero(t, heard.Load(), "status %d", status)
	}
	t.Run("to_the_same_host", func(t *testing.T) {
		c, s := scripted(t, func(o *Options) { o.APIKey = "sk-mine" })
		s.answer(false, response("302 Found", "", "Location: /v2\r\nContent-Length: 0\r\n", nil))
		obs := c.Complete(t.Context(), testBody)
		require.NotNil(t, obs.Failure)
		assert.Contains(t, obs.Failure.Message, "http://scripted.test/v2")
		assert.Len(t, s.got, 1, "Go would follow with a GET, and the answer to that is not the request's")
	})
}

// TestPoolIsAsLargeAsTheConcurrency counts connections over several rounds. In
// virtual time and with each round settled: on a busy machine net/http gives a
// connection up whose writer has not reported within 50 ms, and a round can begin
// while a dial of the one before is still under way; either costs one more.
func TestPoolIsAsLargeAsTheConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd, rounds = 32, 6
		var dials atomic.Int64
		c, stop := bubble(t, okStream, func(o *Options) {
			connect := o.DialContext
			o.Concurrency = crowd
			o.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				dials.Add(1)
				return connect(ctx, network, address)
			}
		})
		defer stop()
		for range rounds {
			var wave sync.WaitGroup
			for range crowd {
				wave.Go(func() { assert.Nil(t, c.Complete(t.Context(), testBody).Failure) })
			}
			wave.Wait()
			synctest.Wait()
		}
		assert.LessOrEqual(t, dials.Load(), int64(crowd), "%d requests", crowd*rounds)
		assert.Positive(t, dials.Load())
	})
}
