package chunk_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"anvil-capacity/internal/chunk"
	"anvil-capacity/internal/sse"
)

// eventBytes is the size of the benchmark's events with their framing, that of
// vLLM's for a short model name.
const eventBytes = 228

// vllmEvents gives n events as vLLM sends them, text(i) the JSON string of the
// text of each, and the member of the delta that carries it.
func vllmEvents(n int, member string, text func(i int) string) []string {
	events := make([]string, n)
	for i := range events {
		events[i] = fmt.Sprintf("data: {\"id\":\"chatcmpl-8f14e45fceea167a5a36dedd4bea2543\",\"object\":\"chat.completion.chunk\",\"created\":1764576000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{%q:%s},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]}\n\n",
			member, text(i))
	}
	return events
}

// shapes are the streams of the benchmarks.
func shapes() []struct {
	name   string
	events []string
} {
	word := func(i int) string { return []string{`" code"`, `" the"`, `"."`, `" answer"`}[i%4] }
	escaped := func(i int) string { return []string{`"\n"`, `" \"the\""`, `" né"`, `"\u00e9t\u00e9"`}[i%4] }
	fresh := func(i int) string { // every event has something of its own beside the text: nothing repeats
		return fmt.Sprintf(`" code"},"n":%d,"x":{"k":""`, i)
	}
	type shape = struct {
		name   string
		events []string
	}
	return []shape{
		{"content", vllmEvents(256, "content", word)},
		{"reasoning", vllmEvents(256, "reasoning_content", word)},
		{"escaped", vllmEvents(256, "content", escaped)},
		{"no_two_alike", vllmEvents(256, "content", fresh)},
	}
}

// report gives the figures of one event.
func report(b *testing.B, events, bytes int) {
	total := float64(b.N) * float64(events)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/total, "ns/event")
	b.ReportMetric(0, "ns/op")
	b.SetBytes(int64(bytes))
}

// BenchmarkFrameAndDecode is what the client does to each event once it was
// read: reads of 64 KiB and of one event.
func BenchmarkFrameAndDecode(b *testing.B) {
	for _, shape := range shapes() {
		for _, read := range []struct {
			name  string
			bytes int
		}{{"64KiB_reads", 64 << 10}, {"event_reads", 1}} {
			b.Run(shape.name+"/"+read.name, func(b *testing.B) {
				reads, size := group(shape.events, read.bytes)
				p := sse.NewParser(0)
				var d chunk.Decoder
				var c chunk.Chunk
				var ev sse.Event
				text := 0
				b.ReportAllocs()
				for b.Loop() {
					for _, read := range reads {
						p.Feed(read)
						for p.Next(&ev) {
							if only, _, ok := d.Text(ev.Data); ok {
								text += len(only)
								continue
							}
							if err := d.Decode(ev.Data, &c); err != nil {
								b.Fatal(err)
							}
							text += len(c.Content) + len(c.Reasoning)
						}
					}
				}
				if text == 0 {
					b.Fatal("no text was read")
				}
				report(b, len(shape.events), size)
			})
		}
	}
}

// group joins events to reads of that size at least.
func group(events []string, bytes int) (reads [][]byte, size int) {
	var sb strings.Builder
	for _, event := range events {
		sb.WriteString(event)
		size += len(event)
		if sb.Len() >= bytes {
			reads = append(reads, []byte(sb.String()))
			sb.Reset()
		}
	}
	if sb.Len() > 0 {
		reads = append(reads, []byte(sb.String()))
	}
	return reads, size
}

// BenchmarkDecode decodes in full and without framing, beside encoding/json with a small
// struct.
func BenchmarkDecode(b *testing.B) {
	for _, shape := range shapes() {
		var data [][]byte
		size := 0
		for _, event := range shape.events {
			data = append(data, []byte(event[len("data: "):len(event)-len("\n\n")]))
			size += len(data[len(data)-1])
		}
		b.Run(shape.name, func(b *testing.B) {
			var d chunk.Decoder
			var c chunk.Chunk
			b.ReportAllocs()
			for b.Loop() {
				for _, event := range data {
					if err := d.Decode(event, &c); err != nil {
						b.Fatal(err)
					}
				}
			}
			report(b, len(data), size)
		})
		b.Run(shape.name+"/encoding_json", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, event := range data {
					var c struct {
						Choices []struct {
							Index int
							Delta struct {
								Content   *string
								Reasoning *string `json:"reasoning_content"`
							}
							FinishReason *string `json:"finish_reason"`
						}
						Usage *struct {
							PromptTokens int `json:"prompt_tokens"`
						}
					}
					if err := json.Unmarshal(event, &c); err != nil {
						b.Fatal(err)
					}
				}
			}
			report(b, len(data), size)
		})
	}
}

// TestBenchmarkEvents keeps the benchmark's events what they are said to be.
func TestBenchmarkEvents(t *testing.T) {
	for _, shape := range shapes() {
		sum := 0
		for _, event := range shape.events {
			sum += len(event)
		}
		if mean := sum / len(shape.events); mean < eventBytes-10 || mean > eventBytes+40 {
			t.Errorf("%s: events of %d bytes, want about %d", shape.name, mean, eventBytes)
		}
	}
}
