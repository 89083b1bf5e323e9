package workload

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kinds are specs of every kind of prompt, without sizes.
var kinds = []struct {
	name string
	spec Spec
}{
	{"canary and words", Spec{Canaries: true, ResponseWords: 16}},
	{"canary and many words", Spec{Canaries: true, ResponseWords: 1000}},
	{"canary", Spec{Canaries: true}},
	{"words", Spec{ResponseWords: 16}},
	{"many words", Spec{ResponseWords: 1000}},
	{"neither", Spec{}},
	{"shared", Spec{Canaries: true, ResponseWords: 16, Shared: true, SharedPrefixTokens: 5}},
	{"shared without canary", Spec{ResponseWords: 16, Shared: true, SharedPrefixTokens: 5}},
	{"long seed", Spec{Canaries: true, ResponseWords: 16, Seed: 12345678901234}},
}

// sized is a spec of one size.
func sized(s Spec, requests, tokens int) Spec {
	s.Requests, s.Parts = requests, []Part{{Tokens: tokens, Weight: 1}}
	return s
}

var anyMarker = regexp.MustCompile(`ANVIL_REQ_[0-9]+_[0-9]+`)

// Every prompt of every kind and size, about the sizes where the wording
// changes too: to the character, plain ASCII, its own marker and no other.
func TestPromptsAreExact(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			least := MinContextTokens + kind.spec.SharedPrefixTokens
			checked := 0
			for tokens := least; tokens < 300; tokens++ {
				checkPrompts(t, sized(kind.spec, 2, tokens))
				checked++
			}
			for _, tokens := range []int{1000, 4096, 32768, MaxContextTokens} {
				checkPrompts(t, sized(kind.spec, 2, tokens))
			}
			require.Greater(t, checked, 200)
		})
	}
}

func checkPrompts(t *testing.T, s Spec) {
	t.Helper()
	p := planOf(t, s)
	for i := range p.Len() {
		prompt := p.AppendPrompt(nil, i)
		tokens := p.Request(i).ContextTokens
		require.Len(t, prompt, 3*tokens, "3.0 characters a nominal token")
		require.Equal(t, len(prompt), p.PromptChars(i))
		require.Equal(t, -1, bytes.IndexFunc(prompt, notPlain), "plain ASCII, so that characters are bytes")
		markers := anyMarker.FindAllString(string(prompt), -1)
		require.Equal(t, s.Canaries, len(markers) > 0)
		for _, m := range markers {
			require.Equal(t, p.Request(i).Marker, m, "no marker of another request")
		}
		require.NotEqual(t, byte('\n'), prompt[len(prompt)-1], "a server may trim white space")
	}
}

func notPlain(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }

func TestUniquePromptsBeginWithWhatIsParticular(t *testing.T) {
	for _, canaries := range []bool{true, false} {
		p := planOf(t, Spec{Requests: MaxRequests, Parts: []Part{{Tokens: 64, Weight: 1}}, Canaries: canaries})
		heads := map[string]int{}
		var buf []byte
		for i := range p.Len() {
			buf = p.AppendPrompt(buf[:0], i)
			head := string(buf[:tagChars+1])
			other, seen := heads[head]
			require.False(t, seen, "prompts %d and %d begin alike: %q", i, other, head)
			heads[head] = i
			if canaries {
				require.True(t, bytes.HasPrefix(buf, []byte(p.Request(i).Marker+"\n")), "%q", head)
			}
		}
		require.Len(t, heads, MaxRequests)
	}
}

// Behind their first line two prompts have no text in common, so a cache of any
// kind of blocks finds nothing.
func TestFillerDiffersByRequestAndSeed(t *testing.T) {
	filler := func(seed, i int) string {
		p := planOf(t, Spec{Requests: 4, Parts: []Part{{Tokens: 2048, Weight: 1}}, Canaries: true, Seed: seed})
		prompt := string(p.AppendPrompt(nil, i))
		_, rest, _ := strings.Cut(prompt, "\n")
		return rest[:1000]
	}
	seen := map[string]bool{}
	for seed := range 3 {
		for i := range 4 {
			seen[filler(seed, i)] = true
		}
	}
	assert.Len(t, seen, 12)
	a, b := filler(0, 0), filler(0, 1)
	for from := 0; from+200 <= len(a); from += 50 {
		assert.NotContains(t, b, a[from:from+200], "200 characters of one prompt in another")
	}
}

func TestSharedPrefix(t *testing.T) {
	shared := Spec{Requests: 20, Parts: partsOf([]int{1, 1, 1}), Canaries: true, ResponseWords: 4, Shared: true, SharedPrefixTokens: 30}
	p := planOf(t, shared)
	const chars = 30 * 3
	first := string(p.AppendPrompt(nil, 0)[:chars])
	require.Equal(t, byte('\n'), first[chars-1], "the marker begins a line")
	for i := range p.Len() {
		prompt := string(p.AppendPrompt(nil, i))
		require.Equal(t, first, prompt[:chars], "the same prefix for every request, of every size")
		require.True(t, strings.HasPrefix(prompt[chars:], p.Request(i).Marker+"\n"), "then what is particular")
	}
	other := shared
	other.Seed = 1
	assert.NotEqual(t, first, string(planOf(t, other).AppendPrompt(nil, 0)[:chars]), "the prefix is the seed's")
	other = shared
	other.Canaries, other.ResponseWords = false, 0
	assert.Equal(t, first, string(planOf(t, other).AppendPrompt(nil, 0)[:chars]), "and of nothing else")
}

// The full task from the size on that has room for it, the compact one below.
func TestTaskIsFullWhereItFits(t *testing.T) {
	for _, row := range []struct {
		words, least int
		why          string
	}{
		{16, 133, "18 + 379 characters of opening and task, which 3 do not divide"},
		{1, 107, "18 + 303 characters: no filler at all"},
	} {
		s := fixed(1, 256)
		s.ResponseWords = row.words
		p := planOf(t, s)
		require.Equal(t, row.least, (p.openingChars()+len(p.full.text)+2)/3, row.why)
		for _, tokens := range []int{row.least - 1, row.least, row.least + 1} {
			s.Parts[0].Tokens = tokens
			prompt := string(planOf(t, s).AppendPrompt(nil, 0))
			assert.Equal(t, tokens >= row.least, strings.Contains(prompt, "End of the filler text."), "%d tokens: %s", tokens, row.why)
		}
	}
}

func TestAppendPromptAppends(t *testing.T) {
	p := planOf(t, fixed(3, 256))
	want := p.AppendPrompt(nil, 2)
	got := p.AppendPrompt([]byte("before"), 2)
	assert.Equal(t, "before"+string(want), string(got))

	buf := make([]byte, 6, 4096)
	copy(buf, "before")
	got = p.AppendPrompt(buf, 2)
	assert.Equal(t, "before"+string(want), string(got))
	assert.Same(t, &buf[0], &got[0], "in the caller's own memory where it has the room")
}

func TestAppendPromptIsPure(t *testing.T) {
	p := planOf(t, Spec{Requests: 16, Parts: partsOf([]int{1, 2, 3}), Canaries: true, ResponseWords: 16})
	want := make([][]byte, p.Len())
	for i := range want {
		want[i] = p.AppendPrompt(nil, i)
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			buf := make([]byte, 0, p.MaxPromptChars())
			for k := range p.Len() {
				i := (k*5 + worker) % p.Len()
				buf = p.AppendPrompt(buf[:0], i)
				assert.Equal(t, want[i], buf, "in any order, from any goroutine")
			}
		})
	}
	wg.Wait()
}

func TestAppendPromptDoesNotAllocate(t *testing.T) {
	for _, kind := range kinds {
		p := planOf(t, sized(kind.spec, 10, 4096))
		buf := make([]byte, 0, p.MaxPromptChars())
		i := 0
		allocs := testing.AllocsPerRun(50, func() {
			buf = p.AppendPrompt(buf[:0], i%10)
			i++
		})
		assert.Zero(t, allocs, kind.name)
	}
}

func TestMaxPromptChars(t *testing.T) {
	p := planOf(t, Spec{Requests: 30, Parts: partsOf([]int{1, 1, 1})})
	assert.Equal(t, 3*192, p.MaxPromptChars())
}

// Filler must compete with no task and hold nothing that a verdict counts.
func TestProse(t *testing.T) {
	text := string(pool().text)
	for _, word := range []string{Word, "reply", "task", "marker", "ANVIL", "?"} {
		assert.NotRegexp(t, `(?i)(^|[^a-z])`+regexp.QuoteMeta(word)+`([^a-z]|$)`, text, word)
	}
	sentences := 0
	for k := range pool().ends {
		s := string(pool().sentence(k))
		require.Regexp(t, `^[A-Z][^%]*\.( |\n\n)$`, s, "a capital, every letter of the pattern drawn, a full stop")
		sentences++
	}
	require.Equal(t, len(patterns)*sentencesPerPattern, sentences)
}

// A plan is the same on every machine and under every Go version. A change of
// these sums is a change of the workload: artifacts made before it are no
// longer comparable with those made after.
func TestGolden(t *testing.T) {
	rows := []struct {
		name  string
		spec  Spec
		index int
		want  string
	}{
		{"published cell", sized(Spec{Canaries: true, ResponseWords: 16}, 100, 32768), 42, "5ba793b0e93f97cacc5c3f4c8c7c26bf22817d948d13c98115db7515b6e3bd09"},
		{"smallest", sized(Spec{Canaries: true, ResponseWords: 16}, 100, 32), 99, "241d3baee27fd43e38f6095e457240f17368d4f249d80454fe9b371271097323"},
		{"sentence", sized(Spec{Canaries: true, Seed: 7}, 10, 2048), 3, "44cce2fba5d15897f2f776e40ddb1aceae6c986918f082a069a435b206f8ebd5"},
		{"many words", sized(Spec{Canaries: true, ResponseWords: 500}, 10, 2048), 3, "e2f82d2c192030cc57b15dccd4389c06025c7588e8b2ab4eb6ecd4f2fdcf2a05"},
		{"no canary", sized(Spec{ResponseWords: 16}, 10, 2048), 3, "6916e51d9a02d69474542bf51fbee47788ac823cbc898d8b4d8233bb0ee1df8d"},
		{"neither", sized(Spec{Seed: 9}, 10, 64), 3, "dc470a3923d9356641b9991b30816bb3f41a549f8ee6eb12513ba9bf02b5ade5"},
		{"shared", sized(Spec{Canaries: true, ResponseWords: 16, Shared: true, SharedPrefixTokens: 1024}, 10, 2048), 9, "f53a1eab93ba8af5f5f8d657cdf4b8ff1ba0cf47d49ae466f5c7e6e884e54ace"},
		{"distribution", Spec{Requests: 1000, Parts: []Part{{8192, 3}, {32768, 1}}, Seed: 3, Canaries: true, ResponseWords: 16}, 999, "6613926500828bd2b329bf62b4ddfc12667dbef3401d7cbd6e54588e6de0dfb8"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			sum := sha256.Sum256(planOf(t, row.spec).AppendPrompt(nil, row.index))
			assert.Equal(t, row.want, hex.EncodeToString(sum[:]))
		})
	}
}

func BenchmarkAppendPrompt(b *testing.B) {
	for _, tokens := range []int{256, 32768, MaxContextTokens} {
		b.Run(fmt.Sprintf("tokens=%d", tokens), func(b *testing.B) {
			p := planOf(b, fixed(10_000, tokens))
			buf := make([]byte, 0, p.MaxPromptChars())
			b.SetBytes(int64(p.MaxPromptChars()))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				buf = p.AppendPrompt(buf[:0], i%p.Len())
			}
		})
	}
}

// The floor of BenchmarkAppendPrompt: the same bytes by one copy.
func BenchmarkCopy(b *testing.B) {
	src, dst := make([]byte, 3*32768), make([]byte, 3*32768)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		copy(dst, src)
	}
}

func BenchmarkNew(b *testing.B) {
	s := Spec{Requests: MaxRequests, Parts: partsOf([]int{3, 1}), Canaries: true, ResponseWords: 16}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = New(s)
	}
}
