package sizing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/client"
	"anvil-capacity/internal/workload"
)

// Tolerance is how far from what was asked a size may be measured: 1 %.
const Tolerance = 0.01

// Limits of the work.
const (
	// TimeLimit bounds the sizing of one plan.
	TimeLimit = 15 * time.Minute
	// Rounds is how often a length is counted before it is given up.
	Rounds = 4
	// EachTokens is the largest size whose prompts are counted one by one: beyond
	// it they differ by less than half a percent.
	EachTokens = 16_384
	// EachBudgetTokens bounds the tokens of the prompts of one size that are
	// counted one by one.
	EachBudgetTokens = 1 << 24
)

// Server is the part of *client.Client that sizing needs.
type Server interface {
	Complete(ctx context.Context, body []byte) client.Observation
	Post(ctx context.Context, target string, body []byte) ([]byte, error)
}

// Options say what to size for.
type Options struct {
	Server Server
	// BaseURL is the server's, up to and with /v1.
	BaseURL string
	// Params are the cell's request parameters, with the model. Prompt and output
	// limit are set here.
	Params client.Params
	// MaxPromptTokens is the most tokens that a prompt may have; 0 is no limit.
	MaxPromptTokens int
	// Concurrency is how many counts may be under way at once; 0 is taken as 1.
	Concurrency int
}

// Sizer sizes the plans of one cell: the cell's and its scout's share what was
// learnt of the tokenizer. Not safe for concurrent use.
type Sizer struct {
	o         Options
	body      *client.Template // of a request for one token
	counter   counter          // nil until the first Size
	line      line
	nextIndex int // of the next sample
	common    artifact.ContextSizing

	counts, completions atomic.Int64
}

// New makes a sizer and sends nothing.
func New(o Options) (*Sizer, error) {
	p := o.Params
	p.MaxTokens = 1
	body, err := client.NewTemplate(p)
	if err != nil {
		return nil, sizingError(err)
	}
	return &Sizer{o: o, body: body}, nil
}

// errTooLong is the cause of a context that TimeLimit ended.
var errTooLong = fmt.Errorf("it took longer than %s", TimeLimit)

// Size gives the plan with prompts of the planned sizes in real tokens, and how
// they came to be. The error names CAPACITY_CONTEXT_SIZING and says what to do;
// it wraps the cause of a ctx that ended.
func (s *Sizer) Size(ctx context.Context, plan *workload.Plan) (*workload.Plan, artifact.ContextSizing, error) {
	limited, cancel := context.WithTimeoutCause(ctx, TimeLimit, errTooLong)
	defer cancel()
	counts, completions := s.counts.Load(), s.completions.Load()
	resized, sizing, err := s.size(limited, plan)
	if err != nil && limited.Err() != nil {
		err = context.Cause(limited) // what was under way only says that it was ended
	}
	if err != nil {
		return nil, artifact.ContextSizing{}, sizingError(err)
	}
	sizing.Counts, sizing.Completions = int(s.counts.Load()-counts), int(s.completions.Load()-completions)
	return resized, sizing, nil
}

func sizingError(err error) error {
	return fmt.Errorf("sizing prompts in the model's own tokens (CAPACITY_CONTEXT_SIZING=measured): %w; "+
		"CAPACITY_CONTEXT_SIZING=nominal takes %d characters for a token and asks nothing", err, workload.CharsPerToken)
}

func (s *Sizer) size(ctx context.Context, plan *workload.Plan) (*workload.Plan, artifact.ContextSizing, error) {
	if s.counter == nil {
		if err := s.prepare(ctx, plan); err != nil {
			return nil, artifact.ContextSizing{}, err
		}
	}
	sizing := s.common
	prefix, chars := s.prefix(plan, &sizing), make([]int, plan.Len())
	byTokens := plan.ContextDistribution()
	for _, tokens := range slices.Sorted(maps.Keys(byTokens)) {
		job := job{plan: plan, tokens: tokens, requests: byTokens[tokens], prefix: prefix}
		sized, err := s.fit(ctx, job, chars)
		if err != nil {
			return nil, artifact.ContextSizing{}, fmt.Errorf("prompts of %d tokens: %w", tokens, err)
		}
		sizing.Sizes = append(sizing.Sizes, sized)
	}
	resized, err := plan.Resized(chars, prefix)
	return resized, sizing, err
}

// prepare finds out how to count, and how tokens grow with characters.
func (s *Sizer) prepare(ctx context.Context, plan *workload.Plan) error {
	probe := probeLengths(plan)
	counter, err := s.choose(ctx, plan, probe)
	if err != nil {
		return err
	}
	s.counter = counter
	s.common.ToleranceShare = Tolerance
	if s.line, err = s.calibrate(ctx, plan, probe); err != nil {
		s.counter = nil
		return err
	}
	s.common.CharactersPerToken, s.common.FixedTokens = 1/s.line.perChar, s.line.fixed
	return nil
}

// prefix is the length of the shared prefix: the asked tokens by the line.
func (s *Sizer) prefix(plan *workload.Plan, sizing *artifact.ContextSizing) (chars int) {
	if plan.PrefixChars() == 0 {
		return 0
	}
	asked := plan.PrefixChars() / workload.CharsPerToken
	chars = max(1, s.line.charsOf(float64(asked)))
	sizing.SharedPrefix = &artifact.SizedPrefix{AskedTokens: asked, Characters: chars, EstimatedTokens: float64(chars) * s.line.perChar}
	return chars
}

// job is one planned size.
type job struct {
	plan             *workload.Plan
	tokens, requests int
	prefix           int // characters
}

// fit finds the length of the prompts of a size, and writes it into chars.
func (s *Sizer) fit(ctx context.Context, j job, chars []int) (artifact.SizedContext, error) {
	var sized artifact.SizedContext
	var err error
	if s.oneByOne(j) {
		sized, err = s.fitEach(ctx, j, chars)
	} else {
		sized, err = s.fitAll(ctx, j, chars)
	}
	sized.AskedTokens, sized.Requests = j.tokens, j.requests
	sized.ErrorShare = sized.MeasuredTokens/float64(j.tokens) - 1
	return sized, err
}

// oneByOne says whether the prompts of a size are counted each by itself.
func (s *Sizer) oneByOne(j job) bool {
	return s.common.Method == artifact.SizedByTokenizer && j.tokens <= EachTokens && j.requests <= EachBudgetTokens/j.tokens
}

// least says that not even the least prompt is small enough.
func (j job) least(tokens float64) error {
	with := "the chat template, the marker and the task"
	if j.prefix > 0 {
		with = "the chat template, the shared prefix, the marker and the task"
	}
	return fmt.Errorf("%s alone take %.0f; raise CAPACITY_CONTEXT_TOKENS", with, tokens)
}

var errNotReached = errors.New("the size was not reached")
