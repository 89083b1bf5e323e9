package chunk

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// The events of a stream are nearly all the same bytes but for the inside of one
// string, the text. Decoding is a function of the bytes, so an event that
// differs from one decoded before only there says the same but for the text:
// comparing it and reading that one string is enough, and several times as fast
// as reading it all. Nothing is assumed of the server; what does not compare
// equal is decoded in full.

// pattern is an event that says nothing but one text: the data before the inside
// of its string, and after it. The zero pattern matches nothing.
type pattern struct {
	around    []byte // what stands before the text, and then what stands after it
	start     int    // where the text stands in around; 0 is no pattern
	reasoning bool   // the text is reasoning, else it is visible
}

// patternBytes bounds the memory of a pattern; larger events are decoded in full.
const patternBytes = 2 << 10

// learn makes the event just decoded the pattern, if it says nothing but a text.
func (d *Decoder) learn(data []byte, c *Chunk) {
	if !c.HasChoice0 || c.OtherChoices || c.ToolCalls || c.HasUsage || c.HasError ||
		len(c.FinishReason) > 0 || c.Timings != nil {
		return
	}
	at, reasoning := d.cur.onlyText(c)
	if at.end == 0 || len(data)-(at.end-at.start) > patternBytes {
		return
	}
	d.last.around = append(append(d.last.around[:0], data[:at.start]...), data[at.end:]...)
	d.last.start, d.last.reasoning = at.start, reasoning
}

// onlyText gives the place of the one string that decides the text of c,
// whatever stands in it; end 0 where no single one does.
func (cur *choice) onlyText(c *Chunk) (at span, reasoning bool) {
	switch {
	case len(c.Reasoning) == 0:
		return cur.contentAt, false
	case len(c.Content) > 0 || len(cur.reasoning[2]) > 0:
		return span{}, false
	case len(cur.reasoning[1]) == 0:
		return cur.reasoningAt[0], true
	case len(cur.reasoning[0]) == 0:
		return cur.reasoningAt[1], true
	}
	return span{}, false // two names for one text: neither decides alone
}

// Text gives the text of an event that says one text and nothing else, where that
// is seen without decoding it: the event differs from one decoded before only
// there. Decode would give the same as Chunk.Reasoning, or as Chunk.Content, and
// leave the rest of the Chunk empty but for HasChoice0. ok is false for any other
// event, and for the first of its kind; then nothing was read. The text is valid
// as long as the slices of a Chunk are.
func (d *Decoder) Text(data []byte) (text []byte, reasoning, ok bool) {
	p := &d.last
	start, end := p.start, len(data)-len(p.around)+p.start
	if start == 0 || end < start || !bytes.Equal(data[:start], p.around[:start]) || !bytes.Equal(data[end:], p.around[start:]) {
		return nil, false, false
	}
	text = data[start:end:end]
	if !isPlainASCII(data, start, end) {
		var next int
		if text, next = d.repeatText(data, start-1); next-1 != end {
			return nil, false, false
		}
	}
	return text, p.reasoning, true
}

// repeatText reads the string whose opening quote is at i.
func (d *Decoder) repeatText(data []byte, i int) ([]byte, int) {
	d.scratch = emptied(d.scratch)
	return d.text(data, i)
}

// isPlainASCII says that all of data[i:end] stand for themselves in a string and
// are ASCII. It may look at bytes past end.
func isPlainASCII(data []byte, i, end int) bool {
	for ; i < end; i += 8 {
		if i+8 > len(data) {
			return isPlainTail(data[i:end])
		}
		word := binary.LittleEndian.Uint64(data[i:])
		special := specials(word) | word&highBits
		if n := end - i; n < 8 {
			special &= 1<<(8*n) - 1
		}
		if special != 0 {
			return false
		}
	}
	return true
}

func isPlainTail(b []byte) bool {
	for _, c := range b {
		if !isPlain(c) || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
