package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"anvil-capacity/internal/workload"
)

// pace is when a server sends the events of an answer.
type pace string

const (
	// paced sends an event a write, so many a second, each stream at an instant of
	// its own between those of the others.
	paced pace = "paced"
	// stamped is paced, and the text of an event is the wall clock just before its
	// write, in nanoseconds.
	stamped pace = "stamped"
	// each sends an event a write and never waits.
	each pace = "each"
	// flood sends 64 KiB a write and never waits. The first text tells when the
	// request had been read and when the first write began.
	flood pace = "flood"
	// held is paced, or as each without a rate, and sends the end when the server is
	// told "go".
	held pace = "held"
)

// script is what a server is asked to do, as a part of its base URL.
type script struct {
	pace   pace
	events int // with text, the marker's included
	perS   float64
}

func (s script) baseURL(addr string) string {
	return fmt.Sprintf("http://%s/%s/%d/%g/v1", addr, s.pace, s.events, s.perS)
}

func parseScript(path string) (s script, err error) {
	words := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if len(words) < 3 {
		return s, fmt.Errorf("reading path %q: want /PACE/EVENTS/PER_SECOND/", path)
	}
	s.pace = pace(words[0])
	events, errEvents := strconv.Atoi(words[1])
	perS, errPerS := strconv.ParseFloat(words[2], 64)
	s.events, s.perS = events, perS
	return s, errors.Join(errEvents, errPerS)
}

// settleTime is between a request of a paced stream and its first event, so that
// the lock-step start of all streams is over by then.
const settleTime = 200 * time.Millisecond

// floodBytes is what a flood sends at least with each write.
const floodBytes = 64 << 10

// The event that vLLM sends for a token, as a chunk of HTTP/1.1: 228 bytes with
// the text " code".
const (
	eventHead = `data: {"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"org/some-model-8b","choices":[{"index":0,"delta":{"content":"`
	eventTail = `"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	codeText  = " " + workload.Word
)

const responseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// appendChunk adds one chunk of a body.
func appendChunk(dst []byte, data string) []byte {
	dst = strconv.AppendInt(dst, int64(len(data)), 16)
	dst = append(dst, "\r\n"...)
	dst = append(dst, data...)
	return append(dst, "\r\n"...)
}

func appendEvent(dst []byte, text string) []byte {
	return appendChunk(dst, eventHead+text+eventTail)
}

// appendEnd adds the finish event, usage, [DONE] and the end of the body.
func appendEnd(dst []byte, events int) []byte {
	dst = appendChunk(dst, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n")
	dst = appendChunk(dst, fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":%d,"total_tokens":%d}}`+"\n\n", events, 20+events))
	dst = appendChunk(dst, "data: [DONE]\n\n")
	return append(dst, "0\r\n\r\n"...)
}

// server is the other process's state.
type server struct {
	streams atomic.Int64 // so far: each paced one has an instant of its own
	holding atomic.Int64 // held streams that have sent all their events
	release atomic.Pointer[chan struct{}]
}

// serve is the role of the server: it prints its address and then answers.
// Requests for /holding say how many held streams have sent all their events, and
// those for /go end them all.
func serve([]string) {
	go endWithParent()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	s := &server{}
	s.release.Store(new(make(chan struct{})))
	for {
		conn, err := listener.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		go s.answer(conn)
	}
}

// answer answers the requests of one connection.
func (s *server) answer(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil || s.play(conn, req.URL.Path, body) != nil {
			return
		}
	}
}

// play answers one request.
func (s *server) play(conn net.Conn, path string, body []byte) error {
	arrived := time.Now()
	switch {
	case path == "/holding":
		return respond(conn, strconv.FormatInt(s.holding.Load(), 10))
	case path == "/go":
		close(*s.release.Swap(new(make(chan struct{}))))
		return respond(conn, "")
	case strings.HasSuffix(path, "/models"):
		return respond(conn, `{"data":[]}`)
	}
	sc, err := parseScript(path)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(conn, responseHead); err != nil {
		return err
	}
	marker := markerIn(body)
	switch sc.pace {
	case paced, stamped:
		err = s.pacedEvents(conn, sc, marker)
	case each:
		err = eachEvent(conn, sc, marker)
	case held:
		err = s.heldEvents(conn, sc, marker)
	default:
		err = floodEvents(conn, sc, marker, arrived)
	}
	if err != nil {
		return err
	}
	_, err = conn.Write(appendEnd(nil, sc.events))
	return err
}

func respond(conn net.Conn, text string) error {
	_, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	return err
}

// markerIn finds the marker in a prompt.
func markerIn(body []byte) string {
	i := bytes.Index(body, []byte(workload.MarkerPrefix))
	if i < 0 {
		return "no marker"
	}
	body = body[i:]
	n := bytes.IndexFunc(body, func(r rune) bool { return r != '_' && !('0' <= r && r <= '9') && !('A' <= r && r <= 'Z') })
	return string(body[:max(n, 0)])
}

// pacedEvents sends the events of a paced or stamped stream.
func (s *server) pacedEvents(conn net.Conn, sc script, marker string) error {
	period := time.Duration(float64(time.Second) / sc.perS)
	// Multiples of the golden ratio are spread evenly however many there are.
	const golden = 0.6180339887498949
	share := golden * float64(s.streams.Add(1))
	due := time.Now().Add(settleTime + time.Duration((share-float64(int(share)))*float64(period)))
	event := appendEvent(nil, marker)
	next := appendEvent(nil, codeText)
	at := 0
	if sc.pace == stamped {
		next = appendEvent(nil, fmt.Sprintf(" %d", time.Now().UnixNano()))
		at = bytes.Index(next, []byte(eventTail)) - len("1700000000000000000")
	}
	for range sc.events {
		time.Sleep(time.Until(due))
		due = due.Add(period)
		if at > 0 && &event[0] == &next[0] {
			strconv.AppendInt(event[:at], time.Now().UnixNano(), 10)
		}
		if _, err := conn.Write(event); err != nil {
			return err
		}
		event = next
	}
	return nil
}

func eachEvent(conn net.Conn, sc script, marker string) error {
	event, next := appendEvent(nil, marker), appendEvent(nil, codeText)
	for range sc.events {
		if _, err := conn.Write(event); err != nil {
			return err
		}
		event = next
	}
	return nil
}

// heldEvents keeps the stream open until the server is told to let it go.
func (s *server) heldEvents(conn net.Conn, sc script, marker string) error {
	released := *s.release.Load()
	send := eachEvent
	if sc.perS > 0 {
		send = s.pacedEvents
	}
	if err := send(conn, sc, marker); err != nil {
		return err
	}
	s.holding.Add(1)
	defer s.holding.Add(-1)
	<-released
	return nil
}

// floodEvents sends all events in writes of floodBytes.
func floodEvents(conn net.Conn, sc script, marker string, arrived time.Time) error {
	event := appendEvent(nil, codeText)
	perWrite := (floodBytes + len(event) - 1) / len(event)
	block := bytes.Repeat(event, perWrite)
	first := appendEvent(nil, fmt.Sprintf("%s %d %d", marker, arrived.UnixNano(), time.Now().UnixNano()))
	first = append(first, block[:len(event)*(min(perWrite, sc.events)-1)]...)
	if _, err := conn.Write(first); err != nil {
		return err
	}
	for left := sc.events - perWrite; left > 0; left -= perWrite {
		if _, err := conn.Write(block[:len(event)*min(left, perWrite)]); err != nil {
			return err
		}
	}
	return nil
}
