package refserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// CloseGrace is how long Close lets answers in flight run on.
	CloseGrace = 5 * time.Second
	// maxStreamsPerConn is HTTP/2's limit on streams of one connection: enough
	// for the largest concurrency of a cell (4,096) on one.
	maxStreamsPerConn = 8192
)

// Server is the embedded endpoint. It is an http.Handler, and it can listen by
// itself. Safe for concurrent use.
type Server struct {
	opts      Options // with defaults; not changed after New
	keyHash   [sha256.Size]byte
	faults    []Fault
	epoch     time.Time // the timetable's zero
	bodyLimit int64
	// instructionsOf reads the prompt; tests put in a simpler language.
	instructionsOf func(prompt string) instructions

	mux      *http.ServeMux
	model    *model
	journal  *journal
	metrics  *metrics
	arrivals atomic.Int64

	closing chan struct{} // closed when no new request is taken
	cutOff  chan struct{} // closed when none may go on
	cut     sync.Once     // closes cutOff

	mu       sync.Mutex // guards all below
	inFlight int
	idle     chan struct{} // closed when closing and inFlight is 0
	web      *http.Server  // nil until Serve
	listener net.Listener
	served   chan error // gets Serve's result
	unused   map[net.Conn]struct{}
}

// New makes a server; nothing runs yet. The error lists every option that is
// out of range. Inside a testing/synctest bubble, call it in the bubble.
func New(o Options) (*Server, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("making the reference server: %w", err)
	}
	faults, err := ParseFaults(o.Faults)
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts:           o.withDefaults(),
		keyHash:        sha256.Sum256([]byte("Bearer " + o.APIKey)),
		faults:         faults,
		epoch:          time.Now(),
		bodyLimit:      MaxBodyBytes,
		instructionsOf: readInstructions,
		metrics:        newMetrics(),
		closing:        make(chan struct{}),
		cutOff:         make(chan struct{}),
		idle:           make(chan struct{}),
		unused:         make(map[net.Conn]struct{}),
	}
	s.model = newModel(&s.opts)
	s.journal = &journal{limit: s.opts.LogLimit}
	s.mux = s.routes()
	return s, nil
}

// clock is the instant, since the epoch. It never goes back.
func (s *Server) clock() time.Duration { return time.Since(s.epoch) }

// Handler gives the server as a handler for a listener of the caller's own.
func (s *Server) Handler() http.Handler { return s }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/chat/completions", s.keyed(s.chat))
	mux.Handle("GET /v1/models", s.keyed(s.models))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /metrics", s.metricsPage)
	if s.opts.Tokenize {
		mux.HandleFunc("POST /tokenize", s.tokenize)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(http.StatusNotFound, "", "not_found", "%s %s: there is no such path; the API is under /v1", r.Method, r.URL.Path).write(w)
	})
	return mux
}

// keyed lets a request through that has the key, where there is one.
func (s *Server) keyed(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if s.opts.APIKey != "" && subtle.ConstantTimeCompare(got[:], s.keyHash[:]) != 1 {
			refuse(http.StatusUnauthorized, "", "invalid_api_key", "Incorrect API key provided.").write(w)
			return
		}
		next(w, r)
	})
}

// models lists the one model, in the shape of vLLM's list.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	type card struct {
		ID          string `json:"id"`
		Object      string `json:"object"`
		Created     int64  `json:"created"`
		OwnedBy     string `json:"owned_by"`
		MaxModelLen int    `json:"max_model_len,omitempty"`
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // a client that has left does not need it
		"object": "list",
		"data":   []card{{s.opts.Model, "model", s.epoch.Unix(), "refserver", s.opts.MaxModelLen}},
	})
}

// Start listens on a TCP address and serves in the background until Close or
// Shutdown. "" is 127.0.0.1:0, a free port of the loopback.
func (s *Server) Start(addr string) error {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("starting the reference server on %q: %w", addr, err)
	}
	return s.Serve(ln)
}

// Serve serves HTTP/1 and HTTP/2 without TLS (h2c, with prior knowledge) on ln
// in the background, until Close or Shutdown, which close ln. It can be called
// once; on an error ln is closed.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.web != nil || s.isClosing() {
		_ = ln.Close() // the error below says more
		return errors.New("serving: the reference server serves or is closed already; make a new one")
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	ln = &onceListener{Listener: ln}
	s.listener = ln
	s.served = make(chan error, 1)
	s.web = &http.Server{
		Handler:   s,
		Protocols: protocols,
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: maxStreamsPerConn},
		ConnState: s.connState,
	}
	go func(web *http.Server) { s.served <- web.Serve(ln) }(s.web)
	return nil
}

// onceListener closes its listener once: both this server and net/http's do it.
type onceListener struct {
	net.Listener
	once sync.Once
	err  error
}

func (l *onceListener) Close() error {
	l.once.Do(func() { l.err = l.Listener.Close() })
	return l.err
}

// Origin is the server's address, "http://host:port", "" before Start or Serve.
// /health and /metrics are under it.
func (s *Server) Origin() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	return "http://" + s.listener.Addr().String()
}

// URL is the base URL of the API, "http://host:port/v1", "" before Start or Serve.
func (s *Server) URL() string {
	if origin := s.Origin(); origin != "" {
		return origin + "/v1"
	}
	return ""
}

// connState remembers the connections that have not been used, which
// http.Server.Shutdown would wait for (it gives a new connection five seconds).
func (s *Server) connState(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state != http.StateNew {
		delete(s.unused, c)
		return
	}
	s.unused[c] = struct{}{}
	if s.isClosing() {
		_ = c.Close() // nothing was said on it
	}
}

func (s *Server) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// enter counts a chat request in, unless the server closes.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosing() {
		return false
	}
	s.inFlight++
	return true
}

func (s *Server) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if s.inFlight == 0 && s.isClosing() {
		close(s.idle)
	}
}

// Close is Shutdown with CloseGrace; that answers had to be cut off is not an
// error here. Calling it again, or before Start, is fine.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), CloseGrace)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// Shutdown takes no new request (503), lets go of those that a fault holds, and
// waits for the others to be answered. When ctx ends first it cuts them off and
// returns ctx's error. It returns when every handler has returned.
func (s *Server) Shutdown(ctx context.Context) error {
	web, served := s.beginClosing()
	var errs []error
	if err := s.awaitIdle(ctx, web); err != nil {
		errs = append(errs, err)
	}
	if web == nil {
		return errors.Join(errs...)
	}
	if err := web.Shutdown(ctx); err != nil {
		_ = web.Close() // what was to be said is in err
		if len(errs) == 0 {
			errs = append(errs, err)
		}
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		errs = append(errs, fmt.Errorf("serving: %w", err))
	}
	return errors.Join(errs...)
}

// beginClosing stops the intake. It hands out the web server once: a later
// caller finds nil.
func (s *Server) beginClosing() (*http.Server, <-chan error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isClosing() {
		close(s.closing)
		if s.inFlight == 0 {
			close(s.idle)
		}
	}
	web := s.web
	s.web = nil
	if web == nil {
		return nil, nil
	}
	_ = s.listener.Close() // Serve reports what went wrong with it
	for c := range s.unused {
		_ = c.Close()
	}
	return web, s.served
}

// awaitIdle waits for the handlers; when ctx ends it cuts them off, also those
// that wait for their client to read, and waits on.
func (s *Server) awaitIdle(ctx context.Context, web *http.Server) error {
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
	}
	s.cut.Do(func() { close(s.cutOff) })
	if web != nil {
		_ = web.Close() // ctx's error says what happened
	}
	<-s.idle
	return ctx.Err()
}
