package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"

	"github.com/openai/openai-go/v3/option"
)

// userAgent is how the suite introduces itself to servers.
const userAgent = "anvil-capacity"

// newTransport makes the connection pool of a Client.
func newTransport(o Options) *http.Transport {
	dial := o.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: ConnectTimeout}).DialContext
	}
	var protocols http.Protocols
	if o.HTTPVersion == HTTP2 {
		protocols.SetHTTP2(true)
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP1(true)
	}
	return &http.Transport{
		// Proxy stays nil: HTTP_PROXY would send the key to another host.
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    TLSTimeout,
		MaxIdleConnsPerHost:    max(o.Concurrency, 1),
		IdleConnTimeout:        IdleTimeout,
		DisableCompression:     true,
		ReadBufferSize:         socketBytes,
		MaxResponseHeaderBytes: HeaderBytes,
		Protocols:              &protocols,
	}
}

// requestOptions are openai-go's options for every request: what Options says
// and nothing that the process environment holds. The constructors of single
// services read no OPENAI_* variable; openai.NewClient reads seven.
func requestOptions(o Options, hc *http.Client) []option.RequestOption {
	opts := []option.RequestOption{
		// With a slash of its own, openai-go leaves the path as it is escaped.
		option.WithBaseURL(strings.TrimRight(o.BaseURL, "/") + "/"),
		option.WithHTTPClient(hc),
		option.WithMaxRetries(0),
		option.WithHeader("User-Agent", userAgent),
		option.WithHeader("Accept-Encoding", "identity"),
	}
	if o.APIKey != "" {
		opts = append(opts, option.WithAPIKey(o.APIKey.Reveal()))
	}
	for _, h := range o.Headers { // net/http takes no Host from here; see sender
		opts = append(opts, option.WithHeader(h.Name, h.Value.Reveal()))
	}
	return opts
}

// httpClient wraps a transport for openai-go. A redirect is an answer and is
// not followed: the key is for one host, and Go would turn the POST into a GET.
func httpClient(tr *connections, host string) *http.Client {
	return &http.Client{
		Transport:     sender{next: tr, host: host},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// sender is the last stop before the transport: it makes a request what it is
// to be on the wire, starts its clock, and keeps the response for itself.
type sender struct {
	next *connections
	host string // of a Host header; "" for the base URL's
}

// RoundTrip sends one request of an exchange. openai-go reads the whole body of
// an error status into memory, so it is given none of it: the exchange has the
// real response.
func (s sender) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	out := req.Clone(httptrace.WithClientTrace(req.Context(), x.trace()))
	s.dress(out, x)
	if req.Body != nil {
		_ = req.Body.Close() // a buffer of openai-go's; out has its own
	}
	s.next.prepare(out)
	x.begin()
	res, err := s.next.RoundTrip(out)
	x.answered(res, err)
	if err != nil {
		return nil, err
	}
	shown := *res
	shown.Body = http.NoBody
	return &shown, nil
}

// dress gives the request its body and takes away what openai-go adds.
func (s sender) dress(out *http.Request, x *exchange) {
	for name := range out.Header {
		if strings.HasPrefix(name, "X-Stainless-") {
			delete(out.Header, name)
		}
	}
	if s.host != "" {
		out.Host = s.host
	}
	// Without GetBody net/http cannot send the request a second time when a
	// kept-alive connection breaks under it (WIRE 13).
	out.GetBody = nil
	out.Body = nil
	if x.body != nil {
		if !x.json {
			out.Header.Set("Accept", "text/event-stream")
		}
		// A bytes.Reader of known length: net/http then sends header and body
		// in one write, where openai-go's own wrapper makes it two.
		out.Body = io.NopCloser(bytes.NewReader(x.body))
		out.ContentLength = int64(len(x.body))
	}
}

// exchangeKey is the context key of the exchange that a request belongs to.
type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}
