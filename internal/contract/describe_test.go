package contract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDescribeCanary(t *testing.T) {
	rows := []struct {
		name, text string
		cut        bool
		want       string
	}{
		{"passed", own + " code", false, ``},
		{"prose", "The code...", false, `answer begins "The code..." (want "ANVIL_REQ_0_00003")`},
		{"empty", "", false, `answer begins "" (want "ANVIL_REQ_0_00003")`},
		{"leak", "ANVIL_REQ_0_00007 code", false,
			`answer to request 3 carries the marker of request 7 of this run; answer begins "ANVIL_REQ_0_00007 code" (want "ANVIL_REQ_0_00003")`},
		{"two leaks", own + " ANVIL_REQ_0_00007 ANVIL_REQ_0_00002", false,
			`answer to request 3 carries the marker of request 7 of this run; answer to request 3 carries the marker of request 2 of this run`},
		{"of no run", own + " ANVIL_REQ_9_00001 ANVIL_REQ_9_00002", false,
			`answer to request 3 carries 2 markers of no request of this run (in it: ANVIL_REQ_9_00001, ANVIL_REQ_9_00002)`},
		{"one of no run", own + " ANVIL_REQ_9_00001", false,
			`answer to request 3 carries 1 marker of no request of this run (in it: ANVIL_REQ_9_00001)`},
		{"endless marker", own + " ANVIL_REQ_9_" + strings.Repeat("2", 5000), false,
			`answer to request 3 carries 1 marker of no request of this run (in it: ANVIL_REQ_9_` + strings.Repeat("2", markerShownChars-12) + `...)`},
		{"reasoning", "<think>hm</think>" + own, false,
			`answer begins "<think>hm</think>ANVIL_REQ_0_00003" (want "ANVIL_REQ_0_00003"): reasoning stands in the content`},
		{"later", "Sure: " + own, false,
			`answer begins "Sure: ANVIL_REQ_0_00003" (want "ANVIL_REQ_0_00003"): the marker is there, but not as the first word`},
		{"cut", own + " code", true, `answer is longer than the 8192 characters that are captured`},
		{"unprintable", "\x00\x1b[31m\u2028\xff\n", false, `answer begins "\x00\x1b[31m\u2028\xff\n" (want "ANVIL_REQ_0_00003")`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			v := JudgeCanary(row.text, !row.cut, own, ownerOfTen)
			assert.Equal(t, row.want, DescribeCanary(v, 3, row.text))
		})
	}
}

func TestDescribeWords(t *testing.T) {
	rows := []struct {
		name, text string
		words      int
		cut        bool
		want       string
	}{
		{"exact", own + " code", 1, false, ``},
		{"nothing asked for", "a sentence", 0, false, ``},
		{"one extra", own + " code Code", 2, false, `answer has 1 of 2 code words and 1 extra word: "ANVIL_REQ_0_00003 code Code"`},
		{"too few", own, 2, false, `answer has 0 of 2 code words and 0 extra words: "ANVIL_REQ_0_00003"`},
		{"marker twice", own + " code " + own, 1, false,
			`answer has 1 of 1 code words and 0 extra words, but its marker more than once: "ANVIL_REQ_0_00003 code ANVIL_REQ_0_00003"`},
		{"repeated", own + " code" + own + " code", 1, false,
			`answer has 2 of 1 code words and 0 extra words, the same text said again and again: "ANVIL_REQ_0_00003 codeANVIL_REQ_0_00003 code"`},
		{"cut", own + " code co", 2, true,
			`answer is longer than the 8192 characters that are captured: answer has 1 of 2 code words and 0 extra words so far: "ANVIL_REQ_0_00003 code co"`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			v := JudgeWords(row.text, !row.cut, own, row.words, Strict)
			assert.Equal(t, row.want, DescribeWords(v, row.text))
		})
	}
}

func TestQuoteIsCut(t *testing.T) {
	for _, char := range []string{"a", "你", "\xff"} {
		for _, n := range []int{quoteLimitChars - 1, quoteLimitChars, quoteLimitChars + 1} {
			got := quote("\n " + strings.Repeat(char, n))
			assert.Equal(t, n > quoteLimitChars, strings.HasSuffix(got, `..."`), "%d of %q", n, char)
			unit := strings.Trim(quote(char), `"`)
			assert.Equal(t, min(n, quoteLimitChars), strings.Count(got, unit), "%d of %q", n, char)
		}
	}
}

func TestHint(t *testing.T) {
	judged := func(text string, words int, complete bool) (CanaryVerdict, WordsVerdict) {
		return JudgeCanary(text, complete, own, ownerOfTen), JudgeWords(text, complete, own, words, Strict)
	}
	rows := []struct {
		name, text string
		words      int
		cut        bool
		want       string // a part of the hint; "" for none
		why        string
	}{
		{"right", own + " code", 1, false, "", "nothing is wrong"},
		{"right, no words asked for", own + " a sentence", 0, false, "", "a verdict that was not asked for is not wrong"},
		{"too small to begin right", "Sure! code", 1, false, "CAPACITY_CANARIES=observe", "the marker is missing"},
		{"cannot count", own + " code code", 1, false, "CAPACITY_CONTROLLED_OUTPUT=observe", "the marker is right, the words are not"},
		{"leak", "ANVIL_REQ_0_00007 code code", 1, false, "fault of the server", "never advise to look away from another's answer"},
		{"reasoning", "<think>hm</think>" + own + " code", 1, false, "reasoning parser", "a server fault, not the model's"},
		{"cut", own + " code", 1, true, "CAPACITY_RESPONSE_WORDS", "longer than what is judged"},
		{"repeated", own + " code" + own + " code", 1, false, "repeats", "a server fault, not the model's"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			canary, words := judged(row.text, row.words, !row.cut)
			got := Hint(canary, words)
			if row.want == "" {
				assert.Empty(t, got, row.why)
				return
			}
			assert.Contains(t, got, row.want, row.why)
			if row.name == "leak" {
				assert.NotContains(t, got, "observe", row.why)
			}
		})
	}
	assert.Empty(t, Hint(CanaryVerdict{}, WordsVerdict{}), "verdicts that were not made")
}
