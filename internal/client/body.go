package client

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
)

// Values of Params.Thinking.
const (
	ThinkingDefault  = "default"  // nothing is sent; "" means the same
	ThinkingEnabled  = "enabled"  // chat_template_kwargs.enable_thinking = true
	ThinkingDisabled = "disabled" // chat_template_kwargs.enable_thinking = false
)

// Names of the output limit, Params.MaxTokensName. Servers that refuse one
// name the other in their error.
const (
	MaxTokens           = "max_tokens"
	MaxCompletionTokens = "max_completion_tokens"
)

// Params are the parts of a chat completion request. The request always
// streams, and asks for usage (stream_options.include_usage).
type Params struct {
	// Model is the served name. Required.
	Model string
	// Prompt is the text of the one user message.
	Prompt string
	// MaxTokens limits the output, in tokens; at least 1.
	MaxTokens int
	// MaxTokensName is the key under which MaxTokens goes: MaxTokens (also for
	// "") or MaxCompletionTokens.
	MaxTokensName string
	// Temperature is always sent, 0 too.
	Temperature float64
	// TopP is not sent when nil.
	TopP *float64
	// Thinking is ThinkingDefault (also for ""), ThinkingEnabled or
	// ThinkingDisabled. It cannot be combined with ReasoningEffort.
	Thinking string
	// ReasoningEffort is sent as reasoning_effort, unless it is "".
	ReasoningEffort string
	// OmitStreamOptions asks for no usage, for a server that refuses
	// stream_options.
	OmitStreamOptions bool
	// ExtraBody is a JSON object whose members are added at the top level, byte
	// for byte. A member that the request already has is an error, except that
	// chat_template_kwargs joins the one that Thinking makes. Nil adds nothing.
	ExtraBody json.RawMessage
}

// Body builds a request body. For many prompts under the same parameters,
// [NewTemplate] does the work that they share once.
func Body(p Params) ([]byte, error) {
	t, err := NewTemplate(p)
	if err != nil {
		return nil, err
	}
	return t.Append(make([]byte, 0, t.sizeFor(len(p.Prompt))), []byte(p.Prompt)), nil
}

// Template is a request body with a hole for the prompt, so that a body costs
// one copy of its prompt. It is immutable and safe for concurrent use.
type Template struct {
	head, tail []byte // the body before and after the prompt's JSON string
}

// placeholder stands for the prompt while the body is marshalled. It holds
// bytes that no name of a model and no option holds, and it must be found
// exactly once.
const placeholder = "\x00anvil-prompt\x00"

// NewTemplate checks the parameters and marshals all of the body but the
// prompt; Params.Prompt is not looked at.
func NewTemplate(p Params) (*Template, error) {
	typed, err := json.Marshal(typedParams(p))
	if err != nil {
		return nil, fmt.Errorf("building the request body: %w", err)
	}
	fields, err := extraFields(p)
	if err != nil {
		return nil, fmt.Errorf("building the request body: %w", err)
	}
	body, err := join(typed, fields)
	if err != nil {
		return nil, fmt.Errorf("building the request body: %w", err)
	}
	hole := appendString(nil, []byte(placeholder))
	if n := bytes.Count(body, hole); n != 1 {
		return nil, fmt.Errorf("building the request body: the prompt's place was found %d times, want once", n)
	}
	head, tail, _ := bytes.Cut(body, hole)
	return &Template{head: head, tail: tail}, nil
}

// Append adds the body with this prompt to dst and returns the extended slice.
// The prompt is neither kept nor changed; bytes that are not UTF-8 become U+FFFD.
func (t *Template) Append(dst, prompt []byte) []byte {
	dst = append(dst, t.head...)
	dst = appendString(dst, prompt)
	return append(dst, t.tail...)
}

// sizeFor is the room that a body with a prompt of so many bytes usually
// needs: escapes of line ends and quotes are about one in fifty bytes of text.
func (t *Template) sizeFor(prompt int) int {
	return len(t.head) + prompt + prompt/32 + len(t.tail) + 16
}

// typedParams holds what openai-go has fields for.
func typedParams(p Params) openai.ChatCompletionNewParams {
	typed := openai.ChatCompletionNewParams{
		Model:       shared.ChatModel(p.Model),
		Messages:    []openai.ChatCompletionMessageParamUnion{openai.UserMessage(placeholder)},
		Temperature: openai.Float(p.Temperature),
	}
	if !p.OmitStreamOptions {
		typed.StreamOptions.IncludeUsage = openai.Bool(true)
	}
	if p.TopP != nil {
		typed.TopP = openai.Float(*p.TopP)
	}
	if p.ReasoningEffort != "" {
		typed.ReasoningEffort = shared.ReasoningEffort(p.ReasoningEffort)
	}
	return typed
}

// field is one member of the body's top level.
type field struct {
	name  string
	value json.RawMessage
}

// extraFields lists what openai-go has no field for, in the order in which it
// is sent.
func extraFields(p Params) ([]field, error) {
	if p.Model == "" {
		return nil, fmt.Errorf("no model is named")
	}
	if p.MaxTokens < 1 {
		return nil, fmt.Errorf("max tokens %d, want at least 1", p.MaxTokens)
	}
	name := p.MaxTokensName
	switch name {
	case "":
		name = MaxTokens
	case MaxTokens, MaxCompletionTokens:
	default:
		return nil, fmt.Errorf("name of the output limit %q, want %q or %q", name, MaxTokens, MaxCompletionTokens)
	}
	fields := []field{
		{name, strconv.AppendInt(nil, int64(p.MaxTokens), 10)},
		{"stream", json.RawMessage("true")},
	}
	thinking, err := thinkingFields(p)
	if err != nil {
		return nil, err
	}
	extra, err := objectFields(p.ExtraBody)
	if err != nil {
		return nil, fmt.Errorf("reading the extra body: %w", err)
	}
	return mergeKwargs(fields, thinking, extra)
}

const kwargs = "chat_template_kwargs"

// thinkingFields are the members of chat_template_kwargs that Thinking asks for.
func thinkingFields(p Params) ([]field, error) {
	var on string
	switch p.Thinking {
	case "", ThinkingDefault:
		return nil, nil
	case ThinkingEnabled:
		on = "true"
	case ThinkingDisabled:
		on = "false"
	default:
		return nil, fmt.Errorf("thinking %q, want %s, %s or %s", p.Thinking, ThinkingDefault, ThinkingEnabled, ThinkingDisabled)
	}
	if p.ReasoningEffort != "" {
		return nil, fmt.Errorf("thinking %s together with reasoning effort %q: give one of them", p.Thinking, p.ReasoningEffort)
	}
	return []field{{"enable_thinking", json.RawMessage(on)}}, nil
}

// mergeKwargs adds the extra fields, with one chat_template_kwargs made of the
// thinking switch and of the user's own.
func mergeKwargs(fields, thinking, extra []field) ([]field, error) {
	for i, f := range extra {
		if f.name != kwargs || len(thinking) == 0 {
			continue
		}
		inner, err := objectFields(f.value)
		if err != nil {
			return nil, fmt.Errorf("reading %s of the extra body: %w", kwargs, err)
		}
		merged, err := join([]byte("{}"), append(thinking, inner...))
		if err != nil {
			return nil, fmt.Errorf("joining %s: %w", kwargs, err)
		}
		extra[i].value, thinking = merged, nil
	}
	if len(thinking) > 0 {
		object, err := join([]byte("{}"), thinking)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field{kwargs, object})
	}
	return append(fields, extra...), nil
}

// objectFields takes a JSON object apart, in its own order and byte for byte.
func objectFields(object json.RawMessage) ([]field, error) {
	if len(bytes.TrimSpace(object)) == 0 {
		return nil, nil
	}
	if !json.Valid(object) {
		var any any
		return nil, json.Unmarshal(object, &any)
	}
	dec := json.NewDecoder(bytes.NewReader(object))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, fmt.Errorf("%.20q is not a JSON object", object)
	}
	var fields []field
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		fields = append(fields, field{name.(string), value})
	}
	return fields, nil
}

// join appends fields to a JSON object; a name that is there already is an error.
func join(object []byte, fields []field) ([]byte, error) {
	have := map[string]json.RawMessage{}
	if err := json.Unmarshal(object, &have); err != nil {
		return nil, err
	}
	out := bytes.TrimSuffix(object, []byte("}"))
	for _, f := range fields {
		if _, twice := have[f.name]; twice {
			return nil, fmt.Errorf("%q is given twice: the request has it already", f.name)
		}
		have[f.name] = f.value
		if len(have) > 1 {
			out = append(out, ',')
		}
		out = append(appendString(out, []byte(f.name)), ':')
		out = append(out, f.value...)
	}
	return append(out, '}'), nil
}

// appendString appends text as a JSON string. Only what JSON asks for is
// escaped (no <, > or &), and the plain stretches between are copied whole,
// which is what keeps a prompt of megabytes cheap.
func appendString(dst, text []byte) []byte {
	dst = append(dst, '"')
	plain := 0 // text[plain:i] is not yet copied
	for i := 0; i < len(text); {
		if len(text)-i >= 8 && plain8(binary.LittleEndian.Uint64(text[i:])) {
			i += 8
			continue
		}
		b := text[i]
		if b >= 0x20 && b != '"' && b != '\\' && b < utf8.RuneSelf {
			i++
			continue
		}
		if b >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(text[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, text[plain:i]...)
		dst = appendEscape(dst, b)
		i++
		plain = i
	}
	dst = append(dst, text[plain:]...)
	return append(dst, '"')
}

// plain8 says that none of eight bytes needs a look: all are ASCII, no control
// character, no quote and no backslash. A borrow between bytes can make it say
// no for nothing, which costs time and not truth.
func plain8(w uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^ones*'"', w^ones*'\\'
	return (w|(w-ones*0x20)|(quote-ones)|(slash-ones))&tops == 0
}

// appendEscape appends the escape of one byte that cannot stand in a JSON
// string as it is.
func appendEscape(dst []byte, b byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case b == '"' || b == '\\':
		return append(dst, '\\', b)
	case b == '\n':
		return append(dst, `\n`...)
	case b == '\r':
		return append(dst, `\r`...)
	case b == '\t':
		return append(dst, `\t`...)
	case b < 0x20:
		return append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
	default: // not UTF-8
		return append(dst, "\uFFFD"...)
	}
}
