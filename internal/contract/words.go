package contract

import (
	"strings"
	"unicode"
)

// Word is the word that answers are asked to be made of.
const Word = "code"

// JudgeWords judges whether an answer is the asked number of words and nothing
// else.
//
// Text is the visible text as captured and captureComplete whether that is all
// of it. Marker is the request's own marker, "" where none was asked for. Words
// is how many were asked for; with 0 or less nothing can adhere, and
// ExactAdherence is nil.
//
// The own marker is taken out wherever it stands, and ends a word; the rest is
// split by white space. Each piece is a code word when it is Word to the
// letter, else an extra one: "Code", "code." and another request's marker are
// extra, and so is the colon of "ANVIL_REQ_0_00001:". An answer adheres when
// the code words are as many as asked, none is extra, and the own marker
// stands there once at most (whether it stands at the start is the canary's
// verdict).
//
// Of a text whose capture is not complete the counts are those of what was
// captured, without the word that the limit may have cut, and ExactAdherence
// is nil.
func JudgeWords(text string, captureComplete bool, marker string, words int, policy Policy) WordsVerdict {
	v := WordsVerdict{Policy: policy, RequestedWords: words, CaptureComplete: captureComplete}
	if !captureComplete {
		text = withoutLastWord(text)
	}
	markers := v.countWords(text, marker)
	if captureComplete && words > 0 {
		v.ExactAdherence = new(v.ObservedCodeWords == words && v.ObservedExtraWords == 0 && markers <= 1)
	}
	exact := v.ExactAdherence != nil && *v.ExactAdherence
	v.Passed = policy != Strict || exact
	v.DuplicatedText = !exact && duplicated(strings.TrimFunc(text, unicode.IsSpace), marker, captureComplete)
	return v
}

// countWords counts code words and extra ones, and gives the number of own
// markers.
func (v *WordsVerdict) countWords(text, marker string) (markers int) {
	from := 0
	for start, end := nextMarker(text, 0); start >= 0; start, end = nextMarker(text, end) {
		if text[start:end] != marker {
			continue
		}
		v.countPieces(text[from:start])
		from = end
		markers++
	}
	v.countPieces(text[from:])
	return markers
}

func (v *WordsVerdict) countPieces(text string) {
	for piece := range strings.FieldsSeq(text) {
		if piece == Word {
			v.ObservedCodeWords++
		} else {
			v.ObservedExtraWords++
		}
	}
}

// withoutLastWord takes the last word away unless white space follows it.
func withoutLastWord(text string) string {
	return strings.TrimRightFunc(text, func(r rune) bool { return !unicode.IsSpace(r) })
}

// duplicated says that a text is one answer said again and again, each time
// whole or further than the time before: what a server sends whose deltas are
// cumulative, or which repeats the whole text in its last event. It is a hint
// at the server for a text that is known to be wrong, not a verdict.
func duplicated(text, marker string, complete bool) bool {
	last := -1
	if marker != "" {
		last = strings.LastIndex(text, marker)
	}
	if last < 0 {
		return repeatedUnmarked(text)
	}
	if !complete { // the last saying is cut: judge by those before it
		text = text[:last]
		if last = strings.LastIndex(text, marker); last < 0 {
			return false
		}
	}
	return growsTo(text[:last], text[last:])
}

// growsTo says that text is one or more beginnings of answer in a row, none
// shorter than the one before, with or without white space between. Each is
// taken as long as it agrees with answer, which is right where answer does not
// come back to its own first characters, as a marker does not.
func growsTo(text, answer string) bool {
	if text == "" {
		return false
	}
	for before := 0; text != ""; {
		n := commonPrefix(text, answer)
		if n == 0 || n < before {
			return false
		}
		before = n
		text = strings.TrimLeftFunc(text[n:], unicode.IsSpace)
	}
	return true
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// repeatedUnmarked is duplicated for a text without its marker: two equal
// halves without so much as a space between, or code words that are glued
// together as cumulative deltas glue them. "code code code code" for two words
// is too many, not said twice.
func repeatedUnmarked(text string) bool {
	if half := len(text) / 2; half > 0 && text[:half] == text[half:] {
		return true
	}
	glued := false
	for piece := range strings.FieldsSeq(text) {
		if strings.ReplaceAll(piece, Word, "") != "" {
			return false
		}
		glued = glued || piece != Word
	}
	return glued
}
