// Package chunk reads the data of one event of a streamed chat completion: a
// JSON object of type chat.completion.chunk, as OpenAI, vLLM, SGLang, llama.cpp
// and their like send it. It checks the whole JSON syntax and takes out only
// what a measurement needs, in one pass, without reflection and, in the steady
// state, without allocation.
//
// Every member is optional and any value may be null: servers differ in what
// they leave out (WIRE 14 to 20). A member that is read and has a type that its
// definition does not allow makes the event malformed, wherever it stands, since
// guessing at text or token counts would be measuring something else. Members
// that are not read may hold any JSON.
//
// Of members with the same name in one object the last one counts, and names
// are compared after their escapes are resolved, case and all.
package chunk

import "bytes"

// MaxDepth is how many arrays and objects may be open at once, the chunk itself
// included. Real chunks have about 8; encoding/json allows 10,000.
const MaxDepth = 1000

// Chunk is what one event says. Decode overwrites all of it. Its slices belong
// to the Decoder or alias the data decoded; they are valid until the next call
// of Decode or until the data changes.
//
// Text is UTF-8: as in encoding/json, each byte that is not, and each lone
// surrogate in an escape, becomes U+FFFD.
type Chunk struct {
	// Done: the data is [DONE], the end of the answer. Nothing else is set.
	Done bool
	// Heartbeat: the data is empty, white space or null (WIRE 5). Nothing else is set.
	Heartbeat bool

	// HasChoice0: there is a choice with index 0, or without an index. Text,
	// FinishReason and ToolCalls are this choice's; of several the last one's.
	HasChoice0 bool
	// OtherChoices: there is a choice with another index (n > 1).
	OtherChoices bool
	// ToolCalls: delta.tool_calls is neither null nor empty, or
	// delta.function_call is not null.
	ToolCalls bool
	// HasUsage: usage is an object. HasError: error is there, and neither null
	// nor false nor "", or object is "error".
	HasUsage bool
	HasError bool

	// Content is the visible text: delta.content, or its text parts joined where
	// it is an array. Empty for none.
	Content []byte
	// Reasoning is the first of these that is not empty:
	// delta.reasoning_content, delta.reasoning, the thinking parts of
	// delta.content. A server that sends two of them sends the same text twice.
	Reasoning []byte
	// FinishReason is nil for none, null and "".
	FinishReason []byte

	// Usage is meaningful where HasUsage is set, Error where HasError is.
	Usage Usage
	Error Error

	// Timings is the JSON of the top-level object timings, by which llama.cpp
	// reports its own clock; nil for none.
	Timings []byte
}

// Usage is the server's own token count. It may be that of the whole answer or,
// on every event, the one so far.
type Usage struct {
	PromptTokens     Count
	CompletionTokens Count
	TotalTokens      Count
	// CachedTokens is prompt_tokens_details.cached_tokens.
	CachedTokens Count
	// ReasoningTokens is completion_tokens_details.reasoning_tokens, a part of
	// CompletionTokens.
	ReasoningTokens Count
}

// Count is a number that a server may leave out.
type Count struct {
	// N is not negative; 0 where the count is not known.
	N int
	// Known is false for null and for a member that is not there: unknown, not 0.
	Known bool
}

// Ptr gives the number, or nil where it is not known.
func (c Count) Ptr() *int {
	if !c.Known {
		return nil
	}
	return new(c.N)
}

// Error is an error that a server reports inside a stream or as a whole body.
type Error struct {
	// Message is error.message, or error itself where that is a string; "" for none.
	Message []byte
	// Type is error.type, or "".
	Type []byte
	// Code is error.code: a string, or the digits of a number; "" for none.
	Code []byte
	// Raw is the JSON of the error, cut at RawErrorBytes.
	Raw []byte
}

// RawErrorBytes bounds Error.Raw.
const RawErrorBytes = 4 << 10

// done is the data of the event that ends an answer.
const done = "[DONE]"

// IsDone says that data is [DONE], white space around it allowed. Decode sets
// Chunk.Done by it.
func IsDone(data []byte) bool {
	if len(data) == len(done) {
		return string(data) == done
	}
	return string(bytes.Trim(data, " \t\r\n")) == done
}
