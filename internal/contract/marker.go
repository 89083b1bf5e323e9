package contract

import "strings"

// A marker is ANVIL_REQ_<seed>_<index> with a seed of one digit or more and an
// index of five or more (PROTOCOL section 2; the pattern is
// ANVIL_REQ_[0-9]+_[0-9]{5,}). Anything less, such as a marker that a token
// limit cut or one in other letters, names no request: it is not a marker but
// a wrong word.
const (
	// MarkerPrefix begins every marker.
	MarkerPrefix = "ANVIL_REQ_"
	// markerIndexDigits is the least length of an index.
	markerIndexDigits = 5
)

// nextMarker finds the first marker of text at or behind from: the text is
// text[start:end]. Start is -1 where there is none. Digits are taken as long
// as there are any, so ANVIL_REQ_0_00001 is not found in ANVIL_REQ_0_000012.
// What stands before or behind a marker does not matter: a marker that is glued
// to other text is evidence all the same.
func nextMarker(text string, from int) (start, end int) {
	for {
		k := strings.Index(text[from:], MarkerPrefix)
		if k < 0 {
			return -1, -1
		}
		start = from + k
		if n := markerLen(text[start:]); n > 0 {
			return start, start + n
		}
		from = start + 1
	}
}

// markerLen is the length of the marker that s, which has MarkerPrefix,
// begins with; 0 where it begins with none.
func markerLen(s string) int {
	n := len(MarkerPrefix)
	seed := digits(s[n:])
	n += seed
	if seed == 0 || n == len(s) || s[n] != '_' {
		return 0
	}
	index := digits(s[n+1:])
	if index < markerIndexDigits {
		return 0
	}
	return n + 1 + index
}

func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// isMarkerByte says whether c could be part of a marker or of a longer name
// that begins like one.
func isMarkerByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
