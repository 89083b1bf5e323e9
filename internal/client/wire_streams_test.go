package client

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/memnet"
	"anvil-capacity/internal/record"
)

// These tests read every stream of fixtures/streams through the whole client in
// every way that HTTP has of carrying it, and want exactly its expect file. The
// cuts of TestStreams are of two framings in memory; here are the others, real
// sockets, compression that nobody asked for, and HTTP/2.

// wire is a way of carrying a body over HTTP/1.
type wire struct {
	name   string
	closes bool // the connection ends with the response
	wrap   func(head string, body []byte) []byte
}

// wires has them all: HTTP/1.1 and 1.0, chunked, sized and delimited by the end
// of the connection, kept alive and closed.
var wires = []wire{
	{"chunked, kept", false, func(head string, body []byte) []byte { return chunkedAs(head, body) }},
	{"chunked, closed", true, func(head string, body []byte) []byte { return chunkedAs(head+"Connection: close\r\n", body) }},
	{"sized, kept", false, func(head string, body []byte) []byte { return sizedAs(head, body) }},
	{"sized, closed", true, func(head string, body []byte) []byte { return sizedAs(head+"Connection: close\r\n", body) }},
	{"until the end", true, func(head string, body []byte) []byte {
		return append([]byte(head+"Connection: close\r\n\r\n"), body...)
	}},
	{"HTTP/1.0 until the end", true, func(head string, body []byte) []byte { return append([]byte(asHTTP10(head)+"\r\n"), body...) }},
	{"HTTP/1.0 sized, closed", true, func(head string, body []byte) []byte { return sizedAs(asHTTP10(head), body) }},
	{"HTTP/1.0 sized, kept", false, func(head string, body []byte) []byte {
		return sizedAs(asHTTP10(head)+"Connection: keep-alive\r\n", body)
	}},
}

func asHTTP10(head string) string { return strings.Replace(head, "HTTP/1.1", "HTTP/1.0", 1) }

func sizedAs(head string, body []byte) []byte {
	return append(fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n", head, len(body)), body...)
}

// chunkSize is the largest chunk of a chunked wire: no event fits into one, and
// no chunk ends where an event does.
const chunkSize = 61

func chunkedAs(head string, body []byte) []byte {
	var pieces [][]byte
	for rest := body; len(rest) > 0; {
		n := min(chunkSize, len(rest))
		pieces, rest = append(pieces, rest[:n]), rest[n:]
	}
	return append([]byte(head+"Transfer-Encoding: chunked\r\n\r\n"), chunked(pieces...)...)
}

// encodings compress bodies although identity was asked for. Each event is
// flushed, as a proxy that compresses a stream does.
var encodings = []struct {
	name string
	open func(io.Writer) flusher
}{
	{"", nil},
	{"gzip", func(w io.Writer) flusher { return gzip.NewWriter(w) }},
	{"deflate", func(w io.Writer) flusher { return zlib.NewWriter(w) }},
}

type flusher interface {
	io.WriteCloser
	Flush() error
}

// encode compresses a body event by event.
func encode(t testing.TB, body []byte, open func(io.Writer) flusher) []byte {
	t.Helper()
	var out bytes.Buffer
	w := open(&out)
	for _, event := range bytes.SplitAfter(body, []byte("\n\n")) {
		_, err := w.Write(event)
		require.NoError(t, err)
		require.NoError(t, w.Flush())
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// oneByOne cuts bytes into single ones. bytes.Split would keep characters whole.
func oneByOne(b []byte) [][]byte {
	pieces := make([][]byte, len(b))
	for i := range b {
		pieces[i] = b[i : i+1]
	}
	return pieces
}

// comb cuts a body after its first bytes and then after every so many more.
func comb(b []byte, first, every int) (pieces [][]byte) {
	for n := first; len(b) > 0; n = every {
		n = min(n, len(b))
		pieces, b = append(pieces, b[:n]), b[n:]
	}
	return pieces
}

// reading is what an expect file says of a stream, in a form that compares with ==.
type reading struct {
	status, reasoning, content int
	text, reasons              string
	terminal, done, ttfo, ttft bool
	prompt, output, thought    int // tokens; absentCount where the server sent none
	detail                     record.Detail
}

const absentCount = -1

// right is the reading that the expect file asks for.
func (f fixture) right() reading {
	w := f.want
	r := reading{
		status: w.HTTPStatus, reasoning: w.ReasoningChunks, content: w.ContentChunks,
		text: w.VisibleContent, reasons: strings.Join(w.FinishReasons, ","),
		terminal: w.TerminalObserved, done: w.DoneObserved,
		ttfo: w.ContentChunks+w.ReasoningChunks > 0, ttft: w.ContentChunks > 0,
		prompt: absentCount, output: absentCount, thought: absentCount, detail: f.want.detail(),
	}
	if u := w.Usage; u != nil {
		r.prompt, r.output, r.thought = countOf(u.Prompt), countOf(u.Completion), countOf(u.Details.Reasoning)
	}
	return r
}

func countOf(n *int) int {
	if n == nil {
		return absentCount
	}
	return *n
}

// readingOf is the same of an observation.
func readingOf(obs *Observation) reading {
	res := &obs.Response
	r := reading{
		status: res.HTTPStatus, reasoning: res.ReasoningChunks, content: res.ContentChunks,
		text: obs.Text, reasons: strings.Join(res.FinishReasons, ","),
		terminal: res.TerminalObserved, done: res.DoneObserved, ttfo: obs.HasTTFO, ttft: obs.HasTTFT,
		prompt: countOf(obs.Tokens.Prompt), output: countOf(obs.Tokens.Output), thought: countOf(obs.Tokens.Reasoning),
	}
	if obs.Failure != nil {
		r.detail = obs.Failure.Detail
	}
	return r
}

// tally counts what was tried, for the log and the figures of the README.
type tally struct{ readings, boundaries, streams atomic.Int64 }

// try makes one request of a fixture and wants its right reading.
func (n *tally) try(t *testing.T, c *Client, f fixture, right reading, how func() string) {
	obs := c.Complete(t.Context(), testBody)
	n.readings.Add(1)
	if got := readingOf(&obs); got != right {
		t.Fatalf("%s, %s:\n got %+v\nwant %+v\n%+v", f.name, how(), got, right, obs.Failure)
	}
}

// report logs the totals, and fails where they are so low that something was
// not tried at all.
func (n *tally) report(t *testing.T, what string, least int64) {
	t.Helper()
	t.Logf("%s: %d streams, %d readings, %d cuts between bytes, all right", what, n.streams.Load(), n.readings.Load(), n.boundaries.Load())
	assert.GreaterOrEqual(t, n.streams.Load(), int64(35), "streams of fixtures/streams")
	if !testing.Short() && !underRace {
		assert.GreaterOrEqual(t, n.readings.Load(), least, "readings tried")
	}
}

// sparse makes a step longer where time is short: under the race detector and
// with -short. A prime, so that no cut is always left out.
func sparse(step int) int {
	if testing.Short() || underRace {
		return step * 17
	}
	return step
}

// TestStreamsAtEveryBoundary cuts each response at every one of its bytes (header,
// chunk sizes and body alike), three cuts a reading and a third of the response
// apart, for the wires that end with their connection. TestStreams makes each cut
// alone, for those that keep it.
func TestStreamsAtEveryBoundary(t *testing.T) {
	var n tally
	t.Run("streams", func(t *testing.T) {
		for _, f := range fixtures(t) {
			n.streams.Add(1)
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					for _, w := range []wire{wires[1], wires[4]} {
						n.everyBoundary(t, f, w)
					}
				})
			})
		}
	})
	n.report(t, "every boundary", 24_000)
}

func (n *tally) everyBoundary(t *testing.T, f fixture, w wire) {
	c, s := scripted(t)
	right, whole := f.right(), w.wrap(f.head(), f.body)
	third := len(whole)/3 + 1
	for i := 0; i < third; i += sparse(1) {
		s.answer(w.closes, comb(whole, i, third)...)
		n.boundaries.Add(3)
		n.try(t, c, f, right, func() string { return fmt.Sprintf("%s, cut at %d and every %d bytes", w.name, i, third) })
	}
}

// TestStreamsOnEveryWire reads each stream over each wire and encoding in combs:
// cut at every k-th byte, from each first byte on, so that every boundary is
// tried among others; all at once; and one byte a read.
func TestStreamsOnEveryWire(t *testing.T) {
	var n tally
	t.Run("streams", func(t *testing.T) {
		for _, f := range fixtures(t) {
			n.streams.Add(1)
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					for _, w := range wires {
						for _, e := range encodings {
							n.combs(t, f, w, e.name, e.open)
						}
					}
				})
			})
		}
	})
	n.report(t, "every wire and encoding", 8_000)
}

// combStep is between the cuts of a comb: short enough to cut every event more
// than once, and prime, so that it falls out of step with what is repeated.
const combStep = 19

// combs reads one fixture over one wire in one encoding.
func (n *tally) combs(t *testing.T, f fixture, w wire, encoding string, open func(io.Writer) flusher) {
	body, head, right := f.body, f.head(), f.right()
	if open != nil {
		if f.want.Headers["Content-Encoding"] != "" {
			return // it is encoded as it is
		}
		body = encode(t, body, open)
		head += "Content-Encoding: " + encoding + "\r\n"
	}
	c, s := scripted(t)
	whole := w.wrap(head, body)
	try := func(how string, pieces [][]byte) {
		s.answer(w.closes, pieces...)
		n.boundaries.Add(int64(len(pieces) - 1))
		n.try(t, c, f, right, func() string { return w.name + " " + encoding + ", " + how })
	}
	try("at once", [][]byte{whole})
	try("one byte a read", oneByOne(whole))
	step := sparse(1)
	if open != nil {
		step *= 6 // a decoder gives other reads than it gets
	}
	for first := 1; first <= combStep; first += step {
		try(fmt.Sprintf("%d and then every %d bytes", first, combStep), comb(whole, first, combStep))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.closes {
		assert.Equal(t, 1, s.dials, "%s, %s %s: the connection is used again", f.name, w.name, encoding)
	}
}

// cutConn ends the reads of a real connection where the test wants: the first
// after so many bytes of a response, the others after every so many more. What
// the socket gave at once is handed on in pieces.
type cutConn struct {
	net.Conn
	first, every int

	begins atomic.Bool // a request was written: the next byte begins a response
	buf    []byte
	rest   []byte
	left   int
}

func (c *cutConn) Write(p []byte) (int, error) {
	c.begins.Store(true)
	return c.Conn.Write(p)
}

func (c *cutConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		if c.buf == nil {
			c.buf = make([]byte, 16<<10)
		}
		n, err := c.Conn.Read(c.buf)
		if n == 0 {
			return 0, err
		}
		c.rest = c.buf[:n]
	}
	if c.begins.CompareAndSwap(true, false) {
		c.left = c.first
	}
	if c.left == 0 {
		c.left = c.every
	}
	n := copy(p[:min(len(p), c.left)], c.rest)
	c.rest, c.left = c.rest[n:], c.left-n
	return n, nil
}

// cutting dials the network and cuts what is read from it.
func cutting(first, every int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &cutConn{Conn: conn, first: first, every: every}, nil
	}
}

// uncut is a cut behind the end of every stream.
const uncut = 1 << 20

// TestStreamsOnRealSockets reads each stream over each wire through the kernel,
// cut where the client's own end cuts it: TCP itself may join any two writes.
func TestStreamsOnRealSockets(t *testing.T) {
	var n tally
	t.Run("streams", func(t *testing.T) {
		for _, f := range fixtures(t) {
			n.streams.Add(1)
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				for _, w := range wires {
					whole := w.wrap(f.head(), f.body)
					url := tcpServer(t, func(c *net.TCPConn, _ *http.Request) bool {
						_, _ = c.Write(whole)
						return !w.closes
					})
					for _, every := range []int{uncut, 1, 7, combStep} {
						c, err := New(Options{BaseURL: url, DialContext: cutting(every, every)})
						require.NoError(t, err)
						for range 2 { // the second on the first one's connection, where it is kept
							n.boundaries.Add(int64(len(whole) / every))
							n.try(t, c, f, f.right(), func() string { return fmt.Sprintf("%s, every %d bytes", w.name, every) })
						}
						c.Close()
					}
				}
			})
		}
	})
	n.report(t, "real sockets", 35*8*4*2)
}

// streamHandler answers with the fixture that is set, a frame for each piece. In
// a bubble it waits after each until the client has read it.
type streamHandler struct {
	mu     sync.Mutex // guards all below
	f      fixture
	pieces [][]byte
	wait   bool
	others int // requests that did not come over HTTP/2
}

func (h *streamHandler) answer(f fixture, pieces [][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.f, h.pieces = f, pieces
}

func (h *streamHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	f, pieces, wait := h.f, h.pieces, h.wait
	if r.ProtoMajor != 2 {
		h.others++
	}
	h.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", f.want.ContentType)
	for name, value := range f.want.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(f.want.HTTPStatus)
	for _, piece := range pieces {
		_, _ = w.Write(piece)
		w.(http.Flusher).Flush()
		if wait {
			synctest.Wait()
		}
	}
}

// TestStreamsOverHTTP2 reads each stream in DATA frames of its own cut: in clear
// text in virtual time, where each frame is read before the next one is sent, at
// every boundary; and over TLS on real sockets, with its records cut as well.
func TestStreamsOverHTTP2(t *testing.T) {
	var n tally
	t.Run("in_clear_text", func(t *testing.T) {
		for _, f := range fixtures(t) {
			n.streams.Add(1)
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { n.frames(t, f) })
			})
		}
	})
	t.Run("over_TLS", func(t *testing.T) {
		h := &streamHandler{}
		o := http2Server(t, true, h.ServeHTTP)
		for _, every := range []int{uncut, 1, 7} {
			o.DialContext = cutting(every, every)
			c, err := New(o)
			require.NoError(t, err)
			for _, f := range fixtures(t) {
				for _, frames := range [][][]byte{{f.body}, oneByOne(f.body)} {
					h.answer(f, frames)
					n.boundaries.Add(int64(len(f.body)))
					n.try(t, c, f, f.right(), func() string { return fmt.Sprintf("%d frames over TLS, every %d bytes", len(frames), every) })
				}
			}
			c.Close()
		}
		assert.Zero(t, h.others, "all came over HTTP/2")
	})
	n.report(t, "HTTP/2", 4_000)
}

// frames reads one fixture over HTTP/2 in clear text, in frames that are cut at
// every boundary in turn.
func (n *tally) frames(t *testing.T, f fixture) {
	ln := memnet.Listen()
	h := &streamHandler{wait: true}
	srv := &http.Server{Handler: h, ErrorLog: quiet, Protocols: new(http.Protocols)}
	srv.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	c, err := New(Options{BaseURL: "http://mem/v1", HTTPVersion: HTTP2, DialContext: ln.DialContext})
	require.NoError(t, err)
	defer func() { // also after a failure, which would else be hidden by a bubble that cannot end
		c.Close()
		assert.NoError(t, srv.Shutdown(context.Background()))
		assert.ErrorIs(t, <-served, http.ErrServerClosed)
		synctest.Wait()
	}()
	try := func(how string, pieces [][]byte) {
		h.answer(f, pieces)
		n.boundaries.Add(int64(max(0, len(pieces)-1)))
		n.try(t, c, f, f.right(), func() string { return "h2c, " + how })
	}
	try("at once", [][]byte{f.body})
	try("one byte a frame", oneByOne(f.body))
	for first := 1; first <= frameStep; first += sparse(1) {
		try(fmt.Sprintf("%d and then every %d bytes", first, frameStep), comb(f.body, first, frameStep))
	}
	assert.Zero(t, h.others, "all came over HTTP/2")
}

// frameStep is between the cuts of a comb of frames.
const frameStep = 127

// TestWiresAreDifferent keeps the table above honest: no two wires are the same
// bytes, and each is what its name says.
func TestWiresAreDifferent(t *testing.T) {
	seen := map[string]string{}
	for _, w := range wires {
		text := string(w.wrap("HTTP/1.1 200 X\r\n", []byte(strings.Repeat("x", 3*chunkSize))))
		assert.Empty(t, seen[text], w.name)
		seen[text] = w.name
		assert.Equal(t, strings.HasPrefix(w.name, "HTTP/1.0"), strings.HasPrefix(text, "HTTP/1.0 "), w.name)
		assert.Equal(t, strings.Contains(w.name, "chunked"), strings.Contains(text, "chunked"), w.name)
		assert.Equal(t, strings.Contains(w.name, "sized"), strings.Contains(text, "Content-Length"), w.name)
	}
	assert.Len(t, seen, 8)
	all, err := os.ReadDir("../../fixtures/streams")
	require.NoError(t, err)
	assert.Len(t, all, 2*len(fixtures(t)), "each stream has its expect file and is tried")
}
