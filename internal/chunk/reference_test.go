package chunk_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/chunk"
)

// verdict says how a decoding ended.
type verdict string

const (
	fine    verdict = "fine"
	notJSON verdict = "not JSON"
	deep    verdict = "too deep"
	shape   verdict = "a value of a wrong type"
)

// reading is a Chunk with memory of its own, and how it ended.
type reading struct {
	Verdict                                     verdict
	Done, Heartbeat                             bool
	HasChoice0, OtherChoices, ToolCalls         bool
	HasUsage, HasError                          bool
	Content, Reasoning, Finish                  string
	Usage                                       chunk.Usage
	ErrMessage, ErrType, ErrCode, ErrRaw, Times string
}

// decode reads data with d.
func decode(d *chunk.Decoder, data []byte) reading {
	var c chunk.Chunk
	err := d.Decode(data, &c)
	out := reading{
		Verdict: fine, Done: c.Done, Heartbeat: c.Heartbeat,
		HasChoice0: c.HasChoice0, OtherChoices: c.OtherChoices, ToolCalls: c.ToolCalls,
		HasUsage: c.HasUsage, HasError: c.HasError,
		Content: string(c.Content), Reasoning: string(c.Reasoning), Finish: string(c.FinishReason),
		Usage: c.Usage, ErrMessage: string(c.Error.Message), ErrType: string(c.Error.Type),
		ErrCode: string(c.Error.Code), ErrRaw: string(c.Error.Raw), Times: string(c.Timings),
	}
	if err == nil {
		return out
	}
	bad, ok := err.(*chunk.MalformedError)
	switch {
	case !ok:
		out.Verdict = verdict(err.Error())
	case bad.Path != "":
		out.Verdict = shape
	case strings.HasPrefix(bad.Want, "at most"):
		out.Verdict = deep
	default:
		out.Verdict = notJSON
	}
	return out
}

// node is a JSON value with its members in order, those of the same name too,
// which a map would hide.
type node struct {
	raw     string
	token   json.Token // a string, json.Number, bool, nil; json.Delim of an array or object
	members []member
	elems   []*node
}

type member struct {
	name  string
	value *node
}

// parse reads valid JSON into a tree by means of encoding/json.
func parse(data []byte) *node {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var value func() *node
	value = func() *node {
		start := int(dec.InputOffset())
		for strings.IndexByte(" \t\r\n:,", data[start]) >= 0 {
			start++
		}
		n := &node{token: must(dec.Token())}
		switch n.token {
		case json.Delim('{'):
			for dec.More() {
				name := must(dec.Token()).(string)
				n.members = append(n.members, member{name, value()})
			}
			must(dec.Token())
		case json.Delim('['):
			for dec.More() {
				n.elems = append(n.elems, value())
			}
			must(dec.Token())
		}
		n.raw = string(data[start:dec.InputOffset()])
		return n
	}
	return value()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the data passed json.Valid
	}
	return v
}

func (n *node) isObject() bool { return n != nil && n.token == json.Delim('{') }
func (n *node) isArray() bool  { return n != nil && n.token == json.Delim('[') }
func (n *node) isNull() bool   { return n == nil || n.token == nil }
func (n *node) text() string {
	if n == nil {
		return ""
	}
	s, _ := n.token.(string)
	return s
}
func (n *node) isText() bool { _, ok := n.token.(string); return ok }

// get gives the last member of that name, nil for none.
func (n *node) get(path ...string) *node {
	for _, name := range path {
		if !n.isObject() {
			return nil
		}
		var found *node
		for _, m := range n.members {
			if m.name == name {
				found = m.value
			}
		}
		n = found
	}
	return n
}

// all gives every member of these names.
func (n *node) all(names ...string) (out []*node) {
	for _, m := range n.members {
		if slices.Contains(names, m.name) {
			out = append(out, m.value)
		}
	}
	return out
}

func (n *node) depth() int {
	most := 0
	for _, m := range n.members {
		most = max(most, m.value.depth())
	}
	for _, e := range n.elems {
		most = max(most, e.depth())
	}
	if n.isArray() || n.isObject() {
		most++
	}
	return most
}

func (n *node) count() (chunk.Count, bool) {
	if n.isNull() {
		return chunk.Count{}, true
	}
	number, ok := n.token.(json.Number)
	if !ok {
		return chunk.Count{}, false
	}
	f, err := number.Float64()
	if err != nil || f < 0 || f != math.Trunc(f) || f > chunk.MaxCount {
		return chunk.Count{}, false
	}
	return chunk.Count{N: int(f), Known: true}, true
}

// every says that f holds for all of nodes.
func every(nodes []*node, f func(*node) bool) bool {
	return !slices.ContainsFunc(nodes, func(n *node) bool { return !f(n) })
}

func textOrNull(n *node) bool  { return n.isNull() || n.isText() }
func countOrNull(n *node) bool { _, ok := n.count(); return ok }

// objectOrNull makes a check of a member that is an object with such members.
func objectOrNull(members func(*node) bool) func(*node) bool {
	return func(n *node) bool { return n.isNull() || n.isObject() && members(n) }
}

// hasShape says that every member that a Decoder reads has a type it may have.
func hasShape(n *node) bool {
	thought := func(n *node) bool {
		return textOrNull(n) || n.isObject() && every(n.all("text"), textOrNull)
	}
	part := func(n *node) bool {
		return textOrNull(n) || n.isObject() && every(n.all("type", "text", "reasoning"), textOrNull) &&
			every(n.all("thinking"), func(n *node) bool { return textOrNull(n) || n.isArray() && every(n.elems, thought) })
	}
	content := func(n *node) bool { return textOrNull(n) || n.isArray() && every(n.elems, part) }
	delta := objectOrNull(func(n *node) bool {
		return every(n.all("content"), content) && every(n.all("reasoning", "reasoning_content"), textOrNull)
	})
	choice := objectOrNull(func(n *node) bool {
		return every(n.all("index"), countOrNull) && every(n.all("finish_reason"), textOrNull) && every(n.all("delta"), delta)
	})
	usage := objectOrNull(func(n *node) bool {
		return every(n.all("prompt_tokens", "completion_tokens", "total_tokens"), countOrNull) &&
			every(n.all("prompt_tokens_details"), objectOrNull(func(n *node) bool { return every(n.all("cached_tokens"), countOrNull) })) &&
			every(n.all("completion_tokens_details"), objectOrNull(func(n *node) bool { return every(n.all("reasoning_tokens"), countOrNull) }))
	})
	return n.isNull() || n.isObject() && every(n.all("usage"), usage) &&
		every(n.all("choices"), func(n *node) bool { return n.isNull() || n.isArray() && every(n.elems, choice) })
}

// firstFault says what stands first in data that is not JSON: a nesting too deep,
// or the fault of its syntax.
func firstFault(data []byte) verdict {
	dec := json.NewDecoder(bytes.NewReader(data))
	for depth := 0; ; {
		token, err := dec.Token()
		if err != nil {
			return notJSON
		}
		switch token {
		case json.Delim('['), json.Delim('{'):
			if depth++; depth > chunk.MaxDepth {
				return deep
			}
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	}
}

// reference reads data by means of encoding/json: the other opinion for every
// property test here. It shares no code with the Decoder.
func reference(data []byte) reading {
	trimmed := strings.Trim(string(data), " \t\r\n")
	switch {
	case trimmed == "" || trimmed == "null":
		return reading{Verdict: fine, Heartbeat: true}
	case trimmed == "[DONE]":
		return reading{Verdict: fine, Done: true}
	case !json.Valid(data):
		return reading{Verdict: firstFault(data)}
	}
	n := parse(data)
	if n.depth() > chunk.MaxDepth {
		return reading{Verdict: deep}
	}
	out := reading{Verdict: fine}
	out.readError(n)
	if !hasShape(n) {
		if !out.HasError {
			return reading{Verdict: shape}
		}
		return out // what else it says is not compared; see compare
	}
	out.readChoices(n.get("choices"))
	if usage := n.get("usage"); usage.isObject() {
		out.HasUsage = true
		out.Usage = chunk.Usage{
			PromptTokens:     first(usage.get("prompt_tokens").count()),
			CompletionTokens: first(usage.get("completion_tokens").count()),
			TotalTokens:      first(usage.get("total_tokens").count()),
			CachedTokens:     first(usage.get("prompt_tokens_details", "cached_tokens").count()),
			ReasoningTokens:  first(usage.get("completion_tokens_details", "reasoning_tokens").count()),
		}
	}
	if timings := n.get("timings"); timings.isObject() {
		out.Times = timings.raw
	}
	return out
}

func first[T, U any](v T, _ U) T { return v }

func (out *reading) readError(n *node) {
	e := n.get("error")
	if e.isNull() || e.token == false || e.token == "" {
		if n.get("object").text() != "error" {
			return
		}
		e = n
	}
	field := func(name string) string {
		if number, ok := e.get(name).orNull().token.(json.Number); ok {
			return number.String()
		}
		return e.get(name).text()
	}
	out.HasError = true
	out.ErrMessage, out.ErrType, out.ErrCode = e.text()+field("message"), field("type"), field("code")
	out.ErrRaw = e.raw[:min(len(e.raw), chunk.RawErrorBytes)]
}

func (n *node) orNull() *node {
	if n == nil {
		return &node{}
	}
	return n
}

func (out *reading) readChoices(choices *node) {
	for _, choice := range choices.orNull().elems {
		if !choice.isObject() {
			continue
		}
		if first(choice.get("index").count()).N != 0 {
			out.OtherChoices = true
			continue
		}
		out.HasChoice0 = true
		out.Finish = choice.get("finish_reason").text()
		delta := choice.get("delta")
		tools := delta.get("tool_calls").orNull()
		out.ToolCalls = !delta.get("function_call").isNull() || !tools.isNull() && (!tools.isArray() || len(tools.elems) > 0)
		visible, thought := partsOf(delta.get("content"))
		out.Content = visible
		out.Reasoning = oneOf(delta.get("reasoning_content").text(), delta.get("reasoning").text(), thought)
	}
}

func oneOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func partsOf(content *node) (visible, thought string) {
	visible = content.text()
	for _, part := range content.orNull().elems {
		switch kind := part.get("type").text(); {
		case part.isText():
			visible += part.text()
		case !part.isObject():
		case kind == "thinking" || kind == "reasoning":
			thinking := part.get("thinking").text()
			for _, e := range part.get("thinking").orNull().elems {
				thinking += e.text() + e.get("text").text()
			}
			thought += oneOf(thinking, part.get("reasoning").text(), part.get("text").text())
		case kind == "text" || kind == "output_text" || kind == "":
			visible += part.get("text").text()
		}
	}
	return visible, thought
}

// compare fails when d and the reference read data differently.
func compare(t *testing.T, d *chunk.Decoder, data []byte) reading {
	t.Helper()
	want := reference(data)
	if text, reasoning, ok := d.Text(data); ok {
		only := reading{Verdict: fine, HasChoice0: true, Content: string(text)}
		if reasoning {
			only.Content, only.Reasoning = "", string(text)
		}
		require.Equal(t, want, only, "the text of %q, not decoded", data)
	}
	got := decode(d, data)
	if want.HasError && !hasShape(parse(data)) {
		// The error counts, and the rest of such an event is nothing to rely on.
		got = reading{Verdict: got.Verdict, HasError: got.HasError, ErrMessage: got.ErrMessage,
			ErrType: got.ErrType, ErrCode: got.ErrCode, ErrRaw: got.ErrRaw}
	}
	if got != want {
		require.Equal(t, want, got, "decoding %q", data)
	}
	return got
}
