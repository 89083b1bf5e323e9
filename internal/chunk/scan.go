package chunk

import (
	"encoding/binary"
	"math/bits"
)

// This file is the grammar of JSON (RFC 8259), whatever the values mean. Each
// function takes the data and the index of what it reads, and gives the index
// after it, or a negative number after it has called fail.

// isSpace says that c is JSON white space.
func isSpace(c byte) bool {
	const set = 1<<' ' | 1<<'\t' | 1<<'\n' | 1<<'\r'
	return c <= ' ' && set>>c&1 != 0
}

// space gives the index of the first byte at or after i that is not white space.
func space(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// fail notes the first syntax error, at byte i, and what should stand there.
func (d *Decoder) fail(i int, want string) int {
	if d.want == "" {
		d.at, d.want = i, want
	}
	return -1
}

// skip reads any value, of which depth arrays and objects are open around it.
func (d *Decoder) skip(b []byte, i, depth int) int {
	switch c := b[i]; {
	case c == '"':
		return d.skipString(b, i)
	case c == 'n':
		return d.null(b, i)
	case c == '{':
		return d.skipObject(b, i, depth)
	case c == '[':
		return d.skipArray(b, i, depth)
	case c == '-' || c-'0' <= 9:
		return d.number(b, i)
	case c == 't':
		return d.literal(b, i, "true")
	case c == 'f':
		return d.literal(b, i, "false")
	}
	return d.fail(i, "a value")
}

func (d *Decoder) skipObject(b []byte, i, depth int) int {
	if depth >= MaxDepth {
		return d.fail(i, tooDeep)
	}
	i++
	for first := true; ; first = false {
		var open bool
		if _, _, i, open = d.name(b, i, first); !open {
			return i
		}
		if i = d.skip(b, i, depth+1); i < 0 {
			return i
		}
	}
}

func (d *Decoder) skipArray(b []byte, i, depth int) int {
	if depth >= MaxDepth {
		return d.fail(i, tooDeep)
	}
	i++
	for first := true; ; first = false {
		var open bool
		if i, open = d.element(b, i, first); !open {
			return i
		}
		if i = d.skip(b, i, depth+1); i < 0 {
			return i
		}
	}
}

// name reads up to the value of the next member of an object: i stands after
// the brace (first) or after the value before. It gives the place of the name
// and that of the value; open is false when the object ended, then next is the
// index after it, or on a fault.
func (d *Decoder) name(b []byte, i int, first bool) (start, end, next int, open bool) {
	// Most servers send no white space, and most names are short and plain.
	quote := i
	if !first {
		quote++
	}
	if quote+9 <= len(b) && b[quote] == '"' && (first || b[i] == ',') {
		start = quote + 1
		special := specials(binary.LittleEndian.Uint64(b[start:]))
		end = start + bits.TrailingZeros64(special)>>3
		if special == 0 {
			end = nextSpecial(b, end)
		}
		if end+2 < len(b) && b[end] == '"' && b[end+1] == ':' && b[end+2] > ' ' {
			d.escaped = false
			return start, end, end + 2, true
		}
	}
	return d.anyName(b, i, first)
}

// anyName is name for all that the grammar allows.
func (d *Decoder) anyName(b []byte, i int, first bool) (start, end, next int, open bool) {
	i = space(b, i)
	if i < len(b) && b[i] == '}' {
		return 0, 0, i + 1, false
	}
	if !first {
		if i >= len(b) || b[i] != ',' {
			return 0, 0, d.fail(i, "a comma or a closing brace"), false
		}
		i = space(b, i+1)
	}
	if i >= len(b) || b[i] != '"' {
		return 0, 0, d.fail(i, "a name in quotes"), false
	}
	start = i + 1
	end = d.stringEnd(b, start)
	if end < 0 {
		return 0, 0, end, false
	}
	i = space(b, end+1)
	if i >= len(b) || b[i] != ':' {
		return 0, 0, d.fail(i, "a colon"), false
	}
	if i = space(b, i+1); i >= len(b) {
		return 0, 0, d.fail(i, "a value"), false
	}
	return start, end, i, true
}

// element reads up to the next element of an array, as name does for an object.
func (d *Decoder) element(b []byte, i int, first bool) (next int, open bool) {
	i = space(b, i)
	if i < len(b) && b[i] == ']' {
		return i + 1, false
	}
	if !first {
		if i >= len(b) || b[i] != ',' {
			return d.fail(i, "a comma or a closing bracket"), false
		}
		i = space(b, i+1)
	}
	if i >= len(b) {
		return d.fail(i, "a value"), false
	}
	return i, true
}

// null reads null.
func (d *Decoder) null(b []byte, i int) int {
	if len(b)-i >= len("null") && string(b[i:i+len("null")]) == "null" {
		return i + len("null")
	}
	return d.fail(i, "null")
}

// literal reads word: true or false.
func (d *Decoder) literal(b []byte, i int, word string) int {
	if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
		return i + len(word)
	}
	return d.fail(i, word)
}

// number reads a number.
func (d *Decoder) number(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	default:
		if i = d.digits(b, i); i < 0 {
			return i
		}
	}
	if i < len(b) && b[i] == '.' {
		if i = d.digits(b, i+1); i < 0 {
			return i
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return d.digits(b, i)
	}
	return i
}

// digits reads one digit or more.
func (d *Decoder) digits(b []byte, i int) int {
	start := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return d.fail(i, "a digit")
	}
	return i
}

// skipString reads a string, of which b[i] is the opening quote.
func (d *Decoder) skipString(b []byte, i int) int {
	end := d.stringEnd(b, i+1)
	if end < 0 {
		return end
	}
	return end + 1
}

// stringEnd gives the index of the quote that closes the string whose first
// byte is at i. It sets d.escaped to whether the string has an escape.
func (d *Decoder) stringEnd(b []byte, i int) int {
	d.escaped = false
	for {
		if i = nextSpecial(b, i); i >= len(b) || b[i] < ' ' {
			return d.fail(i, "a closing quote, and control characters as escapes")
		}
		if b[i] == '"' {
			return i
		}
		d.escaped = true
		if i = d.escape(b, i); i < 0 {
			return i
		}
	}
}

// nextSpecial gives the index of the first byte at or after i that is not plain,
// len(b) for none.
func nextSpecial(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		if special := specials(binary.LittleEndian.Uint64(b[i:])); special != 0 {
			return i + bits.TrailingZeros64(special)>>3
		}
	}
	for i < len(b) && isPlain(b[i]) {
		i++
	}
	return i
}

// isPlain says that c stands for itself in a string.
func isPlain(c byte) bool { return c >= ' ' && c != '"' && c != '\\' }

const (
	everyByte = 0x0101010101010101 // times c: a word of eight bytes c
	highBits  = 0x80 * everyByte
)

// specials marks, by the high bit of its byte, each of eight bytes that is not
// plain in a string. Marks above the lowest one may be wrong, since a
// subtraction borrows; the lowest is right, and so is none.
func specials(word uint64) uint64 {
	quote := word ^ '"'*everyByte
	slash := word ^ '\\'*everyByte
	return ((quote-everyByte)&^quote | (slash-everyByte)&^slash | (word-' '*everyByte)&^word) & highBits
}

// escape reads an escape, of which b[i] is the backslash.
func (d *Decoder) escape(b []byte, i int) int {
	if i+1 >= len(b) {
		return d.fail(i+1, escapeWanted)
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		for k := i + 2; k < i+6; k++ {
			if k >= len(b) || hexValue(b[k]) > 15 {
				return d.fail(k, "four hex digits")
			}
		}
		return i + 6
	}
	return d.fail(i+1, escapeWanted)
}

const escapeWanted = `one of "\/bfnrtu after a backslash`

// hexValue gives the value of a hex digit, 255 for any other byte.
func hexValue(c byte) byte {
	switch {
	case c-'0' <= 9:
		return c - '0'
	case c|0x20-'a' <= 5:
		return c | 0x20 - 'a' + 10
	}
	return 255
}
