package contract

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// firstChars is the capture by its definition: the first limit characters, an
// invalid byte being one.
func firstChars(text string, limit int) (kept string, complete bool) {
	at := 0
	for range limit {
		if at == len(text) {
			return text, true
		}
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return text[:at], at == len(text)
}

func TestCaptureAtItsLimit(t *testing.T) {
	const n = CaptureLimitChars
	rows := []struct {
		name, char string
		why        string
	}{
		{"one byte", "a", "ASCII: characters are bytes"},
		{"two bytes", "é", "Latin letters with accents"},
		{"three bytes", "你", "a third of the characters that the bytes suggest"},
		{"four bytes", "🦊", "the longest sequences: 32,768 bytes are kept"},
		{"invalid", "\xff", "a byte that no sequence has counts as a character"},
		{"surrogate", "\xed\xa0\x80", "three invalid bytes: a surrogate is not a character"},
		{"mixed", "a\xffé你🦊", "all at once"},
		{"lone beginnings", "\xf0\x9f", "two bytes of four, then another sequence: invalid, each a character"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			long := strings.Repeat(row.char, n+8)
			for _, chars := range []int{0, 1, n - 1, n, n + 1, n + 7} {
				text, _ := firstChars(long, chars)
				want, complete := firstChars(text, n)
				require.Equal(t, chars <= n, complete, "of the test itself")
				for _, piece := range []int{1, 2, 3, 5, 4096, len(text) + 1} {
					var c Capture
					feed(&c, text, piece)
					require.Equal(t, complete, c.Complete(), "%d characters in pieces of %d bytes: %s", chars, piece, row.why)
					require.Equal(t, want, c.Text(), "%d characters in pieces of %d bytes: %s", chars, piece, row.why)
					require.Equal(t, min(chars, n), c.Chars())
				}
			}
		})
	}
}

func feed(c *Capture, text string, piece int) {
	for len(text) > piece {
		c.Add([]byte(text[:piece]))
		text = text[piece:]
	}
	c.AddString(text)
}

func TestCaptureOfASequenceWhoseEndIsMissing(t *testing.T) {
	const n = CaptureLimitChars
	rows := []struct {
		name     string
		before   int // characters in front
		tail     string
		complete bool
		kept     int // bytes
		why      string
	}{
		{"room for both bytes", n - 2, "\xe4\xbd", true, n, "two bytes without their third are two characters"},
		{"room for one", n - 1, "\xe4\xbd", false, n, "the second byte is one character too many"},
		{"room for none", n, "\xe4", false, n, "a byte past the limit"},
		{"whole", n - 1, "\xe4\xbd\xa0", true, n + 2, "with its third byte it is one character"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var c Capture
			c.AddString(strings.Repeat("a", row.before))
			for _, b := range []byte(row.tail) {
				c.Add([]byte{b})
			}
			assert.Equal(t, row.complete, c.Complete(), row.why)
			assert.Len(t, c.Text(), row.kept, row.why)
		})
	}
}

func TestCaptureReset(t *testing.T) {
	const n = CaptureLimitChars
	for _, before := range []string{"", "short", strings.Repeat("a", n-1) + "\xe4", strings.Repeat("a", n) + "\xe4", strings.Repeat("a", n+1)} {
		var c Capture
		c.AddString(before)
		c.Reset()
		assert.True(t, c.Complete())
		assert.Empty(t, c.Text())
		c.AddString("\xbd\xa0x")
		assert.Equal(t, "\xbd\xa0x", c.Text(), "nothing of the text before is left")
		assert.Equal(t, 3, c.Chars())
		c.AddString("你")
		assert.Equal(t, 4, c.Chars(), "counted from the start again")
		c.AddString(strings.Repeat("b", n-4))
		assert.True(t, c.Complete())
		c.AddString("b")
		assert.False(t, c.Complete(), "the limit is whole again")
	}
}

func TestCaptureKeepsNoReference(t *testing.T) {
	var c Capture
	piece := []byte("code")
	c.Add(piece)
	copy(piece, "XXXX")
	assert.Equal(t, "code", c.Text())
}

func TestCaptureMemory(t *testing.T) {
	var ascii Capture
	for range 100_000 {
		ascii.AddString(" code")
	}
	assert.LessOrEqual(t, cap(ascii.buf), 12<<10, "of plain text no more is kept than the limit")

	var c Capture
	c.AddString(strings.Repeat("🦊", 1<<20))
	for range 1000 {
		c.AddString(strings.Repeat("x", 1000))
	}
	assert.LessOrEqual(t, cap(c.buf), 40<<10, "a server that never stops must not fill the memory")

	piece := []byte(" code")
	perText := testing.AllocsPerRun(100, func() {
		c.Reset()
		for range 3000 {
			c.Add(piece)
		}
	})
	assert.Zero(t, perText, "the memory of one text serves the next")
}

// FuzzCapture cuts a text at every place that the bits of cuts name, and holds
// the capture against its definition. The text is brought near the limit by
// characters in front.
func FuzzCapture(f *testing.F) {
	f.Add([]byte("你好 🦊é \x00 \u2028x"), uint64(0xffff), uint16(5))
	f.Add([]byte("\xf0\x9f\xa6\xf0\x9f\xa6\x8a\xff\xc3"), uint64(0b1010101), uint16(0))
	f.Add([]byte("\xe4\xbd"), uint64(3), uint16(1))
	f.Fuzz(func(t *testing.T, text []byte, cuts uint64, room uint16) {
		front := strings.Repeat("a", max(0, CaptureLimitChars-int(room)))
		want, complete := firstChars(front+string(text), CaptureLimitChars)

		var c Capture
		c.AddString(front)
		from := 0
		for k := range text {
			if cuts>>(k%64)&1 == 1 {
				c.Add(text[from:k])
				from = k
			}
		}
		c.Add(text[from:])
		require.Equal(t, want, c.Text())
		require.Equal(t, complete, c.Complete())
		require.Equal(t, utf8.RuneCountInString(want), c.Chars())
	})
}

func BenchmarkCaptureAdd(b *testing.B) {
	var c Capture
	piece := []byte(" code")
	b.SetBytes(int64(len(piece)))
	b.ReportAllocs()
	for k := 0; b.Loop(); k++ {
		if k%1000 == 0 {
			c.Reset()
		}
		c.Add(piece)
	}
}
