package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/client"
	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/load"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/workload"
)

// work is what a reader reads: so many streams at once, each of one script.
type work struct {
	addr    string
	script  script
	streams int
	keep    bool // the arrival of every event
}

// seen is what a reader says of one stream.
type seen struct {
	start    time.Time
	ttft     time.Duration
	first    string // the first text
	behind   bool   // this suite's client says that it set the pace
	arrivals []arrival
}

// arrival is one event whose text is the wall clock before its write.
type arrival struct {
	sent int64     // nanoseconds of Unix time
	at   time.Time // here
}

// reader is a way to read streams.
type reader struct {
	name string
	// prepare connects and makes a reading of all streams.
	prepare func(tb testing.TB, w work) reading
}

// reading reads all streams once; close lets the connections go.
type reading struct {
	read  func() []seen
	close func()
}

var (
	bare       = reader{"bare", prepareBare}
	ours       = reader{"client", prepareClient}
	openaiType = reader{"openai", prepareOpenAI}
)

// promptTokens is the size of a prompt, small: it is not what is measured.
const promptTokens = 128

// connectTimeout bounds a reading: a benchmark that hangs says nothing.
const readTimeout = 2 * time.Minute

func planOf(tb testing.TB, w work) (*workload.Plan, *client.Template) {
	tb.Helper()
	plan, err := workload.New(workload.Spec{
		Requests: w.streams, Parts: []workload.Part{{Tokens: promptTokens, Weight: 1}},
		ResponseWords: min(w.script.events-1, workload.MaxResponseWords), Canaries: true,
	})
	require.NoError(tb, err)
	template, err := client.NewTemplate(client.Params{Model: "m", MaxTokens: w.script.events + 1})
	require.NoError(tb, err)
	return plan, template
}

// policyOf judges all that can be judged: an answer longer than the capture
// cannot pass, and one of stamps is not the asked words.
func policyOf(w work) load.Policy {
	p := load.Policy{Canaries: contract.Strict, Words: contract.Strict, ResponseWords: w.script.events - 1, RequireUsage: true}
	if w.script.pace == stamped || w.script.pace == flood {
		p.Words = contract.Observe
	}
	if w.script.events*len(codeText) > contract.CaptureLimitChars/2 {
		p.Canaries, p.Words = contract.Observe, contract.Observe
	}
	return p
}

// prepareClient is this suite: load.Run over its client.
func prepareClient(tb testing.TB, w work) reading {
	plan, template := planOf(tb, w)
	c, err := client.New(client.Options{
		BaseURL: w.script.baseURL(w.addr), Concurrency: w.streams,
		Timeout: readTimeout, StallTimeout: readTimeout, KeepArrivals: w.keep,
	})
	require.NoError(tb, err)
	_, err = c.Warm(tb.Context(), w.streams)
	require.NoError(tb, err)
	spy := &spy{Client: c, keepArrivals: w.keep, seen: make([]seen, w.streams)}
	var completer load.Completer = c
	if w.keep || w.script.pace == flood {
		completer = spy
	}
	read := func() []seen {
		result, err := load.Run(context.Background(), load.Options{
			Plan: plan, Client: completer, Concurrency: w.streams, Policy: policyOf(w),
			Body: func(i int) ([]byte, error) { return template.Append(nil, plan.AppendPrompt(nil, i)), nil },
		})
		require.NoError(tb, err)
		for i := range result.Records {
			r := &result.Records[i]
			require.Nil(tb, r.Failure, "request %d", i)
			require.Equal(tb, w.script.events, r.Response.ContentChunks)
		}
		spy.next = 0
		return spy.seen
	}
	return reading{read, c.Close}
}

// spy keeps of an observation what no record has.
type spy struct {
	*client.Client
	keepArrivals bool
	mu           sync.Mutex
	next         int
	seen         []seen
}

func (s *spy) Complete(ctx context.Context, body []byte) client.Observation {
	obs := s.Client.Complete(ctx, body)
	s.keep(&obs)
	return obs
}

func (s *spy) keep(obs *client.Observation) {
	one := seen{start: obs.Start, ttft: obs.TTFT, behind: slices.Contains(obs.Response.Flags, record.FlagClientBehind)}
	words := strings.Fields(obs.Text)
	if s.keepArrivals {
		for i, at := range obs.Arrivals[1:] { // of the first event, which is the marker
			one.arrivals = append(one.arrivals, arrival{stamp(words[1+i]), obs.Start.Add(at)})
		}
	} else if len(words) > 2 {
		one.first = strings.Join(words[:3], " ")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[s.next] = one
	s.next++
}

func stamp(word string) int64 {
	ns, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return ns
}

// warm makes n connections of the pool: none is given back before all have an
// answer.
func warm(tb testing.TB, hc *http.Client, url string, n int) {
	tb.Helper()
	var answered, done sync.WaitGroup
	answered.Add(n)
	for range n {
		done.Go(func() {
			res, err := hc.Get(url)
			answered.Done()
			answered.Wait()
			if err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
	done.Wait()
}

func newHTTPClient(streams int) (*http.Client, *http.Transport) {
	transport := &http.Transport{MaxIdleConnsPerHost: streams, DisableCompression: true}
	return &http.Client{Transport: transport}, transport
}

// together runs one function a stream and waits for all.
func together(streams int, one func(i int) seen) []seen {
	all := make([]seen, streams)
	var done sync.WaitGroup
	for i := range streams {
		done.Go(func() { all[i] = one(i) })
	}
	done.Wait()
	return all
}

// bareBytes is how much the bare loop reads at most at once: as the client does.
const bareBytes = 16 << 10

// prepareBare is the floor: net/http, Read and the clock. Where arrivals are
// kept it reads into memory that was touched before, and parses afterwards.
func prepareBare(tb testing.TB, w work) reading {
	plan, template := planOf(tb, w)
	hc, transport := newHTTPClient(w.streams)
	base := w.script.baseURL(w.addr)
	warm(tb, hc, base+"/models", w.streams)
	streams := make([]bareStream, w.streams)
	for i := range streams {
		streams[i].body = template.Append(nil, plan.AppendPrompt(nil, i))
		streams[i].allocate(w)
	}
	read := func() []seen {
		return together(w.streams, func(i int) seen {
			s := &streams[i]
			start := time.Now()
			if err := s.run(hc, base+"/chat/completions", w.keep); err != nil {
				panic(err)
			}
			return s.report(start, w)
		})
	}
	return reading{read, transport.CloseIdleConnections}
}

// bareStream is one stream of the bare loop.
type bareStream struct {
	last time.Time // keeps the compiler from dropping the clock

	body  []byte
	buf   []byte // read into; all of it kept where arrivals are
	used  int
	first int // bytes of the first read
	reads []bareRead
	stamp time.Time // of the first read, or the last
}

// bareRead is one read: where its bytes end, and when it returned.
type bareRead struct {
	end int
	at  time.Time
}

func (s *bareStream) allocate(w work) {
	size := bareBytes
	if w.keep {
		size += w.script.events * len(appendEvent(nil, fmt.Sprint(" ", time.Now().UnixNano())))
		s.reads = make([]bareRead, 0, 2*w.script.events)
		for i := range s.reads[:cap(s.reads)] {
			s.reads[:cap(s.reads)][i].end = -1
		}
	}
	s.buf = make([]byte, size)
	for i := range s.buf {
		s.buf[i] = 1
	}
}

func (s *bareStream) run(hc *http.Client, url string, keep bool) error {
	res, err := hc.Post(url, "application/json", bytes.NewReader(s.body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	s.used, s.first, s.reads = 0, 0, s.reads[:0]
	if keep {
		return s.record(res.Body)
	}
	n, err := res.Body.Read(s.buf)
	s.stamp = time.Now()
	s.first = n
	for err == nil {
		_, err = res.Body.Read(s.buf)
		s.last = time.Now()
	}
	return notEOF(err)
}

func (s *bareStream) record(body io.Reader) error {
	for {
		n, err := body.Read(s.buf[s.used:min(s.used+bareBytes, len(s.buf))])
		at := time.Now()
		s.used += n
		s.reads = append(s.reads, bareRead{s.used, at})
		if err != nil {
			return notEOF(err)
		}
	}
}

func notEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// report parses what was read.
func (s *bareStream) report(start time.Time, w work) seen {
	one := seen{start: start}
	if !w.keep {
		one.ttft = s.stamp.Sub(start)
		return one
	}
	rest, at, read := s.buf[:s.used], 0, 0
	for {
		i := bytes.Index(rest[at:], []byte(eventTail))
		if i < 0 {
			return one
		}
		end := at + i + len(eventTail)
		for s.reads[read].end < end {
			read++
		}
		text := rest[at+len(eventHead) : at+i]
		if text[0] == ' ' { // not the marker
			one.arrivals = append(one.arrivals, arrival{stamp(string(text[1:])), s.reads[read].at})
		}
		at = end
	}
}

// prepareOpenAI is the typed stream of openai-go.
func prepareOpenAI(tb testing.TB, w work) reading {
	plan, _ := planOf(tb, w)
	hc, transport := newHTTPClient(w.streams)
	base := w.script.baseURL(w.addr)
	warm(tb, hc, base+"/models", w.streams)
	chat := openai.NewChatCompletionService(option.WithBaseURL(base), option.WithMaxRetries(0), option.WithHTTPClient(hc))
	read := func() []seen {
		return together(w.streams, func(i int) seen {
			one, events, err := typedStream(&chat, string(plan.AppendPrompt(nil, i)), w.keep)
			if err != nil || events != w.script.events {
				panic(fmt.Sprintf("%d events, %v", events, err))
			}
			return one
		})
	}
	return reading{read, transport.CloseIdleConnections}
}

func typedStream(chat *openai.ChatCompletionService, prompt string, keep bool) (one seen, events int, err error) {
	one.start = time.Now()
	stream := chat.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
		Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
	})
	defer stream.Close()
	for stream.Next() {
		at := time.Now()
		chunk := stream.Current()
		if len(chunk.Choices) == 0 || chunk.Choices[0].Delta.Content == "" {
			continue
		}
		if events++; events == 1 {
			one.ttft = at.Sub(one.start)
		} else if keep {
			one.arrivals = append(one.arrivals, arrival{stamp(strings.TrimSpace(chunk.Choices[0].Delta.Content)), at})
		}
	}
	return one, events, stream.Err()
}
