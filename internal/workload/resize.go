package workload

import (
	"fmt"
	"slices"
)

// Prompts are of nominal size unless someone who can count the model's own
// tokens says how many characters each is to have. What follows is for that:
// prompts to count, and a plan of other lengths. The planned sizes in tokens
// stay what they are.

// Length is how long a prompt is.
type Length struct {
	// Chars is the whole of it, in characters, all of them ASCII.
	Chars int
	// PrefixChars of these are the shared prefix and its line end; 0 is none, in a
	// plan with a shared prefix too.
	PrefixChars int
}

// MaxSamples is how many samples a plan has: those of the five-digit indexes
// that no request has.
const MaxSamples = 100_000 - MaxRequests

// LeastChars is the least that a prompt with a shared prefix of so many
// characters holds: prefix, opening and the compact task.
func (p *Plan) LeastChars(prefixChars int) int {
	return prefixChars + p.openingChars() + len(p.compact.text)
}

// FullChars is the least that a prompt with the full task holds.
func (p *Plan) FullChars(prefixChars int) int {
	return prefixChars + p.openingChars() + len(p.full.text)
}

// PrefixChars is the length of the shared prefix; 0 for unique prompts.
func (p *Plan) PrefixChars() int { return p.prefixChars }

// AppendTrial appends the prompt of request i at another length, as a plan that
// was resized to it would make it. 0 <= i < Len() and length.Chars >=
// LeastChars(length.PrefixChars); as with a slice, anything else panics.
func (p *Plan) AppendTrial(dst []byte, i int, length Length) []byte {
	_ = p.sizes[i]
	return p.appendText(dst, i, length, p.sharedKey)
}

// AppendSample appends sample k of the plan: a prompt such as its requests have,
// with a marker of the same length, that no request of any plan has. It shares
// nothing with one that a server's prefix cache could keep: its index is beyond
// every plan's, its filler is drawn for it alone, and so is a shared prefix for
// the samples. 0 <= k < MaxSamples, and length as for AppendTrial.
func (p *Plan) AppendSample(dst []byte, k int, length Length) []byte {
	return p.appendText(dst, MaxRequests+k, length, p.sampleKey)
}

// Resized gives the plan with prompts of other lengths: chars has the length of
// each prompt in characters, prefixChars that of the shared prefix. The error
// says which is too short to hold what a prompt must.
func (p *Plan) Resized(chars []int, prefixChars int) (*Plan, error) {
	if len(chars) != p.Len() {
		return nil, fmt.Errorf("resizing a plan of %d requests: got %d lengths", p.Len(), len(chars))
	}
	if (prefixChars > 0) != (p.prefixChars > 0) || prefixChars < 0 {
		return nil, fmt.Errorf("resizing a plan: got a shared prefix of %d characters, and it had %d", prefixChars, p.prefixChars)
	}
	resized := *p
	resized.prefixChars = prefixChars
	resized.chars = make([]int32, len(chars))
	least := p.LeastChars(prefixChars)
	for i, n := range chars {
		if n < least || n > maxPromptChars {
			return nil, fmt.Errorf("resizing the prompt of request %d: got %d characters, want %d to %d", i, n, least, maxPromptChars)
		}
		resized.chars[i] = int32(n)
	}
	resized.cuts, resized.missing = slices.Clone(p.cuts), slices.Clone(p.missing)
	return &resized, nil
}

// maxPromptChars bounds the length of a prompt: 16 characters a token of the
// largest size, four times what any tokenizer makes of English.
const maxPromptChars = 16 * MaxContextTokens
