package contract

import "unicode/utf8"

// Capture keeps the beginning of a text that arrives in pieces: the first
// CaptureLimitChars characters. A character is a Unicode code point, or one
// byte that is not part of a valid UTF-8 sequence. Pieces may split a sequence
// anywhere; what is captured does not depend on where.
//
// The zero value is ready. Its memory is bounded (32 KiB and a piece's
// rounding) and is used again after Reset, so a worker's one Capture allocates
// nothing for its later requests but their Text. Not safe for concurrent use.
type Capture struct {
	buf []byte
	// chars counts the characters of buf[:decoded], CaptureLimitChars at most.
	// What is behind is the beginning of a sequence whose rest may still
	// arrive, or the first bytes past the limit.
	chars, decoded int
}

// captureLimitBytes is enough for the longest CaptureLimitChars characters and
// for one byte more, which then must be of a further character.
const captureLimitBytes = CaptureLimitChars*utf8.UTFMax + 1

// Add takes the next piece of the text. It keeps no reference to it.
func (c *Capture) Add(piece []byte) { add(c, piece) }

// AddString is Add for a string.
func (c *Capture) AddString(piece string) { add(c, piece) }

func add[T []byte | string](c *Capture, piece T) {
	if c.chars == CaptureLimitChars && c.pending() > 0 {
		return // any byte more is a character more
	}
	c.buf = append(c.buf, piece[:min(len(piece), captureLimitBytes-len(c.buf))]...)
	c.count()
}

// count takes the bytes that have arrived into chars, as far as they are whole.
// It runs on every event, hence the local copies.
func (c *Capture) count() {
	buf, at, chars := c.buf, c.decoded, c.chars
	for at < len(buf) && chars < CaptureLimitChars {
		size := 1
		if buf[at] >= utf8.RuneSelf {
			if !utf8.FullRune(buf[at:]) {
				break
			}
			_, size = utf8.DecodeRune(buf[at:])
		}
		at += size
		chars++
	}
	c.decoded, c.chars = at, chars
}

// Complete says that the text so far is no longer than the limit, so that Text
// is all of it. The empty text is complete.
func (c *Capture) Complete() bool {
	return c.chars+c.pending() <= CaptureLimitChars
}

// Chars is how many characters of the text are kept, CaptureLimitChars at most.
func (c *Capture) Chars() int { return min(c.chars+c.pending(), CaptureLimitChars) }

// Text gives what is kept, byte for byte as it arrived. It is a copy.
func (c *Capture) Text() string {
	return string(c.buf[:c.decoded+c.Chars()-c.chars])
}

// Reset empties the capture for another text and keeps its memory.
func (c *Capture) Reset() { *c = Capture{buf: c.buf[:0]} }

// pending counts the bytes behind the decoded ones. Those of a sequence that has
// not arrived whole are invalid as long as its rest is missing, and each of them
// a character.
func (c *Capture) pending() int { return len(c.buf) - c.decoded }
