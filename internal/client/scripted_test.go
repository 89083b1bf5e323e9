package client

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// scriptedServer answers every request with the same bytes, handed to the
// client in reads of exactly the given pieces: a cut that TCP would decide by
// chance is decided by the test. It is dialed instead of the network, and
// everything above the connection is the real thing.
type scriptedServer struct {
	mu     sync.Mutex // guards all below
	pieces [][]byte
	close  bool // end the connection after the pieces
	dials  int
	got    []*http.Request
	bodies [][]byte
}

// answer sets what the next requests are answered with.
func (s *scriptedServer) answer(close bool, pieces ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pieces, s.close = pieces, close
}

func (s *scriptedServer) dial(context.Context, string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials++
	c := &scriptedConn{server: s}
	c.changed = sync.NewCond(&c.mu)
	return c, nil
}

// scriptedConn is the client's end of a connection to a scriptedServer.
type scriptedConn struct {
	server  *scriptedServer
	mu      sync.Mutex
	changed *sync.Cond
	sent    []byte // by the client, not yet a whole request
	pieces  [][]byte
	writes  int
	ended   bool
	closed  bool
}

func (c *scriptedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	c.sent = append(c.sent, p...)
	r := bufio.NewReader(bytes.NewReader(c.sent))
	req, err := http.ReadRequest(r)
	if err != nil {
		return len(p), nil // more is to come
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return len(p), nil
	}
	c.sent = nil
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, req)
	s.bodies = append(s.bodies, body)
	c.pieces, c.ended = append(c.pieces, s.pieces...), s.close
	c.changed.Broadcast()
	return len(p), nil
}

func (c *scriptedConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case len(c.pieces) > 0:
			n := copy(p, c.pieces[0])
			if c.pieces[0] = c.pieces[0][n:]; len(c.pieces[0]) == 0 {
				c.pieces = c.pieces[1:]
			}
			return n, nil
		case c.ended:
			return 0, io.EOF
		}
		c.changed.Wait()
	}
}

func (c *scriptedConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.changed.Broadcast()
	return nil
}

func (c *scriptedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *scriptedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *scriptedConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *scriptedConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *scriptedConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// scripted makes a client of a scripted server.
func scripted(t testing.TB, change ...func(*Options)) (*Client, *scriptedServer) {
	t.Helper()
	s := &scriptedServer{}
	o := Options{BaseURL: "http://scripted.test/v1", Concurrency: 1, DialContext: s.dial,
		Timeout: 20 * time.Second, StallTimeout: 10 * time.Second}
	for _, f := range change {
		f(&o)
	}
	c, err := New(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, s
}

// response makes the bytes of one HTTP response around a body.
func response(status, contentType, more string, body []byte) []byte {
	head := "HTTP/1.1 " + status + "\r\n"
	if contentType != "" {
		head += "Content-Type: " + contentType + "\r\n"
	}
	return append([]byte(head+more+"\r\n"), body...)
}

// chunked encodes a body with one chunk for each piece.
func chunked(pieces ...[]byte) []byte {
	var b bytes.Buffer
	for _, p := range pieces {
		if len(p) > 0 {
			b.WriteString(strings.ToLower(hex(len(p))) + "\r\n")
			b.Write(p)
			b.WriteString("\r\n")
		}
	}
	b.WriteString("0\r\n\r\n")
	return b.Bytes()
}

func hex(n int) string {
	const digits = "0123456789abcdef"
	if n < 16 {
		return digits[n : n+1]
	}
	return hex(n/16) + digits[n%16:n%16+1]
}

var testBody = []byte(`{"model":"m","stream":true}`)

// quiet is for servers that would log the faults that tests make.
var quiet = log.New(io.Discard, "", 0)
