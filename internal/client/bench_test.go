package client

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The benchmarks read a stream from a server in another process, so that the
// CPU measured is the client's alone. Each way of reading stands beside its
// floor, a bare loop of net/http, Read and the clock, in the same run:
//
//	go test -run '^$' -bench Stream -count 6 ./internal/client | benchstat -col /reader -
//
// cpu-ns/event is user and system time of this process; its inverse is the
// events a second that one core can read.

const (
	benchServerEnv = "ANVIL_CLIENT_BENCH_SERVER"
	benchEvents    = 20000
)

// TestMain turns the test binary into the benchmark's server where asked to.
func TestMain(m *testing.M) {
	if mode := os.Getenv(benchServerEnv); mode != "" {
		benchServe()
		return
	}
	os.Exit(m.Run())
}

// benchEvent is about what vLLM sends for a token: 228 bytes.
func benchEvent(i int) string {
	return fmt.Sprintf(`data: {"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"org/some-model-8b","choices":[{"index":0,"delta":{"content":" tok%d"},"logprobs":null,"finish_reason":null}]}`+"\n\n", i%10)
}

// benchServe answers /one/ with one chunk and one write an event, and /many/ with
// a chunk an event and 64 KiB a write, as fast as the client reads.
func benchServe() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(ln.Addr())
	var events []string
	for i := range 10 {
		events = append(events, string(chunked([]byte(benchEvent(i)))))
		events[i] = strings.TrimSuffix(events[i], "0\r\n\r\n")
	}
	tail := string(chunked([]byte(finishes("stop") + useCount + saysDone)))
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) }() // ends with its parent
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go benchAnswer(conn, events, tail)
	}
}

func benchAnswer(conn net.Conn, events []string, tail string) {
	r := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		w := bufio.NewWriterSize(conn, 64<<10)
		for i := range benchEvents {
			_, _ = w.WriteString(events[i%len(events)])
			if strings.HasPrefix(req.URL.Path, "/one/") {
				_ = w.Flush()
			}
		}
		_, _ = w.WriteString(tail)
		_ = w.Flush()
	}
}

// benchServer starts the server's process and gives its address.
func benchServer(b *testing.B) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), benchServerEnv+"=1")
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err)
	return strings.TrimSpace(addr)
}

// bareRead is the floor: it reads the body to its end and the clock at each read.
func bareRead(b *testing.B, hc *http.Client, url string, buf []byte) {
	res, err := hc.Post(url, "application/json", bytes.NewReader(testBody))
	if err != nil {
		b.Fatal(err)
	}
	for {
		_, err := res.Body.Read(buf)
		stamp = time.Now()
		if err != nil {
			break
		}
	}
	_ = res.Body.Close()
}

var stamp time.Time // keeps the compiler from dropping the clock

func BenchmarkStream(b *testing.B) {
	addr := benchServer(b)
	for _, mode := range []string{"one", "many"} {
		base := "http://" + addr + "/" + mode + "/v1"
		b.Run("events="+mode+"/reader=bare", func(b *testing.B) {
			hc := &http.Client{Transport: newTransport(Options{})}
			buf := make([]byte, readBytes)
			benchLoop(b, func() { bareRead(b, hc, base+"/chat/completions", buf) })
		})
		b.Run("events="+mode+"/reader=client", func(b *testing.B) {
			c, err := New(Options{BaseURL: base, Timeout: time.Minute, StallTimeout: time.Minute})
			require.NoError(b, err)
			benchLoop(b, func() {
				if obs := c.Complete(b.Context(), testBody); obs.Failure != nil || obs.Response.ContentChunks != benchEvents {
					b.Fatal(obs.Response.ContentChunks, obs.Failure)
				}
			})
		})
		b.Run("events="+mode+"/reader=openai", func(b *testing.B) {
			chat := openai.NewChatCompletionService(option.WithBaseURL(base), option.WithMaxRetries(0))
			benchLoop(b, func() {
				stream := chat.NewStreaming(b.Context(), openai.ChatCompletionNewParams{Model: "m"})
				n := 0
				for stream.Next() {
					n++
				}
				if stream.Err() != nil || n < benchEvents {
					b.Fatal(n, stream.Err())
				}
			})
		})
	}
}

// benchLoop runs one stream an iteration and reports what an event cost.
func benchLoop(b *testing.B, read func()) {
	read() // connects
	b.ReportAllocs()
	before := cpuTime()
	for b.Loop() {
		read()
	}
	events := float64(b.N * benchEvents)
	b.ReportMetric(float64(cpuTime()-before)/events, "cpu-ns/event")
	b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
}

// cpuTime is the user and system time of this process.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// endless is a body of the same event again and again, one a read.
type endless struct {
	event []byte
	left  int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return copy(p, finishes("stop")+saysDone), io.EOF
	}
	e.left--
	return copy(p, e.event), nil
}

// BenchmarkReader is the reader alone: what an event costs from Read to the
// counts, one event a read, without a network.
func BenchmarkReader(b *testing.B) {
	r := newReader(eventLimitMost)
	body := &endless{event: []byte(benchEvent(1))}
	b.ReportAllocs()
	b.SetBytes(int64(len(body.event)))
	const events = 1000
	for b.Loop() {
		body.left = events
		s := begun(r)
		_ = s.read(body)
		s.dog.stop()
		if s.contentChunks != events {
			b.Fatal(s.contentChunks)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
}
