package contract

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// quoteLimitChars is how many characters of an answer a message quotes.
const quoteLimitChars = 120

// DescribeCanary says in one line for an operator what is wrong with the answer
// to request index, "" for a verdict with nothing wrong. Text is the answer as
// captured; a quote of it has escapes for all that is not printable.
func DescribeCanary(v CanaryVerdict, index int, text string) string {
	var faults []string
	for _, from := range v.LeakedFrom {
		faults = append(faults, fmt.Sprintf("answer to request %d carries the marker of request %d of this run", index, from))
	}
	if n := len(v.Foreign) - len(v.LeakedFrom); n > 0 {
		faults = append(faults, fmt.Sprintf("answer to request %d carries %s of no request of this run (in it: %s)",
			index, counted(n, "marker"), listed(v.Foreign)))
	}
	if v.Marker != "" && !v.MarkerAtStart {
		faults = append(faults, fmt.Sprintf("answer begins %s (want %q)%s", quote(text), v.Marker, v.whyNotAtStart()))
	}
	if v.Marker != "" && !v.CaptureComplete {
		faults = append(faults, longerThanCapture)
	}
	return strings.Join(faults, "; ")
}

// markerShownChars is how much of a marker a message shows: all of a real one. A
// text may go on with digits for as long as it likes, and must not hide the rest
// of the message.
const markerShownChars = 48

// listed joins markers, which are ASCII.
func listed(markers []string) string {
	shown := make([]string, len(markers))
	for i, m := range markers {
		if len(m) > markerShownChars {
			m = m[:markerShownChars] + "..."
		}
		shown[i] = m
	}
	return strings.Join(shown, ", ")
}

// whyNotAtStart adds to a missing marker what the verdict knows of the cause.
func (v CanaryVerdict) whyNotAtStart() string {
	switch {
	case v.ReasoningInContent:
		return ": reasoning stands in the content"
	case v.ObservedMarkerCount > 0:
		return ": the marker is there, but not as the first word"
	default:
		return ""
	}
}

// DescribeWords says in one line for an operator what is wrong with the words
// of an answer, "" for a verdict with nothing wrong. Text is the answer as
// captured.
func DescribeWords(v WordsVerdict, text string) string {
	if v.ExactAdherence != nil && *v.ExactAdherence || v.RequestedWords <= 0 {
		return ""
	}
	got := fmt.Sprintf("%d of %d code words and %s", v.ObservedCodeWords, v.RequestedWords, counted(v.ObservedExtraWords, "extra word"))
	switch {
	case !v.CaptureComplete:
		return fmt.Sprintf("%s: answer has %s so far: %s", longerThanCapture, got, quote(text))
	case v.DuplicatedText:
		return fmt.Sprintf("answer has %s, the same text said again and again: %s", got, quote(text))
	case v.ObservedCodeWords == v.RequestedWords && v.ObservedExtraWords == 0:
		return fmt.Sprintf("answer has %s, but its marker more than once: %s", got, quote(text))
	default:
		return fmt.Sprintf("answer has %s: %s", got, quote(text))
	}
}

var longerThanCapture = fmt.Sprintf("answer is longer than the %d characters that are captured", CaptureLimitChars)

// Hint says what to do about an answer that is wrong in the way of these
// verdicts, "" where nothing is wrong. A verdict that was not made is the zero
// value. Where another request's answer arrived it never advises to look away.
func Hint(canary CanaryVerdict, words WordsVerdict) string {
	wrongCanary := canary.Marker != "" && !canary.Passed
	wrongWords := words.RequestedWords > 0 && (words.ExactAdherence == nil || !*words.ExactAdherence)
	switch {
	case canary.ForeignMarkerCount > 0:
		return "an answer with another request's marker is a fault of the server (batching, a cache, a proxy), which no setting of this suite excuses"
	case !wrongCanary && !wrongWords:
		return ""
	case canary.ReasoningInContent:
		return "the server passes reasoning on as content: start it with a reasoning parser for this model, or set CAPACITY_THINKING=disabled"
	case wrongCanary && !canary.CaptureComplete, wrongWords && !words.CaptureComplete:
		return fmt.Sprintf("only %d characters of an answer are judged: lower CAPACITY_MAX_TOKENS or CAPACITY_RESPONSE_WORDS", CaptureLimitChars)
	case words.DuplicatedText:
		return "the server repeats text that it has sent: its deltas are cumulative, or its last event has the whole text again"
	case wrongCanary:
		return "a model too small to follow instructions is measured with CAPACITY_CANARIES=observe and CAPACITY_CONTROLLED_OUTPUT=observe"
	default:
		return "a model that cannot count its words is measured with CAPACITY_CONTROLLED_OUTPUT=observe"
	}
}

// counted writes a number with its noun, as in "1 word" and "2 words".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// quote quotes the beginning of a text, quoteLimitChars characters at most,
// without the white space in front.
func quote(text string) string {
	text = strings.TrimLeftFunc(text, unicode.IsSpace)
	chars := 0
	for end := range text {
		if chars == quoteLimitChars {
			return strconv.Quote(text[:end] + "...")
		}
		chars++
	}
	return strconv.Quote(text)
}
