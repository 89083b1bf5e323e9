package workload

import "slices"

// A prompt, in this order:
//
//	shared prefix   only where asked for: filler, then a line end
//	opening         the marker, or the tag of a plan without markers; a line end
//	filler          as much as the size asks for
//	task            see instructions.go
//
// No other prompt of the plan has the same opening, and the filler behind it is
// drawn for this request alone, so a server that caches by prefix finds no more
// of another prompt to reuse than the first characters of a marker.

// tagChars is the length of a tag: 64 bits in hexadecimal.
const tagChars = 16

// AppendPrompt appends the prompt of request i, PromptChars(i) characters, to
// dst and gives the extended slice. It allocates only where dst lacks the room
// and keeps nothing. 0 <= i < Len(); as with a slice, any other i panics. Safe
// for concurrent use with different dst.
func (p *Plan) AppendPrompt(dst []byte, i int) []byte {
	return p.appendText(dst, i, Length{Chars: p.PromptChars(i), PrefixChars: p.prefixChars}, p.sharedKey)
}

// appendText writes a prompt of any index and length; the shared prefix is that
// of the key.
func (p *Plan) appendText(dst []byte, i int, length Length, sharedKey uint64) []byte {
	start := len(dst)
	dst = slices.Grow(dst, length.Chars)[:start+length.Chars]
	prompt := dst[start:]

	at := length.PrefixChars
	if at > 0 {
		pool().fill(prompt[:at-1], sharedKey)
		prompt[at-1] = '\n'
	}
	t := &p.full
	if length.Chars < at+p.openingChars()+len(t.text) {
		t = &p.compact
	}
	body := at + p.open(prompt[at:], i)
	end := length.Chars - len(t.text)
	pool().fill(prompt[body:end], mix(p.fillerKey+uint64(i)))
	copy(prompt[end:], t.text)
	for _, k := range t.indexes {
		putIndex(prompt[end+k:], i)
	}
	return dst
}

// PromptChars is the length of prompt i, in characters and in bytes: exactly
// CharsPerToken a nominal token, unless the plan was resized.
func (p *Plan) PromptChars(i int) int {
	if p.chars != nil {
		return int(p.chars[i])
	}
	return int(p.sizes[i]) * CharsPerToken
}

// MaxPromptChars is the length of the longest prompt: a buffer of that size
// serves every request of the plan.
func (p *Plan) MaxPromptChars() int {
	if p.chars != nil {
		return int(slices.Max(p.chars))
	}
	return int(slices.Max(p.sizes)) * CharsPerToken
}

func (p *Plan) openingChars() int {
	if p.spec.Canaries {
		return len(p.stem) + markerIndexDigits + 1
	}
	return tagChars + 1
}

// open writes the opening of prompt i and tells its length.
func (p *Plan) open(dst []byte, i int) int {
	n := tagChars
	if p.spec.Canaries {
		n = copy(dst, p.stem)
		putIndex(dst[n:], i)
		n += markerIndexDigits
	} else {
		putTag(dst, mix(p.tagKey+uint64(i))) // mix is a bijection: no two tags of a seed are equal
	}
	dst[n] = '\n'
	return n + 1
}

func putTag(dst []byte, v uint64) {
	for k := tagChars - 1; k >= 0; k-- {
		dst[k] = "0123456789abcdef"[v&15]
		v >>= 4
	}
}
