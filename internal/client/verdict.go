package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"anvil-capacity/internal/record"
	"anvil-capacity/internal/sse"
)

// noAnswer says why a request has no response.
func (x *exchange) noAnswer(limit error, canceled bool, opts Options) *fault {
	f := &fault{err: x.err}
	detail, doing, unconnected := x.unconnected()
	var lookup *net.DNSError
	switch {
	case canceled:
		f.detail, f.text = record.Canceled, "the run ended while the request waited for its response"
		f.err = nil
	case limit != nil && unconnected:
		f.detail, f.text = detail, "no connection in time, "+doing
	case limit != nil:
		*f = *limitFault(limit, opts)
	case errors.As(x.err, &lookup):
		f.detail, f.text = record.DNS, "the host name did not resolve"
	case unconnected:
		f.detail, f.text = detail, "no connection, "+doing
	case x.isStale(opts.HTTPVersion):
		f.detail, f.text = record.StaleConnection, "the server had closed the kept-alive connection as the request was written; it was not sent again"
	default:
		f.detail, f.text = record.TransportReset, "the connection broke before any response"+x.hintOfReset(opts)
	}
	return f
}

// isStale says that the request met a connection which its server had left: over
// HTTP/1 one from the pool that broke at once and without a byte, over HTTP/2
// one whose GOAWAY says that the request was not taken. Over HTTP/2 anything else
// is a server that fails: a reset of the stream answers this request, and a
// connection that breaks, or a GOAWAY that counts the request in, takes others
// with it.
func (x *exchange) isStale(httpVersion string) bool {
	if httpVersion == HTTP2 {
		return x.err != nil && strings.Contains(x.err.Error(), gracefulGoAway)
	}
	_, answered := x.firstByte.get()
	return x.reused.Load() && !answered && x.header < StaleWindow
}

// gracefulGoAway is net/http's text for a request that is behind the last one
// which the server takes. It exports no such error. It says the same of a GOAWAY
// with an error code that leaves out the second or a later request of a
// connection: that request was not taken either.
const gracefulGoAway = "graceful shutdown GOAWAY"

// hintOfReset recognises two ends that speak differently. The text looked for is
// net/http's; a changed one costs the hint and nothing else.
func (x *exchange) hintOfReset(opts Options) string {
	switch {
	case strings.Contains(fmt.Sprint(x.err), `malformed HTTP response "\x15\x03`): // a TLS record of type alert
		return "; the port speaks TLS: is the base URL https://?"
	case opts.HTTPVersion == HTTP2 && !x.reused.Load():
		return "; does the server speak HTTP/2?"
	}
	return ""
}

// limitFault says which of the user's limits ended a request.
func limitFault(limit error, opts Options) *fault {
	switch limit {
	case errNoHeader:
		shortest := opts.StallTimeout
		if opts.HeaderTimeout > 0 && (shortest == 0 || opts.HeaderTimeout < shortest) {
			shortest = opts.HeaderTimeout
		}
		return &fault{detail: record.StallTimeout, text: fmt.Sprintf("no response header for %s, this client's own limit", shortest)}
	case errStalled:
		return &fault{detail: record.StallTimeout, text: fmt.Sprintf("no output for %s, this client's own limit", opts.StallTimeout)}
	default:
		return &fault{detail: record.TotalTimeout, text: fmt.Sprintf("the answer was not complete after %s, this client's own limit", opts.Timeout)}
	}
}

// refused says what a status other than 2xx means.
func (c *Client) refused(res *http.Response, server serverError) *fault {
	f := &fault{detail: record.HTTPStatus, server: server,
		text: strings.TrimSpace(fmt.Sprintf("status %d %s", res.StatusCode, http.StatusText(res.StatusCode)))}
	switch {
	case res.StatusCode == http.StatusTooManyRequests:
		f.detail = record.RateLimited
	case res.StatusCode >= 300 && res.StatusCode < 400:
		f.text += ", a redirect, which is not followed, to " + cut(c.safe(location(res)), headerChars)
	}
	if wait := res.Header.Get("Retry-After"); wait != "" {
		f.text += ", retry-after " + cut(c.safe(wait), headerChars)
	}
	return f
}

// headerChars bounds a response header's value in a message.
const headerChars = 200

// location is where a redirect points, without userinfo and query, which can
// hold secrets.
func location(res *http.Response) string {
	u, err := res.Location()
	if err != nil {
		return "nowhere"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// verdict says why a stream failed, nil when it is whole: err is the error of
// its last read, limit and canceled why its context ended.
func (s *stream) verdict(res *http.Response, err, limit error, canceled bool, opts Options) *fault {
	switch {
	case s.fault != nil:
		return s.fault
	case errors.Is(err, sse.ErrTooLong):
		return &fault{detail: record.LineTooLong, text: "a line or event is longer than this client reads", err: err}
	case errors.Is(err, errNotFramed):
		return s.notStream(res)
	}
	if server, ok := s.lost.report(&s.decoder); ok {
		return &fault{detail: record.UnframedError, text: "the body holds an error without event framing", server: server}
	}
	if !s.complete() {
		return s.incomplete(res, err, limit, canceled, opts)
	}
	return s.empty()
}

// notStream says what a body is that is no event stream.
func (s *stream) notStream(res *http.Response) *fault {
	if server, ok := s.lost.report(&s.decoder); ok {
		return &fault{detail: record.UnframedError, text: "the whole body is an error without event framing", server: server}
	}
	what := "it is something else"
	switch head := s.raw.first(); {
	case s.bytes == 0:
		what = "it is empty"
	case isHTML(head):
		what = pageText(head)
	case s.lost.found != nil:
		what = "bare JSON, perhaps a whole completion: does the server stream?"
	}
	return &fault{detail: record.NotEventStream, server: serverError{text: what},
		text: fmt.Sprintf("the body is not an event stream (Content-Type %.80q)", s.safe(res.Header.Get("Content-Type")))}
}

// incomplete says why a stream ended with neither a finish_reason nor [DONE].
func (s *stream) incomplete(res *http.Response, err, limit error, canceled bool, opts Options) *fault {
	stats := s.parser.Stats()
	nothing := s.events == 0 && stats.Fields == 0 && stats.Comments == 0
	switch {
	case canceled:
		return &fault{detail: record.Canceled, text: "the run ended while the answer arrived"}
	case limit != nil:
		return limitFault(limit, opts)
	case errors.Is(err, errEncoding):
		return &fault{detail: record.NotEventStream, text: "the body is encoded, though identity was asked for, in a way that this client cannot read", err: err}
	case isCorrupt(err):
		return &fault{detail: record.MalformedEvent, text: "the encoded body is corrupt", err: err}
	case nothing && (s.bytes > 0 || !s.labelled) && err == io.EOF && (!s.labelled || unlikeStream(s.raw.first())):
		return s.notStream(res)
	case err == io.EOF:
		return &fault{detail: record.TruncatedStream, text: "the body ended cleanly with neither a finish_reason nor [DONE]"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &fault{detail: record.TruncatedStream, text: "the body was cut off before its end, with neither a finish_reason nor [DONE]", err: err}
	}
	return &fault{detail: record.TransportReset, text: "the connection broke in the middle of the answer", err: err}
}

// empty says what is wrong with a complete answer that has no visible text.
func (s *stream) empty() *fault {
	if s.contentChunks > 0 {
		return nil
	}
	why := ""
	if len(s.finishReasons) > 0 {
		why = " (finish_reason " + s.safe(s.finishReasons[len(s.finishReasons)-1]) + ")"
	}
	switch {
	case s.toolCallChunks > 0:
		return &fault{detail: record.ToolCallsOnly, text: fmt.Sprintf("%s with tool calls and no visible text%s", count(int64(s.toolCallChunks), "event"), why)}
	case s.reasoningChunks > 0:
		return &fault{detail: record.ReasoningOnly, text: fmt.Sprintf("%s with reasoning and no visible text%s: a larger CAPACITY_MAX_TOKENS leaves room for both", count(int64(s.reasoningChunks), "event"), why)}
	}
	return &fault{detail: record.EmptyOutput, text: "the answer is complete and has no text" + why}
}
