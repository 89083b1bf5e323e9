package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// Some servers close each connection after its streamed answer although they
// offer to keep it (llama.cpp does). A request that is written at that moment
// meets a closed connection: stale_connection, through no fault of the request.
// For such a server every request gets a connection of its own, made before its
// clock starts, so that no handshake is measured and nothing is retried.

// SettleTime is how long a server is watched after an answer.
const SettleTime = 100 * time.Millisecond

// connections is the RoundTripper of a Client: a pool of kept-alive connections,
// or one made for each request before its clock starts.
type connections struct {
	pool   *http.Transport
	single *http.Transport // one request a connection
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	fresh  atomic.Bool
	// closed counts the pool's connections that the server closed.
	closed atomic.Int64
}

func newConnections(o Options) *connections {
	c := &connections{pool: newTransport(o), single: newTransport(o)}
	c.dial = c.pool.DialContext
	c.pool.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := c.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &watchedConn{Conn: conn, closed: &c.closed}, nil
	}
	c.single.DisableKeepAlives = true
	c.single.DialContext = handOut
	c.single.DialTLSContext = handOut
	return c
}

// errTaken says that a request asked for a second connection of its own.
var errTaken = errors.New("the connection that was made for this request is gone")

// handOut gives the connection that was made for a request.
func handOut(ctx context.Context, _, _ string) (net.Conn, error) {
	if conn := exchangeOf(ctx).takeDialed(); conn != nil {
		return conn, nil
	}
	return nil, errTaken
}

// RoundTrip sends a request whose clock has started: on its own connection where
// it has one, else through the pool.
func (c *connections) RoundTrip(req *http.Request) (*http.Response, error) {
	if exchangeOf(req.Context()).hasDialed.Load() {
		return c.single.RoundTrip(req)
	}
	return c.pool.RoundTrip(req)
}

// prepare makes the connection of a request before its clock starts. Where that
// fails the pool will dial, fail the same way, and the failure is then told as
// any other's.
func (c *connections) prepare(req *http.Request) {
	if !c.fresh.Load() {
		return
	}
	x, began := exchangeOf(req.Context()), time.Now()
	ctx, cancel := context.WithTimeout(req.Context(), ConnectTimeout+TLSTimeout)
	defer cancel()
	conn, err := c.dial(ctx, "tcp", addressOf(req))
	if err != nil {
		return
	}
	connected := time.Since(began)
	if req.URL.Scheme == "https" {
		if conn, err = c.secure(ctx, conn, req.URL.Hostname()); err != nil {
			return
		}
	}
	x.dialed, x.dialTime, x.handshakeTime = conn, connected, time.Since(began)-connected
	x.hasDialed.Store(true)
}

// secure makes the TLS handshake; a connection that fails it is closed.
func (c *connections) secure(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	config := c.single.TLSClientConfig.Clone()
	config.ServerName = host
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secured, nil
}

// addressOf is the host and port that a request goes to.
func addressOf(req *http.Request) string {
	port := req.URL.Port()
	if port == "" {
		port = "80"
		if req.URL.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(req.URL.Hostname(), port)
}

func (c *connections) closeIdle() {
	c.pool.CloseIdleConnections()
	c.single.CloseIdleConnections()
}

// Settle waits SettleTime after an answer and looks whether the server has
// closed a connection that it came on. If so, and HTTP/1.1 is spoken, every later
// request gets a connection of its own, and Settle says true. Call it when no
// request is in flight.
func (c *Client) Settle(ctx context.Context) (fresh bool) {
	if c.opts.HTTPVersion == HTTP2 {
		return false
	}
	wait := time.NewTimer(SettleTime)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
	if c.conns.closed.Load() > 0 {
		c.conns.fresh.Store(true)
	}
	return c.conns.fresh.Load()
}

// watchedConn tells when the server ends a connection.
type watchedConn struct {
	net.Conn
	closed *atomic.Int64
	told   bool // read and written by the one goroutine that reads
}

// Read counts the end that the server makes, and not the one that this side does.
func (w *watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil && !w.told && !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
		w.told = true
		w.closed.Add(1)
	}
	return n, err
}
