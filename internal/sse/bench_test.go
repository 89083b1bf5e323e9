package sse_test

import (
	"bytes"
	"strings"
	"testing"

	"anvil-capacity/internal/sse"
)

// benchEvents is how many events a round of a benchmark reads.
const benchEvents = 256

// benchEvent is an event of 228 bytes, as vLLM sends them.
var benchEvent = "data: " + strings.Repeat("x", 220) + "\n\n"

// BenchmarkParser frames events, beside the floor: a loop that finds each LF
// and does nothing else, in the same run.
func BenchmarkParser(b *testing.B) {
	for _, shape := range []struct{ name, event string }{
		{"lf", benchEvent},
		{"crlf", strings.ReplaceAll(benchEvent, "\n", "\r\n")},
		{"typed", "event: message\n" + benchEvent},
	} {
		body := []byte(strings.Repeat(shape.event, benchEvents))
		b.Run(shape.name+"/many_a_read", func(b *testing.B) { benchParser(b, body, len(body)) })
		b.Run(shape.name+"/one_a_read", func(b *testing.B) { benchParser(b, body, len(shape.event)) })
		b.Run(shape.name+"/cut_in_two", func(b *testing.B) { benchParser(b, body, len(shape.event)/2+1) })
		b.Run(shape.name+"/floor", func(b *testing.B) { benchFloor(b, body) })
	}
}

func benchParser(b *testing.B, body []byte, read int) {
	p := sse.NewParser(0)
	var ev sse.Event
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for at := 0; at < len(body); at += read {
			p.Feed(body[at:min(at+read, len(body))])
			for p.Next(&ev) {
				n++
			}
		}
		if n != benchEvents {
			b.Fatalf("got %d events, want %d", n, benchEvents)
		}
	}
	report(b, body)
}

func benchFloor(b *testing.B, body []byte) {
	for b.Loop() {
		n := 0
		for rest := body; ; n++ {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			rest = rest[i+1:]
		}
		if n < 2*benchEvents {
			b.Fatalf("got %d lines, want %d at least", n, 2*benchEvents)
		}
	}
	report(b, body)
}

func report(b *testing.B, body []byte) {
	b.SetBytes(int64(len(body)))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchEvents, "ns/event")
	b.ReportMetric(0, "ns/op")
}
