package chunk

import (
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string, of which b[i] is the opening quote, and gives its
// decoded bytes: a part of b where nothing needs decoding, else a part of
// d.scratch.
func (d *Decoder) text(b []byte, i int) (s []byte, next int) {
	end := d.stringEnd(b, i+1)
	if end < 0 {
		return nil, end
	}
	raw := b[i+1 : end]
	if !d.escaped && utf8.Valid(raw) {
		return raw, end + 1
	}
	start := len(d.scratch)
	d.scratch = appendDecoded(d.scratch, raw)
	// The capacity ends with the text, so that no one can append to it over the
	// text after it.
	return d.scratch[start:len(d.scratch):len(d.scratch)], end + 1
}

// appendDecoded appends the inside of a string that stringEnd accepted to dst,
// its escapes resolved and its UTF-8 mended as encoding/json does: U+FFFD for
// each bad byte and each lone surrogate.
func appendDecoded(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		c := raw[i]
		switch {
		case c == '\\' && raw[i+1] == 'u':
			r, n := decodeUnicode(raw[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		case c == '\\':
			dst = append(dst, decodeShort(raw[i+1]))
			i += 2
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
		default:
			r, n := utf8.DecodeRune(raw[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return dst
}

// decodeUnicode decodes the \uXXXX at the start of raw, with the one after it
// where both make a surrogate pair, and gives how many bytes it took.
func decodeUnicode(raw []byte) (r rune, n int) {
	r = hex4(raw[2:])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(raw[8:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// hex4 gives the value of four hex digits.
func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		r = r<<4 | rune(hexValue(c))
	}
	return r
}

// decodeShort gives the byte that a backslash and c stand for.
func decodeShort(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // the quote, the slash and the backslash
}
