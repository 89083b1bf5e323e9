package client

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"anvil-capacity/internal/config"
)

// Values of Options.HTTPVersion.
const (
	HTTP1 = "1.1" // one connection a request in flight; the default
	HTTP2 = "2"   // over TLS, or in clear text by prior knowledge (h2c)
)

// Limits that no setting moves.
const (
	// ConnectTimeout bounds the name lookup and TCP connection of a request,
	// and TLSTimeout its handshake.
	ConnectTimeout = 10 * time.Second
	TLSTimeout     = 10 * time.Second
	// IdleTimeout is how long a connection waits in the pool. It is shorter
	// than the 5 s after which uvicorn, and so vLLM and SGLang, closes a
	// connection: reusing one that the server is about to close is how
	// stale_connection comes about.
	IdleTimeout = 4 * time.Second

	// DrainTimeout and DrainBytes bound what is read after [DONE], so that the
	// connection can be used again (WIRE 9).
	DrainTimeout = 250 * time.Millisecond
	DrainBytes   = 64 << 10
	// EndLinger is how long the rest of a stream may take that has nothing left
	// to wait for but its [DONE]: after a finish_reason (usage may follow), and
	// after a fault (the answer is lost, but how the stream ends is evidence).
	EndLinger = 2 * time.Second
	// HeadTimeout and HeadBytes bound what is read of a body that is not an
	// event stream: an error, a page, a whole completion.
	HeadTimeout = 2 * time.Second
	HeadBytes   = 4 << 10

	// HeaderBytes bounds a response's header.
	HeaderBytes = 256 << 10
	// EventMemoryBytes is what the event readers of all streams may hold
	// together; see EventLimitBytes.
	EventMemoryBytes = 512 << 20
	// StaleWindow is how soon after the request was handed over a reused
	// HTTP/1 connection must break to be called stale. One that the server had
	// closed breaks after a round trip; a server that fails later had the request.
	StaleWindow = time.Second
)

// Bounds of EventLimitBytes, in bytes.
const (
	eventLimitMost  = 8 << 20
	eventLimitLeast = 128 << 10
)

// EventLimitBytes is the longest event, in bytes, that is read at a
// concurrency; a longer one is line_too_long. It is 8 MiB up to 64 streams and
// then falls, so that all streams together hold at most EventMemoryBytes however
// hostile the servers: 2 MiB at 256, 128 KiB at 4,096.
func EventLimitBytes(concurrency int) int {
	return min(max(EventMemoryBytes/max(concurrency, 1), eventLimitLeast), eventLimitMost)
}

// Options say which server a Client talks to and how long it waits. BaseURL is
// required, every other zero value is usable.
type Options struct {
	// BaseURL is what "/chat/completions" and "/models" are appended to, such
	// as http://localhost:8000/v1. It has no userinfo, query or fragment.
	BaseURL string
	// APIKey goes out as a bearer token. With "" no Authorization header is
	// sent, whatever the process environment holds.
	APIKey config.Secret
	// Headers are added to every request. One named Authorization replaces the
	// API key's, one named Host is the name of a virtual host.
	Headers []config.Header
	// RootCAs verify the server's certificate; nil is the system's pool.
	RootCAs *x509.CertPool
	// HTTPVersion is HTTP1 (also for "") or HTTP2.
	HTTPVersion string
	// Concurrency is how many requests will be in flight at once, at most; the
	// pool keeps that many connections. 0 is taken as 1.
	Concurrency int

	// Timeout bounds a request from t0 to the end of its answer: total_timeout.
	// 0 is no bound.
	Timeout time.Duration
	// StallTimeout bounds the silence before, between and after events with
	// generated text, from t0 on: stall_timeout. Comments, heartbeats and blank
	// bytes do not break the silence (WIRE 5, 12). 0 is no bound.
	StallTimeout time.Duration
	// HeaderTimeout bounds the wait for the response header, from t0:
	// stall_timeout too. 0 means StallTimeout; a longer one has no effect,
	// since a header is not output.
	HeaderTimeout time.Duration

	// KeepArrivals fills Observation.Arrivals, 8 bytes an output event and
	// ArrivalsMost events at most.
	KeepArrivals bool

	// DialContext makes connections; nil is the network. For tests.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// managedHeaders are this package's or the protocol's to set: another value
// would change what is measured or break the framing.
var managedHeaders = []string{
	"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect",
	"Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// check gives the base URL parsed, or the first fault.
func (o Options) check() (*url.URL, error) {
	base, err := checkBaseURL(o.BaseURL)
	if err != nil {
		return nil, err
	}
	switch {
	case o.HTTPVersion != "" && o.HTTPVersion != HTTP1 && o.HTTPVersion != HTTP2:
		return nil, fmt.Errorf("HTTP version %q, want %q or %q", o.HTTPVersion, HTTP1, HTTP2)
	case o.Concurrency < 0:
		return nil, fmt.Errorf("concurrency %d, want at least 1", o.Concurrency)
	case o.Timeout < 0 || o.StallTimeout < 0 || o.HeaderTimeout < 0:
		return nil, fmt.Errorf("timeouts %s, %s and %s, want none below 0", o.Timeout, o.StallTimeout, o.HeaderTimeout)
	case strings.ContainsFunc(o.APIKey.Reveal(), isControl):
		return nil, fmt.Errorf("the API key holds a control character, such as a line end")
	}
	for i, h := range o.Headers {
		if err := checkHeader(h); err != nil {
			return nil, fmt.Errorf("header %d: %w", i+1, err)
		}
	}
	return base, nil
}

func checkBaseURL(text string) (*url.URL, error) {
	base, err := url.Parse(text)
	switch {
	case err != nil:
		// The text of err repeats the URL, which may hold a password.
		return nil, fmt.Errorf("the base URL does not parse")
	case base.Scheme != "http" && base.Scheme != "https", base.Hostname() == "":
		return nil, fmt.Errorf("the base URL is not http:// or https:// and a host")
	case base.User != nil:
		return nil, fmt.Errorf("the base URL holds userinfo: give the key as the API key")
	case base.RawQuery != "" || base.ForceQuery || strings.Contains(text, "#"):
		return nil, fmt.Errorf("the base URL holds a query or a fragment, which would not be sent")
	}
	return base, nil
}

// checkHeader never repeats any of a header: with its colon in the wrong place
// even the name can be part of a secret.
func checkHeader(h config.Header) error {
	if h.Name == "" || strings.ContainsFunc(h.Name, notToken) {
		return fmt.Errorf("the name is not a token of RFC 9110")
	}
	for _, name := range managedHeaders {
		if strings.EqualFold(name, h.Name) {
			return fmt.Errorf("%s is set by the suite", name)
		}
	}
	if strings.ContainsFunc(h.Value.Reveal(), isControl) {
		return fmt.Errorf("the value holds a control character, such as a line end")
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// notToken says that a rune cannot stand in a header's name.
func notToken(r rune) bool {
	isAlnum := r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
	return !isAlnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// hostHeader gives the value of a header named Host, "" for none.
func hostHeader(o Options) string {
	for _, h := range o.Headers {
		if strings.EqualFold(h.Name, "Host") {
			return h.Value.Reveal()
		}
	}
	return ""
}
