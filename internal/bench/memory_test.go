package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/client"
	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/load"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/workload"
)

// The bounds of issue 5.
const (
	liveStreamBytes = 64 << 10 // of one stream beyond its request body
	finishedBytes   = 1 << 10  // kept of one request
)

// manyStreams is the load of BenchmarkLiveStreams.
const manyStreams = 1_400

// fullStreamBytes guards a stream at its fullest, which is so near the bound of a
// live one that the sizes of stacks decide.
const fullStreamBytes = liveStreamBytes * 5 / 4

// TestSteadyEventAllocatesNothing reads a long answer and a short one: what the
// long one allocates more, its events do.
func TestSteadyEventAllocatesNothing(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("starts a process, and the race detector allocates")
	}
	addr := startServer(t)
	for _, pace := range []pace{each, flood} {
		const short, long = 10_000, 60_000
		allocs := func(events int) float64 {
			w := work{addr: addr, streams: 1, script: script{pace, events, 0}}
			c, err := client.New(client.Options{BaseURL: w.script.baseURL(addr), Timeout: readTimeout})
			require.NoError(t, err)
			defer c.Close()
			plan, template := planOf(t, w)
			body := template.Append(nil, plan.AppendPrompt(nil, 0))
			return testing.AllocsPerRun(5, func() {
				obs := c.Complete(t.Context(), body)
				require.Nil(t, obs.Failure)
				require.Equal(t, events, obs.Response.ContentChunks)
			})
		}
		a, b := allocs(short), allocs(long)
		t.Logf("%s: %.0f allocations for %d events, %.0f for %d", pace, a, short, b, long)
		assert.Less(t, (b-a)/(long-short), 0.001, "%s: allocations an event", pace)
	}
}

// TestMemoryOfALiveStream holds streams open in the middle of their answers and
// looks at heap and stacks.
func TestMemoryOfALiveStream(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("starts a process, and the race detector's stacks are larger")
	}
	const streams = 200
	addr := startServer(t)
	for _, tt := range []struct {
		name   string
		script script
		bytes  float64
		why    string
	}{
		{"an_event_a_read", usual, liveStreamBytes, "the steady state"},
		{"capture_and_reads_full", script{held, 2_000, 0}, fullStreamBytes, "the most that a stream of short events holds"},
	} {
		h := startHolding(t, addr, ours, streams, tt.script)
		t.Logf("%s: a live stream holds %.0f bytes", tt.name, h.perStream)
		assert.Less(t, h.perStream, tt.bytes, "%s: %s", tt.name, tt.why)
		h.finish()
	}
}

// usual is a stream in the middle of its answer, which came an event a read.
var usual = script{held, 50, 25}

// holding is a number of streams in the middle of their answers.
type holding struct {
	perStream float64 // bytes of heap and stacks, the request's body not counted
	finish    func()
}

// startHolding begins the streams and waits until all have had their events.
func startHolding(tb testing.TB, addr string, r reader, streams int, s script) holding {
	tb.Helper()
	w := work{addr: addr, streams: streams, script: s}
	plan, template := planOf(tb, w)
	body := len(template.Append(nil, plan.AppendPrompt(nil, 0)))
	before := memory()
	reading := r.prepare(tb, w) // its connections are the streams'
	done := make(chan struct{})
	go func() { defer close(done); reading.read() }()
	require.Eventually(tb, func() bool { return ask(tb, addr, "/holding") == strconv.Itoa(streams) },
		readTimeout, 10*time.Millisecond, "all streams are open")
	return holding{
		perStream: float64(memory()-before)/float64(streams) - float64(body),
		finish:    func() { ask(tb, addr, "/go"); <-done; reading.close() },
	}
}

// ask sends the server a command.
func ask(tb testing.TB, addr, path string) string {
	tb.Helper()
	res, err := http.Get("http://" + addr + path)
	require.NoError(tb, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(tb, err)
	return string(text)
}

// memory is the live heap and the stacks, in bytes.
func memory() int64 {
	runtime.GC()
	runtime.GC() // the first may leave what a pool had
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// finished answers at once, as a server with jittered steps would have been seen
// to answer.
type finished struct {
	mu   sync.Mutex
	gaps record.GapHistogram
	n    int
}

// gapsOfAnAnswer is how many gaps a finished answer has.
const gapsOfAnAnswer = 255

func (f *finished) Complete(_ context.Context, _ []byte) client.Observation {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range gapsOfAnAnswer { // 20 ms, half more or less, and a pause now and then
		f.n++
		gap := 10*time.Millisecond + time.Duration(f.n*7919%20_011)*time.Microsecond
		if i%64 == 0 {
			gap *= 8
		}
		f.gaps.Add(gap)
	}
	now := time.Now()
	return client.Observation{
		Start: now, End: now.Add(time.Second), TTFO: time.Millisecond, TTFT: 2 * time.Millisecond, E2E: time.Second,
		HasTTFO: true, HasTTFT: true, HasE2E: true,
		Text:   workload.Marker(0, f.n/gapsOfAnAnswer-1) + strings.Repeat(codeText, gapsOfAnAnswer),
		Tokens: record.Tokens{Prompt: new(1000), Output: new(256), Reasoning: new(0), Cached: new(0)},
		Response: record.Response{
			HTTPStatus: 200, RequestID: fmt.Sprintf("chatcmpl-%032d", f.n), ContentChunks: 256, Events: 259, BytesRead: 60_000,
			FinishReasons: []string{"stop"}, TerminalObserved: true, DoneObserved: true,
			SecondOutputMS: new(21.0), Gaps: f.gaps.Take(), Reads: 256,
			Connection: &record.Connection{Reused: true, HeaderMS: new(1.5)},
		},
	}
}

// TestMemoryOfAFinishedRequest runs requests whose answers have all that a record
// can keep of a completed one.
func TestMemoryOfAFinishedRequest(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's memory is larger")
	}
	const requests = 2_000
	plan, err := workload.New(workload.Spec{
		Requests: requests, Parts: []workload.Part{{Tokens: promptTokens, Weight: 1}}, ResponseWords: gapsOfAnAnswer, Canaries: true,
	})
	require.NoError(t, err)
	before := memory()
	result, err := load.Run(t.Context(), load.Options{
		Plan: plan, Client: &finished{}, Concurrency: 1, Body: func(int) ([]byte, error) { return nil, nil },
		Policy: load.Policy{Canaries: contract.Strict, Words: contract.Strict, ResponseWords: gapsOfAnAnswer, RequireUsage: true},
	})
	require.NoError(t, err)
	kept := float64(memory()-before) / requests
	buckets := 0
	for _, r := range result.Records {
		require.Nil(t, r.Failure)
		buckets += len(r.Response.Gaps.Buckets)
	}
	t.Logf("a finished request holds %.0f bytes, with %.1f buckets of gaps", kept, float64(buckets)/requests)
	assert.Less(t, kept, float64(finishedBytes))
}

// TestMemoryIsFlatOver10000Requests runs the largest cell of the protocol over
// sockets and looks at the heap and the stacks early and late: what has grown is
// what finished requests keep, and no more.
func TestMemoryIsFlatOver10000Requests(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("starts a process, and the race detector's memory is larger")
	}
	const requests, early = 10_000, 2_000
	w := work{addr: startServer(t), streams: requests, script: script{each, 8, 0}}
	plan, template := planOf(t, w)
	c, err := client.New(client.Options{BaseURL: w.script.baseURL(w.addr), Concurrency: flatConcurrency})
	require.NoError(t, err)
	defer c.Close()
	var seen []int64
	finished := 0
	result, err := load.Run(t.Context(), load.Options{
		Plan: plan, Client: c, Concurrency: flatConcurrency, Policy: policyOf(w),
		Body: func(i int) ([]byte, error) { return template.Append(nil, plan.AppendPrompt(nil, i)), nil },
		OnRecord: func(record.Record) {
			if finished++; finished == early || finished == requests {
				seen = append(seen, memory())
			}
		},
	})
	require.NoError(t, err)
	for i := range result.Records {
		require.Nil(t, result.Records[i].Failure, "request %d", i)
	}
	require.Len(t, seen, 2)
	grown := float64(seen[1]-seen[0]) / (requests - early)
	t.Logf("each of %d requests more holds %.0f bytes, %d KiB in all after the last", requests-early, grown, seen[1]>>10)
	assert.Less(t, grown, float64(finishedBytes))
}

// flatConcurrency is low, so that the requests in flight weigh little beside those
// that are over.
const flatConcurrency = 8

// BenchmarkLiveStreams is the memory of manyStreams live streams: the resident
// memory of a process that does nothing else, and heap and stacks of a stream.
func BenchmarkLiveStreams(b *testing.B) {
	for b.Loop() {
		for _, r := range []reader{bare, ours, openaiType} {
			process := startRole(b, "holder", r.name, startServer(b), strconv.Itoa(manyStreams))
			resident, perStream, _ := strings.Cut(readLine(b, process), " ")
			b.ReportMetric(number(b, resident)/(1<<20), r.name+"-RSS-MiB")
			b.ReportMetric(number(b, perStream)/(1<<10), r.name+"-KiB/stream")
		}
	}
	b.ReportMetric(0, "ns/op")
}

func number(tb testing.TB, text string) float64 {
	tb.Helper()
	n, err := strconv.ParseFloat(text, 64)
	require.NoError(tb, err)
	return n
}

// hold is the role that holds streams open: READER ADDRESS STREAMS. It prints its
// resident memory at its highest and the memory of a stream, in bytes.
func hold(arguments []string) {
	go endWithParent()
	streams, _ := strconv.Atoi(arguments[2])
	for _, r := range []reader{bare, ours, openaiType} {
		if r.name == arguments[0] {
			tb := process{}
			h := startHolding(tb, arguments[1], r, streams, usual)
			fmt.Printf("%d %.0f\n", residentPeak(), h.perStream)
			h.finish()
		}
	}
}

// residentPeak is the most memory that was resident, in bytes; 0 where the
// system does not say.
func residentPeak() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kib), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

// process stands in for a test where there is none: what goes wrong ends it.
type process struct{ testing.TB }

func (process) Helper()                           {}
func (process) Name() string                      { return "holder" }
func (process) Context() context.Context          { return context.Background() }
func (process) FailNow()                          { os.Exit(1) }
func (process) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
