package client

import (
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/record"
)

// Frames of HTTP/2 and their flags (RFC 9113, section 6), and two error codes
// (section 7).
const (
	frameData, frameHeaders, frameReset, frameSettings, frameGoAway = 0, 1, 3, 4, 7

	flagEndStream, flagEndHeaders = 1, 4

	noError, internalError = 0, 2
)

// h2Conn is the server's end of an HTTP/2 connection, which says exactly what a
// test wants.
type h2Conn struct{ net.Conn }

func (c h2Conn) frame(kind, flags byte, stream uint32, payload []byte) {
	head := []byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	head = binary.BigEndian.AppendUint32(head, stream)
	_, _ = c.Write(append(head, payload...))
}

// ok answers a stream whole: 0x88 is ":status 200" in the static table of HPACK.
func (c h2Conn) ok(stream uint32) {
	c.frame(frameHeaders, flagEndHeaders, stream, []byte{0x88})
	c.frame(frameData, flagEndStream, stream, []byte(sayHello+finishes("stop")+saysDone))
}

func (c h2Conn) reset(stream, code uint32) {
	c.frame(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

func (c h2Conn) goAway(last, code uint32) {
	c.frame(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code))
}

// serve reads frames and answers every request with f, until f or the client
// ends the connection.
func (c h2Conn) serve(f func(c h2Conn, stream uint32) (more bool)) {
	c.frame(frameSettings, 0, 0, nil)
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		size := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, c, size); err != nil {
			return
		}
		if head[3] == frameHeaders && !f(c, binary.BigEndian.Uint32(head[5:])) {
			return
		}
	}
}

// rawHTTP2 serves HTTP/2 without TLS on a real socket and counts connections and
// requests.
func rawHTTP2(t *testing.T, f func(c h2Conn, stream uint32) bool) (url string, dials, requests *atomic.Int64) {
	t.Helper()
	dials, requests = new(atomic.Int64), new(atomic.Int64)
	url = acceptServer(t, func(conn *net.TCPConn) {
		dials.Add(1)
		h2Conn{conn}.serve(func(c h2Conn, stream uint32) bool { requests.Add(1); return f(c, stream) })
		// Closed with the request's body unread, it would be a reset that
		// takes the last frames with it.
		_ = conn.CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	})
	return url, dials, requests
}

// TestStaleOverHTTP2 has a server fail a request in each way of HTTP/2, most on a
// connection that has served another one before. Stream 1 is the first request of
// a connection, stream 3 the second.
func TestStaleOverHTTP2(t *testing.T) {
	rows := []struct {
		name   string
		reused bool
		fail   func(c h2Conn, stream uint32) (more bool)
		want   record.Detail
		says   string
		why    string
	}{
		{"left_out_by_a_graceful_goaway", true, func(c h2Conn, stream uint32) bool { c.goAway(stream-2, noError); return true },
			record.StaleConnection, "GOAWAY", "the server was leaving, and took the requests before this one alone"},
		{"first_left_out_by_a_graceful_goaway", false, func(c h2Conn, _ uint32) bool { c.goAway(0, noError); return true },
			record.StaleConnection, "GOAWAY", "it left before it took anything"},
		{"goaway_with_an_error", false, func(c h2Conn, _ uint32) bool { c.goAway(0, internalError); return true },
			record.TransportReset, "GOAWAY", "a server that fails and says so"},
		{"goaway_that_counts_it_in_then_a_close", true, func(c h2Conn, stream uint32) bool { c.goAway(stream, noError); return false },
			record.TransportReset, "GOAWAY", "the server had the request"},
		{"goaway_with_an_error_that_counts_it_in", true, func(c h2Conn, stream uint32) bool { c.goAway(stream, internalError); return false },
			record.TransportReset, "GOAWAY", "the server had the request, and failed"},
		{"stream_reset", true, func(c h2Conn, stream uint32) bool { c.reset(stream, internalError); return true },
			record.TransportReset, "INTERNAL_ERROR", "a reset of the stream is an answer to it, however soon"},
		{"connection_closed", true, func(h2Conn, uint32) bool { return false },
			record.TransportReset, "EOF", "no word that the request was not taken: others on the connection are lost too"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			url, dials, requests := rawHTTP2(t, func(c h2Conn, stream uint32) bool {
				if row.reused && stream == 1 {
					c.ok(stream)
					return true
				}
				return row.fail(c, stream)
			})
			c, err := New(Options{BaseURL: url, HTTPVersion: HTTP2, Timeout: 10 * time.Second})
			require.NoError(t, err)
			defer c.Close()
			want := 1
			if row.reused {
				require.Nil(t, c.Complete(t.Context(), testBody).Failure)
				want = 2
			}
			obs := c.Complete(t.Context(), testBody)
			require.NotNil(t, obs.Failure)
			assert.Equal(t, row.want, obs.Failure.Detail, "%s: %s", row.why, obs.Failure.Message)
			assert.Contains(t, obs.Failure.Message, row.says)
			assert.Equal(t, row.reused, obs.Response.Connection.Reused)
			assert.Less(t, obs.End.Sub(obs.Start), StaleWindow, "soon enough to be called stale over HTTP/1")
			// net/http may dial a second one in the background as the first goes down;
			// what counts is that nothing is sent on it.
			assert.LessOrEqual(t, dials.Load(), int64(2), "no connection after connection")
			assert.EqualValues(t, want, requests.Load(), "nothing is sent twice (WIRE 13)")
		})
	}
}
