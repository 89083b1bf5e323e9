package engine

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"

	"anvil-capacity/internal/config"
)

// DefaultTimeout bounds one reading, from the name lookup to the last byte.
const DefaultTimeout = 5 * time.Second

// Options say which metrics are read and how. Every zero value is usable: it
// reads nothing.
type Options struct {
	// URL is where the metrics are, such as http://localhost:8000/metrics; "" is
	// nowhere. Userinfo in it is sent as basic authorization and shown nowhere.
	URL string
	// Implied says that no one asked for URL, it is [DefaultURL]: that nothing is
	// there is then no fault. A second place is tried as well, trtllm-serve's
	// /prometheus/metrics.
	Implied bool
	// BaseURL is that of the requests, such as http://localhost:8000/v1. It says
	// where APIKey and Headers may go, and where [Reader.Identify] asks.
	BaseURL string
	// Model is the one that is measured: where the metrics tell models apart,
	// only its series count. "" takes all.
	Model string

	// APIKey and Headers are the requests'. They go to the base URL's origin
	// alone: a metrics address elsewhere gets neither.
	APIKey  config.Secret
	Headers []config.Header
	// RootCAs verify the server's certificate; nil is the system's pool.
	RootCAs *x509.CertPool
	// HTTP2 reads in HTTP/2, in clear text too, from the base URL's origin; for a
	// server that speaks nothing else.
	HTTP2 bool

	// Timeout bounds one reading; 0 is [DefaultTimeout].
	Timeout time.Duration
	// MaxBytes is the longest page that is read; 0 is [MaxBytes].
	MaxBytes int64
	// DialContext makes connections; nil is the network. For tests.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// versionSegment is the end of a base URL that is the API's version and no place.
var versionSegment = regexp.MustCompile(`/v[0-9]+$`)

// DefaultURL is /metrics beside the base URL: http://host:8000/v1 gives
// http://host:8000/metrics, https://host/llm/v1 gives https://host/llm/metrics.
// A base URL that does not parse gives "".
func DefaultURL(baseURL string) string { return beside(baseURL, "/metrics") }

// Target turns the value of CAPACITY_METRICS_URL into Options.URL and
// Options.Implied: "" is the default place, "off" is none, anything else is the
// address itself.
func Target(setting, baseURL string) (address string, implied bool) {
	switch setting {
	case "":
		return DefaultURL(baseURL), true
	case config.MetricsOff:
		return "", false
	}
	return setting, false
}

// prometheusPath is where trtllm-serve has its Prometheus text; its /metrics is
// JSON.
const prometheusPath = "/prometheus/metrics"

// beside puts a path in the place of the base URL's version, "" when it does
// not parse.
func beside(baseURL, path string) string {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" {
		return ""
	}
	root := versionSegment.ReplaceAllString(strings.TrimRight(u.EscapedPath(), "/"), "")
	return u.Scheme + "://" + u.Host + root + path
}

// check gives the metrics URL parsed, nil for none. Its errors repeat nothing of
// the URL: it may hold a password, or a key in its query.
func (o Options) check() (*url.URL, error) {
	if o.Timeout < 0 || o.MaxBytes < 0 {
		return nil, fmt.Errorf("setting up the reading of metrics: the timeout %v and the limit of %d bytes must not be negative", o.Timeout, o.MaxBytes)
	}
	if o.URL == "" {
		return nil, nil
	}
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		return nil, errors.New("parsing the metrics URL: it is no URL; write http://host:8000/metrics")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("parsing the metrics URL: want the scheme http or https; write http://host:8000/metrics")
	case u.Hostname() == "":
		return nil, errors.New("parsing the metrics URL: it has no host; write http://host:8000/metrics")
	}
	return u, nil
}

// sameOrigin compares scheme, host and port, the default ports filled in.
func sameOrigin(a, b *url.URL) bool {
	return a != nil && b != nil && a.Scheme == b.Scheme &&
		strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// shownURL is a URL without what may be a secret: userinfo and query.
func shownURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	shown := u.Scheme + "://" + u.Host + u.EscapedPath()
	if u.RawQuery != "" {
		shown += "?[redacted]"
	}
	return shown
}
