// Package workload plans a cell before its first request: how large each
// prompt is, which marker it carries, and every character of it. A plan is a
// pure function of its Spec: the same on every machine, under every Go version
// and for every order in which prompts are made. It holds no prompt; each is
// written when its request is due.
//
// Definitions: PROTOCOL section 2.
package workload

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Limits of a plan (PROTOCOL section 2).
const (
	MaxRequests      = 10_000
	MinContextTokens = 32
	MaxContextTokens = 1 << 20
	MaxResponseWords = 65_536
	// MaxWeight bounds the weight of one part of a distribution.
	MaxWeight = 1_000_000
)

// CharsPerToken is the nominal size of a token: a prompt of n nominal tokens
// has exactly 3 n characters, all of them ASCII, so as many bytes. Real
// tokenizers make about one token of four characters of it.
const CharsPerToken = 3

// Spec is what a plan is made from.
type Spec struct {
	// Requests is how many requests the plan has, in 1..MaxRequests.
	Requests int
	// Parts is the distribution of prompt sizes; one part is a fixed size.
	Parts []Part
	// Seed decides the order of sizes, the markers and the filler; 0 or more.
	Seed int
	// ResponseWords is how often the word Word is asked for, in
	// 0..MaxResponseWords; 0 asks for a short sentence.
	ResponseWords int
	// Canaries asks for answers that begin with the request's own marker
	// (policies observe and strict). Without it a prompt has no marker, and
	// what makes it particular is a tag that is none.
	Canaries bool
	// Shared begins every prompt with the same SharedPrefixTokens nominal
	// tokens, which are a function of the seed; without it a prompt begins
	// with what is particular to it, and SharedPrefixTokens is 0.
	Shared             bool
	SharedPrefixTokens int
	// MaxPromptTokens caps every prompt, in nominal tokens (see PromptCap); 0
	// is no cap. A part above it is cut to it, and Plan.Cuts says so.
	MaxPromptTokens int
}

// Part is one size of a distribution.
type Part struct {
	// Tokens is the nominal size, in MinContextTokens..MaxContextTokens.
	Tokens int
	// Weight is the share of requests, relative to the other parts'; in
	// 1..MaxWeight.
	Weight int
}

// Plan is a planned cell. Its memory is a few bytes a request, whatever the
// size of the prompts. It never changes: safe for concurrent use.
type Plan struct {
	spec    Spec
	sizes   []int32 // nominal tokens of each request
	counts  map[int]int
	cuts    []Cut
	missing []int
	// chars are the lengths of the prompts; nil is CharsPerToken a nominal token.
	chars []int32
	// prefixChars is the length of the shared prefix, with its line end.
	prefixChars int

	stem      string // the marker up to the index
	fillerKey uint64
	tagKey    uint64
	sharedKey uint64
	// sampleKey is the sharedKey of samples.
	sampleKey uint64

	full, compact tail
}

// Request is one request of a plan, without its prompt.
type Request struct {
	// Index is the request's place in the plan, from 0.
	Index int
	// ContextTokens is the nominal size of its prompt, after the cap.
	ContextTokens int
	// Marker is the request's own marker, "" where canaries are off.
	Marker string
}

// Cut is a size that the cap made smaller.
type Cut struct {
	// AskedTokens was asked for; ContextTokens, the cap, is sent.
	AskedTokens, ContextTokens int
	// Requests is how many requests of the plan it concerns.
	Requests int
}

// PromptCap is the largest prompt that a model takes, in nominal tokens:
// maxModelLen - maxTokens - margin. A maxModelLen of 0 is an unknown context,
// which caps nothing: 0. It is an error when not even the least prompt fits.
func PromptCap(maxModelLen, maxTokens, margin int) (int, error) {
	if maxModelLen == 0 {
		return 0, nil
	}
	room := maxModelLen - maxTokens - margin
	if maxModelLen < 0 || maxTokens < 0 || margin < 0 || room < MinContextTokens {
		return 0, fmt.Errorf("fitting prompts into the model: its context of %d tokens less %d for the answer and %d of margin leaves %d, "+
			"want %d at least: lower CAPACITY_MAX_TOKENS or CAPACITY_CONTEXT_MARGIN, or see whether CAPACITY_MAX_MODEL_LEN is right",
			maxModelLen, maxTokens, margin, room, MinContextTokens)
	}
	return room, nil
}

// New plans a cell. The error lists everything that is wrong with the spec.
func New(spec Spec) (*Plan, error) {
	if err := spec.check(); err != nil {
		return nil, fmt.Errorf("planning the workload: %w", err)
	}
	spec.Parts = slices.Clone(spec.Parts)
	p := &Plan{
		spec:      spec,
		stem:      string(markerStem(nil, spec.Seed)),
		fillerKey: derive(spec.Seed, forFiller),
		tagKey:    derive(spec.Seed, forTag),
		sharedKey: derive(spec.Seed, forSharedPrefix),
		sampleKey: derive(spec.Seed, forSamplePrefix),
	}
	p.prefixChars = spec.SharedPrefixTokens * CharsPerToken
	want := task{marker: spec.Canaries, words: spec.ResponseWords > 0}
	p.compact = render(compactWordings, want, []byte(p.stem), spec.ResponseWords)
	want.line = want.words && spec.ResponseWords <= lineWordsMax
	p.full = render(fullWordings, want, []byte(p.stem), spec.ResponseWords)
	p.assignSizes()
	if err := p.checkRoom(); err != nil {
		return nil, fmt.Errorf("planning the workload: %w", err)
	}
	return p, nil
}

// check finds everything that is wrong with a spec by itself.
func (s *Spec) check() error {
	var faults []error
	within := func(name string, got, lo, hi int) {
		if got < lo || got > hi {
			faults = append(faults, fmt.Errorf("%s is %d, want %d to %d", name, got, lo, hi))
		}
	}
	within("CAPACITY_REQUESTS", s.Requests, 1, MaxRequests)
	within("CAPACITY_RESPONSE_WORDS", s.ResponseWords, 0, MaxResponseWords)
	if s.Seed < 0 {
		faults = append(faults, fmt.Errorf("CAPACITY_CONTEXT_SEED is %d, want 0 or more: it is part of every marker", s.Seed))
	}
	if len(s.Parts) == 0 {
		faults = append(faults, errors.New("CAPACITY_CONTEXT_TOKENS names no size"))
	}
	for _, p := range s.Parts {
		within("CAPACITY_CONTEXT_TOKENS", p.Tokens, MinContextTokens, MaxContextTokens)
		within(fmt.Sprintf("the weight of %d in CAPACITY_CONTEXT_TOKENS", p.Tokens), p.Weight, 1, MaxWeight)
	}
	if s.Shared {
		within("CAPACITY_SHARED_PREFIX_TOKENS with CAPACITY_PROMPT_CACHE=shared", s.SharedPrefixTokens, 1, MaxContextTokens)
	} else if s.SharedPrefixTokens != 0 {
		faults = append(faults, fmt.Errorf("CAPACITY_SHARED_PREFIX_TOKENS is %d, want 0 with CAPACITY_PROMPT_CACHE=unique", s.SharedPrefixTokens))
	}
	if s.MaxPromptTokens != 0 && s.MaxPromptTokens < MinContextTokens {
		faults = append(faults, fmt.Errorf("the cap on prompts is %d tokens, want %d at least, or 0 for none", s.MaxPromptTokens, MinContextTokens))
	}
	return errors.Join(faults...)
}

// assignSizes gives each request its nominal size.
func (p *Plan) assignSizes() {
	p.sizes = make([]int32, 0, p.spec.Requests)
	p.counts = make(map[int]int, len(p.spec.Parts))
	for k, n := range apportion(p.spec.Requests, p.spec.Parts) {
		asked := p.spec.Parts[k].Tokens
		tokens := p.capped(asked)
		if n == 0 {
			p.missing = append(p.missing, asked)
			continue
		}
		for range n {
			p.sizes = append(p.sizes, int32(tokens))
		}
		p.counts[tokens] += n
		if tokens != asked {
			p.cuts = append(p.cuts, Cut{AskedTokens: asked, ContextTokens: tokens, Requests: n})
		}
	}
	shuffle(p.sizes, derive(p.spec.Seed, forShuffle))
}

func (p *Plan) capped(tokens int) int {
	if p.spec.MaxPromptTokens > 0 {
		return min(tokens, p.spec.MaxPromptTokens)
	}
	return tokens
}

// checkRoom sees that the least that a prompt must hold fits each size.
func (p *Plan) checkRoom() error {
	least := (p.LeastChars(p.prefixChars) + CharsPerToken - 1) / CharsPerToken
	var faults []error
	for _, part := range p.spec.Parts {
		tokens := p.capped(part.Tokens)
		switch {
		case tokens >= least:
		case tokens < part.Tokens:
			faults = append(faults, fmt.Errorf("a prompt of CAPACITY_CONTEXT_TOKENS=%d is cut to %d tokens by the model's context, want %d at least "+
				"for the shared prefix, marker and task: lower CAPACITY_MAX_TOKENS or CAPACITY_SHARED_PREFIX_TOKENS", part.Tokens, tokens, least))
		default:
			faults = append(faults, fmt.Errorf("CAPACITY_CONTEXT_TOKENS is %d, want %d at least for the shared prefix, marker and task "+
				"(seed %d, %d response words, shared prefix of %d tokens)", part.Tokens, least, p.spec.Seed, p.spec.ResponseWords, p.spec.SharedPrefixTokens))
		}
	}
	return errors.Join(faults...)
}

// Len is the number of requests.
func (p *Plan) Len() int { return len(p.sizes) }

// Request describes request i, 0 <= i < Len(); as with a slice, any other i
// panics.
func (p *Plan) Request(i int) Request {
	r := Request{Index: i, ContextTokens: int(p.sizes[i])}
	if p.spec.Canaries {
		r.Marker = Marker(p.spec.Seed, i)
	}
	return r
}

// ContextDistribution counts the requests by nominal size, after the cap. The
// map is the caller's.
func (p *Plan) ContextDistribution() map[int]int {
	return maps.Clone(p.counts)
}

// Cuts lists the sizes that the cap made smaller, nil for none. The slice is
// the caller's.
func (p *Plan) Cuts() []Cut { return slices.Clone(p.cuts) }

// Missing lists the sizes that no request of the plan has, because their share
// of so few requests is less than one; nil for none. The slice is the caller's.
func (p *Plan) Missing() []int { return slices.Clone(p.missing) }
