package refserver

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Limits of Options. They are wide: an instrument should be able to play any
// server, and still refuse a slip of the unit.
const (
	MaxSlots           = 65_536
	MaxPrefillTokS     = 1e12
	MaxStep            = time.Hour // of DecodeBase and DecodePerActive
	MaxReasoningTokens = 65_536
	MaxModelLenLimit   = 1 << 30

	// MaxBodyBytes is the largest request body that is read; a larger one is
	// answered with 413. A prompt of 1,048,576 nominal tokens is about 3 MiB.
	MaxBodyBytes = 64 << 20

	// DefaultLogLimit is how many exchanges are kept when LogLimit is 0: a
	// cell of the largest size, its scout and its preflight.
	DefaultLogLimit = 20_000
)

// Options say how the server behaves. The zero value is an infinitely fast
// server without slots, reasoning, key, length limit or faults.
type Options struct {
	// Model is the one model served. "" is "refserver".
	Model string
	// APIKey, when not "", is required as "Authorization: Bearer KEY" on every
	// path under /v1; anything else is answered with 401. It is printed nowhere.
	APIKey string
	// MaxModelLen is the context length in tokens, prompt and answer together,
	// 0..MaxModelLenLimit. A request that asks for more is answered with 400.
	// 0 is no limit, and /v1/models then has no max_model_len.
	MaxModelLen int

	// Slots is how many requests are served at once, 0..MaxSlots. 0 is no limit.
	Slots int
	// PrefillTokS is the prefill rate of one request in tokens a second,
	// 0..MaxPrefillTokS. 0 is no prefill time at all. With 0, requests that
	// arrive at the very same instant join the batch one after the other, each
	// seeing the ones before it.
	PrefillTokS float64
	// DecodeBase is the time from one token to the next of a request that
	// decodes alone, 0..MaxStep.
	DecodeBase time.Duration
	// DecodePerActive is what each other decoding request adds to that time,
	// 0..MaxStep.
	DecodePerActive time.Duration
	// ReasoningTokens is how many reasoning events come before the visible
	// text, 0..MaxReasoningTokens. A request whose chat_template_kwargs say
	// enable_thinking false, or whose reasoning_effort is "none", gets none.
	ReasoningTokens int
	// ReasoningKey is the delta's key for reasoning: "reasoning_content" ("" is
	// this one) or "reasoning".
	ReasoningKey string

	// JitterFraction is the largest relative deviation of prefill and of each
	// token step, 0 <= f < 1. Its use is in the package comment.
	JitterFraction float64
	// Seed feeds the jitter and the shares of the fault plan.
	Seed int

	// PrefixCache makes the server remember the leading text of prompts in
	// blocks of PrefixBlockTokens, as they finish prefill. The leading blocks
	// of a new prompt that are remembered at its admission are its cached
	// tokens: they cost no prefill and are reported in usage. The last token of
	// a prompt is never cached. Off by default, and usage then says 0.
	PrefixCache bool
	// PrefixCacheTokens bounds what is remembered; the least recently used
	// blocks go first. 0 is DefaultPrefixCacheTokens.
	PrefixCacheTokens int

	// Tokenize serves POST /tokenize beside /v1, as vLLM does. It needs no key, as
	// there.
	Tokenize bool

	// RejectParams lists top-level request keys that are answered with 400 and
	// an OpenAI-like error that names the key: "stream_options" or "max_tokens"
	// (the answer then asks for max_completion_tokens) for example.
	RejectParams []string

	// Faults is the fault plan, in the form that ParseFaults reads. "" is none.
	Faults string

	// KeepEvents keeps, with each Exchange, when every token was planned and
	// when it left: 16 bytes a token.
	KeepEvents bool
	// LogLimit is how many finished exchanges are kept; older ones are dropped.
	// 0 is DefaultLogLimit, a negative number keeps none.
	LogLimit int
}

// DefaultModel is the model's name when Options.Model is "".
const DefaultModel = "refserver"

// EmbeddedOptions are those of the suite's default target, the endpoint that
// stands in when no base URL is set: eight slots, a prefill of 20,000 tokens a
// second, 4 ms a token and 0.25 ms more for each other decoding request, four
// reasoning tokens, no jitter. The context length admits every cell there is.
func EmbeddedOptions() Options {
	return Options{
		Model:           "refserver-embedded",
		MaxModelLen:     1_310_720,
		Slots:           8,
		PrefillTokS:     20_000,
		DecodeBase:      4 * time.Millisecond,
		DecodePerActive: 250 * time.Microsecond,
		ReasoningTokens: 4,
	}
}

// withDefaults fills in the names and bounds whose zero value stands for one.
func (o Options) withDefaults() Options {
	if o.Model == "" {
		o.Model = DefaultModel
	}
	if o.ReasoningKey == "" {
		o.ReasoningKey = reasoningContent
	}
	if o.PrefixCacheTokens == 0 {
		o.PrefixCacheTokens = DefaultPrefixCacheTokens
	}
	if o.LogLimit == 0 {
		o.LogLimit = DefaultLogLimit
	}
	return o
}

// Check says everything that is wrong with the options, in one error, and nil
// when nothing is. New and Schedule call it.
func (o Options) Check() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	within := func(name string, got, limit int) {
		bad(got >= 0 && got <= limit, "option %q is %d, want 0..%d", name, got, limit)
	}
	step := func(name string, got time.Duration) {
		bad(got >= 0 && got <= MaxStep, "option %q is %v, want 0..%v", name, got, MaxStep)
	}
	within("MaxModelLen", o.MaxModelLen, MaxModelLenLimit)
	within("Slots", o.Slots, MaxSlots)
	within("ReasoningTokens", o.ReasoningTokens, MaxReasoningTokens)
	within("PrefixCacheTokens", o.PrefixCacheTokens, math.MaxInt)
	step("DecodeBase", o.DecodeBase)
	step("DecodePerActive", o.DecodePerActive)
	bad(o.PrefillTokS >= 0 && o.PrefillTokS <= MaxPrefillTokS,
		"option %q is %v, want 0..%v tokens a second", "PrefillTokS", o.PrefillTokS, float64(MaxPrefillTokS))
	bad(o.JitterFraction >= 0 && o.JitterFraction < 1,
		"option %q is %v, want a fraction of at least 0 and less than 1", "JitterFraction", o.JitterFraction)
	switch o.ReasoningKey {
	case "", reasoningContent, reasoningPlain:
	default:
		bad(false, "option %q is %q, want %q or %q", "ReasoningKey", o.ReasoningKey, reasoningContent, reasoningPlain)
	}
	if _, err := ParseFaults(o.Faults); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// The two names under which servers send reasoning.
const (
	reasoningContent = "reasoning_content"
	reasoningPlain   = "reasoning"
)
