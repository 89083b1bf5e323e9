package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/client"
)

const (
	hostileStreams = 256
	// hostileGrace is what a run may take beyond its limits: start, artifact and
	// report, on a machine that is busy with sending.
	hostileGrace = 10 * time.Second
	// hostilePause comes after each piece of a stream that runs into a limit of
	// time. Without it two cores have more to do than they can for 256 streams,
	// and which limit a stream meets first is decided by the kernel.
	hostilePause = 50 * time.Millisecond
)

// longLineBytes is where the server of long lines gives up: far beyond what the
// client reads of a line at 256 streams (client.EventLimitBytes: 2 MiB).
const longLineBytes = 100 << 20

// hostile is what a server sends in answer to every completion.
type hostile struct {
	start, again string        // the first bytes, and those that come again and again
	atMost       int           // bytes of again in one answer; 0 is no end
	pause        time.Duration // after each of them
	gatherAt     int           // here every stream waits for all others, and a second more; 0 is nowhere
}

// TestResourcesUnderHostileServers runs the suite with 256 streams against
// servers that never end. It must end at its limits and hold no more than a row's
// bound. A byte a second is in internal/client (TestDripOfAByteASecond), in
// virtual time.
//
// The bounds are of the process's peak resident memory, in MiB. Streams that are
// cut into short events cost what a run with 256 streams costs anyway: 39 to 42
// were measured with white space, 45 to 53 with content, 133 on a busy machine, 256 are allowed. Long
// lines cost client.EventMemoryBytes (512) for the buffers, half of that for the
// buffers before them while they double, and as much again that the garbage
// collector lets pile up: 1,536 are allowed; 1,098 to 1,225 were measured with all
// streams just below the limit at once, 367 without a moment at which they are.
func TestResourcesUnderHostileServers(t *testing.T) {
	if testing.Short() {
		t.Skip("runs into limits of several seconds")
	}
	event := `data: {"choices":[{"index":0,"delta":{"content":"hello hello "},"finish_reason":null}]}` + "\n\n"
	for _, tt := range []struct {
		name           string
		server         hostile
		timeout, stall time.Duration
		boundMiB       int64
		want           string
		why            string
	}{
		{"white_space_and_comments", hostile{again: strings.Repeat("\n\n: still here\n\r\n   \n", 200), pause: hostilePause},
			6 * time.Second, 3 * time.Second, 256, "stall_timeout", "none of it is output, so the stall limit ends it"},
		{"one_long_line", hostile{start: "data: ", again: strings.Repeat("x", 32<<10), atMost: longLineBytes, gatherAt: client.EventLimitBytes(hostileStreams) - 64<<10},
			30 * time.Second, 30 * time.Second, 1_536, "line_too_long", "an event is read up to 2 MiB at this concurrency, and all streams are just below that at once"},
		{"content_without_end", hostile{again: strings.Repeat(event, 40), pause: hostilePause},
			6 * time.Second, 3 * time.Second, 256, "total_timeout", "every event is output, so the total limit ends it; the captured text is bounded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := hostileServer(t, tt.server)
			dir := suiteDir(t)
			cmd := suiteCommand(t, dir, "BASE_URL="+url, "MODEL=x", "REQUESTS=256", "CONCURRENCY=256",
				"TIMEOUT="+tt.timeout.String(), "STALL_TIMEOUT="+tt.stall.String(), "CONTEXT_TOKENS=256", "RESPONSE_WORDS=4", "MAX_TOKENS=64",
				"PREFLIGHT=false", "SELF_CHECK=off", "METRICS_URL=off", "USAGE=observe", "CANARIES=observe")
			began := time.Now()
			got := finish(t, cmd, dir)
			took := time.Since(began)
			rssMiB := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10 // in KiB on Linux
			t.Logf("%s: peak of %d MiB, %s", tt.name, rssMiB, took.Round(10*time.Millisecond))

			assert.NotZero(t, got.exit, "nothing right came of it")
			assert.Less(t, took, tt.timeout+hostileGrace, "the run ends at its limits")
			assert.LessOrEqual(t, rssMiB, tt.boundMiB, "peak of resident memory in MiB: %s", tt.why)
			n := one(t, got)
			details := map[string]int{}
			for _, f := range n.Failures {
				require.NotNil(t, f.FailureDetail, f.ErrorMessage)
				details[*f.FailureDetail]++
			}
			assert.Equal(t, map[string]int{tt.want: hostileStreams}, details, tt.why)
		})
	}
}

// hostileServer answers every completion with h. It gives the base URL.
func hostileServer(t *testing.T, h hostile) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	t.Cleanup(func() { _ = ln.Close(); serving.Wait() })
	gathered := make(chan struct{})
	var streams atomic.Int64
	gather := func() {
		if streams.Add(1) == hostileStreams {
			time.AfterFunc(time.Second, func() { close(gathered) })
		}
		select {
		case <-gathered:
		case <-time.After(runLimit): // a stream is missing: the test fails by its time
		}
	}
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				h.serve(conn, gather)
			})
		}
	})
	return "http://" + ln.Addr().String() + "/v1"
}

// serve serves one connection, whose client is gone when a write fails.
func (h hostile) serve(conn net.Conn, gather func()) {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, req.Body)
	if req.Method != http.MethodPost {
		_, _ = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		return
	}
	_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+h.start)
	again, waits := []byte(h.again), h.gatherAt > 0
	for sent := 0; err == nil && (h.atMost == 0 || sent < h.atMost); {
		if waits && sent+len(again) > h.gatherAt {
			gather()
			waits = false
		}
		_, err = conn.Write(again)
		sent += len(again)
		if h.pause > 0 {
			<-time.After(h.pause)
		}
	}
}
