package refserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// chunks makes the events of one answer. Everything that repeats is made once,
// so that a token costs a write and nothing else.
type chunks struct {
	head     string // up to choices
	reasonAs string
}

var doneEvent = []byte("data: [DONE]\n\n")

func newChunks(o *Options, requestID string, created int64) chunks {
	return chunks{
		head: fmt.Sprintf(`data: {"id":"chatcmpl-%s","object":"chat.completion.chunk","created":%d,"model":%s,`,
			requestID, created, quoted(o.Model)),
		reasonAs: o.ReasoningKey,
	}
}

func (c chunks) choice(delta, finish string) []byte {
	return fmt.Appendf(nil, `%s"choices":[{"index":0,"delta":{%s},"logprobs":null,"finish_reason":%s}]}`+"\n\n", c.head, delta, finish)
}

// role is the event that opens an answer and carries no output.
func (c chunks) role() []byte { return c.choice(`"role":"assistant","content":""`, "null") }

// token is the event of one token of a run.
func (c chunks) token(r run) []byte {
	key := "content"
	if r.reasoning {
		key = c.reasonAs
	}
	return c.choice(quoted(key)+":"+quoted(r.text), "null")
}

func (c chunks) finish(reason string) []byte { return c.choice("", quoted(reason)) }

func (c chunks) usage(u usage) []byte {
	return fmt.Appendf(nil, "%s\"choices\":[],\"usage\":%s}\n\n", c.head, u.object())
}

// usage is the token accounting of one answer.
type usage struct{ prompt, cached, output, reasoning int }

func (u usage) object() string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}`,
		u.prompt, u.prompt+u.output, u.output, u.cached, u.reasoning)
}

// completion is a whole answer in one piece.
func completion(o *Options, requestID string, created int64, a *answer, u string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"id":"chatcmpl-%s","object":"chat.completion","created":%d,"model":%s,"choices":[{"index":0,"message":{"role":"assistant","content":%s`,
		requestID, created, quoted(o.Model), quoted(a.text(false)))
	if a.reasoning > 0 {
		fmt.Fprintf(&b, `,%s:%s`, quoted(o.ReasoningKey), quoted(a.text(true)))
	}
	fmt.Fprintf(&b, `},"logprobs":null,"finish_reason":%s}]`, quoted(a.finish))
	if u != "" {
		fmt.Fprintf(&b, `,"usage":%s`, u)
	}
	b.WriteString("}\n")
	return b.Bytes()
}

// quoted is a JSON string.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil { // strings always marshal
		return strconv.Quote(text)
	}
	return string(b)
}
