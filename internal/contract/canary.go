package contract

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// JudgeCanary judges whether an answer is the request's own.
//
// Text is the visible text as captured and captureComplete whether that is all
// of it. Marker is the request's own marker, "" where none was asked for: then
// only markers of others are looked for, and the verdict passes when there is
// none. Owner tells whose marker of this run a marker is (workload.Plan.Owner);
// nil knows none.
//
// White space before the marker is ignored (Unicode's, as unicode.IsSpace has
// it); what follows it may not be a letter, a digit or an underscore, in any
// script. A <think> block is not taken away first: a marker behind it is not at
// the start, and ReasoningInContent says why.
//
// A verdict that passes costs no allocation.
func JudgeCanary(text string, captureComplete bool, marker string, owner func(marker string) (index int, ok bool)) CanaryVerdict {
	v := CanaryVerdict{Marker: marker, CaptureComplete: captureComplete}
	answer := strings.TrimLeftFunc(text, unicode.IsSpace)
	v.MarkerAtStart = marker != "" && beginsWithWord(answer, marker)
	v.ReasoningInContent = hasReasoning(answer)
	for start, end := nextMarker(text, 0); start >= 0; start, end = nextMarker(text, end) {
		v.count(text[start:end], owner)
	}
	v.Passed = v.ForeignMarkerCount == 0
	if marker != "" {
		v.Passed = v.Passed && v.MarkerAtStart && captureComplete
	}
	return v
}

// count takes one marker of the text into the verdict.
func (v *CanaryVerdict) count(found string, owner func(string) (int, bool)) {
	if found == v.Marker {
		v.ObservedMarkerCount++
		return
	}
	v.ForeignMarkerCount++
	if len(v.Foreign) == foreignListMax || slices.Contains(v.Foreign, found) {
		return
	}
	v.Foreign = append(v.Foreign, strings.Clone(found)) // not the answer's memory
	if owner == nil {
		return
	}
	if index, ok := owner(found); ok {
		v.LeakedFrom = append(v.LeakedFrom, index)
	}
}

// foreignListMax bounds Foreign and LeakedFrom; ForeignMarkerCount goes on. An
// answer of CaptureLimitChars characters could hold 450 distinct markers, and
// the first few say whose it is.
const foreignListMax = 16

// beginsWithWord says that s begins with word, and that word ends there.
func beginsWithWord(s, word string) bool {
	rest, ok := strings.CutPrefix(s, word)
	if !ok || rest == "" {
		return ok
	}
	if rest[0] < utf8.RuneSelf {
		return !isMarkerByte(rest[0])
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// thinkOpenings are what reasoning begins with where a server passes it on as
// content: most models; Mistral's; gpt-oss without its parser.
var thinkOpenings = []string{"<think>", "<thinking>", "[THINK]", "<|channel|>analysis"}

// thinkClosing stands alone where the chat template wrote the opening into the
// prompt, as those of DeepSeek R1 and its kin do.
const thinkClosing = "</think>"

func hasReasoning(answer string) bool {
	for _, opening := range thinkOpenings {
		if strings.HasPrefix(answer, opening) {
			return true
		}
	}
	return strings.Contains(answer, thinkClosing)
}

// Fails says whether the verdict is a failure of its request: under Strict
// when it did not pass, and under every other policy only when the answer has
// another request's marker.
func (v CanaryVerdict) Fails(policy Policy) bool {
	if policy == Strict {
		return !v.Passed
	}
	return v.ForeignMarkerCount > 0
}
