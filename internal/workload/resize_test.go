package workload

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nominal gives the lengths that a plan has by itself.
func nominal(p *Plan) []int {
	chars := make([]int, p.Len())
	for i := range chars {
		chars[i] = p.PromptChars(i)
	}
	return chars
}

func TestResizedToItsOwnLengthsIsTheSame(t *testing.T) {
	for _, kind := range kinds {
		p := planOf(t, sized(kind.spec, 3, 400))
		r, err := p.Resized(nominal(p), p.PrefixChars())
		require.NoError(t, err)
		for i := range p.Len() {
			assert.Equal(t, p.AppendPrompt(nil, i), r.AppendPrompt(nil, i), kind.name)
		}
	}
}

func TestResized(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			p := planOf(t, sized(kind.spec, 3, 400))
			prefix := 0
			if kind.spec.Shared {
				prefix = 77
			}
			before := p.AppendPrompt(nil, 1)
			chars := []int{p.LeastChars(prefix), p.FullChars(prefix), 5001}
			r, err := p.Resized(chars, prefix)
			require.NoError(t, err)
			for i, want := range chars {
				prompt := r.AppendPrompt(nil, i)
				require.Len(t, prompt, want, "to the character")
				require.Equal(t, want, r.PromptChars(i))
				require.Equal(t, p.Request(i), r.Request(i), "the planned tokens and the marker stay")
				require.Equal(t, p.AppendTrial(nil, i, Length{want, prefix}), prompt, "a trial is what the resized plan sends")
				for _, m := range anyMarker.FindAllString(string(prompt), -1) {
					require.Equal(t, r.Request(i).Marker, m)
				}
				_, ok := ParseInstructions(string(prompt))
				require.True(t, ok, "the task is whole")
				if prefix > 0 {
					require.Equal(t, byte('\n'), prompt[prefix-1])
					require.Equal(t, r.AppendPrompt(nil, 0)[:prefix], prompt[:prefix], "the same prefix in every prompt")
				}
			}
			assert.Equal(t, 5001, r.MaxPromptChars())
			assert.Equal(t, p.ContextDistribution(), r.ContextDistribution())
			assert.Equal(t, before, p.AppendPrompt(nil, 1), "the plan that was resized is as it was")
		})
	}
}

func TestResizedRefuses(t *testing.T) {
	unique := planOf(t, sized(Spec{Canaries: true, ResponseWords: 16}, 2, 400))
	shared := planOf(t, sized(Spec{Canaries: true, Shared: true, SharedPrefixTokens: 10}, 2, 400))
	least := unique.LeastChars(0)
	rows := []struct {
		name   string
		plan   *Plan
		chars  []int
		prefix int
		want   string
	}{
		{"too few lengths", unique, []int{1000}, 0, "a plan of 2 requests: got 1 lengths"},
		{"least less one", unique, []int{1000, least - 1}, 0, "the prompt of request 1: got"},
		{"least", unique, []int{1000, least}, 0, ""},
		{"most", unique, []int{1000, maxPromptChars}, 0, ""},
		{"most and one", unique, []int{1000, maxPromptChars + 1}, 0, "the prompt of request 1: got 16777217 characters"},
		{"no room for the prefix", shared, []int{1000, 1000}, 950, "the prompt of request 0"},
		{"a prefix for unique prompts", unique, []int{1000, 1000}, 30, "a shared prefix of 30 characters, and it had 0"},
		{"no prefix for shared ones", shared, []int{1000, 1000}, 0, "a shared prefix of 0 characters, and it had 30"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, err := row.plan.Resized(row.chars, row.prefix)
			if row.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, row.want)
		})
	}
}

// A prompt only grows at its end when it gets longer, so that its tokens grow
// with its characters.
func TestTrialsGrowAtTheEnd(t *testing.T) {
	p := planOf(t, sized(Spec{Canaries: true, ResponseWords: 16}, 2, 400))
	short, long := p.AppendTrial(nil, 1, Length{Chars: 2000}), p.AppendTrial(nil, 1, Length{Chars: 2300})
	end := 2000 - len(p.full.text) - 1 // the filler's full stop
	assert.Equal(t, short[:end], long[:end])
}

// Samples are such prompts as the plan has, and none of any plan's.
func TestSamples(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			p := planOf(t, sized(kind.spec, MaxRequests, 400))
			length := Length{p.PromptChars(0), p.PrefixChars()}
			heads := map[string]bool{}
			head := func(prompt []byte) string { return string(prompt[length.PrefixChars:][:p.openingChars()]) }
			var buf []byte
			for i := range p.Len() {
				buf = p.AppendPrompt(buf[:0], i)
				heads[head(buf)] = true
			}
			for _, k := range []int{0, 1, MaxSamples - 1} {
				sample := p.AppendSample(nil, k, length)
				require.Len(t, sample, length.Chars)
				require.False(t, heads[head(sample)], "sample %d begins as a request does: %q", k, head(sample))
				heads[head(sample)] = true
				require.Equal(t, -1, bytes.IndexFunc(sample, notPlain))
				request := p.AppendPrompt(nil, 0)
				require.NotEqual(t, request[:length.PrefixChars+40], sample[:length.PrefixChars+40])
				if kind.spec.Shared {
					require.NotEqual(t, request[:length.PrefixChars], sample[:length.PrefixChars], "not the cell's prefix: it would be warm")
				}
				require.Equal(t, anyMarker.ReplaceAllString(tailOf(request), "M"), anyMarker.ReplaceAllString(tailOf(sample), "M"), "the same task")
				for _, m := range anyMarker.FindAllString(string(sample), -1) {
					require.Len(t, m, len(p.Request(0).Marker), "markers of one length, which cost the same tokens")
					_, own := p.Owner(m)
					require.False(t, own)
				}
			}
			if kind.spec.Shared {
				require.True(t, bytes.HasPrefix(p.AppendSample(nil, 3, Length{length.Chars, 0}), p.AppendSample(nil, 3, length)[length.PrefixChars:][:p.openingChars()]),
					"without a prefix a sample begins with what is particular")
			}
		})
	}
}

// tailOf is the task of a prompt in either wording.
func tailOf(prompt []byte) string {
	text := string(prompt)
	if i := strings.LastIndex(text, fullLead); i >= 0 {
		return text[i:]
	}
	return text[strings.LastIndex(text, "\nReply"):]
}
