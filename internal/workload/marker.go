package workload

import (
	"strconv"
	"strings"
)

// A marker is ANVIL_REQ_<seed>_<index, five digits> (PROTOCOL section 2). It
// names one request of one seed, in the prompt and, if all is well, at the
// start of that request's answer and of no other.
const (
	// MarkerPrefix begins every marker.
	MarkerPrefix = "ANVIL_REQ_"
	// markerIndexDigits is the width of the index, zeros in front.
	markerIndexDigits = 5
)

// Word is the word that answers are asked to be made of.
const Word = "code"

// Marker gives the marker of a request. Seed is 0 or more; index is in
// 0..99,999.
func Marker(seed, index int) string {
	b := append(markerStem(nil, seed), "00000"...)
	putIndex(b[len(b)-markerIndexDigits:], index)
	return string(b)
}

// markerStem writes a marker up to its index.
func markerStem(dst []byte, seed int) []byte {
	dst = append(dst, MarkerPrefix...)
	dst = strconv.AppendInt(dst, int64(seed), 10)
	return append(dst, '_')
}

// putIndex writes index over the five bytes of digits.
func putIndex(digits []byte, index int) {
	for k := markerIndexDigits - 1; k >= 0; k-- {
		digits[k] = byte('0' + index%10)
		index /= 10
	}
}

// Owner tells whose marker of this plan a marker is. It is false for a marker
// of another seed, of an index that the plan does not have, one that is
// written another way (more digits, a zero before the seed), and always where
// the plan has no markers. Safe for concurrent use.
func (p *Plan) Owner(marker string) (index int, ok bool) {
	if !p.spec.Canaries {
		return 0, false
	}
	digits, ok := strings.CutPrefix(marker, p.stem)
	if !ok || len(digits) != markerIndexDigits {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		index = index*10 + int(c-'0')
	}
	if index >= p.Len() {
		return 0, false
	}
	return index, true
}

// cutMarker splits s behind the marker that it begins with. Digits are taken
// as long as there are any, so that a marker is never read out of a longer one.
func cutMarker(s string) (marker, rest string, ok bool) {
	n := len(MarkerPrefix)
	if !strings.HasPrefix(s, MarkerPrefix) {
		return "", s, false
	}
	seed := countDigits(s[n:])
	n += seed
	if seed == 0 || n == len(s) || s[n] != '_' {
		return "", s, false
	}
	index := countDigits(s[n+1:])
	n += 1 + index
	if index < markerIndexDigits {
		return "", s, false
	}
	return s[:n], s[n:], true
}

func countDigits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}
