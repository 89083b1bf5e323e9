package engine

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// userAgent is how the suite introduces itself to servers.
	userAgent = "anvil-capacity"
	// acceptText asks for the text that expfmt reads, and for nothing newer.
	acceptText = "text/plain;version=0.0.4;q=1, */*;q=0.1"
	// headerBytes bounds a response's header.
	headerBytes = 256 << 10
	// idleTimeout is how long the connection waits between readings: longer than
	// a second, shorter than the 5 s after which uvicorn, and so vLLM and SGLang,
	// closes it.
	idleTimeout = 4 * time.Second
)

// Reader reads the metrics of one server. It has a connection of its own, so
// that no request ever waits for it. Safe for concurrent use; [Reader.Close]
// lets the connection go.
type Reader struct {
	options Options
	base    *url.URL // nil when there is none
	// places are tried in turn until one has metrics, and place is that one's
	// index from then on.
	places []*url.URL
	place  atomic.Int32
	client *http.Client
	// maxSamples is MaxSamples; tests put in less.
	maxSamples int
}

// New makes a reader; nothing is read yet. The error is a fault in the options
// and shows nothing of the URL.
func New(o Options) (*Reader, error) {
	at, err := o.check()
	if err != nil {
		return nil, err
	}
	r := &Reader{options: o, maxSamples: MaxSamples}
	if base, err := url.Parse(o.BaseURL); err == nil && base.Host != "" {
		r.base = base
	}
	if at != nil {
		r.places = append(r.places, at)
	}
	if at != nil && o.Implied {
		if second, err := url.Parse(beside(o.BaseURL, prometheusPath)); err == nil && second.Host != "" {
			r.places = append(r.places, second)
		}
	}
	r.client = &http.Client{
		Transport:     newTransport(o, o.HTTP2 && (at == nil || sameOrigin(at, r.base))),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return r, nil
}

func newTransport(o Options, http2 bool) *http.Transport {
	dial := o.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: DefaultTimeout}).DialContext
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	protocols.SetUnencryptedHTTP2(http2)
	return &http.Transport{
		// Proxy stays nil: HTTP_PROXY would send the key to another host.
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    DefaultTimeout,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true,
		MaxResponseHeaderBytes: headerBytes,
		Protocols:              protocols,
	}
}

// Close lets idle connections go. Readings under way go on.
func (r *Reader) Close() { r.client.CloseIdleConnections() }

// URL is the address that is read, without userinfo and query; "" is none.
func (r *Reader) URL() string {
	if len(r.places) == 0 {
		return ""
	}
	return shownURL(r.places[r.place.Load()])
}

// KeySent says whether the requests' key and headers go to that address.
func (r *Reader) KeySent() bool {
	return len(r.places) > 0 && r.keyFor(r.places[r.place.Load()]) && (r.options.APIKey != "" || len(r.options.Headers) > 0)
}

func (r *Reader) timeout() time.Duration {
	if r.options.Timeout == 0 {
		return DefaultTimeout
	}
	return r.options.Timeout
}

func (r *Reader) limits() limits {
	l := limits{bytes: r.options.MaxBytes, samples: r.maxSamples}
	if l.bytes == 0 {
		l.bytes = MaxBytes
	}
	return l
}

// Read reads everything that is known of the engine. The error is always an
// *[Unavailable].
func (r *Reader) Read(ctx context.Context) (*Snapshot, error) {
	s, gone := r.read(ctx, wantedAll, allRoles)
	if gone != nil {
		return nil, gone
	}
	return s, nil
}

// readGauges reads what a reading during the load is for: less than half the
// time of a whole one, and a tenth of its allocations.
func (r *Reader) readGauges(ctx context.Context) (*Snapshot, *Unavailable) {
	return r.read(ctx, wantedGauges, gauges)
}

func (r *Reader) read(ctx context.Context, w wanted, roles []Role) (*Snapshot, *Unavailable) {
	if len(r.places) == 0 {
		return nil, r.unavailable(nil, NotConfigured, "no address is set")
	}
	var first *Unavailable
	for i := r.place.Load(); int(i) < len(r.places); i++ {
		s, gone := r.readAt(ctx, r.places[i], w, roles)
		if gone == nil {
			r.place.Store(i)
			return s, nil
		}
		if first == nil {
			first = gone
		}
		if gone.Kind != NotFound && gone.Kind != NotPrometheus && gone.Kind != UnknownEngine {
			break // another path of a server that does not answer will not either
		}
	}
	return nil, first
}

func (r *Reader) readAt(ctx context.Context, at *url.URL, w wanted, roles []Role) (*Snapshot, *Unavailable) {
	bounded, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	res, err := r.client.Do(r.request(bounded, at, acceptText))
	if err != nil {
		return nil, r.ofTransport(ctx, at, err)
	}
	defer func() { _ = res.Body.Close() }() // what was read is read
	if res.StatusCode != http.StatusOK {
		return nil, r.ofStatus(at, res)
	}
	if gone := r.ofContent(at, res); gone != nil {
		return nil, gone
	}
	p, err := readPage(res.Body, w, r.limits())
	if err != nil {
		if gone := r.ofPage(at, err); gone != nil {
			return nil, gone
		}
		return nil, r.ofTransport(ctx, at, err)
	}
	s, ok := newSnapshot(p, time.Now(), r.options.Model, roles)
	if !ok {
		return nil, r.unavailable(at, UnknownEngine, "it is Prometheus text without a metric of an engine that is known: %s", strings.Join(Engines(), ", "))
	}
	if s.started == 0 {
		s.started = headerStart(res.Header)
	}
	return s, nil
}

// headerStart is llama.cpp's way to say when its process began; 0 is unknown.
func headerStart(h http.Header) float64 {
	v, err := strconv.ParseFloat(h.Get("Process-Start-Time-Unix"), 64)
	if err != nil || finiteOrNil(v) == nil {
		return 0
	}
	return v
}

// request makes a GET, with the key where it may go.
func (r *Reader) request(ctx context.Context, at *url.URL, accept string) *http.Request {
	req := (&http.Request{Method: http.MethodGet, URL: at, Header: make(http.Header)}).WithContext(ctx)
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", "identity")
	if !r.keyFor(at) {
		return req
	}
	if r.options.APIKey != "" && at.User == nil {
		req.Header.Set("Authorization", "Bearer "+r.options.APIKey.Reveal())
	}
	for _, h := range r.options.Headers {
		if strings.EqualFold(h.Name, "Host") {
			req.Host = h.Value.Reveal()
			continue
		}
		req.Header.Set(h.Name, h.Value.Reveal())
	}
	return req
}

// keyFor says whether the requests' key and headers may go to an address.
func (r *Reader) keyFor(at *url.URL) bool { return sameOrigin(at, r.base) }
