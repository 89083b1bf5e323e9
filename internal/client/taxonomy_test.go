package client

import (
	"bufio"
	"context"
	"crypto/x509"
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

	"anvil-capacity/internal/config"
	"anvil-capacity/internal/record"
)

// acceptServer serves each connection to a real socket with f, and closes it
// then. It gives the base URL.
func acceptServer(t testing.TB, f func(conn *net.TCPConn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	t.Cleanup(func() { _ = ln.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				f(conn.(*net.TCPConn))
			})
		}
	})
	return "http://" + ln.Addr().String() + "/v1"
}

// tcpServer serves each request on a real socket with f, whose return value
// keeps the connection for another one. It gives the base URL.
func tcpServer(t testing.TB, f func(conn *net.TCPConn, req *http.Request) (keep bool)) string {
	t.Helper()
	return acceptServer(t, func(conn *net.TCPConn) {
		r := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if !f(conn, req) {
				return
			}
		}
	})
}

// says serves every request with these bytes and closes.
func says(response []byte) func(testing.TB) string {
	return func(t testing.TB) string {
		return tcpServer(t, func(c *net.TCPConn, _ *http.Request) bool {
			_, _ = c.Write(response)
			return false
		})
	}
}

// streams serves every request with this event stream and closes.
func streams(body string) func(testing.TB) string {
	return says(response("200 OK", "text/event-stream", "X-Request-Id: req-7\r\n", []byte(body)))
}

// holds serves the start of an event stream and then does nothing until the
// client is gone.
func holds(start string) func(testing.TB) string {
	return func(t testing.TB) string {
		return tcpServer(t, func(c *net.TCPConn, _ *http.Request) bool {
			_, _ = c.Write([]byte(start))
			_, _ = c.Read(make([]byte, 1))
			return false
		})
	}
}

// drips serves the start of an event stream and then the same bytes again and
// again, as fast as they go or with a pause between them, until the client is gone.
func drips(start, again string, pause time.Duration) func(testing.TB) string {
	return func(t testing.TB) string {
		return tcpServer(t, func(c *net.TCPConn, _ *http.Request) bool {
			if _, err := io.WriteString(c, start); err != nil {
				return false
			}
			for {
				if _, err := io.WriteString(c, again); err != nil {
					return false
				}
				if pause > 0 {
					<-time.After(pause)
				}
			}
		})
	}
}

const (
	okHead   = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	sayHello = `data: {"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}` + "\n\n"
	think    = `data: {"choices":[{"index":0,"delta":{"reasoning":"hm"},"finish_reason":null}]}` + "\n\n"
	callTool = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t"}]},"finish_reason":null}]}` + "\n\n"
	useCount = `data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}` + "\n\n"
	saysDone = "data: [DONE]\n\n"
)

func finishes(reason string) string {
	return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`+"\n\n", reason)
}

// closedPort is an address that refuses connections.
func closedPort(t testing.TB) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	return "http://" + ln.Addr().String() + "/v1"
}

// tlsServer serves over TLS with httptest's certificate, for example.com and
// 127.0.0.1, and gives the base URL under another name, or none.
func tlsServer(t testing.TB, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(f)
	s.Config.ErrorLog = quiet
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func pool(s *httptest.Server) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(s.Certificate())
	return p
}

// faultRow makes one real fault and says what must come of it.
type faultRow struct {
	name   string
	server func(testing.TB) string // gives the base URL
	change func(testing.TB, *Options)
	want   record.Detail
	says   []string // each stands in the message
	why    string
}

const shortLimit = 150 * time.Millisecond

func stall(_ testing.TB, o *Options) { o.StallTimeout = shortLimit }
func total(_ testing.TB, o *Options) { o.Timeout = shortLimit }

var faultRows = []faultRow{
	{name: "unknown host", want: record.DNS,
		server: func(testing.TB) string { return "http://no-such-host.invalid:81/v1" }, why: ".invalid never resolves (RFC 2606)"},
	{name: "closed port", want: record.Connect, says: []string{"while connecting", "refused"},
		server: closedPort, why: "the kernel answers a SYN to a closed port with a reset"},
	{name: "connect never answered", want: record.Connect, says: []string{"no connection in time, while connecting"},
		server: func(testing.TB) string { return "http://127.0.0.1:1/v1" },
		change: func(_ testing.TB, o *Options) {
			o.StallTimeout = shortLimit
			o.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		}, why: "a dropped SYN: the limit passes while there is no connection, and that is what must be said"},
	{name: "certificate of another host", want: record.TLS, says: []string{"in the TLS handshake", "certificate is valid for"},
		server: func(t testing.TB) string {
			s := tlsServer(t, nil)
			pools.Store(t.Name(), pool(s))
			return strings.Replace(s.URL, "127.0.0.1", "localhost", 1) + "/v1"
		},
		change: func(t testing.TB, o *Options) { o.RootCAs = sharedPool(t) },
		why:    "the certificate is for example.com and 127.0.0.1"},
	{name: "untrusted certificate", want: record.TLS, says: []string{"in the TLS handshake", "unknown authority"},
		server: func(t testing.TB) string { return tlsServer(t, nil).URL + "/v1" }, why: "TLS verifies unless a CA is given"},
	{name: "TLS to a clear-text port", want: record.TLS, says: []string{"in the TLS handshake"},
		server: func(t testing.TB) string {
			return strings.Replace(streams(saysDone)(t), "http://", "https://", 1)
		}, why: "the server cannot answer a ClientHello"},
	{name: "clear text to a TLS port", want: record.HTTPStatus, says: []string{"status 400", "HTTP request to an HTTPS server"},
		server: func(t testing.TB) string {
			return strings.Replace(tlsServer(t, nil).URL, "https://", "http://", 1) + "/v1"
		}, why: "Go's server says so in its own words, which are kept"},
	{name: "TLS alert in clear text", want: record.TransportReset, says: []string{"is the base URL https://?"},
		server: says([]byte("\x15\x03\x01\x00\x02\x02\x46")), why: "other servers answer with an alert record"},
	{name: "status 500", want: record.HTTPStatus,
		server: says(response("500 Internal Server Error", "application/json", "X-Request-Id: req-9\r\n", []byte(`{"error":{"message":"CUDA out of memory","type":"server_error","code":7}}`))),
		says:   []string{"status 500 Internal Server Error", "server_error 7: CUDA out of memory", "request id req-9", "bytes and 0 events received"},
		why:    "the server's code and words are kept"},
	{name: "status 422 of FastAPI", want: record.HTTPStatus, says: []string{"status 422", "stream_options", "extra_forbidden"},
		server: says(response("422 Unprocessable Entity", "application/json", "", []byte(`{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"no"}]}`))),
		why:    "the option that is refused must be named (WIRE 11)"},
	{name: "status 401 with a text body", want: record.HTTPStatus, says: []string{"status 401 Unauthorized: invalid key"},
		server: says(response("401 Unauthorized", "text/plain", "", []byte("invalid key\n"))), why: "not all errors are JSON"},
	{name: "status 502 with a page", want: record.HTTPStatus, says: []string{"status 502", "HTML page titled 502 Bad Gateway"},
		server: says(response("502 Bad Gateway", "text/html", "", []byte("<html><head><title>502 Bad Gateway</title></head></html>"))), why: "a gateway's page"},
	{name: "status 503 whose body never ends", want: record.HTTPStatus, says: []string{"status 503", "loading"},
		server: drips("HTTP/1.1 503 X\r\nContent-Type: text/plain\r\n\r\nloading ", "model ", 0), why: "the body is read to a bound"},
	{name: "redirect", want: record.HTTPStatus, says: []string{"status 307", "not followed", "http://elsewhere.test/v1/chat/completions"},
		server: says(response("307 Temporary Redirect", "", "Location: http://u:pw@elsewhere.test/v1/chat/completions?key=k\r\n", nil)),
		why:    "the key is for one host (WIRE 25), and what a redirect points to can hold secrets"},
	{name: "redirect to nowhere", want: record.HTTPStatus, says: []string{"status 302", "to nowhere"},
		server: says(response("302 Found", "", "", nil)), why: "no Location"},
	{name: "rate limited", want: record.RateLimited, says: []string{"status 429", "retry-after 7", "rate_limit_error 429: slow down"},
		server: says(response("429 Too Many Requests", "application/json", "Retry-After: 7\r\n", []byte(`{"error":{"message":"slow down","type":"rate_limit_error","code":429}}`))),
		why:    "WIRE 11"},
	{name: "page with status 200", want: record.NotEventStream, says: []string{"HTML page titled Sign in", "text/html"},
		server: says(response("200 OK", "text/html", "", []byte("<!doctype html><title>Sign in</title>"))), why: "WIRE 7"},
	{name: "page labelled as an event stream", want: record.NotEventStream, says: []string{"HTML page"},
		server: streams("<html><title>Oops</title>\n</html>"), why: "the label is not the thing"},
	{name: "text labelled as an event stream", want: record.NotEventStream, says: []string{"Internal Server Error"},
		server: streams("Internal Server Error"), why: "no line of it is a field"},
	{name: "whole completion", want: record.NotEventStream, says: []string{"does the server stream?"},
		server: says(response("200 OK", "application/json", "", []byte(`{"choices":[{"message":{"content":"hi"}}]}`))), why: "WIRE 7: TTFT would be E2E"},
	{name: "whole completion labelled as an event stream", want: record.NotEventStream, says: []string{"does the server stream?"},
		server: streams(`{"choices":[{"message":{"content":"hi"}}]}`), why: "the same"},
	{name: "status 204", want: record.NotEventStream, says: []string{"it is empty", "status 204"},
		server: says(response("204 No Content", "", "", nil)), why: "a 2xx without a body is no stream"},
	{name: "binary without end", want: record.NotEventStream, says: []string{"first bytes"},
		server: drips("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n", "\x00\x01\x02\x03\x04\x05\x06\x07", 0), why: "read to a bound only"},
	{name: "unknown encoding", want: record.NotEventStream, says: []string{`"br"`, "identity was asked for"},
		server: says(response("200 OK", "text/event-stream", "Content-Encoding: br\r\n", []byte("x"))), why: "it cannot be read"},
	{name: "bare error with status 200", want: record.UnframedError, says: []string{"BadRequestError 400: too long"},
		server: says(response("200 OK", "application/json", "", []byte(`{"object":"error","message":"too long","type":"BadRequestError","code":400}`))), why: "WIRE 7"},
	{name: "bare error labelled as an event stream", want: record.UnframedError, says: []string{"server_error: boom"},
		server: streams(`{"error":{"message":"boom","type":"server_error"}}`), why: "the same"},
	{name: "bare error in the middle", want: record.UnframedError, says: []string{"without event framing: boom"},
		server: streams(sayHello + `{"error":{"message":"boom"}}` + "\n\n" + saysDone), why: "to an event stream it is an unknown field, and [DONE] does not make it right"},
	{name: "not JSON", want: record.MalformedEvent, says: []string{"event 2 is not the JSON of a chunk", "engine died"},
		server: streams(sayHello + "data: engine died\n\n" + saysDone), why: "not something to skip"},
	{name: "JSON of another type", want: record.MalformedEvent, says: []string{"content"},
		server: streams(`data: {"choices":[{"delta":{"content":5}}]}` + "\n\n" + saysDone), why: "text is a string"},
	{name: "corrupt gzip", want: record.MalformedEvent, says: []string{"the encoded body is corrupt"},
		server: says(response("200 OK", "text/event-stream", "Content-Encoding: gzip\r\n", []byte("not gzip at all"))), why: "the bytes arrived and mean nothing"},
	{name: "line too long", want: record.LineTooLong, says: []string{"longer than this client reads"},
		server: drips(okHead, "data: "+strings.Repeat("x", 64<<10), 0),
		change: func(_ testing.TB, o *Options) { o.Concurrency = 4096 }, why: "a line without end"},
	{name: "error object", want: record.InBandError, says: []string{"event 2 is an error", "server_error 500: boom", "request id req-7", "first bytes", "last bytes"},
		server: streams(sayHello + `data: {"error":{"message":"boom","type":"server_error","code":500}}` + "\n\n" + saysDone), why: "WIRE 10"},
	{name: "error as a string", want: record.InBandError, says: []string{"an error: boom"},
		server: streams(sayHello + `data: {"error":"boom"}` + "\n\n"), why: "it beats the truncation that it caused"},
	{name: "event named error", want: record.InBandError, says: []string{"event 2 is named error: boom"},
		server: streams(sayHello + "event: error\ndata: {\"message\":\"boom\"}\n\n"), why: "WIRE 10"},
	{name: "event named error with text", want: record.InBandError, says: []string{"engine died"},
		server: streams("event: error\ndata: engine died\n\n"), why: "the name alone is enough"},
	{name: "error after what is not JSON", want: record.InBandError, says: []string{"boom"},
		server: streams("data: oops\n\n" + `data: {"error":"boom"}` + "\n\n"), why: "it says more about the cause"},
	{name: "error, then a reset", want: record.InBandError, says: []string{"boom"},
		server: resets(okHead + `data: {"error":"boom"}` + "\n\n"), why: "it says more about the cause"},
	{name: "finish_reason error", want: record.EngineAbort, says: []string{"finish_reason error"},
		server: streams(sayHello + finishes("error") + saysDone), why: "WIRE 10"},
	{name: "finish_reason abort", want: record.EngineAbort, says: []string{"finish_reason abort"},
		server: streams(sayHello + finishes("abort") + useCount + saysDone), why: "SGLang and vLLM say so"},
	{name: "finish_reason content_filter", want: record.ContentFilter, says: []string{"content_filter"},
		server: streams(sayHello + finishes("content_filter") + saysDone), why: "not comparable with a full answer"},
	{name: "cut at an event", want: record.TruncatedStream, says: []string{"neither a finish_reason nor [DONE]", "1 event"},
		server: streams(sayHello), why: "WIRE 8: a close-delimited body ends cleanly wherever it is cut"},
	{name: "cut in an event", want: record.TruncatedStream, says: []string{"1 event"},
		server: streams(sayHello + sayHello[:40]), why: "WIRE 6: a partial event does not count"},
	{name: "cut in a chunked body", want: record.TruncatedStream, says: []string{"cut off before its end"},
		server: says([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n", len(sayHello), sayHello))), why: "the last chunk is missing"},
	{name: "cut in a sized body", want: record.TruncatedStream, says: []string{"cut off before its end"},
		server: says([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 999\r\n\r\n" + sayHello)), why: "most of it is missing"},
	{name: "empty stream", want: record.TruncatedStream, says: []string{"0 bytes and 0 events"},
		server: streams(""), why: "nothing after a 200"},
	{name: "comments only", want: record.TruncatedStream, says: []string{"0 events"},
		server: streams(": queued\n\n: queued\n\n"), why: "a stream that ended before it began"},
	{name: "reset in the stream", want: record.TransportReset, says: []string{"in the middle of the answer", "connection reset by peer", "1 event"},
		server: resets(okHead + sayHello), why: "a killed server"},
	{name: "reset before the response", want: record.TransportReset, says: []string{"before any response"},
		server: resets(""), why: "a fresh connection is not stale"},
	{name: "broken chunk header", want: record.TransportReset, says: []string{"invalid byte in chunk length"},
		server: says([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")), why: "HTTP itself is broken"},
	{name: "no header", want: record.StallTimeout, says: []string{"no response header for 150ms"},
		server: holds(""), change: stall, why: "WIRE 12"},
	{name: "no header, its own limit", want: record.StallTimeout, says: []string{"no response header for 150ms"},
		server: holds(""), change: func(_ testing.TB, o *Options) { o.HeaderTimeout = shortLimit }, why: "WIRE 12: headers by their own"},
	{name: "silence in the stream", want: record.StallTimeout, says: []string{"no output for 150ms", "own limit", "1 event"},
		server: holds(okHead + sayHello), change: stall, why: "WIRE 12"},
	{name: "heartbeats", want: record.StallTimeout, says: []string{"no output for 150ms"},
		server: drips(okHead+sayHello, ": ping\n\ndata:\n\ndata: null\n\n\n", time.Millisecond), change: stall, why: "WIRE 5: they are not output"},
	{name: "empty deltas", want: record.StallTimeout, says: []string{"no output for 150ms"},
		server: drips(okHead, `data: {"choices":[{"index":0,"delta":{"content":""}}]}`+"\n\n", time.Millisecond), change: stall, why: "WIRE 14"},
	{name: "slow drip of text", want: record.TotalTimeout, says: []string{"not complete after 150ms", "own limit"},
		server: drips(okHead, sayHello, 5*time.Millisecond), change: total, why: "each event breaks the silence, the whole is still bounded"},
	{name: "white space without end", want: record.TotalTimeout, says: []string{"0 events"},
		server: drips(okHead, strings.Repeat("\n", 4096), 0), change: total, why: "WIRE 12"},
	{name: "white space without end, no label", want: record.TotalTimeout, says: []string{"0 events"},
		server: drips("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("\n", 4096), 0), change: total, why: "what cannot be told apart must end too"},
	{name: "repetition without end", want: record.TotalTimeout, says: []string{"not complete"},
		server: drips(okHead, strings.Repeat(sayHello, 16), 0), change: total, why: "WIRE 12: bounded by the limit and the capture"},
	{name: "empty answer", want: record.EmptyOutput, says: []string{"no text (finish_reason stop)"},
		server: streams(finishes("stop") + saysDone), why: "complete and empty"},
	{name: "[DONE] alone", want: record.EmptyOutput, says: []string{"no text"}, server: streams(saysDone), why: "complete and empty"},
	{name: "reasoning only", want: record.ReasoningOnly, says: []string{"1 event with reasoning", "finish_reason length", "CAPACITY_MAX_TOKENS"},
		server: streams(think + finishes("length") + saysDone), why: "reasoning ate the budget"},
	{name: "tool calls only", want: record.ToolCallsOnly, says: []string{"1 event with tool calls", "finish_reason tool_calls"},
		server: streams(think + callTool + finishes("tool_calls") + saysDone), why: "tokens, and no text"},
}

// resets serves these bytes and then resets the connection.
func resets(start string) func(testing.TB) string {
	return func(t testing.TB) string {
		return tcpServer(t, func(c *net.TCPConn, _ *http.Request) bool {
			_, _ = c.Write([]byte(start))
			_ = c.SetLinger(0)
			return false
		})
	}
}

// pools hands a certificate pool from a row's server to its options.
var pools sync.Map

func sharedPool(t testing.TB) *x509.CertPool {
	p, _ := pools.Load(t.Name())
	return p.(*x509.CertPool)
}

func TestTaxonomy(t *testing.T) {
	seen := map[record.Detail]bool{record.MissingUsage: true} // judged by load, whose TestMissingUsage makes it
	var mu sync.Mutex
	t.Run("rows", func(t *testing.T) {
		for _, row := range faultRows {
			t.Run(strings.NewReplacer(" ", "_", "/", "_").Replace(row.name), func(t *testing.T) {
				t.Parallel()
				o := Options{Timeout: 20 * time.Second, StallTimeout: 10 * time.Second, APIKey: "sk-canary-0123456789"}
				o.BaseURL = row.server(t)
				if row.change != nil {
					row.change(t, &o)
				}
				c, err := New(o)
				require.NoError(t, err)
				t.Cleanup(c.Close)
				obs := c.Complete(t.Context(), testBody)
				checkFault(t, row, obs)
				mu.Lock()
				seen[row.want] = true
				mu.Unlock()
			})
		}
	})
	seen[record.StaleConnection], seen[record.Canceled] = true, true // TestStaleConnection, TestCanceled; load's guard looks for them
	for _, fault := range record.Taxonomy {
		assert.True(t, seen[fault.Detail], "no test makes the fault %s", fault.Detail)
	}
}

// checkFault compares what came of a real fault with its row.
func checkFault(t *testing.T, row faultRow, obs Observation) {
	t.Helper()
	require.NotNil(t, obs.Failure, row.why)
	f := obs.Failure
	assert.Equal(t, row.want, f.Detail, "%s: %s", row.why, f.Message)
	assert.Equal(t, record.ClassOf(row.want), f.Class)
	for _, text := range row.says {
		assert.Contains(t, f.Message, text, row.why)
	}
	assert.Contains(t, f.Message, "after ", "how long it took")
	assert.NotContains(t, f.Message, "sk-canary")
	assert.NotContains(t, f.Message, "pw@")
	assert.NotContains(t, f.Message, "\n")
	assert.False(t, obs.Start.IsZero())
	assert.False(t, obs.End.Before(obs.Start))
	if obs.HasTTFT && obs.HasE2E {
		assert.LessOrEqual(t, obs.TTFT, obs.E2E)
	}
	t.Logf("%s: %s", f.Detail, f.Message)
}

// TestStaleConnection closes a kept-alive connection as the next request is
// written. Go's transport would send it again if it were replayable: with a
// GetBody, and a header by which the user calls it idempotent.
func TestStaleConnection(t *testing.T) {
	var requests atomic.Int64
	url := tcpServer(t, func(c *net.TCPConn, _ *http.Request) bool {
		if requests.Add(1) == 1 {
			_, _ = c.Write(okResponse)
			return true
		}
		return false
	})
	c, err := New(Options{BaseURL: url, Timeout: 5 * time.Second, Headers: []config.Header{{Name: "Idempotency-Key", Value: "abcdef"}}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.Nil(t, c.Complete(t.Context(), testBody).Failure)
	obs := c.Complete(t.Context(), testBody)
	require.NotNil(t, obs.Failure)
	assert.Equal(t, record.StaleConnection, obs.Failure.Detail, obs.Failure.Message)
	assert.Contains(t, obs.Failure.Message, "not sent again")
	assert.Contains(t, obs.Failure.Message, "on a reused connection")
	assert.True(t, obs.Response.Connection.Reused)
	assert.EqualValues(t, 2, requests.Load(), "nothing is sent twice (WIRE 13)")
}

// TestStaleWindow breaks a reused connection later: the server had the request.
func TestStaleWindow(t *testing.T) {
	for _, row := range []struct {
		after time.Duration
		want  record.Detail
	}{{StaleWindow - 1, record.StaleConnection}, {StaleWindow, record.TransportReset}, {StaleWindow + 1, record.TransportReset}} {
		synctest.Test(t, func(t *testing.T) {
			first := true
			c, stop := bubble(t, func(w http.ResponseWriter, r *http.Request) {
				if first {
					first = false
					okStream(w, r)
					return
				}
				time.Sleep(row.after)
				panic(http.ErrAbortHandler)
			}, nil)
			defer stop()
			require.Nil(t, c.Complete(t.Context(), testBody).Failure)
			obs := c.Complete(t.Context(), testBody)
			require.NotNil(t, obs.Failure)
			assert.Equal(t, row.want, obs.Failure.Detail, "after %s", row.after)
			assert.Equal(t, row.after, obs.End.Sub(obs.Start))
		})
	}
}

func TestCanceled(t *testing.T) {
	rows := []struct {
		name, start string
		before      bool
	}{
		{name: "before it is sent", before: true},
		{name: "before the header"},
		{name: "in the stream", start: okHead + sayHello},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			sent := make(chan struct{})
			url := tcpServer(t, func(c *net.TCPConn, _ *http.Request) bool {
				_, _ = io.WriteString(c, row.start)
				close(sent)
				_, _ = c.Read(make([]byte, 1))
				return false
			})
			if row.before {
				cancel()
			}
			go func() { <-sent; cancel() }()
			c, err := New(Options{BaseURL: url, Timeout: 20 * time.Second})
			require.NoError(t, err)
			defer c.Close()
			began := time.Now()
			obs := c.Complete(ctx, testBody)
			require.NotNil(t, obs.Failure)
			assert.Equal(t, record.Canceled, obs.Failure.Detail, obs.Failure.Message)
			assert.Contains(t, obs.Failure.Message, "the run ended")
			assert.Less(t, time.Since(began), time.Second, "a request in flight is cancelled within a second")
		})
	}
}

// TestErrorBodiesKeepTheConnection holds that a storm of refusals costs no
// handshakes: a short error body is read to its end.
func TestErrorBodiesKeepTheConnection(t *testing.T) {
	c, s := scripted(t)
	body := []byte(`{"error":"no"}`)
	s.answer(false, response("429 Too Many Requests", "application/json", fmt.Sprintf("Content-Length: %d\r\n", len(body)), body))
	for range 5 {
		assert.Equal(t, record.RateLimited, c.Complete(t.Context(), testBody).Failure.Detail)
	}
	assert.Equal(t, 1, s.dials)
	assert.Len(t, s.got, 5, "each was sent once: nothing is retried")
}

// TestSecretsStayHidden has a server that says all it was told, in every place
// where a message could repeat it.
func TestSecretsStayHidden(t *testing.T) {
	const key, token = "sk-canary-0123456789abcdef", "tenant-canary-0123456789"
	told := `Bearer ` + key + ` and ` + token
	long := strings.Repeat("x", rawShown-12) + key
	rows := []struct {
		name     string
		response []byte
		why      string
	}{
		{"error body", response("401 Unauthorized", "application/json", "", []byte(`{"error":{"message":"`+told+`","type":"`+key+`","code":"`+token+`"}}`)), "wrong key: servers like to repeat it"},
		{"text body", response("401 Unauthorized", "text/plain", "", []byte(told)), "the same as text"},
		{"page title", response("200 OK", "text/html", "", []byte("<html><title>"+told+"</title>")), "the same as a page"},
		{"cut body", response("401 Unauthorized", "text/plain", "", []byte(strings.Repeat("y", HeadBytes-9)+key)), "the bound cuts the key in two"},
		{"location", response("302 Found", "", "Location: http://h.test/"+key+"?"+token+"\r\n", nil), "a redirect with the key in its path"},
		{"request id", response("500 X", "text/plain", "X-Request-Id: "+key+"\r\nRetry-After: "+token+"\r\n", []byte("x")), "headers"},
		{"in-band error", []byte(okHead + `data: {"error":{"message":"` + told + `"}}` + "\n\n"), "in the stream"},
		{"malformed event", []byte(okHead + "data: " + told + "\n\n"), "shown because it is malformed"},
		{"excerpt of a malformed event", []byte(okHead + `data: {"a":"` + strings.Repeat("x", 20) + `" ` + key + strings.Repeat("x", 300) + "\n\n"), "an excerpt cuts it in two"},
		{"first bytes", []byte(okHead + "data: " + long + "\n\n"), "cut by what is shown of the head"},
		{"last bytes", []byte(okHead + sayHello + ": " + key + strings.Repeat("z", rawShown-20) + "\n\n"), "cut by what is shown of the tail"},
		{"finish reason", []byte(okHead + finishes(key) + saysDone), "an artifact keeps finish reasons"},
		{"status line", []byte("HTTP/1.1 " + key + "\r\n\r\n"), "Go's own error repeats it"},
		{"header line", []byte("HTTP/1.1 200 OK\r\n" + told + "\r\n\r\n"), "Go's own error repeats it"},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			c, s := scripted(t, func(o *Options) {
				o.APIKey = key
				o.Headers = []config.Header{{Name: "X-Tenant", Value: token}}
			})
			s.answer(true, row.response)
			obs := c.Complete(t.Context(), testBody)
			require.NotNil(t, obs.Failure)
			all := fmt.Sprintf("%s %s %s %v", obs.Failure.Message, obs.Failure.ErrorType, obs.Response.RequestID, obs.Response.FinishReasons)
			assert.Contains(t, all, hidden, "the check looked at something: %s", row.why)
			for n := 8; n < len(key); n++ {
				require.NotContains(t, all, key[:n], row.why)
				require.NotContains(t, all, key[len(key)-n:], row.why)
			}
			assert.NotContains(t, all, token, row.why)
			require.NotEmpty(t, s.got)
			assert.Equal(t, "Bearer "+key, s.got[0].Header.Get("Authorization"), "it was sent where it belongs")
		})
	}
}
