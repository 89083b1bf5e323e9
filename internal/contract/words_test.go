package contract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJudgeWords(t *testing.T) {
	rows := []struct {
		name, text  string
		words       int
		cut         bool // the capture is not complete
		noMarker    bool // no marker was asked for
		code, extra int
		exact       *bool
		duplicated  bool
		why         string
	}{
		{name: "exact", text: own + " code code code", words: 3, code: 3, exact: new(true),
			why: "the answer that was asked for"},
		{name: "lines and tabs", text: own + "\ncode\tcode\u3000code\n", words: 3, code: 3, exact: new(true),
			why: "words are split by white space of any kind"},
		{name: "one too few", text: own + " code code", words: 3, code: 2, exact: new(false),
			why: "two are not three"},
		{name: "one too many", text: own + " code code code code", words: 3, code: 4, exact: new(false),
			why: "four are not three"},
		{name: "capital", text: own + " Code code code", words: 3, code: 2, extra: 1, exact: new(false),
			why: "the word is lower case"},
		{name: "full stop", text: own + " code code code.", words: 3, code: 2, extra: 1, exact: new(false),
			why: "anything but the word to the letter is an extra word"},
		{name: "right number and one extra", text: own + " code code code done", words: 3, code: 3, extra: 1, exact: new(false),
			why: "and nothing else"},
		{name: "colon on the marker", text: own + ": code code", words: 2, code: 2, extra: 1, exact: new(false),
			why: "the marker is known in front of punctuation, which is then extra"},
		{name: "marker glued to a word", text: own + "code code", words: 2, code: 2, exact: new(true),
			why: "the marker ends a word; that it is glued fails the canary"},
		{name: "marker last", text: "code code " + own, words: 2, code: 2, exact: new(true),
			why: "where the marker stands is the canary's verdict"},
		{name: "no marker", text: "code code", words: 2, code: 2, exact: new(true),
			why: "whether the marker is there is the canary's verdict"},
		{name: "none asked for", text: "code code", words: 2, noMarker: true, code: 2, exact: new(true),
			why: "without canaries the answer is only words"},
		{name: "marker not asked for", text: own + " code", words: 1, noMarker: true, code: 1, extra: 1, exact: new(false),
			why: "no marker is own, so it is a word too many"},
		{name: "foreign marker", text: own + " ANVIL_REQ_0_00007 code", words: 1, code: 1, extra: 1, exact: new(false),
			why: "only the own marker is taken out"},
		{name: "longer marker", text: own + "2 code", words: 1, code: 1, extra: 1, exact: new(false),
			why: "ANVIL_REQ_0_000032 is not the own marker with a 2 behind it"},
		{name: "marker cut short", text: "ANVIL_REQ_0_000 code", words: 1, code: 1, extra: 1, exact: new(false),
			why: "what is no marker is a word"},
		{name: "marker twice", text: own + " " + own + " code", words: 1, code: 1, exact: new(false), duplicated: true,
			why: "the marker was asked for once"},
		{name: "empty", text: "", words: 1, exact: new(false),
			why: "an empty answer has no words"},
		{name: "nothing asked for", text: "a sentence", words: 0, extra: 2,
			why: "0 words ask for nothing: there is nothing to adhere to"},
		{name: "think block", text: "<think>hm</think> " + own + " code", words: 1, code: 1, extra: 1, exact: new(false),
			why: "reasoning in the content is not the asked words"},
		{name: "cut in a word", text: own + " code code co", words: 3, cut: true, code: 2,
			why: "the word that the limit cut counts as neither; null, since the rest was not seen"},
		{name: "cut between words", text: own + " code code ", words: 2, cut: true, code: 2,
			why: "a word with white space behind it is whole; still null"},
		{name: "cut without white space", text: strings.Repeat("x", 50), words: 2, cut: true,
			why: "one word, and it was cut"},

		{name: "cumulative deltas", text: own + own + " code" + own + " code code", words: 2, code: 3, exact: new(false), duplicated: true,
			why: "stream 48: each delta repeats the text so far"},
		{name: "cumulative deltas of tokens", text: "ANANVILANVIL_REQ_0_0000" + own + own + " code", words: 1, code: 1, extra: 1, exact: new(false), duplicated: true,
			why: "tokens are smaller than markers, so the first deltas hold parts of one"},
		{name: "whole text again", text: own + " code code" + own + " code code", words: 2, code: 4, exact: new(false), duplicated: true,
			why: "stream 49: the last event repeats the whole answer"},
		{name: "whole text again on a new line", text: own + " code code\n" + own + " code code\n", words: 2, code: 4, exact: new(false), duplicated: true,
			why: "white space between does not hide it"},
		{name: "two unlike answers", text: own + " code code " + own + " code", words: 2, code: 3, exact: new(false),
			why: "the second is shorter: neither cumulative nor whole again"},
		{name: "beginnings that shrink", text: own + " code" + own + own + " code code", words: 2, code: 3, exact: new(false),
			why: "cumulative deltas never get shorter"},
		{name: "marker in prose", text: "You said " + own, words: 2, extra: 2, exact: new(false),
			why: "what stands before is not a beginning of what follows"},
		{name: "cumulative and cut", text: own + own + " code" + own + " code code" + own + " co", words: 4, cut: true, code: 3, duplicated: true,
			why: "the last saying is cut, the ones before it tell"},
		{name: "once and cut", text: own + " code code code", words: 4, cut: true, code: 2,
			why: "a long answer is not a repeated one"},
		{name: "unmarked cumulative deltas", text: "codecode codecode code code", words: 3, noMarker: true, code: 2, extra: 2, exact: new(false), duplicated: true,
			why: "code, code code, code code code: glued where deltas meet"},
		{name: "unmarked whole text again", text: "Sure! codeSure! code", words: 1, noMarker: true, code: 1, extra: 2, exact: new(false), duplicated: true,
			why: "two equal halves without a space between"},
		{name: "unmarked and too many", text: "code code code code", words: 2, noMarker: true, code: 4, exact: new(false),
			why: "a model that cannot count is not a server that repeats"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			marker := own
			if row.noMarker {
				marker = ""
			}
			for _, policy := range []Policy{Observe, Strict} {
				want := WordsVerdict{
					Policy: policy, RequestedWords: row.words, ObservedCodeWords: row.code, ObservedExtraWords: row.extra,
					CaptureComplete: !row.cut, ExactAdherence: row.exact, DuplicatedText: row.duplicated,
					Passed: policy == Observe || row.exact != nil && *row.exact,
				}
				got := JudgeWords(row.text, !row.cut, marker, row.words, policy)
				assert.Equal(t, want, got, row.why)
			}
		})
	}
}

// Stream 48 at its limit: 100 words whose deltas are cumulative are 25,000
// characters, of which the capture keeps 8,192.
func TestDuplicatedTextBeyondTheCapture(t *testing.T) {
	var c Capture
	for n := range 101 {
		c.AddString(own + strings.Repeat(" code", n))
	}
	require.False(t, c.Complete())
	v := JudgeWords(c.Text(), c.Complete(), own, 100, Strict)
	assert.True(t, v.DuplicatedText)
	assert.Nil(t, v.ExactAdherence)
	assert.False(t, v.Passed, "what was not seen whole fails closed")
}
