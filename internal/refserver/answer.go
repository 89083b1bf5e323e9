package refserver

import (
	"fmt"
	"strconv"
	"strings"

	"anvil-capacity/internal/workload"
)

const (
	// MaxOutputTokens bounds an answer whatever was asked for; a longer one
	// ends there with finish_reason length.
	MaxOutputTokens = 1 << 20

	extraWord     = "extra"
	plainAnswer   = "ok"
	reasoningText = " hmm"
	wrongCanary   = "WRONG_CANARY"
)

// run is a number of tokens with the same text.
type run struct {
	text      string
	n         int
	reasoning bool
}

// answer is a whole answer in tokens, run by run.
type answer struct {
	runs      []run
	total     int
	reasoning int
	finish    string // stop or length
}

// compose works out the answer to the instructions under the request's faults:
// the marker as one token, then the words, one token each, and then nothing. A
// prompt that asks for no words gets a short plain answer after its marker.
func compose(in instructions, fx *effects, reasoningTokens, limit int) answer {
	var a answer
	a.add(reasoningText, reasoningTokens, true)
	a.say(in, fx, faultyMarker(in.marker, fx), fx.extra)
	if fx.repeat {
		a.say(in, fx, faultyMarker(in.marker, fx), fx.extra)
	}
	if fx.merge {
		a.say(in, &effects{}, otherMarker(in.marker, pairOf), 0)
	}
	if a.total == a.reasoning { // asked for no marker and no words
		a.add(plainAnswer, 1, false)
	}
	a.finish = "stop"
	if a.total > limit {
		a.finish = "length"
		a.limit(limit)
	}
	return a
}

// say adds one statement of the answer.
func (a *answer) say(in instructions, fx *effects, marker string, extra int) {
	word, words := workload.Word, in.words
	if !in.hasWords {
		word, words = plainAnswer, 1
	}
	if marker != "" {
		a.word(marker, 1)
	}
	a.word(word, words-fx.missing)
	a.word(extraWord, extra)
}

// word adds n visible words, none where n is below 1; all but the very first begin with a space.
func (a *answer) word(text string, n int) {
	if n > 0 && a.total == a.reasoning {
		a.add(text, 1, false)
		n--
	}
	a.add(" "+text, n, false)
}

func (a *answer) add(text string, n int, reasoning bool) {
	if n <= 0 {
		return
	}
	a.runs = append(a.runs, run{text, n, reasoning})
	a.total += n
	if reasoning {
		a.reasoning += n
	}
}

// limit cuts the answer to its first n tokens.
func (a *answer) limit(n int) {
	a.total, a.reasoning = min(a.total, n), min(a.reasoning, n)
	for i := range a.runs {
		a.runs[i].n = min(a.runs[i].n, n)
		n -= a.runs[i].n
	}
}

// text gives the visible text or the reasoning.
func (a *answer) text(reasoning bool) string {
	var b strings.Builder
	for _, r := range a.runs {
		if r.reasoning == reasoning {
			b.WriteString(strings.Repeat(r.text, r.n))
		}
	}
	return b.String()
}

// faultyMarker is the marker that the answer will carry. A prompt without one
// gets none, whatever the faults.
func faultyMarker(own string, fx *effects) string {
	switch {
	case own == "":
		return ""
	case fx.wrongCanary:
		return wrongCanary
	case fx.foreign != 0:
		return otherMarker(own, func(i int) int {
			if i+fx.foreign < 0 {
				return i - fx.foreign
			}
			return i + fx.foreign
		})
	case fx.swap:
		return otherMarker(own, pairOf)
	}
	return own
}

// pairOf is the other one of the pair 2k, 2k+1.
func pairOf(i int) int { return i ^ 1 }

// otherMarker is the marker of another request with the same seed; a marker of
// an unknown form stays as it is.
func otherMarker(own string, index func(int) int) string {
	i, ok := markerIndex(own)
	if !ok {
		return own
	}
	return fmt.Sprintf("%s_%05d", own[:strings.LastIndexByte(own, '_')], index(i))
}

// markerIndex reads the request index from a marker, ANVIL_REQ_<seed>_<index>.
func markerIndex(marker string) (int, bool) {
	at := strings.LastIndexByte(marker, '_')
	if at < 0 {
		return 0, false
	}
	i, err := strconv.ParseUint(marker[at+1:], 10, 31)
	return int(i), err == nil
}
