package workload

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every wording reads back as what was asked for, about the sizes where the
// wording changes and with the most and fewest words.
func TestParseInstructionsReadsEveryPrompt(t *testing.T) {
	read := 0
	for _, seed := range []int{0, 12345678901234} {
		for _, canaries := range []bool{true, false} {
			for _, words := range []int{0, 1, 2, 16, lineWordsMax - 1, lineWordsMax, lineWordsMax + 1, 999, MaxResponseWords} {
				for _, tokens := range []int{32, 64, 128, 132, 133, 150, 200, 256, 2048, 100_000} {
					p := planOf(t, sized(Spec{Seed: seed, Canaries: canaries, ResponseWords: words}, 3, tokens))
					want := Instructions{Marker: p.Request(2).Marker, Words: words, HasWords: words > 0}
					got, ok := ParseInstructions(string(p.AppendPrompt(nil, 2)))
					require.True(t, ok, "%+v at %d tokens", want, tokens)
					require.Equal(t, want, got, "at %d tokens", tokens)
					read++
				}
			}
		}
	}
	require.Equal(t, 360, read)
}

// Each wording is used by some prompt, or it is dead.
func TestEveryWordingIsReached(t *testing.T) {
	used := map[string]bool{}
	for _, canaries := range []bool{true, false} {
		for _, words := range []int{0, 16, 1000} {
			for _, tokens := range []int{32, 512} {
				p := planOf(t, sized(Spec{Canaries: canaries, ResponseWords: words}, 1, tokens))
				prompt := string(p.AppendPrompt(nil, 0))
				for _, w := range append(append([]wording{}, fullWordings...), compactWordings...) {
					if _, ok := parseWording(prompt, w); ok {
						used[w.text] = true
					}
				}
			}
		}
	}
	assert.Len(t, used, len(fullWordings)+len(compactWordings))
}

func TestParseInstructionsRefusesAnythingElse(t *testing.T) {
	p := planOf(t, fixed(1, 512))
	good := string(p.AppendPrompt(nil, 0))
	small := string(planOf(t, fixed(1, 64)).AppendPrompt(nil, 0))
	rows := []struct{ name, prompt, why string }{
		{"empty", "", "nothing is asked for"},
		{"a question", "What is the capital of France?", "not a prompt of this suite"},
		{"something behind", good + " please", "the task must stand at the end"},
		{"cut", good[:len(good)-1], "the line of words is not whole"},
		{"other marker in the line", strings.Replace(good, "\nANVIL_REQ_0_00000 code", "\nANVIL_REQ_0_00001 code", 1), "which marker is it"},
		{"other number of words", strings.Replace(good, "exactly 16 times", "exactly 17 times", 1), "which number is it"},
		{"no number", strings.Replace(small, "code 16 times", "code some times", 1), "a number is digits"},
		{"no words", strings.Replace(small, "code 16 times", "code 0 times", 1), "0 words are not asked for in this wording"},
		{"too many words", strings.Replace(small, "code 16 times", "code 65537 times", 1), "an answer has 65,536 words at most"},
		{"far too many words", strings.Replace(small, "code 16 times", "code "+strings.Repeat("9", 40)+" times", 1), "more than an int"},
		{"short marker", strings.Replace(small, "only ANVIL_REQ_0_00000", "only ANVIL_REQ_0_0000", 1), "four digits are no marker"},
		{"marker without seed", strings.Replace(small, "only ANVIL_REQ_0_00000", "only ANVIL_REQ__00000", 1), "a marker has a seed"},
		{"cut behind the seed", small[:strings.LastIndex(small, "_")], "a marker has an index"},
		{"marker without index", strings.Replace(small, "only ANVIL_REQ_0_00000", "only ANVIL_REQ_0", 1), "a marker has an index"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			require.NotEqual(t, good, row.prompt)
			require.NotEqual(t, small, row.prompt)
			got, ok := ParseInstructions(row.prompt)
			assert.False(t, ok, row.why)
			assert.Zero(t, got)
		})
	}
	_, ok := ParseInstructions(good + "\r\n \t")
	assert.True(t, ok, "white space behind is ignored")
	_, ok = ParseInstructions("system text\n" + good)
	assert.True(t, ok, "text in front is ignored")
}

func TestAppendReply(t *testing.T) {
	rows := []struct {
		ins  Instructions
		want string
	}{
		{Instructions{Marker: "M", Words: 3, HasWords: true}, "M code code code"},
		{Instructions{Words: 1, HasWords: true}, "code"},
		{Instructions{Marker: "M"}, "M It rained."},
		{Instructions{}, "It rained."},
	}
	for _, row := range rows {
		assert.Equal(t, ">"+row.want, string(row.ins.AppendReply([]byte(">"), "It rained.")))
	}
}

func TestLongestTaskIsWithinWhatIsRead(t *testing.T) {
	p := planOf(t, sized(Spec{Seed: 9223372036854775807, Canaries: true, ResponseWords: lineWordsMax}, 1, 4096))
	assert.Less(t, len(p.full.text), taskBytesMax/2)
}

// FuzzParseInstructions holds that whatever is read is within its limits, and
// that the prompt does end with such a task.
func FuzzParseInstructions(f *testing.F) {
	for _, kind := range kinds {
		for _, tokens := range []int{64, 512} {
			p, err := New(sized(kind.spec, 1, tokens))
			require.NoError(f, err)
			f.Add(string(p.AppendPrompt(nil, 0)))
		}
	}
	f.Add("\nReply only with code 007 times.")
	f.Fuzz(func(t *testing.T, prompt string) {
		ins, ok := ParseInstructions(prompt)
		if !ok {
			require.Zero(t, ins)
			return
		}
		require.Equal(t, ins.HasWords, ins.Words > 0)
		require.LessOrEqual(t, ins.Words, MaxResponseWords)
		require.Contains(t, prompt, ins.Marker)
	})
}
