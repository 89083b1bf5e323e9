package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"anvil-capacity/internal/record"
)

// exchange is one request and its response header, with the clock readings of
// its connection.
type exchange struct {
	body []byte // of the request; nil for a GET
	json bool   // the answer to body is JSON and no stream
	dog  watchdog

	t0     time.Time // zero until the transport has the request
	res    *http.Response
	header time.Duration // t0 to the response header
	err    error         // of the transport

	// dialed is the connection that was made for this request before t0, and the
	// two times how long that took; hasDialed hands it out once.
	dialed                  net.Conn
	dialTime, handshakeTime time.Duration
	hasDialed               atomic.Bool

	// The rest is written by goroutines of net/http, which may still dial for
	// this request when another connection already serves it.
	dnsStart, dnsDone         moment
	connectStart, connectDone moment
	tlsStart, tlsDone         moment
	gotConn, reused           atomic.Bool
	firstByte                 moment
}

// newExchange makes an exchange whose limits end the returned context; its
// cancel must be called.
func (c *Client) newExchange(ctx context.Context, body []byte) (*exchange, context.Context, context.CancelFunc) {
	x := &exchange{body: body}
	ctx, cancel := context.WithCancelCause(withExchange(ctx, x))
	x.dog.total, x.dog.stall, x.dog.header = c.opts.Timeout, c.opts.StallTimeout, c.opts.HeaderTimeout
	x.dog.cancel = cancel
	return x, ctx, func() {
		x.dog.stop()
		cancel(context.Canceled)
		if conn := x.takeDialed(); conn != nil {
			_ = conn.Close() // it was made and never used
		}
	}
}

// takeDialed hands out the connection that was made before t0, once; nil where
// there is none.
func (x *exchange) takeDialed() net.Conn {
	if x == nil || !x.hasDialed.CompareAndSwap(true, false) {
		return nil
	}
	return x.dialed
}

// begin starts the request's clock, just before the transport has it.
func (x *exchange) begin() {
	x.t0 = time.Now()
	x.dog.start(x.t0)
}

// answered keeps what the transport returned.
func (x *exchange) answered(res *http.Response, err error) {
	x.header = time.Since(x.t0)
	x.res, x.err = res, err
}

// sinceT0 is the time since the request's start.
func (x *exchange) sinceT0() time.Duration { return time.Since(x.t0) }

// moment is a time since t0 that is set once at most and may be read at any time.
type moment struct{ ns atomic.Int64 }

// mark sets the moment to now, unless it is set. One is added so that 0 is unset.
func (m *moment) mark(t0 time.Time) { m.ns.CompareAndSwap(0, int64(time.Since(t0))+1) }

func (m *moment) get() (at time.Duration, ok bool) {
	ns := m.ns.Load()
	return time.Duration(ns - 1), ns > 0
}

// trace collects the phases of the connection.
func (x *exchange) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) { x.dnsStart.mark(x.t0) },
		DNSDone: func(info httptrace.DNSDoneInfo) {
			if info.Err == nil {
				x.dnsDone.mark(x.t0)
			}
		},
		ConnectStart: func(string, string) { x.connectStart.mark(x.t0) },
		ConnectDone: func(_, _ string, err error) {
			if err == nil {
				x.connectDone.mark(x.t0)
			}
		},
		TLSHandshakeStart: func() { x.tlsStart.mark(x.t0) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err == nil {
				x.tlsDone.mark(x.t0)
			}
		},
		GotConn: func(info httptrace.GotConnInfo) {
			x.reused.Store(info.Reused)
			x.gotConn.Store(true)
		},
		GotFirstResponseByte: func() { x.firstByte.mark(x.t0) },
	}
}

// connection reports the phases, nil when there was no connection.
func (x *exchange) connection() *record.Connection {
	if !x.gotConn.Load() {
		return nil
	}
	c := &record.Connection{Reused: x.reused.Load(), Dialed: x.dialed != nil}
	switch {
	case c.Dialed:
		c.ConnectMS = new(record.MS(x.dialTime))
		if x.handshakeTime > 0 {
			c.TLSMS = new(record.MS(x.handshakeTime))
		}
	case !c.Reused:
		c.DNSMS = between(&x.dnsStart, &x.dnsDone)
		c.ConnectMS = between(&x.connectStart, &x.connectDone)
		c.TLSMS = between(&x.tlsStart, &x.tlsDone)
	}
	if x.res != nil {
		c.HeaderMS = new(record.MS(x.header))
	}
	return c
}

func between(start, end *moment) *float64 {
	from, began := start.get()
	to, ended := end.get()
	if !began || !ended {
		return nil
	}
	return new(record.MS(to - from))
}

// unconnected says where a request stood that never had a connection.
func (x *exchange) unconnected() (d record.Detail, doing string, yes bool) {
	if x.gotConn.Load() {
		return "", "", false
	}
	started := func(m *moment) bool { _, ok := m.get(); return ok }
	switch {
	case started(&x.tlsStart):
		return record.TLS, "in the TLS handshake", true
	case started(&x.connectStart) || !started(&x.dnsStart):
		return record.Connect, "while connecting", true
	default:
		return record.DNS, "while looking up the host", true
	}
}

// cause gives why the request's context ended, nil when it has not. The parent
// tells the suite's own interrupt from the limits of the request.
func cause(ctx, parent context.Context) (limit error, canceled bool) {
	if parent.Err() != nil && !isLimit(context.Cause(ctx)) {
		return nil, true
	}
	if ctx.Err() == nil {
		return nil, false
	}
	return context.Cause(ctx), false
}

func isLimit(err error) bool {
	for _, limit := range []error{errNoHeader, errStalled, errTotal, errLinger, errDrain, errHead} {
		if errors.Is(err, limit) {
			return true
		}
	}
	return false
}
