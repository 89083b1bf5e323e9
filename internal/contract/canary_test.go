package contract

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const own = "ANVIL_REQ_0_00003"

// ownerOfTen owns the markers of seed 0 with the indexes 0 to 9.
func ownerOfTen(marker string) (int, bool) {
	for i := range 10 {
		if marker == fmt.Sprintf("ANVIL_REQ_0_%05d", i) {
			return i, true
		}
	}
	return 0, false
}

func TestJudgeCanary(t *testing.T) {
	rows := []struct {
		name, text string
		cut        bool // the capture is not complete
		off        bool // no marker was asked for
		want       CanaryVerdict
		why        string
	}{
		{name: "own", text: own + " code code",
			want: CanaryVerdict{MarkerAtStart: true, ObservedMarkerCount: 1, Passed: true},
			why:  "the answer that was asked for"},
		{name: "alone", text: own,
			want: CanaryVerdict{MarkerAtStart: true, ObservedMarkerCount: 1, Passed: true},
			why:  "the end of the text ends the word"},
		{name: "white space first", text: "\n\t \u00a0\u2003\u3000" + own + "\ncode",
			want: CanaryVerdict{MarkerAtStart: true, ObservedMarkerCount: 1, Passed: true},
			why:  "leading white space is ignored, no-break, em and ideographic spaces included"},
		{name: "byte order mark first", text: "\ufeff" + own,
			want: CanaryVerdict{ObservedMarkerCount: 1},
			why:  "U+FEFF is not white space in Unicode"},
		{name: "empty", text: "",
			want: CanaryVerdict{},
			why:  "nothing is not the marker"},
		{name: "twice", text: own + " " + own,
			want: CanaryVerdict{MarkerAtStart: true, ObservedMarkerCount: 2, Passed: true},
			why:  "saying it twice is a matter of the words"},
		{name: "not at the start", text: "Sure: " + own,
			want: CanaryVerdict{ObservedMarkerCount: 1},
			why:  "the answer must begin with it"},
		{name: "quoted", text: "`" + own + "`",
			want: CanaryVerdict{ObservedMarkerCount: 1},
			why:  "a quote is not white space"},
		{name: "comma behind", text: own + ", code",
			want: CanaryVerdict{MarkerAtStart: true, ObservedMarkerCount: 1, Passed: true},
			why:  "punctuation ends a word"},
		{name: "digit behind", text: own + "2 code",
			want: CanaryVerdict{ForeignMarkerCount: 1, Foreign: []string{own + "2"}},
			why:  "ANVIL_REQ_0_000032 is another name, and a marker by the pattern"},
		{name: "letter behind", text: own + "code",
			want: CanaryVerdict{ObservedMarkerCount: 1},
			why:  "the marker does not end there as a word, and is no one else's either"},
		{name: "underscore behind", text: own + "_x",
			want: CanaryVerdict{ObservedMarkerCount: 1},
			why:  "an underscore is part of names"},
		{name: "foreign letter behind", text: own + "\u4f60",
			want: CanaryVerdict{ObservedMarkerCount: 1},
			why:  "letters of every script are letters"},
		{name: "foreign digit behind", text: own + "\u0663",
			want: CanaryVerdict{ObservedMarkerCount: 1},
			why:  "an Arabic digit is a digit, though not of a marker"},
		{name: "foreign punctuation behind", text: own + "\u3002",
			want: CanaryVerdict{MarkerAtStart: true, ObservedMarkerCount: 1, Passed: true},
			why:  "an ideographic full stop is punctuation"},
		{name: "lower case", text: strings.ToLower(own),
			want: CanaryVerdict{},
			why:  "markers are case-sensitive; in other letters it is neither own nor foreign"},
		{name: "cut short", text: "ANVIL_REQ_0_0007",
			want: CanaryVerdict{},
			why:  "fewer than five digits of index name no request"},
		{name: "no seed", text: "ANVIL_REQ__00003",
			want: CanaryVerdict{},
			why:  "a marker has a seed"},
		{name: "other sign between", text: "ANVIL_REQ_0-00003 ANVIL_REQ_0",
			want: CanaryVerdict{},
			why:  "an underscore stands between seed and index, and an index behind it"},
		{name: "prefix alone", text: "ANVIL_REQ_",
			want: CanaryVerdict{},
			why:  "nor is its beginning a marker"},
		{name: "prefix twice", text: "ANVIL_REQ_ANVIL_REQ_0_00007",
			want: CanaryVerdict{ForeignMarkerCount: 1, Foreign: []string{"ANVIL_REQ_0_00007"}, LeakedFrom: []int{7}},
			why:  "a false start does not hide the marker behind it"},
		{name: "of this run", text: "ANVIL_REQ_0_00007 code",
			want: CanaryVerdict{ForeignMarkerCount: 1, Foreign: []string{"ANVIL_REQ_0_00007"}, LeakedFrom: []int{7}},
			why:  "request 7's answer came to request 3"},
		{name: "own and another's", text: own + " code ANVIL_REQ_0_00007 code ANVIL_REQ_0_00007",
			want: CanaryVerdict{MarkerAtStart: true, ObservedMarkerCount: 1, ForeignMarkerCount: 2, Foreign: []string{"ANVIL_REQ_0_00007"}, LeakedFrom: []int{7}},
			why:  "two answers merged: each occurrence counts, each marker is listed once"},
		{name: "of no run", text: own + " ANVIL_REQ_77_00001 ANVIL_REQ_0_12345",
			want: CanaryVerdict{MarkerAtStart: true, ObservedMarkerCount: 1, ForeignMarkerCount: 2, Foreign: []string{"ANVIL_REQ_77_00001", "ANVIL_REQ_0_12345"}},
			why:  "of this run or not, another's marker is foreign; leaked only where the owner is known"},
		{name: "zero before the seed", text: own + " ANVIL_REQ_00_00003",
			want: CanaryVerdict{MarkerAtStart: true, ObservedMarkerCount: 1, ForeignMarkerCount: 1, Foreign: []string{"ANVIL_REQ_00_00003"}},
			why:  "not the same to the letter, so not the own one"},
		{name: "glued", text: own + "ANVIL_REQ_0_00007code",
			want: CanaryVerdict{ObservedMarkerCount: 1, ForeignMarkerCount: 1, Foreign: []string{"ANVIL_REQ_0_00007"}, LeakedFrom: []int{7}},
			why:  "evidence needs no space around it"},
		{name: "think block", text: "<think>let me see</think>\n\n" + own + " code",
			want: CanaryVerdict{ObservedMarkerCount: 1, ReasoningInContent: true},
			why:  "stream 25: verbatim, so not at the start, and the flag says that the server has no reasoning parser"},
		{name: "end of a think block", text: "let me see</think>" + own,
			want: CanaryVerdict{ObservedMarkerCount: 1, ReasoningInContent: true},
			why:  "the chat template wrote the opening into the prompt"},
		{name: "Mistral's block", text: " [THINK]hm[/THINK]" + own,
			want: CanaryVerdict{ObservedMarkerCount: 1, ReasoningInContent: true},
			why:  "Magistral's tags"},
		{name: "gpt-oss channel", text: "<|channel|>analysis<|message|>hm",
			want: CanaryVerdict{ReasoningInContent: true},
			why:  "harmony text without its parser"},
		{name: "think later", text: own + " <think>",
			want: CanaryVerdict{MarkerAtStart: true, ObservedMarkerCount: 1, Passed: true},
			why:  "an opening within an answer is text"},
		{name: "cut capture", text: own + " code", cut: true,
			want: CanaryVerdict{MarkerAtStart: true, ObservedMarkerCount: 1},
			why:  "what was not captured could hold another's marker: closed"},
		{name: "off", text: "a sentence", off: true,
			want: CanaryVerdict{Passed: true},
			why:  "nothing asked, nothing foreign"},
		{name: "off and empty", text: "", off: true,
			want: CanaryVerdict{Passed: true},
			why:  "no marker is not a marker at the start"},
		{name: "off and cut", text: "a long sentence", off: true, cut: true,
			want: CanaryVerdict{Passed: true},
			why:  "where nothing was asked for, a long answer is no fault"},
		{name: "off and foreign", text: own, off: true,
			want: CanaryVerdict{ForeignMarkerCount: 1, Foreign: []string{own}, LeakedFrom: []int{3}},
			why:  "where no marker was sent every marker is another's"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			marker := own
			if row.off {
				marker = ""
			}
			row.want.Marker = marker
			row.want.CaptureComplete = !row.cut
			assert.Equal(t, row.want, JudgeCanary(row.text, !row.cut, marker, ownerOfTen), row.why)
		})
	}
}

func TestJudgeCanaryListsAFewForeignMarkers(t *testing.T) {
	for _, n := range []int{foreignListMax - 1, foreignListMax, foreignListMax + 1} {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "ANVIL_REQ_5_%05d ", i)
		}
		v := JudgeCanary(text.String(), true, own, nil)
		assert.Equal(t, n, v.ForeignMarkerCount, "all are counted")
		assert.Len(t, v.Foreign, min(n, foreignListMax), "a bad server must not make rows large")
		assert.Nil(t, v.LeakedFrom, "without an owner none is known")
	}
}

func TestCanaryFails(t *testing.T) {
	rows := []struct {
		name                 string
		verdict              CanaryVerdict
		strict, observe, off bool
		why                  string
	}{
		{"passed", CanaryVerdict{Passed: true}, false, false, false, "nothing is wrong"},
		{"no marker", CanaryVerdict{}, true, false, false, "observe records whether the marker is there and fails no request for it"},
		{"foreign", CanaryVerdict{ForeignMarkerCount: 1}, true, true, true, "another request's marker fails in every mode"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.strict, row.verdict.Fails(Strict), row.why)
			assert.Equal(t, row.observe, row.verdict.Fails(Observe), row.why)
			assert.Equal(t, row.off, row.verdict.Fails(Off), row.why)
		})
	}
}

func TestJudgingARightAnswerHardlyAllocates(t *testing.T) {
	text := own + strings.Repeat(" code", 256)
	var canary CanaryVerdict
	assert.Zero(t, testing.AllocsPerRun(100, func() { canary = JudgeCanary(text, true, own, ownerOfTen) }))
	require.True(t, canary.Passed)
	var words WordsVerdict
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { words = JudgeWords(text, true, own, 256, Strict) }), 1.0, "ExactAdherence is a pointer")
	require.True(t, words.Passed)
}

var markerPattern = regexp.MustCompile(`ANVIL_REQ_[0-9]+_[0-9]{5,}`)

// FuzzJudge holds both verdicts against a second reading of the text, by a
// regular expression and by cutting the text in other ways.
func FuzzJudge(f *testing.F) {
	for _, text := range []string{
		own + " code code", "ANVIL_REQ_ANVIL_REQ_0_00003code", own + own + " code" + own + " code code", "<think>\xff</think> " + own,
		"code code code", "codecode code", own + ": code", "ANVIL_REQ_0_000031", " \u2003" + own, "code\u00a0code\x00code",
	} {
		f.Add(text, true, 2)
	}
	f.Add(own+" code cod", false, 3)
	f.Add("\u2003", false, 1)
	f.Fuzz(func(t *testing.T, text string, complete bool, words int) {
		canary := JudgeCanary(text, complete, own, ownerOfTen)
		all := markerPattern.FindAllString(text, -1)
		owned := 0
		for _, m := range all {
			if m == own {
				owned++
			}
		}
		require.Equal(t, owned, canary.ObservedMarkerCount)
		require.Equal(t, len(all)-owned, canary.ForeignMarkerCount)
		require.LessOrEqual(t, len(canary.LeakedFrom), len(canary.Foreign))
		require.NotContains(t, canary.LeakedFrom, 3, "the own marker never leaks")
		if canary.MarkerAtStart {
			require.True(t, strings.HasPrefix(strings.TrimLeftFunc(text, unicode.IsSpace), own))
			require.Positive(t, owned)
		}
		require.Equal(t, canary.MarkerAtStart && len(all) == owned && complete, canary.Passed)

		v := JudgeWords(text, complete, own, words, Strict)
		code, extra := wordsByPattern(text, complete)
		require.Equal(t, code, v.ObservedCodeWords)
		require.Equal(t, extra, v.ObservedExtraWords)
		require.Equal(t, !complete || words <= 0, v.ExactAdherence == nil)
		exact := complete && words > 0 && code == words && extra == 0 && owned <= 1
		require.Equal(t, exact, v.Passed)
		require.False(t, exact && v.DuplicatedText, "an exact answer is not a repeated one")

		for _, line := range []string{DescribeCanary(canary, 3, text), DescribeWords(v, text), Hint(canary, v)} {
			require.NotContains(t, line, "\n")
			require.Less(t, len(line), 4096)
		}
		require.Equal(t, canary.Passed, DescribeCanary(canary, 3, text) == "")
	})
}

// wordsByPattern counts words with the own marker made white space first.
func wordsByPattern(text string, complete bool) (code, extra int) {
	if !complete {
		for text != "" && strings.TrimRightFunc(text, unicode.IsSpace) == text {
			_, size := utf8.DecodeLastRuneInString(text)
			text = text[:len(text)-size]
		}
	}
	text = markerPattern.ReplaceAllStringFunc(text, func(m string) string {
		if m == own {
			return " "
		}
		return m
	})
	for _, w := range strings.Fields(text) {
		if w == Word {
			code++
		} else {
			extra++
		}
	}
	return code, extra
}
