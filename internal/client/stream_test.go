package client

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/record"
)

// complete runs one response through a client.
func complete(t *testing.T, response []byte) Observation {
	t.Helper()
	c, s := scripted(t)
	s.answer(true, response)
	return c.Complete(t.Context(), testBody)
}

// say is an event with this text.
func say(text string) string {
	return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n", text)
}

func TestFlags(t *testing.T) {
	words := strings.Repeat(say("x"), manyEventsLeast)
	rows := []struct {
		name, body string
		want       []string
		why        string
	}{
		{"none", say("a") + finishes("stop") + saysDone, nil, "an ordinary answer"},
		{"several choices", say("a") + `data: {"choices":[{"index":1,"delta":{"content":"other"}}]}` + "\n\n" + finishes("stop") + saysDone,
			[]string{record.FlagMultipleChoices}, "WIRE 19: only choice 0 counts"},
		{"all at once", words + finishes("stop") + saysDone, []string{record.FlagManyEventsPerRead}, "WIRE 24"},
		{"too few to tell", strings.Repeat(say("x"), manyEventsLeast-1) + finishes("stop") + saysDone, nil, "a short answer may well fit one packet"},
		{"sorted", words + `data: {"choices":[{"index":1,"delta":{}}]}` + "\n\n" + saysDone + useCount,
			[]string{record.FlagDataAfterDone, record.FlagManyEventsPerRead, record.FlagMissingFinishReason, record.FlagMultipleChoices}, "in one order"},
		{"comments after the end", say("a") + finishes("stop") + saysDone + ": bye\n\n\n", nil, "nothing that an answer could be made of"},
		{"half an event after the end", say("a") + finishes("stop") + saysDone + "data: {", []string{record.FlagDataAfterDone}, "data, whole or not"},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			obs := complete(t, []byte(okHead+row.body))
			require.Nil(t, obs.Failure, row.why)
			assert.Equal(t, row.want, obs.Response.Flags, row.why)
		})
	}
}

// TestSeveralChoicesHaveNoTPOT follows the flag into the record (WIRE 19).
func TestSeveralChoicesHaveNoTPOT(t *testing.T) {
	rec := record.Record{Tokens: record.Tokens{Output: new(9)}, Timing: record.Timing{TTFOMS: new(1.0), E2EMS: new(9.0)}}
	require.NotNil(t, rec.TPOTMS())
	require.NotNil(t, rec.DecodeTokS())
	rec.Response.Flags = []string{record.FlagMultipleChoices}
	assert.Nil(t, rec.TPOTMS())
	assert.Nil(t, rec.DecodeTokS())
}

// TestCrowdedReads counts reads by what they completed, and calls half a crowd
// no crowd.
func TestCrowdedReads(t *testing.T) {
	c, s := scripted(t)
	end := []byte(finishes("stop") + saysDone)
	pair, one := []byte(say("a")+say("b")), []byte(say("c"))
	s.answer(true, []byte(okHead), pair, one, []byte(": ping\n\n"), one, pair, one, one, end)
	obs := c.Complete(t.Context(), testBody)
	require.Nil(t, obs.Failure)
	assert.Equal(t, 8, obs.Reads)
	assert.Equal(t, 7, obs.EventReads, "one read brought a comment alone")
	assert.Equal(t, 3, obs.CrowdedReads, "two pairs, and the finish event with [DONE]")
	assert.Empty(t, obs.Response.Flags, "4 of 8 output events came in company, which is not more than half")

	s.answer(true, []byte(okHead), pair, pair, pair, one, one, end)
	assert.Equal(t, []string{record.FlagManyEventsPerRead}, c.Complete(t.Context(), testBody).Response.Flags, "6 of 8")
}

// readCost is what a read of a pacedBody takes that finds something.
const readCost = 20 * time.Microsecond

// pacedBody gives these portions, each after its wait.
type pacedBody struct {
	event string
	steps []portion
	rest  []byte
}

type portion struct {
	events int
	after  time.Duration
}

func (b *pacedBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		if len(b.steps) == 0 {
			return 0, io.EOF
		}
		next := b.steps[0]
		b.steps = b.steps[1:]
		time.Sleep(next.after)
		b.rest = []byte(strings.Repeat(b.event, next.events))
	}
	time.Sleep(readCost)
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// TestClientBehind tells a server that this client cannot follow from one that
// makes it wait, whatever the size of its portions.
func TestClientBehind(t *testing.T) {
	event := benchEvent(1)
	full := readBytes/len(event) + 1
	for _, tt := range []struct {
		name  string
		steps []portion
		want  bool
		why   string
	}{
		{"always_more", []portion{{50 * full, 0}}, true, "each read is full and the next is there at once"},
		{"large_events_of_a_slow_server", slices.Repeat([]portion{{full, 20 * time.Millisecond}}, 50), false, "each read had to wait"},
		{"bursts_of_a_proxy", slices.Repeat([]portion{{20 * full, 100 * time.Millisecond}}, 10), false, "the waits are between the bursts"},
		{"an_event_a_read", slices.Repeat([]portion{{1, 0}}, 50), false, "nothing was left when it read"},
		{"buffered_whole", []portion{{20 * full, time.Second}}, false, "a proxy kept the answer back, and reading it took no time beside that"},
		{"one_read", []portion{{full / 2, time.Millisecond}}, false, "no time went by from the first output to the last"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := begun(newReader(eventLimitMost))
				assert.ErrorIs(t, s.read(&pacedBody{event: event, steps: tt.steps}), io.EOF)
				require.NotZero(t, s.outputs)
				assert.Equal(t, tt.want, slices.Contains(s.flags(), record.FlagClientBehind), tt.why)
			})
		})
	}
}

// TestTextIsBounded holds the capture's limit at n-1, n and n+1 characters.
func TestTextIsBounded(t *testing.T) {
	for n := contract.CaptureLimitChars - 1; n <= contract.CaptureLimitChars+1; n++ {
		obs := complete(t, []byte(okHead+say(strings.Repeat("é", n-1))+say("x")+finishes("stop")+saysDone))
		require.Nil(t, obs.Failure)
		kept := min(n, contract.CaptureLimitChars)
		assert.Equal(t, kept, len([]rune(obs.Text)), "%d characters", n)
		assert.Equal(t, n > kept, obs.Response.TextTruncated, "%d characters", n)
	}
}

func TestUsage(t *testing.T) {
	usage := func(prompt, completion string) string {
		return fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":%s,"completion_tokens":%s}}`+"\n\n", prompt, completion)
	}
	rows := []struct {
		name, body string
		want       record.Tokens
		why        string
	}{
		{"never", "", record.Tokens{}, "WIRE 26: nil is not 0"},
		{"null", `data: {"choices":[],"usage":null}` + "\n\n", record.Tokens{}, "null says nothing"},
		{"zero", usage("5", "0"), record.Tokens{Prompt: new(5), Output: new(0)}, "0 is a count"},
		{"cumulative", usage("5", "1") + usage("5", "2") + usage("5", "3"), record.Tokens{Prompt: new(5), Output: new(3)}, "WIRE 16: the last one counts"},
		{"null afterwards", usage("5", "1") + `data: {"choices":[],"usage":null}` + "\n\n", record.Tokens{Prompt: new(5), Output: new(1)}, "the last that is not null"},
		{"with an event of text", `data: {"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}` + "\n\n", record.Tokens{Prompt: new(5), Output: new(2)}, "WIRE 15: none hides another"},
		{"details", `data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":2}}}` + "\n\n",
			record.Tokens{Prompt: new(5), Output: new(4), Cached: new(3), Reasoning: new(2)}, "WIRE 20"},
		{"details null", `data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":4,"prompt_tokens_details":null}}` + "\n\n",
			record.Tokens{Prompt: new(5), Output: new(4)}, "WIRE 20: unknown, not 0"},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			obs := complete(t, []byte(okHead+say("a")+finishes("stop")+row.body+saysDone))
			require.Nil(t, obs.Failure)
			assert.Equal(t, row.want, obs.Tokens, row.why)
		})
	}
}

// TestTimingsAreKept keeps llama.cpp's own account, the last one.
func TestTimingsAreKept(t *testing.T) {
	timed := func(n int) string {
		return fmt.Sprintf(`data: {"choices":[],"timings":{"predicted_n":%d,"predicted_ms":1.5,"prompt_n":7,"prompt_ms":0.25}}`+"\n\n", n)
	}
	obs := complete(t, []byte(okHead+say("a")+timed(1)+timed(2)+finishes("stop")+saysDone))
	assert.Equal(t, &record.ServerTimings{OutputTokens: 2, OutputMS: 1.5, PromptTokens: 7, PromptMS: 0.25}, obs.Response.ServerTimings)
	assert.Equal(t, 1, obs.Response.ContentChunks, "WIRE 14: it is not output")
	assert.Nil(t, complete(t, []byte(okHead+say("a")+saysDone)).Response.ServerTimings)
}

// TestEncodings decodes what was not asked for (WIRE 22).
func TestEncodings(t *testing.T) {
	body := say("hello") + finishes("stop") + saysDone
	deflated := func(w io.WriteCloser, out *bytes.Buffer) []byte {
		_, _ = io.WriteString(w, body)
		_ = w.Close()
		return out.Bytes()
	}
	var a, b, c bytes.Buffer
	bare, err := flate.NewWriter(&c, 5)
	require.NoError(t, err)
	rows := []struct {
		coding string
		body   []byte
		flags  []string
	}{
		{"gzip", deflated(gzip.NewWriter(&a), &a), []string{record.FlagContentEncoded}},
		{"X-GZIP", a.Bytes(), []string{record.FlagContentEncoded}},
		{"deflate", deflated(zlib.NewWriter(&b), &b), []string{record.FlagContentEncoded}},
		{"deflate", deflated(bare, &c), []string{record.FlagContentEncoded}},
		{"identity", []byte(body), nil},
	}
	for _, row := range rows {
		obs := complete(t, response("200 OK", "text/event-stream", "Content-Encoding: "+row.coding+"\r\n", row.body))
		require.Nil(t, obs.Failure, row.coding)
		assert.Equal(t, "hello", obs.Text, row.coding)
		assert.Equal(t, row.flags, obs.Response.Flags, row.coding)
	}
	for _, row := range rows {
		client, server := scripted(t)
		server.answer(false, response("200 OK", "text/event-stream", "Transfer-Encoding: chunked\r\nContent-Encoding: "+row.coding+"\r\n", nil),
			bytes.TrimSuffix(chunked(row.body), []byte("0\r\n\r\n")), []byte("0\r\n\r\n"))
		for range 2 {
			require.Nil(t, client.Complete(t.Context(), testBody).Failure)
		}
		assert.Equal(t, 1, server.dials, "%s: a decoder that stops before the body's end costs no connection", row.coding)
	}
	obs := complete(t, response("200 OK", "text/event-stream", "Content-Encoding: gzip\r\n", a.Bytes()[:a.Len()/2]))
	require.NotNil(t, obs.Failure)
	assert.Equal(t, record.TruncatedStream, obs.Failure.Detail, "half of a gzip body")
}

// TestLabels reads bodies by what they are, whatever they call themselves.
func TestLabels(t *testing.T) {
	whole := say("hello") + finishes("stop") + saysDone
	rows := []struct {
		contentType, body string
		want              record.Detail
		why               string
	}{
		{"text/event-stream", whole, "", "as it should be"},
		{"text/event-stream; charset=utf-8", whole, "", "with a parameter"},
		{"Text/Event-Stream", whole, "", "types have no case"},
		{"", whole, "", "no label: the framing is right"},
		{"text/plain", whole, "", "a wrong label: the framing is right"},
		{"application/json", whole, "", "the same"},
		{"text/plain", "\uFEFF\r\n: hi\n\n" + whole, "", "byte order mark, blank line and comment may stand first"},
		{"text/plain", "id\n\n" + whole, "", "a field without a colon"},
		{"text/plain", "foo: bar\n\n" + whole, record.NotEventStream, "an unlabelled body must begin like an event stream"},
		{"text/plain", "dat", record.NotEventStream, "it never came to a field"},
		{"text/plain", "", record.NotEventStream, "empty and no stream by name"},
		{"text/event-stream", "dat", record.TruncatedStream, "a stream by name, cut in its first field"},
		{"text/event-stream", "error: {}\n\n", record.TruncatedStream, "an unknown field, as in llama.cpp's old errors"},
		{"text/event-stream", " {\"error\":\"boom\"}", record.NotEventStream, "no line of a stream begins so"},
		{"application/x-ndjson", `{"message":{"content":"hi"}}` + "\n" + `{"done":true}` + "\n", record.NotEventStream, "lines of JSON without framing"},
	}
	for i, row := range rows {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c, s := scripted(t)
			whole := response("200 OK", row.contentType, "", []byte(row.body))
			for _, pieces := range [][][]byte{{whole}, oneByOne(whole)} {
				s.answer(true, pieces...)
				obs := c.Complete(t.Context(), testBody)
				if row.want == "" {
					require.Nil(t, obs.Failure, row.why)
					continue
				}
				require.NotNil(t, obs.Failure, row.why)
				assert.Equal(t, row.want, obs.Failure.Detail, "in %d pieces: %s: %s", len(pieces), row.why, obs.Failure.Message)
				assert.False(t, obs.HasTTFT, "WIRE 7: there is no TTFT, and E2E is not it")
			}
		})
	}
}

// TestStrayErrors finds errors without framing wherever they stand, at any cut.
func TestStrayErrors(t *testing.T) {
	const boom = `{"error":{"message":"boom"}}`
	long := `{ "error" : {"message":"` + strings.Repeat("x", HeadBytes) + `"}}`
	rows := []struct {
		name, body string
		want       record.Detail
		why        string
	}{
		{"between events", say("a") + boom + "\n" + say("b") + finishes("stop") + saysDone, record.UnframedError, "a finish_reason does not make it right"},
		{"after CR", strings.ReplaceAll(say("a"), "\n", "\r") + boom + "\r\r" + finishes("stop") + saysDone, record.UnframedError, "CR ends lines too"},
		{"over lines", say("a") + "{\n\"error\":\n\"boom\"\n}\n\n" + saysDone, record.UnframedError, "as a JSON encoder with indents writes it"},
		{"cut", say("a") + boom[:20], record.UnframedError, "the connection died on it"},
		{"longer than the bound", say("a") + long + "\n\n" + saysDone, record.UnframedError, "its start says what it is"},
		{"no error", say("a") + `{"progress":1}` + "\n" + finishes("stop") + saysDone, "", "an unknown line is ignored, as the standard says"},
		{"after [DONE]", say("a") + finishes("stop") + saysDone + boom + "\n\n", "", "nothing after [DONE] counts"},
		{"inside an event", "data: {\ndata: \"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n" + finishes("stop") + saysDone, "", "data lines are framed"},
	}
	for _, row := range rows {
		t.Run(strings.NewReplacer(" ", "_", "[", "", "]", "").Replace(row.name), func(t *testing.T) {
			c, s := scripted(t)
			body := []byte(row.body)
			for i := range body {
				s.answer(true, []byte(okHead), body[:i], body[i:])
				if i == 0 {
					s.answer(true, []byte(okHead), body)
				}
				obs := c.Complete(t.Context(), testBody)
				if row.want == "" {
					require.Nil(t, obs.Failure, "cut at %d: %s", i, row.why)
					continue
				}
				require.NotNil(t, obs.Failure, "cut at %d: %s", i, row.why)
				require.Equal(t, row.want, obs.Failure.Detail, "cut at %d: %s", i, row.why)
			}
		})
	}
}

// TestReadersAreClean reads all streams one after the other through one client,
// so that whatever one leaves in the pool would be found in the next.
func TestReadersAreClean(t *testing.T) {
	c, s := scripted(t)
	all := fixtures(t)
	n := 0
	for i := range all {
		for _, f := range []fixture{all[i], all[len(all)-1-i], all[(i*7)%len(all)]} {
			s.answer(true, framings[2].wrap(f, nil))
			f.check(t, "in a crowd", c.Complete(t.Context(), testBody))
			n++
		}
	}
	assert.GreaterOrEqual(t, n, 105)
}

// without gives a body without end, or one of so many bytes, made of one text.
type without struct {
	text string
	left int
	at   int
}

func (w *without) Read(p []byte) (n int, err error) {
	if w.left <= 0 {
		return 0, io.EOF
	}
	for n < len(p) && w.left > 0 {
		k := copy(p[n:min(len(p), n+w.left)], w.text[w.at:])
		w.at = (w.at + k) % len(w.text)
		n += k
		w.left -= k
	}
	return n, nil
}

// TestMemoryIsBounded reads 16 MiB of each hostile kind and counts all memory
// that was ever allocated for it, garbage included.
func TestMemoryIsBounded(t *testing.T) {
	const size = 16 << 20
	const limit = 1 << 20 // of an event
	rows := []struct {
		name, text string
		most       uint64
		why        string
	}{
		{"white space", " \n\r\n\t", 64 << 10, "nothing is kept"},
		{"blank lines", "\n", 64 << 10, "nothing is kept"},
		{"comments", ": ping\n\n", 64 << 10, "nothing is kept"},
		{"heartbeats", "data:\n\n", 64 << 10, "nothing is kept"},
		{"text", sayHello, 256 << 10, "the capture is bounded"},
		{"reasoning", think, 64 << 10, "it is counted"},
		{"finish reasons", finishes("stop"), 64 << 10, "some are kept"},
		{"errors", `data: {"error":"boom"}` + "\n\n", 64 << 10, "the first is kept, the others are only counted"},
		{"stray JSON", `{"a":1}` + "\n", 64 << 10, "the first is kept to a bound"},
		{"one line", "data: " + strings.Repeat("x", 1<<16), 4 * limit, "the limit, and what growing to it leaves behind"},
		{"timings", `data: {"choices":[],"timings":{"n":1}}` + "\n\n", 64 << 10, "the last is kept"},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			r := newReader(limit)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			s := begun(r)
			_ = s.read(&without{text: row.text, left: size})
			_ = s.text.Text()
			runtime.ReadMemStats(&after)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, row.most, row.why)
			assert.LessOrEqual(t, len(s.finishReasons), finishReasonsMost)
			if row.name != "one line" {
				assert.EqualValues(t, size, s.bytes, "all of it was read")
			}
		})
	}
}

// begun is a stream of a response that calls itself one, and has no limits.
func begun(r *reader) *stream {
	s := r.begin(&exchange{dog: watchdog{cancel: func(error) {}}, t0: time.Now()})
	s.labelled = true
	return s
}

// TestHeadOfAnythingIsBounded reads no more of what is not an event stream than
// says what it is.
func TestHeadOfAnythingIsBounded(t *testing.T) {
	s := newReader(eventLimitMost).begin(&exchange{dog: watchdog{cancel: func(error) {}}, t0: time.Now()})
	defer s.dog.stop()
	require.ErrorIs(t, s.read(&without{text: "{\"a\": 1}\n", left: 1 << 30}), errNotFramed)
	assert.GreaterOrEqual(t, s.bytes, int64(HeadBytes))
	assert.Less(t, s.bytes, int64(HeadBytes+readBytes))
	assert.LessOrEqual(t, len(s.lost.found), HeadBytes)
}

// TestNoAllocationForAnEvent compares streams of different lengths: what they
// allocate must be the same.
func TestNoAllocationForAnEvent(t *testing.T) {
	r := newReader(eventLimitMost)
	body := &endless{event: []byte(benchEvent(1))}
	allocs := func(events int) float64 {
		return testing.AllocsPerRun(20, func() {
			body.left = events
			_ = begun(r).read(body)
		})
	}
	few, many := allocs(10), allocs(5010)
	// Less than one in all: a collection in the middle can empty a pool.
	assert.Less(t, many-few, 5.0, "5000 more events")
}

func TestFinishReasonsAreBounded(t *testing.T) {
	long := strings.Repeat("r", finishReasonBytes+1)
	obs := complete(t, []byte(okHead+say("a")+strings.Repeat(finishes("stop"), finishReasonsMost)+finishes("length")+saysDone))
	assert.Len(t, obs.Response.FinishReasons, finishReasonsMost)
	obs = complete(t, []byte(okHead+say("a")+finishes(long[1:])+finishes(long)+saysDone))
	assert.Equal(t, []string{long[1:], long[1:]}, obs.Response.FinishReasons)
}

func TestRawEnds(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "%07d", i)
	}
	whole := text.String()
	for _, size := range []int{1, 7, rawKept - 1, rawKept, rawKept + 1, len(whole)} {
		var r rawEnds
		for rest := whole; rest != ""; rest = rest[min(size, len(rest)):] {
			r.add([]byte(rest[:min(size, len(rest))]))
		}
		assert.Equal(t, whole[:rawKept], string(r.first()), "in pieces of %d", size)
		assert.Equal(t, whole[len(whole)-rawKept:], string(r.last()), "in pieces of %d", size)
	}
}
