package sizing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/client"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/workload"
)

// counter counts the tokens of a chat request with this prompt, as the server
// bills them.
type counter func(ctx context.Context, prompt []byte) (int, error)

// count counts one prompt.
func (s *Sizer) count(ctx context.Context, prompt []byte) (int, error) {
	s.counts.Add(1)
	return s.counter(ctx, prompt)
}

// usageSource is artifact.ContextSizing.Source of SizedByUsage.
const usageSource = "usage.prompt_tokens"

// usage asks for one token and reads what the prompt was billed. Whether the
// answer is a good one does not matter: one token seldom is.
func (s *Sizer) usage(ctx context.Context, prompt []byte) (int, error) {
	body := s.body.Append(nil, prompt)
	for attempt := 0; ; attempt++ {
		s.completions.Add(1)
		seen := s.o.Server.Complete(ctx, body)
		f := seen.Failure
		switch {
		case f != nil && f.Detail == record.StaleConnection && attempt == 0:
			// The server had closed the connection; nothing is measured here.
		case f != nil && f.Detail == record.Canceled:
			return 0, fmt.Errorf("counting by %s: %s", usageSource, f.Message)
		case seen.Tokens.Prompt != nil && *seen.Tokens.Prompt > 0:
			return *seen.Tokens.Prompt, nil
		case f != nil:
			return 0, fmt.Errorf("counting by %s, with a request of %d characters for one token: %s: %s", usageSource, len(prompt), f.Detail, f.Message)
		default:
			return 0, fmt.Errorf("counting by %s: the answer carries no usage", usageSource)
		}
	}
}

// dialect is one way to ask a server's tokenizer.
type dialect struct {
	// path is what is recorded as the source.
	path  string
	count counter
	// plain says that the text alone is counted, without chat template.
	plain bool
}

// dialects lists the ways that are tried, those that count the whole request
// first:
//
//   - llama.cpp counts a chat request under /chat/completions/input_tokens, and
//     before it had that, applied its template under /apply-template.
//   - vLLM takes messages under /tokenize, beside /v1.
//   - SGLang takes a text there.
func (s *Sizer) dialects() ([]dialect, error) {
	root := strings.TrimSuffix(s.o.BaseURL, "/v1")
	kwargs, err := s.templateArguments()
	if err != nil {
		return nil, err
	}
	messages := func(prompt []byte) any {
		return chatRequest{Model: s.o.Params.Model, Messages: []message{{"user", string(prompt)}}, AddGenerationPrompt: true, Kwargs: kwargs}
	}
	return []dialect{
		{path: "/chat/completions/input_tokens", count: func(ctx context.Context, prompt []byte) (int, error) {
			return s.ask(ctx, s.o.BaseURL+"/chat/completions/input_tokens", json.RawMessage(s.body.Append(nil, prompt)))
		}},
		{path: "/tokenize", count: func(ctx context.Context, prompt []byte) (int, error) {
			return s.ask(ctx, root+"/tokenize", messages(prompt))
		}},
		{path: "/apply-template and /tokenize", count: func(ctx context.Context, prompt []byte) (int, error) {
			return s.askTemplated(ctx, root, messages(prompt))
		}},
		{path: "/tokenize", plain: true, count: func(ctx context.Context, prompt []byte) (int, error) {
			return s.ask(ctx, root+"/tokenize", textRequest{s.o.Params.Model, string(prompt)})
		}},
	}, nil
}

type chatRequest struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	AddGenerationPrompt bool            `json:"add_generation_prompt"`
	Kwargs              json.RawMessage `json:"chat_template_kwargs,omitempty"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type textRequest struct {
	Model  string `json:"model"`
	Prompt string `json:"prompt"`
}

// templateArguments are the chat_template_kwargs of the cell's requests, nil for
// none: they change what the template adds.
func (s *Sizer) templateArguments() (json.RawMessage, error) {
	var body struct {
		Kwargs json.RawMessage `json:"chat_template_kwargs"`
	}
	if err := json.Unmarshal(s.body.Append(nil, nil), &body); err != nil {
		return nil, fmt.Errorf("reading the request body back: %w", err)
	}
	return body.Kwargs, nil
}

// post sends JSON, a second time where the server had closed the connection.
func (s *Sizer) post(ctx context.Context, url string, request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	reply, err := s.o.Server.Post(ctx, url, body)
	if broken := (*client.TransportError)(nil); errors.As(err, &broken) && broken.Detail == record.StaleConnection {
		reply, err = s.o.Server.Post(ctx, url, body)
	}
	return reply, err
}

// ask posts a request and reads the count out of the reply.
func (s *Sizer) ask(ctx context.Context, url string, request any) (int, error) {
	raw, err := s.post(ctx, url, request)
	if err != nil {
		return 0, err
	}
	var reply struct {
		Count       *int `json:"count"`        // vLLM, SGLang
		InputTokens *int `json:"input_tokens"` // llama.cpp
	}
	if err := json.Unmarshal(raw, &reply); err != nil {
		return 0, fmt.Errorf("reading a token count: %w", err)
	}
	for _, n := range []*int{reply.Count, reply.InputTokens} {
		if n != nil && *n > 0 {
			return *n, nil
		}
	}
	return 0, errors.New("the reply has no token count")
}

// askTemplated has the template applied, and then the text tokenized.
func (s *Sizer) askTemplated(ctx context.Context, root string, request any) (int, error) {
	raw, err := s.post(ctx, root+"/apply-template", request)
	if err != nil {
		return 0, err
	}
	var templated struct {
		Prompt string `json:"prompt"`
	}
	if err := json.Unmarshal(raw, &templated); err != nil || templated.Prompt == "" {
		return 0, errors.New("the reply of /apply-template has no prompt")
	}
	if raw, err = s.post(ctx, root+"/tokenize", map[string]any{"content": templated.Prompt, "add_special": true, "parse_special": true}); err != nil {
		return 0, err
	}
	var reply struct {
		Tokens []json.RawMessage `json:"tokens"`
	}
	if err := json.Unmarshal(raw, &reply); err != nil || len(reply.Tokens) == 0 {
		return 0, errors.New("the reply of /tokenize has no tokens")
	}
	return len(reply.Tokens), nil
}

// checkChars bounds the requests that a tokenizer is held against: they are real
// ones, and need not be long.
const checkChars = 6144

// choose finds the counter: the first tokenizer that agrees with usage, else
// usage itself.
func (s *Sizer) choose(ctx context.Context, plan *workload.Plan, lengths [2]int) (counter, error) {
	long := max(min(lengths[1], checkChars), 2*plan.LeastChars(0))
	probes := [2][]byte{
		plan.AppendSample(nil, s.takeSample(), workload.Length{Chars: max(long/2, plan.LeastChars(0))}),
		plan.AppendSample(nil, s.takeSample(), workload.Length{Chars: long}),
	}
	dialects, err := s.dialects()
	if err != nil {
		return nil, err
	}
	truth := &billed{s: s, probes: probes}
	var against []string // why there is no tokenizer
	for _, d := range dialects {
		offset, checked, err := s.try(ctx, d, truth)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			against = append(against, fmt.Sprintf("%s: %v", d.path, err))
			if errors.Is(err, errDisagrees) && len(s.common.Notes) == 0 {
				s.common.Notes = append(s.common.Notes, fmt.Sprintf("the tokenizer of %s was not used: %v", d.path, err))
			}
			continue
		}
		s.common.Method, s.common.Source = artifact.SizedByTokenizer, d.path
		s.common.Checked, s.common.OffsetTokens = checked, offset
		if !checked {
			s.common.Notes = append(s.common.Notes, fmt.Sprintf("the tokenizer of %s could not be held against usage: %v", d.path, truth.err))
		}
		return func(ctx context.Context, prompt []byte) (int, error) {
			n, err := d.count(ctx, prompt)
			return n + offset, err
		}, nil
	}
	if truth.ask(ctx); truth.err != nil {
		return nil, fmt.Errorf("the server has no tokenizer to ask (%s), and it does not say what it bills: %w", strings.Join(against, "; "), truth.err)
	}
	s.common.Method, s.common.Source, s.common.Checked = artifact.SizedByUsage, usageSource, true
	return s.usage, nil
}

func (s *Sizer) takeSample() int {
	s.nextIndex++
	return s.nextIndex - 1
}

// billed is what usage says of the probes, asked once and only where needed.
type billed struct {
	s      *Sizer
	probes [2][]byte
	asked  bool
	tokens [2]int
	err    error
}

func (b *billed) ask(ctx context.Context) {
	if b.asked {
		return
	}
	b.asked = true
	for i, probe := range b.probes {
		if b.tokens[i], b.err = b.s.usage(ctx, probe); b.err != nil {
			return
		}
	}
}

// errDisagrees says that a tokenizer is not that of the model's requests.
var errDisagrees = errors.New("it disagrees with usage")

// offsetSlack is how far apart a tokenizer's distances from usage may be on two
// prompts: where text and template meet, tokens may join.
const offsetSlack = 2

// try asks a tokenizer and holds it against usage. checked is false where the
// server says nothing of usage: a tokenizer that knows the chat template is then
// believed.
func (s *Sizer) try(ctx context.Context, d dialect, truth *billed) (offset int, checked bool, err error) {
	var got [2]int
	for i, probe := range truth.probes {
		s.counts.Add(1)
		if got[i], err = d.count(ctx, probe); err != nil {
			return 0, false, err
		}
	}
	truth.ask(ctx)
	switch {
	case truth.err != nil && d.plain:
		return 0, false, fmt.Errorf("it knows no chat template, and usage is not to be had: %w", truth.err)
	case truth.err != nil:
		return 0, false, nil
	}
	first, second := truth.tokens[0]-got[0], truth.tokens[1]-got[1]
	if abs(first-second) > offsetSlack {
		return 0, false, fmt.Errorf("%w: it counts %d and %d tokens where usage says %d and %d", errDisagrees, got[0], got[1], truth.tokens[0], truth.tokens[1])
	}
	return second, true, nil
}
