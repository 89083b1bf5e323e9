package sizing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/client"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/workload"
)

// Dialects of the fake's tokenizer.
const (
	none        = ""
	inputTokens = "llama.cpp with input_tokens"
	template    = "llama.cpp with apply-template"
	vllm        = "vLLM"
	sglang      = "SGLang"
)

// templateText is what the fake's chat template puts around a prompt.
const templateText = "<|system|> You are a helpful assistant. <|user|> "

// fake is a server that counts tokens.
type fake struct {
	dialect string
	tokens  func(text string) int
	// tokenizer is what its tokenizer endpoint counts with, where that is wrong; nil
	// is tokens.
	tokenizer func(text string) int
	noUsage   bool
	// answer takes the place of a completion, where it is not nil.
	answer func(n int, prompt string) *client.Observation
	// hang never answers.
	hang bool

	mu     sync.Mutex // guards all below
	sent   []string   // prompts of completions
	kwargs []string
	asked  []int // max_tokens of completions
}

// quarter is the reference server's tokenizer: exact.
func quarter(text string) int { return (len(text) + 3) / 4 }

// wordy is like a real tokenizer: long words are several tokens, every digit and
// every mark is one.
func wordy(text string) int {
	n, run := 0, 0
	end := func() { n += (run + 4) / 5; run = 0 }
	for _, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			run++
		case c == ' ':
			end()
		default:
			end()
			n++
		}
	}
	end()
	return n
}

func (f *fake) count(text string) int { return f.tokens(text) }

// Complete bills a prompt.
func (f *fake) Complete(ctx context.Context, body []byte) client.Observation {
	prompt, kwargs := readChat(body)
	f.mu.Lock()
	f.sent, f.kwargs = append(f.sent, prompt), append(f.kwargs, kwargs)
	n := len(f.sent)
	var limit struct {
		MaxTokens int `json:"max_tokens"`
	}
	_ = json.Unmarshal(body, &limit)
	f.asked = append(f.asked, limit.MaxTokens)
	f.mu.Unlock()
	if f.hang {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return client.Observation{Failure: record.NewFailure(record.Canceled, "the run ended")}
	}
	if f.answer != nil {
		if seen := f.answer(n, prompt); seen != nil {
			return *seen
		}
	}
	if f.noUsage {
		return client.Observation{Text: "a"}
	}
	// One token is seldom a good answer.
	return client.Observation{Failure: record.NewFailure(record.EmptyOutput, "no text"), Tokens: record.Tokens{Prompt: new(f.count(templateText + prompt)), Output: new(1)}}
}

var errNotFound = errors.New("status 404 Not Found")

// Post is the server's tokenizer.
func (f *fake) Post(ctx context.Context, target string, body []byte) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	tokens := f.tokens
	if f.tokenizer != nil {
		tokens = f.tokenizer
	}
	prompt, kwargs := readChat(body)
	if prompt != "" {
		f.mu.Lock()
		f.kwargs = append(f.kwargs, kwargs)
		f.mu.Unlock()
	}
	var request struct{ Prompt, Content *string }
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	switch f.dialect + " " + u.Path {
	case inputTokens + " /v1/chat/completions/input_tokens":
		return fmt.Appendf(nil, `{"input_tokens":%d}`, tokens(templateText+prompt)), nil
	case inputTokens + " /tokenize", template + " /tokenize":
		if request.Content == nil { // as llama.cpp does
			return []byte(`{"tokens":[]}`), nil
		}
		return json.Marshal(map[string]any{"tokens": make([]int, tokens(*request.Content))})
	case template + " /apply-template":
		return json.Marshal(map[string]any{"prompt": templateText + prompt})
	case vllm + " /tokenize":
		if request.Prompt != nil {
			return fmt.Appendf(nil, `{"count":%d}`, tokens(*request.Prompt)), nil
		}
		return fmt.Appendf(nil, `{"count":%d,"max_model_len":4096,"tokens":[1]}`, tokens(templateText+prompt)), nil
	case sglang + " /tokenize":
		if request.Prompt == nil {
			return nil, errors.New("status 400 Bad Request: prompt: Field required")
		}
		return fmt.Appendf(nil, `{"count":%d}`, tokens(*request.Prompt)), nil
	}
	return nil, errNotFound
}

func readChat(body []byte) (prompt, kwargs string) {
	var request struct {
		Messages []struct{ Content string }
		Kwargs   json.RawMessage `json:"chat_template_kwargs"`
	}
	_ = json.Unmarshal(body, &request)
	if len(request.Messages) == 1 {
		prompt = request.Messages[0].Content
	}
	return prompt, string(request.Kwargs)
}

// sizerFor makes a sizer for a fake.
func sizerFor(t *testing.T, f *fake, change ...func(*Options)) *Sizer {
	t.Helper()
	o := Options{Server: f, BaseURL: "http://fake.test/v1", Params: client.Params{Model: "m", MaxTokens: 64}, Concurrency: 8}
	for _, c := range change {
		c(&o)
	}
	s, err := New(o)
	require.NoError(t, err)
	return s
}

// spec is a cell of some requests of one size.
func spec(requests, tokens int) workload.Spec {
	return workload.Spec{Requests: requests, Seed: 7, Parts: []workload.Part{{Tokens: tokens, Weight: 1}}, Canaries: true, ResponseWords: 16}
}

func planOf(t *testing.T, s workload.Spec) *workload.Plan {
	t.Helper()
	p, err := workload.New(s)
	require.NoError(t, err)
	return p
}

// billedOf is what the fake bills each request of a plan.
func (f *fake) billedOf(p *workload.Plan) []int {
	tokens := make([]int, p.Len())
	for i := range tokens {
		tokens[i] = f.count(templateText + string(p.AppendPrompt(nil, i)))
	}
	return tokens
}

func mean(xs []int) float64 {
	sum := 0
	for _, x := range xs {
		sum += x
	}
	return float64(sum) / float64(len(xs))
}

// head is what tells prompts apart: a server caches no less.
func head(prompt string) string { return prompt[:min(len(prompt), 24)] }

// markerOf finds the marker of a prompt, "" where it has none.
var markerOf = regexp.MustCompile(workload.MarkerPrefix + "[0-9]+_[0-9]+").FindString
