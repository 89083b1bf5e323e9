package chunk

import (
	"math"
	"strconv"
)

// MaxCount is the largest token count that is believed: the last whole number
// up to which a JSON reader with float64 numbers is exact.
const MaxCount = 1 << 53

const countWanted = "a whole number from 0 to 9007199254740992 or null"

// usage reads the top-level member of that name; of two, the last one counts.
func (d *Decoder) usage(b []byte, i int, c *Chunk) int {
	c.HasUsage, c.Usage = false, Usage{}
	switch b[i] {
	case 'n':
		return d.null(b, i)
	case '{':
	default:
		return d.wrong(b, i, 1, "usage", "an object or null")
	}
	c.HasUsage = true
	u := &c.Usage
	i++
	for first := true; ; first = false {
		name, next, open := d.member(b, i, first)
		if !open {
			return next
		}
		switch i = next; string(name) {
		case "prompt_tokens":
			i = d.count(b, i, 2, "usage.prompt_tokens", &u.PromptTokens)
		case "completion_tokens":
			i = d.count(b, i, 2, "usage.completion_tokens", &u.CompletionTokens)
		case "total_tokens":
			i = d.count(b, i, 2, "usage.total_tokens", &u.TotalTokens)
		case "prompt_tokens_details":
			i = d.detail(b, i, "usage.prompt_tokens_details", "usage.prompt_tokens_details.cached_tokens", &u.CachedTokens)
		case "completion_tokens_details":
			i = d.detail(b, i, "usage.completion_tokens_details", "usage.completion_tokens_details.reasoning_tokens", &u.ReasoningTokens)
		default:
			i = d.skip(b, i, 2)
		}
		if i < 0 {
			return i
		}
	}
}

// detail reads one of the objects of details, the member path of the chunk, of
// which only the member wanted is read, named by its own whole path.
func (d *Decoder) detail(b []byte, i int, path, wanted string, n *Count) int {
	*n = Count{}
	switch b[i] {
	case 'n':
		return d.null(b, i)
	case '{':
	default:
		return d.wrong(b, i, 2, path, "an object or null")
	}
	i++
	for first := true; ; first = false {
		name, next, open := d.member(b, i, first)
		if !open {
			return next
		}
		if i = next; string(name) == wanted[len(path)+1:] {
			i = d.count(b, i, 3, wanted, n)
		} else {
			i = d.skip(b, i, 3)
		}
		if i < 0 {
			return i
		}
	}
}

// count reads a whole number that is not negative, in whatever form JSON may
// write it (12, 12.0, 1.2e1), or null.
func (d *Decoder) count(b []byte, i, depth int, path string, n *Count) int {
	*n = Count{}
	if c := b[i]; c != '-' && c-'0' > 9 {
		if c == 'n' {
			return d.null(b, i)
		}
		return d.wrong(b, i, depth, path, countWanted)
	}
	next := d.number(b, i)
	if next < 0 {
		return next
	}
	value, ok := wholeNumber(b[i:next])
	if !ok {
		return d.wrong(b, i, depth, path, countWanted)
	}
	*n = Count{value, true}
	return next
}

// wholeNumber gives the value of a JSON number that is a count.
func wholeNumber(text []byte) (n int, ok bool) {
	for _, c := range text {
		if c-'0' > 9 || n > MaxCount {
			return wholeFloat(text)
		}
		n = n*10 + int(c-'0')
	}
	return n, n <= MaxCount
}

// wholeFloat is wholeNumber for the forms that no server is known to use much.
func wholeFloat(text []byte) (n int, ok bool) {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f < 0 || f > MaxCount || f != math.Trunc(f) {
		return 0, false
	}
	return int(f), true
}
