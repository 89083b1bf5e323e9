package report

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// skeleton is a page without what stands in fenced blocks and code spans, by the
// rules of CommonMark (4.5 and 6.1): what is left is markup. It fails for a fence
// or a span that is not closed.
func skeleton(t testing.TB, page string) string {
	t.Helper()
	var out []string
	fence := ""
	for _, line := range strings.Split(page, "\n") {
		opened := leadingFence.FindStringSubmatch(line)
		switch {
		case fence != "":
			closing := strings.TrimSpace(line)
			if len(closing) >= len(fence) && strings.Trim(closing, "`") == "" && len(line)-len(strings.TrimLeft(line, " ")) < 4 {
				fence = ""
			}
		case opened != nil:
			fence = opened[1]
			out = append(out, "FENCE "+opened[2])
		default:
			out = append(out, withoutSpans(t, line))
		}
	}
	require.Empty(t, fence, "a fence is open at the end of the page")
	return strings.Join(out, "\n")
}

var leadingFence = regexp.MustCompile("^ {0,3}(`{3,})([^`]*)$")

// withoutSpans takes the code spans out of a line: a run of backticks, up to the
// next run of the same length.
func withoutSpans(t testing.TB, line string) string {
	t.Helper()
	var out strings.Builder
	for line != "" {
		at := strings.IndexByte(line, '`')
		if at < 0 {
			return out.String() + line
		}
		out.WriteString(line[:at])
		line = line[at:]
		n := len(line) - len(strings.TrimLeft(line, "`"))
		end := closingRun(line[n:], n)
		require.GreaterOrEqual(t, end, 0, "a code span is not closed: %q", line)
		out.WriteString("CODE")
		line = line[n+end+n:]
	}
	return out.String()
}

// closingRun finds a run of exactly n backticks, -1 for none.
func closingRun(s string, n int) int {
	for at := 0; at < len(s); {
		if s[at] != '`' {
			at++
			continue
		}
		run := len(s[at:]) - len(strings.TrimLeft(s[at:], "`"))
		if run == n {
			return at
		}
		at += run
	}
	return -1
}

// hostile are texts that a server, a file or the environment could hold.
var hostile = []string{
	"plain",
	"<script>alert(1)</script><img src=x onerror=alert(1)>",
	"![x](http://evil.example/pixel.png) [click](http://evil.example)",
	"http://evil.example www.evil.example a@evil.example @octocat #1",
	"a | b || c \\| d",
	"`", "``", "a`b", "`a", "a`", "`` ` ``", "``` ```",
	"```\n# heading\n```\n<b>out</b>",
	"~~~\n# heading\n~~~",
	"line\n\n# heading\n\n- list\n\n| a | b |\n| - | - |\n",
	"  leading and trailing  ",
	"\\", "\\`", "a\\",
	"*bold* _it_ ~~no~~ &lt; &#96;",
	"\x1b[31mred\x00\u202e\u2028\r\nend\xff",
	strings.Repeat("`", maxBackticks), strings.Repeat("`", maxBackticks+1) + "<b>",
	strings.Repeat("`\n", 200),
	strings.Repeat("x|`", 5000),
	"-",
}

// pageOf holds one text in every place that a text of others can come to.
func pageOf(text string) Page {
	native := built(&testing.T{}, 2)
	native.Model, native.BaseURL, native.MeasurementProtocol, native.Engine, native.GPU = text, text, text, &text, &text
	native.Harness.Complete, native.Harness.IncompleteReason = false, &text
	return Page{
		Verdict: text,
		Runs:    []PageRun{{Name: text, File: text, Native: native}, {Name: text, File: text, Err: errors.New(text)}},
		Limits:  []LimitRow{{text, text, text, text}},
		Comparisons: []ComparedRow{{
			Cell: text, Metric: text, Baseline: text, Value: text, Change: text, Low: text, High: text, Margin: text, Status: text, Verdict: text,
		}},
		Failures: []Finding{{Kind: text, Test: text, Message: text}},
		Skips:    []Finding{{Kind: text, Test: text, Message: text}},
	}
}

func markdown(t testing.TB, p Page) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Markdown(&b, p))
	return b.String()
}

// TestTextsOfOthersAreNoMarkup holds that the markup of a page does not depend on
// the texts in it.
func TestTextsOfOthersAreNoMarkup(t *testing.T) {
	want := skeleton(t, markdown(t, pageOf("benign")))
	assert.NotContains(t, want, "benign", "every text stands in code")
	assert.Contains(t, want, "FENCE text")
	for _, text := range hostile {
		page := markdown(t, pageOf(text))
		assert.Equal(t, want, skeleton(t, page), "%q", text)
		assert.True(t, utf8.ValidString(page))
		assert.NotContains(t, page, "\x1b")
	}
}

func FuzzMarkdownTexts(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	want := skeleton(f, markdown(f, pageOf("benign")))
	f.Fuzz(func(t *testing.T, text string) {
		if isNothing(text) {
			return // an empty text is a dash, and a number is a number
		}
		assert.Equal(t, want, skeleton(t, markdown(t, pageOf(text))))
	})
}

// isNothing says that a text is shown as no code: nothing at all, null, a number
// where a number belongs, or what is nothing as a verdict, whose underscores are
// shown as spaces.
func isNothing(s string) bool {
	return span(strings.ReplaceAll(s, "_", " ")) == "-" || !strings.HasPrefix(shortNumber(s), "`")
}

func TestSpan(t *testing.T) {
	long := strings.Repeat("x", maxSpanBytes-1)
	for _, tt := range []struct{ name, in, want, why string }{
		{"plain", "vllm 0.10", "`vllm 0.10`", "a name"},
		{"empty", "", "-", "two backticks are no code span"},
		{"blank", " \n ", "-", "nor is white space"},
		{"backtick_inside", "a`b", "``a`b``", "a longer fence than any inside"},
		{"backtick_outside", "`a`", "`` `a` ``", "one space on each side is taken off by the renderer"},
		{"pipe", "a|b", "`a│b`", "a pipe ends a cell even in code"},
		{"line_end", "a\nb", "`a b`", "a table's row is one line"},
		{"below_limit", long, "`" + long + "`", "n-1"},
		{"at_limit", long + "y", "`" + long + "y`", "n"},
		{"above_limit", long + "yz", "`" + long[:maxSpanBytes-3] + "...`", "n+1"},
		{"backticks_at_limit", "a" + strings.Repeat("`", maxBackticks) + "b", strings.Repeat("`", maxBackticks+1) + "a" + strings.Repeat("`", maxBackticks) + "b" + strings.Repeat("`", maxBackticks+1), "n"},
		{"backticks_above_limit", "a" + strings.Repeat("`", maxBackticks+1) + "b", "`a" + strings.Repeat("'", maxBackticks+1) + "b`", "n+1: the fence would grow with the text"},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, span(tt.in), tt.why) })
	}
}

func TestBlockIsBounded(t *testing.T) {
	const said = "(cut here; the JUnit file has all of it)"
	lines := func(n int) string { return strings.TrimSuffix(strings.Repeat("line\n", n), "\n") }
	for _, tt := range []struct {
		name, in string
		cut      bool
	}{
		{"lines_below", lines(maxMessageLines - 1), false},
		{"lines_at", lines(maxMessageLines), false},
		{"lines_above", lines(maxMessageLines + 1), true},
		{"bytes_below", strings.Repeat("x", maxMessageBytes-1), false},
		{"bytes_at", strings.Repeat("x", maxMessageBytes), false},
		{"bytes_above", strings.Repeat("x", maxMessageBytes+1), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := block(tt.in)
			if !tt.cut {
				assert.Equal(t, "```text\n"+tt.in+"\n```\n", got)
				return
			}
			assert.Contains(t, got, said)
			assert.Less(t, len(got), maxMessageBytes+len(said)+20)
			assert.LessOrEqual(t, strings.Count(got, "\n"), maxMessageLines+4)
		})
	}
}
