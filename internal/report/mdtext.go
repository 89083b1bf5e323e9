package report

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text of others in Markdown. Names, messages and parts of answers come from
// servers and from the environment, and a job page renders Markdown with HTML,
// images and links in it. So such text stands in a code span or in a fenced block
// and nowhere else: nothing inside of them is markup.

const (
	// maxSpanBytes bounds a name in a line or a table.
	maxSpanBytes = 120
	// maxMessageLines and maxMessageBytes bound one message; the JUnit file has it
	// whole.
	maxMessageLines = 30
	maxMessageBytes = 3000
	// maxBackticks is the longest run of backticks that is kept as it is: the fence
	// around a text is one longer, twice.
	maxBackticks = 32
)

// span is text as a code span, on one line; "-" for an empty text. A pipe would
// end a table's cell even there, and escapes of it differ between renderers, so
// it becomes the box drawing's line, which looks the same.
func span(s string) string {
	s = strings.TrimSpace(clip(strings.ReplaceAll(calm(plain(s)), "|", "│"), maxSpanBytes))
	if s == "" {
		return "-"
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " " // one space on each side is taken off again
	}
	fence := strings.Repeat("`", longestRun(s)+1)
	return fence + s + fence
}

// block is text as a fenced block: bounded, printable, and behind a fence longer
// than any in it.
func block(s string) string {
	s = bounded(calm(printable(s)))
	fence := strings.Repeat("`", max(3, longestRun(s)+1))
	return fence + "text\n" + s + "\n" + fence + "\n"
}

// calm takes the backticks out of a text that has a whole line of them.
func calm(s string) string {
	if longestRun(s) > maxBackticks {
		return strings.ReplaceAll(s, "`", "'")
	}
	return s
}

// longestRun is the length of the longest run of backticks.
func longestRun(s string) int {
	longest, run := 0, 0
	for _, r := range s {
		if r != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// printable keeps line ends and tabs and makes everything else that is not
// printable U+FFFD, as plain does.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, s)
}

// bounded cuts a message after so many lines and bytes, and says so.
func bounded(s string) string {
	lines := strings.Split(s, "\n")
	cut := len(lines) > maxMessageLines
	if cut {
		lines = lines[:maxMessageLines]
	}
	text := strings.Join(lines, "\n")
	if len(text) > maxMessageBytes {
		text, cut = clip(text, maxMessageBytes), true
	}
	if cut {
		text += "\n(cut here; the JUnit file has all of it)"
	}
	return text
}
