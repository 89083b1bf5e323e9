// Package preflight asks a server the few questions whose wrong answer would
// spoil every request of a cell: is it there, is the key good, is the model
// served, is its context large enough, does it take the options, and is one
// short answer well formed. Each failure says what to do; nothing of the cell is
// sent when one is found.
package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"anvil-capacity/internal/client"
	"anvil-capacity/internal/record"
)

// Server is the part of *client.Client that a preflight needs.
type Server interface {
	Models(ctx context.Context) ([]client.Model, error)
	Complete(ctx context.Context, body []byte) client.Observation
	// Settle says, after an answer, whether the server closes connections behind it.
	Settle(ctx context.Context) (fresh bool)
}

// Options say what to check.
type Options struct {
	Server  Server
	BaseURL string // for messages; without secrets
	// Model is the one to ask for; "" takes the only or first one served.
	Model string
	// MaxModelLen is the model's context in tokens as the user states it; 0
	// takes the server's word.
	MaxModelLen int
	// Params are the cell's request parameters; model, prompt, output limit and
	// its name are set here.
	Params client.Params
	// RequireUsage makes an answer without usage a failure.
	RequireUsage bool
	// Redact takes secrets out of what the server says; nil keeps it as it is.
	Redact func(text string) string
	// KeyGiven says whether a key was configured, for the hint on a refusal.
	KeyGiven bool
}

// Report is what the cell must know about its server.
type Report struct {
	Model string
	// MaxModelLen is the context in tokens; 0 is unknown.
	MaxModelLen int
	// MaxTokensName is the name of the output limit that the server takes.
	MaxTokensName string
	// OmitStreamOptions says that the server refuses stream_options: no usage
	// can be asked for. Only where usage is not required.
	OmitStreamOptions bool
	// Notes are findings that fail nothing, for people.
	Notes []string
}

// Discover names the model and its context without a completion: what is left
// of a preflight when it is switched off. It sends nothing when the model is
// given.
func Discover(ctx context.Context, o Options) (Report, error) {
	if o.Model != "" {
		return Report{Model: o.Model, MaxModelLen: o.MaxModelLen, MaxTokensName: client.MaxTokens}, nil
	}
	return model(ctx, o)
}

// Check asks all the questions, in the order in which an answer makes the next
// one worth asking.
func Check(ctx context.Context, o Options) (Report, error) {
	r, err := model(ctx, o)
	if err != nil {
		return r, err
	}
	if err := answer(ctx, o, &r); err != nil {
		return r, err
	}
	if o.Server.Settle(ctx) {
		r.note("the server closes each connection after its answer: every request gets a fresh one, made before its clock starts")
	}
	return r, nil
}

// model finds the model to ask for in the server's list.
func model(ctx context.Context, o Options) (Report, error) {
	r := Report{Model: o.Model, MaxModelLen: o.MaxModelLen, MaxTokensName: client.MaxTokens}
	models, err := o.Server.Models(ctx)
	switch {
	case err != nil && o.Model != "" && client.IsNotFound(err):
		r.note("the server has no /models list (%v): model %q and its context are taken on trust", err, o.Model)
		return r, nil
	case err != nil:
		return r, fmt.Errorf("listing the models of %q: %w; %s", o.BaseURL, err, advise(err, o))
	case len(models) == 0:
		return r, fmt.Errorf("listing the models of %q: the list is empty; is the model still loading?", o.BaseURL)
	}
	found := models[0]
	if o.Model != "" {
		i := slices.IndexFunc(models, func(m client.Model) bool { return m.ID == o.Model })
		if i < 0 {
			return r, fmt.Errorf("looking for model %q (CAPACITY_MODEL) at %q: not served; served: %s; choose one of these, or leave it empty for the first",
				o.Model, o.BaseURL, o.names(models))
		}
		found = models[i]
	} else if safe := o.redacted(found.ID); safe != found.ID {
		// Taken, it would stand in every artifact.
		return r, fmt.Errorf("choosing a model at %q: the name of the first, %q, repeats a secret of this run; set CAPACITY_MODEL", o.BaseURL, safe)
	} else if len(models) > 1 {
		r.note("%d models are served, the first is taken: %q (CAPACITY_MODEL chooses)", len(models), found.ID)
	}
	r.Model = found.ID
	r.settleContext(o, found)
	return r, nil
}

// settleContext takes the context that the user stated, else the server's.
func (r *Report) settleContext(o Options, m client.Model) {
	switch {
	case o.MaxModelLen == 0 && m.MaxContextTokens == 0:
		r.note("the server does not say how large the context of %q is; CAPACITY_MAX_MODEL_LEN states it", m.ID)
	case o.MaxModelLen == 0:
		r.MaxModelLen = m.MaxContextTokens
	case m.MaxContextTokens > 0 && o.MaxModelLen > m.MaxContextTokens:
		r.note("CAPACITY_MAX_MODEL_LEN is %d and the server says %d for %q", o.MaxModelLen, m.MaxContextTokens, m.ID)
	}
}

func (o Options) redacted(text string) string {
	if o.Redact == nil {
		return text
	}
	return o.Redact(text)
}

func (o Options) names(models []client.Model) string {
	const most = 12
	quoted := make([]string, 0, most)
	for i, m := range models {
		if i == most {
			quoted = append(quoted, fmt.Sprintf("and %d more", len(models)-most))
			break
		}
		quoted = append(quoted, fmt.Sprintf("%q", o.redacted(m.ID)))
	}
	return strings.Join(quoted, ", ")
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// probePrompt is short, so that it warms no prefix of the cell, and harmless.
const probePrompt = "Reply with the single word ok."

// ProbeMaxTokens bounds the probe's answer. A reasoning model may spend all of
// it on reasoning, which is a well-formed answer here.
const ProbeMaxTokens = 32

// answer sends one short request with the cell's own options. Where the server
// refuses an option that has another spelling, the other is tried once.
func answer(ctx context.Context, o Options, r *Report) error {
	seen, err := probe(ctx, o, *r)
	if err != nil {
		return err
	}
	if refuses(seen, client.MaxTokens) && strings.Contains(seen.Failure.Message, client.MaxCompletionTokens) {
		r.MaxTokensName = client.MaxCompletionTokens
		r.note("the server takes %s instead of %s", client.MaxCompletionTokens, client.MaxTokens)
		if seen, err = probe(ctx, o, *r); err != nil {
			return err
		}
	}
	if refuses(seen, "stream_options") && !o.RequireUsage {
		r.OmitStreamOptions = true
		r.note("the server refuses stream_options: no usage is asked for, and token metrics will be null")
		if seen, err = probe(ctx, o, *r); err != nil {
			return err
		}
	}
	return o.judge(seen, *r)
}

func probe(ctx context.Context, o Options, r Report) (client.Observation, error) {
	p := o.Params
	p.Model, p.Prompt = r.Model, probePrompt
	p.MaxTokens, p.MaxTokensName = min(p.MaxTokens, ProbeMaxTokens), r.MaxTokensName
	p.OmitStreamOptions = r.OmitStreamOptions
	body, err := client.Body(p)
	if err != nil {
		return client.Observation{}, fmt.Errorf("building the preflight request: %w", err)
	}
	return o.Server.Complete(ctx, body), nil
}

// refuses says that the server turned the request down over this option.
func refuses(seen client.Observation, option string) bool {
	return seen.Failure != nil && (seen.Response.HTTPStatus == 400 || seen.Response.HTTPStatus == 422) &&
		strings.Contains(seen.Failure.Message, option)
}

// judge says what is wrong with the probe's answer and what to do about it.
func (o Options) judge(seen client.Observation, r Report) error {
	if f := seen.Failure; f != nil && f.Detail != record.ReasoningOnly {
		return fmt.Errorf("asking model %q at %q for one short answer: %s: %s; %s", r.Model, o.BaseURL, f.Detail, f.Message, o.hint(seen))
	}
	if o.RequireUsage && seen.Tokens.Output == nil {
		return fmt.Errorf("asking model %q at %q for one short answer: it carries no usage although stream_options.include_usage asked for it; "+
			"CAPACITY_USAGE=observe measures times without it (token metrics are then null)", r.Model, o.BaseURL)
	}
	return nil
}

// hint is the advice for a probe that failed.
func (o Options) hint(seen client.Observation) string {
	for _, option := range []string{"stream_options", client.MaxCompletionTokens, client.MaxTokens, "chat_template_kwargs", "reasoning_effort", "temperature", "top_p"} {
		if refuses(seen, option) {
			return optionAdvice(option)
		}
	}
	switch seen.Failure.Detail {
	case record.HTTPStatus:
		return statusAdvice(seen.Response.HTTPStatus, o)
	case record.RateLimited:
		return "the server refuses load before the cell has begun: wait, or raise its limit"
	case record.NotEventStream, record.UnframedError:
		return "the base URL does not lead to a streaming OpenAI-compatible endpoint: it usually ends in /v1"
	case record.StallTimeout, record.TotalTimeout:
		return "the server is up and does not answer: look at its log and load, or raise CAPACITY_STALL_TIMEOUT and CAPACITY_TIMEOUT"
	case record.EmptyOutput:
		return "the model says nothing to a plain question: look at its chat template"
	}
	return "look at the server's log; CAPACITY_PREFLIGHT=false skips this check and every request of the cell will meet the same"
}

func optionAdvice(option string) string {
	switch option {
	case "stream_options":
		return "the server refuses stream_options, without which there is no usage: CAPACITY_USAGE=observe leaves it out (token metrics are then null)"
	case "chat_template_kwargs":
		return "the server refuses chat_template_kwargs: unset CAPACITY_THINKING"
	case "reasoning_effort":
		return "the server refuses reasoning_effort: unset CAPACITY_REASONING_EFFORT"
	case "temperature":
		return "the server refuses this temperature: set CAPACITY_TEMPERATURE to one that it takes"
	case "top_p":
		return "the server refuses this top_p: unset CAPACITY_TOP_P"
	}
	return fmt.Sprintf("the server refuses %s: see CAPACITY_MAX_TOKENS", option)
}
