package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
)

// Kind says why there are no metrics.
type Kind string

// Kinds of absence.
const (
	NotConfigured Kind = "not_configured" // no address
	NotFound      Kind = "not_found"      // 404, 405 or 501: the server has none there
	Unreachable   Kind = "unreachable"    // no connection: refused, no such host, TLS
	TooSlow       Kind = "too_slow"       // not read within the time limit
	Unauthorized  Kind = "unauthorized"   // 401 or 403
	BadStatus     Kind = "bad_status"     // another status that is not 200, a redirect included
	NotPrometheus Kind = "not_prometheus" // 200 with something else: a page, JSON, an encoding
	TooLarge      Kind = "too_large"      // longer than the limit, or more samples
	UnknownEngine Kind = "unknown_engine" // Prometheus text without a name of the table
	Broken        Kind = "broken"         // the connection broke while reading
	Interrupted   Kind = "interrupted"    // the caller gave up
)

// Unavailable is the error of a reading that gave nothing. It holds no secret.
type Unavailable struct {
	Kind Kind
	// URL is the address without userinfo and query; "" for none.
	URL string
	// Reason says it in words, with a hint where there is one.
	Reason string
	// Implied says that no one had asked for the address.
	Implied bool
}

// Error is the reason with the address.
func (u *Unavailable) Error() string {
	if u.URL == "" {
		return "reading the engine's metrics: " + u.Reason
	}
	return fmt.Sprintf("reading the engine's metrics at %s: %s", u.URL, u.Reason)
}

// Fine says that the absence is nothing to report: no metrics were asked for,
// and the default address has none.
func (u *Unavailable) Fine() bool {
	return u.Kind == NotConfigured || u.Implied && slices.Contains([]Kind{NotFound, Unreachable, Unauthorized, NotPrometheus, UnknownEngine}, u.Kind)
}

// unavailable dresses a reason with the place.
func (r *Reader) unavailable(at *url.URL, kind Kind, format string, args ...any) *Unavailable {
	return &Unavailable{Kind: kind, URL: shownURL(at), Reason: fmt.Sprintf(format, args...), Implied: r.options.Implied}
}

// ofTransport explains why no response came, or no whole one.
func (r *Reader) ofTransport(ctx context.Context, at *url.URL, err error) *Unavailable {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // the outer one repeats the URL, query and all
	}
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var operation *net.OpError
	switch {
	case ctx.Err() != nil:
		return r.unavailable(at, Interrupted, "the reading was given up: %v", context.Cause(ctx))
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		return r.unavailable(at, TooSlow, "it was not read within %v; the engine may be too busy to answer", r.timeout())
	case errors.Is(err, syscall.ECONNREFUSED):
		return r.unavailable(at, Unreachable, "nothing listens there (connection refused)")
	case errors.As(err, &dns):
		return r.unavailable(at, Unreachable, "no such host: %s", dns.Err)
	case errors.As(err, &certificate):
		return r.unavailable(at, Unreachable, "its certificate is not trusted: %v; a private authority goes into CAPACITY_CA_FILE", certificate.Err)
	case errors.As(err, &operation) && operation.Op == "dial":
		return r.unavailable(at, Unreachable, "no connection: %v", operation.Err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return r.unavailable(at, Broken, "the connection ended within the answer")
	}
	return r.unavailable(at, Broken, "%v", err)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// ofStatus explains a response that is not 200.
func (r *Reader) ofStatus(at *url.URL, res *http.Response) *Unavailable {
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return r.unavailable(at, Unauthorized, "it answers %s: %s", res.Status, r.aboutKey(at))
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented:
		return r.unavailable(at, NotFound, "it answers %s: the server has no metrics there (llama.cpp needs --metrics, SGLang --enable-metrics; Triton has them on port 8002)", res.Status)
	case code >= 300 && code < 400:
		return r.unavailable(at, BadStatus, "it answers %s, a redirect to %s, which is not followed: a key is for one host; give the final address", res.Status, redirectHost(res))
	}
	return r.unavailable(at, BadStatus, "it answers %s", res.Status)
}

// aboutKey says which key was sent and why not another.
func (r *Reader) aboutKey(at *url.URL) string {
	switch {
	case !sameOrigin(at, r.base):
		return "it stands behind a key of its own, and CAPACITY_API_KEY goes to the base URL's origin alone; open it to this machine, or give an address under the base URL's origin"
	case r.options.APIKey == "" && len(r.options.Headers) == 0:
		return "it wants a key, and CAPACITY_API_KEY is not set"
	}
	return "it does not take CAPACITY_API_KEY; the metrics are behind another key"
}

func redirectHost(res *http.Response) string {
	to, err := res.Location()
	if err != nil {
		return "nowhere"
	}
	return to.Scheme + "://" + to.Host
}

// ofContent says that a response cannot be Prometheus text, by its header; nil
// when it may be.
func (r *Reader) ofContent(at *url.URL, res *http.Response) *Unavailable {
	kind := strings.ToLower(res.Header.Get("Content-Type"))
	switch {
	case res.Header.Get("Content-Encoding") != "" && !strings.EqualFold(res.Header.Get("Content-Encoding"), "identity"):
		return r.unavailable(at, NotPrometheus, "it is encoded as %.40q, though none was asked for", res.Header.Get("Content-Encoding"))
	case strings.HasPrefix(kind, "text/html"):
		return r.ofPage(at, errHTML)
	case strings.HasPrefix(kind, "application/vnd.google.protobuf"):
		return r.unavailable(at, NotPrometheus, "it answers in protobuf, though text was asked for")
	}
	return nil
}

// ofPage explains a body that is no page of metrics.
func (r *Reader) ofPage(at *url.URL, err error) *Unavailable {
	switch {
	case errors.Is(err, errTooLong):
		return r.unavailable(at, TooLarge, "the page is longer than %d bytes", r.limits().bytes)
	case errors.Is(err, errTooMany):
		return r.unavailable(at, TooLarge, "the page has more than %d samples of the engine's metrics", r.limits().samples)
	case errors.Is(err, errHTML):
		return r.unavailable(at, NotPrometheus, "it answers an HTML page, not Prometheus text; is it a login or a dashboard?")
	case errors.Is(err, errJSON):
		return r.unavailable(at, NotPrometheus, "it answers JSON, not Prometheus text (trtllm-serve has that at %s, with return_perf_metrics)", prometheusPath)
	case errors.Is(err, errEmpty):
		return r.unavailable(at, NotPrometheus, "the page is empty")
	case errors.Is(err, errUnparseable):
		return r.unavailable(at, NotPrometheus, "it is no Prometheus text")
	}
	return nil
}
