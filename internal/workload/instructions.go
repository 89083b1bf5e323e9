package workload

import (
	"strconv"
	"strings"
)

// The task stands at the end of a prompt, because models follow what they read
// last. It has two lengths: the full one wherever the prompt has room for it
// (40 to 220 nominal tokens), else the compact one, which fits a prompt of 32
// tokens for seeds of up to 14 digits.
//
// The full task says the wanted answer twice, in words and as the line itself.
// Shown the line, a model of 135 million parameters begins its answer with its
// own marker behind 1,700 tokens of filler; told the same without the line, it
// goes on with the filler (SmolLM2-135M-Instruct, which cannot count either way).
// Past lineWordsMax words the line would outgrow the task, and the beginning of
// it stands there.
//
// The texts below are rendered for a plan and read back by ParseInstructions,
// so the two cannot differ. In braces: the request's marker, the number of
// words, the whole line of words.
const (
	holeMarker = "{marker}"
	holeWords  = "{words}"
	holeLine   = "{line}"
)

const lineWordsMax = 64

// task is what a prompt asks for, as far as its wording depends on it.
type task struct {
	marker, words, line bool
}

// wording is one way to say a task.
type wording struct {
	task task
	text string
}

const fullLead = "\n\nEnd of the filler text. Ignore it. Your task: "

var fullWordings = []wording{
	{task{marker: true, words: true, line: true}, fullLead + "reply with {marker} followed by the lowercase word code exactly {words} times, " +
		"separated by single spaces. Write nothing before it and nothing after it: no quotes, no punctuation, no explanation. " +
		"The whole reply is this one line:\n{marker} {line}"},
	{task{marker: true, words: true}, fullLead + "reply with {marker} followed by the lowercase word code exactly {words} times, " +
		"separated by single spaces. Write nothing before it and nothing after it: no quotes, no punctuation, no explanation. " +
		"The reply begins like this, and goes on until code stands there {words} times:\n{marker} code code code code code code code code"},
	{task{marker: true}, fullLead + "begin your reply with {marker} followed by one short sentence. " +
		"Write nothing before it: no quotes, no punctuation, no explanation. The reply begins like this:\n{marker}"},
	{task{words: true, line: true}, fullLead + "reply with the lowercase word code exactly {words} times, " +
		"separated by single spaces. Write nothing before it and nothing after it: no quotes, no punctuation, no explanation. " +
		"The whole reply is this one line:\n{line}"},
	{task{words: true}, fullLead + "reply with the lowercase word code exactly {words} times, " +
		"separated by single spaces. Write nothing before it and nothing after it: no quotes, no punctuation, no explanation. " +
		"The reply begins like this, and goes on until code stands there {words} times:\ncode code code code code code code code"},
	{task{}, fullLead + "reply with one short sentence about anything that comes to your mind."},
}

var compactWordings = []wording{
	{task{marker: true, words: true}, "\nReply only {marker} then code {words} times."},
	{task{marker: true}, "\nReply with {marker} and a short sentence."},
	{task{words: true}, "\nReply only with code {words} times."},
	{task{}, "\nReply with a short sentence."},
}

// tail is the end of every prompt of a plan in one wording.
type tail struct {
	text []byte
	// indexes are the places in text of the five digits of the request's index.
	indexes []int
}

// render makes the tail for the wording of the task; stem is a marker up to
// its index.
func render(wordings []wording, want task, stem []byte, words int) tail {
	var t tail
	for rest := wordingOf(wordings, want); rest != ""; {
		literal, hole, after := nextHole(rest)
		t.text = append(t.text, literal...)
		switch hole {
		case holeMarker:
			t.text = append(t.text, stem...)
			t.indexes = append(t.indexes, len(t.text))
			t.text = append(t.text, "00000"...)
		case holeWords:
			t.text = strconv.AppendInt(t.text, int64(words), 10)
		case holeLine:
			t.text = appendWords(t.text, words)
		}
		rest = after
	}
	return t
}

func wordingOf(wordings []wording, want task) string {
	for _, w := range wordings {
		if w.task == want {
			return w.text
		}
	}
	return ""
}

// nextHole splits a wording at its first hole; hole is "" where there is none.
func nextHole(text string) (literal, hole, after string) {
	open := strings.IndexByte(text, '{')
	if open < 0 {
		return text, "", ""
	}
	closing := open + strings.IndexByte(text[open:], '}') + 1
	return text[:open], text[open:closing], text[closing:]
}

// appendWords writes the word n times, single spaces between.
func appendWords(dst []byte, n int) []byte {
	for k := range n {
		if k > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, Word...)
	}
	return dst
}

// Instructions is what a prompt asks its answer to be.
type Instructions struct {
	// Marker is what the answer begins with; "" where no marker is asked for.
	Marker string
	// Words is how often the answer has the word Word after the marker, and
	// nothing else, in 1..65,536. HasWords false asks for a short sentence.
	Words    int
	HasWords bool
}

// AppendReply writes the answer that obeys the instructions; sentence is what
// follows the marker where no words are asked for.
func (ins Instructions) AppendReply(dst []byte, sentence string) []byte {
	dst = append(dst, ins.Marker...)
	if ins.Marker != "" {
		dst = append(dst, ' ')
	}
	if ins.HasWords {
		return appendWords(dst, ins.Words)
	}
	return append(dst, sentence...)
}

// ParseInstructions reads the task at the end of a prompt that AppendPrompt
// made, in every wording; it is how an endpoint that is not a model obeys. It
// is false for a prompt that ends any other way. White space after the task is
// ignored. It looks at the end of the prompt only, whatever its length.
func ParseInstructions(prompt string) (Instructions, bool) {
	end := prompt[max(0, len(prompt)-taskBytesMax):]
	end = strings.TrimRight(end, " \t\r\n")
	for _, wordings := range [][]wording{fullWordings, compactWordings} {
		for _, w := range wordings {
			if ins, ok := parseWording(end, w); ok {
				return ins, true
			}
		}
	}
	return Instructions{}, false
}

// taskBytesMax is more than the longest task: full, a whole line of
// lineWordsMax words, four markers of the longest seed.
const taskBytesMax = 2048

// parseWording reads the task where the end of a prompt is in the wording w.
func parseWording(end string, w wording) (Instructions, bool) {
	first, _, _ := nextHole(w.text)
	start := strings.LastIndex(end, first)
	if start < 0 {
		return Instructions{}, false
	}
	var ins Instructions
	s := end[start:]
	for text := w.text; text != ""; {
		literal, hole, after := nextHole(text)
		var ok bool
		if s, ok = strings.CutPrefix(s, literal); !ok {
			return Instructions{}, false
		}
		if s, ok = ins.cutHole(s, hole); !ok {
			return Instructions{}, false
		}
		text = after
	}
	return ins, s == ""
}

// cutHole reads the value of a hole off the front of s. A value that comes
// again must be the same again.
func (ins *Instructions) cutHole(s, hole string) (rest string, ok bool) {
	switch hole {
	case holeMarker:
		marker, rest, ok := cutMarker(s)
		if !ok || ins.Marker != "" && ins.Marker != marker {
			return s, false
		}
		ins.Marker = marker
		return rest, true
	case holeWords:
		n := countDigits(s)
		words, err := strconv.Atoi(s[:n])
		if err != nil || words < 1 || words > MaxResponseWords {
			return s, false
		}
		if ins.HasWords && ins.Words != words {
			return s, false
		}
		ins.Words, ins.HasWords = words, true
		return s[n:], true
	case holeLine:
		if ins.Words > lineWordsMax {
			return s, false
		}
		return cutWords(s, ins.Words)
	default:
		return s, true
	}
}

func cutWords(s string, n int) (rest string, ok bool) {
	for k := range n {
		want := " " + Word
		if k == 0 {
			want = Word
		}
		if s, ok = strings.CutPrefix(s, want); !ok {
			return s, false
		}
	}
	return s, true
}
