package sse_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/sse"
)

const streamsDir = "../../fixtures/streams"

// minStreams guards against a glob that matches nothing.
const minStreams = 35

// streams gives the bodies of fixtures/streams by name.
func streams(tb testing.TB) map[string][]byte {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join(streamsDir, "*.sse"))
	require.NoError(tb, err)
	require.GreaterOrEqual(tb, len(names), minStreams, "streams in %s", streamsDir)
	out := make(map[string][]byte, len(names))
	for _, name := range names {
		body, err := os.ReadFile(name)
		require.NoError(tb, err)
		out[strings.TrimSuffix(filepath.Base(name), ".sse")] = body
	}
	return out
}

// rows are bodies with the right reading of each.
var rows = []struct {
	name string
	body string
	want []seen
	why  string
}{
	{"empty body", "", nil, "nothing was sent"},
	{"lf", "data: a\n\ndata: b\n\n", []seen{{Data: "a"}, {Data: "b"}}, "LF ends a line, a blank line ends an event"},
	{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []seen{{Data: "a"}, {Data: "b"}}, "CRLF is one line end, not two"},
	{"cr", "data: a\r\rdata: b\r\r", []seen{{Data: "a"}, {Data: "b"}}, "CR alone ends a line"},
	{"lf then cr", "data: a\n\rdata: b\n\r", []seen{{Data: "a"}, {Data: "b"}}, "LFCR is two line ends"},
	{"mixed", "data: a\r\n\ndata: b\r\r\ndata: c\n\r\n", []seen{{Data: "a"}, {Data: "b"}, {Data: "c"}}, "each line may end in its own way"},
	{"cr inside a line that ends in lf", "data: a\rdata: b\n\n", []seen{{Data: "a\nb"}}, "the first line end wins, whichever it is"},
	{"no space", "data:a\n\n", []seen{{Data: "a"}}, "the space is optional"},
	{"two spaces", "data:  a\n\n", []seen{{Data: " a"}}, "only one space is dropped"},
	{"tab", "data:\ta\n\n", []seen{{Data: "\ta"}}, "a tab is not the space"},
	{"colon in value", "data: a:b: c\n\n", []seen{{Data: "a:b: c"}}, "the first colon cuts"},
	{"two data lines", "data: a\ndata: b\n\n", []seen{{Data: "a\nb"}}, "joined by LF"},
	{"three data lines, the middle one empty", "data: a\ndata\ndata: c\n\n", []seen{{Data: "a\n\nc"}}, "an empty line joins too"},
	{"first data line empty", "data:\ndata: b\n\n", []seen{{Data: "\nb"}}, "the join counts lines, not bytes"},
	{"empty data", "data:\n\ndata: \n\ndata\n\n", []seen{{}, {}, {}}, "heartbeats are events with empty data (the standard's own example)"},
	{"standard example", "data\n\ndata\ndata\n\ndata:", []seen{{}, {Data: "\n"}}, "html.spec.whatwg.org: the last block is discarded"},
	{"no data", "event: ping\nid: 1\nretry: 5\n\ndata: a\n\n", []seen{{Data: "a"}}, "a block without data gives nothing and its type is gone"},
	{"type", "event: error\ndata: a\n\n", []seen{{Type: "error", Data: "a"}}, "event names the type"},
	{"type after data", "data: a\nevent: error\n\n", []seen{{Type: "error", Data: "a"}}, "the order of fields is free"},
	{"type twice", "event: a\nevent: b\ndata: x\n\n", []seen{{Type: "b", Data: "x"}}, "the last one counts"},
	{"type taken back", "event: a\nevent\ndata: x\n\n", []seen{{Data: "x"}}, "an empty type is the default one"},
	{"type does not stay", "event: a\ndata: x\n\ndata: y\n\n", []seen{{Type: "a", Data: "x"}, {Data: "y"}}, "a type holds for its event"},
	{"comments", ": a\n:\n\n:data: b\ndata: c\n: d\n\n", []seen{{Data: "c"}}, "a line with a colon first is nothing, in an event too"},
	{"unknown fields", "x: 1\nx\nDATA: a\n data: b\ndata : c\ndata: d\n\n", []seen{{Data: "d"}}, "names are exact, in case and space"},
	{"id with nul", "id: a\x00b\ndata: c\n\n", []seen{{Data: "c"}}, "such an id is ignored, the event is not"},
	{"error field", "data: a\n\nerror: {}\n\n", []seen{{Data: "a"}}, "old llama.cpp; error is an unknown field"},
	{"mark", "\uFEFFdata: a\n\n", []seen{{Data: "a"}}, "one leading byte order mark is dropped"},
	{"two marks", "\uFEFF\uFEFFdata: a\n\ndata: b\n\n", []seen{{Data: "b"}}, "the second is a part of the line"},
	{"mark later", "data: a\n\n\uFEFFdata: b\n\ndata: c\n\n", []seen{{Data: "a"}, {Data: "c"}}, "only a leading one is dropped"},
	{"mark and blank lines", "\uFEFF\n\r\ndata: a\n\n", []seen{{Data: "a"}}, "the mark is not a part of the first line"},
	{"half a mark", "\xEF\xBBdata: a\n\ndata: b\n\n", []seen{{Data: "b"}}, "two of its bytes are no mark"},
	{"mark alone", "\uFEFF", nil, "no event"},
	{"line separator", "data: a\u2028\u2029\u0085\v\fb\n\n", []seen{{Data: "a\u2028\u2029\u0085\v\fb"}}, "only CR and LF end lines"},
	{"bad utf-8", "data: \xFF\xC3\n\n", []seen{{Data: "\xFF\xC3"}}, "bytes stay bytes"},
	{"nul in data", "data: a\x00b\n\n", []seen{{Data: "a\x00b"}}, "NUL is only special in an id"},
	{"no blank line", "data: a\n", []seen{{Data: "a", Unterminated: true}}, "WIRE 6: a complete last event counts, flagged"},
	{"no line end", "data: a", []seen{{Data: "a", Unterminated: true}}, "its last data line may lack the end too"},
	{"no line end after a mark", "\uFEFFdata: a", []seen{{Data: "a", Unterminated: true}}, "the mark is dropped there as well"},
	{"no blank line, cr", "data: a\r", []seen{{Data: "a", Unterminated: true}}, "a CR ended the line, the event still lacks its blank line"},
	{"unended second line", "data: a\ndata: b", []seen{{Data: "a\nb", Unterminated: true}}, "both lines are data lines"},
	{"unended type", "data: a\nevent: err", []seen{{Data: "a", Unterminated: true}}, "a cut type may be another one"},
	{"unended name", "data: a\ndat", []seen{{Data: "a", Unterminated: true}}, "a cut line of unknown kind is dropped"},
	{"unended data without colon", "data: a\n\ndata", []seen{{Data: "a"}}, "the name may go on"},
	{"unended empty data", "data: a\n\ndata: ", []seen{{Data: "a"}}, "nothing can be told from no data"},
	{"blank end", "data: a\n\n\n\n", []seen{{Data: "a"}}, "blank lines alone give nothing"},
	{"type of an unterminated event", "event: error\ndata: a", []seen{{Type: "error", Data: "a", Unterminated: true}}, "its line was whole"},
	{"json body", `{"error":{"message":"x"}}`, nil, "a body that is no event stream gives no event"},
}

func TestParser(t *testing.T) {
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			for _, pieces := range [][][]byte{{[]byte(row.body)}, oneByOne([]byte(row.body))} {
				got, err := read(sse.NewParser(0), pieces...)
				require.NoError(t, err)
				assert.Equal(t, row.want, got.Events, "%s; in %d pieces", row.why, len(pieces))
			}
		})
	}
}

func TestStats(t *testing.T) {
	body := "\uFEFF: c\nretry: 1\n\nid: 1\nevent: e\ndata: a\ndata: b\nx: y\n\n: d\r\n\r\ndata:\n\nz"
	got, err := read(sse.NewParser(0), []byte(body))
	require.NoError(t, err)
	assert.Equal(t, sse.Stats{
		Bytes:    int64(len(body)),
		Events:   2, // one with two data lines, one heartbeat
		Comments: 2,
		Fields:   6, // retry, id, event, data, data, data
		Unknown:  1, // x; z has no line end
	}, got.Stats)
}

// TestEveryCut reads each stream, and each row above, at every way of cutting it
// in two, one byte at a time and all at once, and wants what the slow reference
// reads.
func TestEveryCut(t *testing.T) {
	bodies := streams(t)
	for _, row := range rows {
		bodies["row "+row.name] = []byte(row.body)
	}
	cuts := 0
	p := sse.NewParser(0) // one for all: Reset must leave nothing behind
	for name, body := range bodies {
		want := reference(string(body), sse.MaxEventBytes)
		check := func(how string, pieces ...[]byte) {
			p.Reset()
			got, err := read(p, pieces...)
			require.NoError(t, err, "%s, %s", name, how)
			require.Equal(t, want, got, "%s, %s", name, how)
			cuts++
		}
		check("all at once", body)
		check("one by one", oneByOne(body)...)
		for i := range body {
			check(fmt.Sprintf("cut at %d", i), body[:i], body[i:])
			check(fmt.Sprintf("a byte alone at %d", i), body[:i], body[i:i+1], nil, body[i+1:])
		}
	}
	require.Greater(t, cuts, 50_000, "ways of cutting tried")
}

func TestDispatchAtTheLineEnd(t *testing.T) {
	for _, row := range []struct{ name, body, why string }{
		{"lf", "data: a\n\n", "the second LF completes the event"},
		{"crlf", "data: a\r\n\r", "the CR ends the blank line; its LF may come with the next event"},
		{"cr", "data: a\r\r", "the second CR completes the event"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var p sse.Parser
			var ev sse.Event
			for i := range row.body {
				p.Feed([]byte(row.body[i : i+1]))
				assert.Equal(t, i == len(row.body)-1, p.Next(&ev), "after %q: %s", row.body[:i+1], row.why)
				if i < len(row.body)-1 {
					continue
				}
				require.False(t, p.Next(&ev))
				p.Feed([]byte("\n"))
				assert.False(t, p.Next(&ev), "a LF after it gives no further event")
			}
		})
	}
}

// TestLimit holds the limit at n-1, n and n+1 for each thing that counts
// towards it, whole and byte by byte.
func TestLimit(t *testing.T) {
	const limit = 100
	for _, row := range []struct {
		name string
		body func(n int) string // an event that holds n bytes at its worst
		why  string
	}{
		{"line", func(n int) string { return "data: " + strings.Repeat("x", n-6) + "\n\n" }, "the line counts with its name, without its end"},
		{"crlf line", func(n int) string { return "data: " + strings.Repeat("x", n-6) + "\r\n\r\n" }, "CRLF is a line end"},
		{"unended line", func(n int) string { return "data: " + strings.Repeat("x", n-6) }, "found without waiting for the end"},
		{"comment", func(n int) string { return ":" + strings.Repeat("x", n-1) + "\n" }, "a comment is a line too"},
		{"first line after a mark", func(n int) string { return "\uFEFFdata: " + strings.Repeat("x", n-6) + "\n\n" }, "the mark is not a part of the line"},
		{"two data lines", func(n int) string { return "data: 1234567890\ndata: " + strings.Repeat("x", n-16) + "\n\n" }, "10 bytes of data are held while the second line is read"},
		{"type and data", func(n int) string { return "event: 1234567890\ndata: " + strings.Repeat("x", n-16) + "\n\n" }, "the type is held while the data line is read"},
		{"unknown field while data is held", func(n int) string { return "data: 1234567890\n" + strings.Repeat("x", n-10) + "\n\n" }, "any line under way is held"},
	} {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			for n := limit - 1; n <= limit+1; n++ {
				body := []byte("data: ok\n\n" + row.body(n) + "\n\ndata: after\n\n")
				if strings.HasPrefix(row.body(n), "\uFEFF") {
					body = []byte(row.body(n))
				}
				for _, pieces := range [][][]byte{{body}, oneByOne(body)} {
					got, err := read(sse.NewParser(limit), pieces...)
					assert.Equal(t, reference(string(body), limit), got, "%d bytes in %d pieces", n, len(pieces))
					if n <= limit {
						assert.NoError(t, err, "%d bytes: %s", n, row.why)
						continue
					}
					assert.ErrorIs(t, err, sse.ErrTooLong, "%d bytes: %s", n, row.why)
					assert.ErrorContains(t, err, "want at most 100 bytes")
				}
			}
		})
	}
}

// TestMarkAtATinyLimit: what may become a byte order mark is not a line yet.
func TestMarkAtATinyLimit(t *testing.T) {
	for limit := 1; limit <= 4; limit++ {
		for _, body := range []string{"\uFEFF", "\uFEFFa\n", "\uFEFFab\n\n", "\xEF\n", "\xEF\xBB\n", "\xEF\xBBa\n", "\uFEFF\uFEFF"} {
			want := reference(body, limit)
			got, _ := read(sse.NewParser(limit), oneByOne([]byte(body))...)
			assert.Equal(t, want, got, "%q at limit %d, byte by byte", body, limit)
			got, _ = read(sse.NewParser(limit), []byte(body))
			assert.Equal(t, want, got, "%q at limit %d, whole", body, limit)
		}
	}
}

func TestEventIsOverwritten(t *testing.T) {
	var ev sse.Event
	p := sse.NewParser(0)
	p.Feed([]byte("event: e\ndata: a"))
	p.Finish()
	require.True(t, p.Next(&ev))
	require.True(t, ev.Unterminated)
	p.Reset()
	p.Feed([]byte("\ndata: b\n\ndata: c\n\n"))
	for _, want := range []string{"b", "c"} {
		require.True(t, p.Next(&ev))
		assert.Equal(t, sse.Event{Data: []byte(want)}, ev, "nothing is left of the event before")
		ev.Type, ev.Unterminated = []byte("left over"), true
	}
}

func TestDefaultLimit(t *testing.T) {
	const name = "data: "
	text := bytes.Repeat([]byte("x"), sse.MaxEventBytes-len(name)+1)
	body := append([]byte(name), text...)
	for n := sse.MaxEventBytes - 1; n <= sse.MaxEventBytes+1; n++ {
		for _, pieces := range [][][]byte{{body[:n], []byte("\n\n")}, {append(bytes.Clone(body[:n]), "\n\n"...)}} {
			got, err := read(sse.NewParser(0), pieces...)
			if n > sse.MaxEventBytes {
				require.ErrorIs(t, err, sse.ErrTooLong, "a line of %d bytes", n)
				continue
			}
			require.NoError(t, err, "a line of %d bytes", n)
			require.Len(t, got.Events, 1)
			require.Len(t, got.Events[0].Data, n-len(name))
		}
	}
}

func TestErrorIsSticky(t *testing.T) {
	p := sse.NewParser(20)
	var ev sse.Event
	p.Feed([]byte("data: a\n\ndata: " + strings.Repeat("x", 30)))
	require.True(t, p.Next(&ev), "what came whole before the fault counts")
	require.False(t, p.Next(&ev))
	require.ErrorIs(t, p.Err(), sse.ErrTooLong)
	assert.ErrorContains(t, p.Err(), "event 2")
	p.Feed([]byte("\n\ndata: b\n\n"))
	assert.False(t, p.Next(&ev), "nothing after a fault")
	p.Finish()
	assert.False(t, p.Next(&ev), "and nothing at the end")
	assert.ErrorIs(t, p.Err(), sse.ErrTooLong)
	p.Reset()
	assert.NoError(t, p.Err())
	assert.Equal(t, sse.Stats{}, p.Stats())
	p.Feed([]byte("data: b\n\n"))
	assert.True(t, p.Next(&ev), "Reset makes it new")
}

func TestFeedOutOfTurn(t *testing.T) {
	var ev sse.Event
	t.Run("undrained", func(t *testing.T) {
		var p sse.Parser
		p.Feed([]byte("data: a\n\ndata: b\n\n"))
		require.True(t, p.Next(&ev))
		p.Feed([]byte("data: c\n\n"))
		assert.False(t, p.Next(&ev))
		assert.ErrorIs(t, p.Err(), sse.ErrOutOfTurn, "event b would be lost unseen")
	})
	t.Run("after_Finish", func(t *testing.T) {
		var p sse.Parser
		p.Finish()
		p.Feed([]byte("data: a\n\n"))
		assert.False(t, p.Next(&ev))
		assert.ErrorIs(t, p.Err(), sse.ErrOutOfTurn)
	})
	t.Run("drained_but_for_the_false", func(t *testing.T) {
		var p sse.Parser
		for range 3 {
			p.Feed([]byte("data: a\n\n"))
			require.True(t, p.Next(&ev), "one event a read, one Next a read: nothing is lost")
		}
		assert.NoError(t, p.Err())
	})
}

func TestFinishGivesItsEventOnce(t *testing.T) {
	var p sse.Parser
	var ev sse.Event
	p.Feed([]byte("data: a\n\ndata: b\n"))
	p.Finish() // before the events are read: they still come, in order
	require.True(t, p.Next(&ev))
	assert.Equal(t, "a", string(ev.Data))
	assert.False(t, ev.Unterminated)
	require.True(t, p.Next(&ev))
	assert.Equal(t, "b", string(ev.Data))
	assert.True(t, ev.Unterminated)
	assert.False(t, p.Next(&ev))
	assert.False(t, p.Next(&ev))
}

func TestDataIsNotCopied(t *testing.T) {
	for _, row := range []struct{ name, body, why string }{
		{"lf", "data: {}\n\n", "the steady state"},
		{"crlf", "data: {}\r\n\r\n", "line ends are no reason to copy"},
		{"type", "event: x\ndata: {}\n\n", "nor are other fields"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := sse.NewParser(0)
			body := []byte(row.body + row.body)
			at := bytes.Index(body, []byte("{}"))
			p.Feed(body)
			var ev sse.Event
			for _, i := range []int{at, at + len(row.body)} {
				require.True(t, p.Next(&ev))
				assert.Same(t, &body[i], &ev.Data[0], row.why)
				assert.Equal(t, len(ev.Data), cap(ev.Data), "who appends to it must not write over what follows")
			}
		})
	}
}

// TestNoAllocation holds the steady state, in each of its shapes, to 0
// allocations an event.
func TestNoAllocation(t *testing.T) {
	event := "data: " + strings.Repeat("x", 220) + "\n\n"
	for _, row := range []struct {
		name   string
		pieces []string
		events int
	}{
		{"one event a read", []string{event}, 1},
		{"many events a read", []string{strings.Repeat(event, 50)}, 50},
		{"crlf", []string{strings.ReplaceAll(strings.Repeat(event, 50), "\n", "\r\n")}, 50},
		{"cut events", []string{event + event[:100], event[100:] + event[:227], event[227:]}, 3},
		{"typed, commented, joined", []string{": c\nevent: e\nid: 3\n" + event[:len(event)-1] + event}, 1},
		{"long events in pieces", []string{event[:100], strings.Repeat("x", 10<<10), "\n\n"}, 1},
	} {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			p := sse.NewParser(0)
			var ev sse.Event
			pieces := make([][]byte, len(row.pieces))
			for i, piece := range row.pieces {
				pieces[i] = []byte(piece)
			}
			run := func() (n int) {
				for _, piece := range pieces {
					p.Feed(piece)
					for p.Next(&ev) {
						n++
					}
				}
				return n
			}
			require.Equal(t, row.events, run())
			assert.Zero(t, testing.AllocsPerRun(100, func() { run() }))
		})
	}
}
