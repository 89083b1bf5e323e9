package sizing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/client"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/workload"
)

// By usage a size is reached on average: exactly where tokens are characters,
// and within 1 % where prompts of one length differ.
func TestByUsage(t *testing.T) {
	for _, tokenizer := range []struct {
		name  string
		count func(string) int
	}{{"quarter", quarter}, {"wordy", wordy}} {
		for _, tokens := range []int{512, 1024, 2048, 8192, 32768} {
			t.Run(fmt.Sprintf("%s/%d", tokenizer.name, tokens), func(t *testing.T) {
				f := &fake{tokens: tokenizer.count}
				nominal := planOf(t, spec(60, tokens))
				plan, sizing, err := sizerFor(t, f).Size(t.Context(), nominal)
				require.NoError(t, err)
				got := f.billedOf(plan)
				assert.InEpsilon(t, tokens, mean(got), Tolerance, "the cell's own prompts")
				assert.Greater(t, plan.PromptChars(0), nominal.PromptChars(0), "these tokenizers take more than 3 characters a token")
				assert.Equal(t, tokens, plan.Request(0).ContextTokens, "what was asked stays what is recorded")

				assert.Equal(t, artifact.SizedByUsage, sizing.Method)
				assert.Equal(t, "usage.prompt_tokens", sizing.Source)
				assert.Equal(t, len(f.sent), sizing.Completions)
				require.Len(t, sizing.Sizes, 1)
				size := sizing.Sizes[0]
				assert.Equal(t, tokens, size.AskedTokens)
				assert.Equal(t, 60, size.Requests)
				assert.False(t, size.EachRequest)
				assert.Equal(t, plan.PromptChars(0), size.CharactersMin)
				assert.Equal(t, size.CharactersMin, size.CharactersMax)
				assert.InEpsilon(t, tokens, size.MeasuredTokens, Tolerance)
				assert.InDelta(t, size.MeasuredTokens/float64(tokens)-1, size.ErrorShare, 1e-12)
			})
		}
	}
}

// Large prompts cost few requests: two to hold tokenizers against, two
// calibrations, one to verify.
func TestByUsageIsCheap(t *testing.T) {
	f := &fake{tokens: quarter}
	_, sizing, err := sizerFor(t, f).Size(t.Context(), planOf(t, spec(4, 32768)))
	require.NoError(t, err)
	assert.LessOrEqual(t, sizing.Completions, 5)
	assert.GreaterOrEqual(t, sizing.Completions, 3, "two calibrations and the third that verifies")
	for _, n := range f.asked {
		assert.Equal(t, 1, n, "one token: the prompt is what costs")
	}
}

// Both calibrations have the full task where the cell has it: the compact one
// would bend the line.
func TestProbeLengths(t *testing.T) {
	for _, row := range []struct {
		tokens      int
		short, long int
		why         string
	}{
		{32768, 24576, 98304, "a fourth of the largest, which is as long as it is nominally"},
		{512, 397, 1536, "a fourth would have the compact task"},
		{200, 397, 600, "just room for two lengths with the full task"},
		{198, 148, 594, "no room for two: both as they come"},
		{32, 67, 134, "no room for a fourth"},
	} {
		p := planOf(t, spec(2, row.tokens))
		require.Equal(t, 397, p.FullChars(0))
		require.Equal(t, 67, p.LeastChars(0))
		assert.Equal(t, [2]int{row.short, row.long}, probeLengths(p), "%d tokens: %s", row.tokens, row.why)
	}
}

// Each prompt by itself where the tokenizer can be asked, in every dialect.
func TestByTokenizer(t *testing.T) {
	for _, row := range []struct {
		dialect, source string
		offset          int
	}{
		{inputTokens, "/chat/completions/input_tokens", 0},
		{vllm, "/tokenize", 0},
		{template, "/apply-template and /tokenize", 0},
		{sglang, "/tokenize", wordy(templateText)},
	} {
		for _, tokens := range []int{128, 256, 2048, 16384} {
			t.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(row.dialect, " ", "_"), tokens), func(t *testing.T) {
				f := &fake{tokens: wordy, dialect: row.dialect}
				nominal := planOf(t, spec(12, tokens))
				plan, sizing, err := sizerFor(t, f).Size(t.Context(), nominal)
				require.NoError(t, err)
				got := f.billedOf(plan)
				for i, n := range got {
					assert.InDelta(t, tokens, n, float64(tokens)*0.0025+1, "request %d", i)
				}
				assert.Equal(t, artifact.SizedByTokenizer, sizing.Method)
				assert.Equal(t, row.source, sizing.Source)
				assert.True(t, sizing.Checked)
				assert.Equal(t, row.offset, sizing.OffsetTokens)
				assert.Equal(t, 2, sizing.Completions, "all that was generated: two tokens")
				assert.Equal(t, 2, len(f.sent))
				size := sizing.Sizes[0]
				assert.True(t, size.EachRequest)
				assert.Equal(t, 12, size.Samples)
				assert.InDelta(t, mean(got), size.MeasuredTokens, 1e-9, "what was measured is what will be sent")
			})
		}
	}
}

// Beyond EachTokens, and beyond the budget, prompts of a size have one length.
func TestOneByOneUpToALimit(t *testing.T) {
	s := &Sizer{common: artifact.ContextSizing{Method: artifact.SizedByTokenizer}}
	for _, row := range []struct {
		requests, tokens int
		want             bool
	}{
		{2, EachTokens - 1, true}, {2, EachTokens, true}, {2, EachTokens + 1, false},
		{EachBudgetTokens/8192 - 1, 8192, true}, {EachBudgetTokens / 8192, 8192, true}, {EachBudgetTokens/8192 + 1, 8192, false},
	} {
		assert.Equal(t, row.want, s.oneByOne(job{tokens: row.tokens, requests: row.requests}), "%d of %d tokens", row.requests, row.tokens)
	}
	byUsage := &Sizer{common: artifact.ContextSizing{Method: artifact.SizedByUsage}}
	assert.False(t, byUsage.oneByOne(job{tokens: 256, requests: 1}), "it would send the cell's own prompts")

	f := &fake{tokens: wordy, dialect: vllm}
	plan, sizing, err := sizerFor(t, f).Size(t.Context(), planOf(t, spec(8, EachTokens+1)))
	require.NoError(t, err)
	assert.False(t, sizing.Sizes[0].EachRequest)
	assert.Equal(t, leastSamples, sizing.Sizes[0].Samples)
	assert.InEpsilon(t, EachTokens+1, mean(f.billedOf(plan)), Tolerance)
}

func TestWorkers(t *testing.T) {
	for _, row := range []struct {
		method            string
		concurrency, want int
		why               string
	}{
		{artifact.SizedByTokenizer, 1, 1, "no more than the cell"},
		{artifact.SizedByTokenizer, 4, 4, "the limit"},
		{artifact.SizedByTokenizer, 5, 4, "the tokenizer takes the server's CPU"},
		{artifact.SizedByUsage, 16, 16, "as many as the cell"},
		{artifact.SizedByUsage, 0, 1, "0 is taken as 1"},
		{artifact.SizedByTokenizer, 0, 1, "here too"},
	} {
		s := &Sizer{o: Options{Concurrency: row.concurrency}, common: artifact.ContextSizing{Method: row.method}}
		assert.Equal(t, row.want, s.workers(), row.why)
	}
}

// A tokenizer that is not the model's is not believed.
func TestTokenizerThatDisagrees(t *testing.T) {
	f := &fake{tokens: wordy, tokenizer: quarter, dialect: vllm}
	plan, sizing, err := sizerFor(t, f).Size(t.Context(), planOf(t, spec(40, 4096)))
	require.NoError(t, err)
	assert.Equal(t, artifact.SizedByUsage, sizing.Method)
	require.Len(t, sizing.Notes, 1)
	assert.Contains(t, sizing.Notes[0], "the tokenizer of /tokenize was not used: it disagrees with usage")
	assert.InEpsilon(t, 4096, mean(f.billedOf(plan)), Tolerance)
}

// One that only lacks a constant is.
func TestTokenizerWithAConstant(t *testing.T) {
	f := &fake{tokens: wordy, dialect: vllm, tokenizer: func(text string) int { return wordy(text) - 40 }}
	plan, sizing, err := sizerFor(t, f).Size(t.Context(), planOf(t, spec(4, 2048)))
	require.NoError(t, err)
	assert.Equal(t, 40, sizing.OffsetTokens)
	assert.InEpsilon(t, 2048, mean(f.billedOf(plan)), Tolerance)
}

func TestNoUsage(t *testing.T) {
	f := &fake{tokens: wordy, dialect: vllm, noUsage: true}
	plan, sizing, err := sizerFor(t, f).Size(t.Context(), planOf(t, spec(4, 2048)))
	require.NoError(t, err, "a tokenizer that knows the template is enough")
	assert.False(t, sizing.Checked)
	require.Len(t, sizing.Notes, 1)
	assert.Contains(t, sizing.Notes[0], "could not be held against usage: counting by usage.prompt_tokens: the answer carries no usage")
	assert.InEpsilon(t, 2048, mean(f.billedOf(plan)), Tolerance)

	for _, f := range []*fake{
		{tokens: wordy, noUsage: true}, {tokens: wordy, dialect: sglang, noUsage: true},
		{tokens: wordy, tokenizer: func(string) int { return 0 }, dialect: vllm, noUsage: true}, // 0 is no count
	} {
		_, _, err := sizerFor(t, f).Size(t.Context(), planOf(t, spec(4, 2048)))
		require.ErrorContains(t, err, "sizing prompts in the model's own tokens (CAPACITY_CONTEXT_SIZING=measured): the server has no tokenizer to ask (")
		assert.ErrorContains(t, err, "/tokenize: ")
		assert.ErrorContains(t, err, "the answer carries no usage")
		assert.ErrorContains(t, err, "CAPACITY_CONTEXT_SIZING=nominal takes 3 characters for a token")
	}
}

// What is generated for sizing shares nothing with the cell: no head of a
// prompt, and not the shared prefix.
func TestNothingOfTheCellIsSent(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, canaries := range []bool{false, true} {
			f := &fake{tokens: wordy}
			s := spec(200, 1024)
			s.Canaries = canaries
			if shared {
				s.Shared, s.SharedPrefixTokens = true, 512
			}
			plan, _, err := sizerFor(t, f).Size(t.Context(), planOf(t, s))
			require.NoError(t, err)
			require.Positive(t, len(f.sent))
			heads := map[string]bool{}
			for i := range plan.Len() {
				heads[head(string(plan.AppendPrompt(nil, i)))] = true
			}
			for k, prompt := range f.sent {
				require.False(t, heads[head(prompt)], "request %d for sizing begins as a prompt of the cell: %q", k, head(prompt))
			}
			for k, prompt := range f.sent {
				marker := markerOf(prompt)
				require.Equal(t, canaries, marker != "")
				require.False(t, canaries && heads[marker], "request %d for sizing is of a prompt that was sent before: what verifies a length had no part in finding it", k)
				heads[marker] = true
			}
		}
	}
}

func TestSharedPrefixIsSized(t *testing.T) {
	for _, dialect := range []string{none, vllm} {
		f := &fake{tokens: wordy, dialect: dialect}
		s := spec(40, 4096)
		s.Shared, s.SharedPrefixTokens = true, 2048
		plan, sizing, err := sizerFor(t, f).Size(t.Context(), planOf(t, s))
		require.NoError(t, err)
		assert.InEpsilon(t, 4096, mean(f.billedOf(plan)), Tolerance)
		if dialect == vllm {
			assert.InDelta(t, mean(f.billedOf(plan)), sizing.Sizes[0].MeasuredTokens, 1e-9, "with the prefix that will be sent")
		}
		prefix := sizing.SharedPrefix
		require.NotNil(t, prefix)
		assert.Equal(t, 2048, prefix.AskedTokens)
		assert.Equal(t, plan.PrefixChars(), prefix.Characters)
		text := string(plan.AppendPrompt(nil, 0)[:prefix.Characters])
		assert.InEpsilon(t, 2048, wordy(text), 0.03, "by the line, which is of other prose")
		assert.InEpsilon(t, prefix.EstimatedTokens, wordy(text), 0.03)
	}
}

func TestDistribution(t *testing.T) {
	for _, dialect := range []string{none, vllm} {
		f := &fake{tokens: wordy, dialect: dialect}
		s := spec(40, 1024)
		s.Parts = []workload.Part{{Tokens: 1024, Weight: 3}, {Tokens: 20000, Weight: 1}}
		plan, sizing, err := sizerFor(t, f).Size(t.Context(), planOf(t, s))
		require.NoError(t, err)
		assert.Equal(t, map[int]int{1024: 30, 20000: 10}, plan.ContextDistribution())
		require.Len(t, sizing.Sizes, 2)
		billed := f.billedOf(plan)
		for i, size := range []int{1024, 20000} {
			var of []int
			for k, n := range billed {
				if plan.Request(k).ContextTokens == size {
					of = append(of, n)
				}
			}
			assert.InEpsilon(t, size, mean(of), Tolerance)
			assert.Equal(t, size, sizing.Sizes[i].AskedTokens, "in ascending order")
			assert.Equal(t, len(of), sizing.Sizes[i].Requests)
		}
	}
}

// The scout's plan takes over what was learnt, and is verified by itself: its
// markers are longer.
func TestSecondPlan(t *testing.T) {
	for _, dialect := range []string{none, vllm} {
		f := &fake{tokens: wordy, dialect: dialect}
		s := sizerFor(t, f)
		_, first, err := s.Size(t.Context(), planOf(t, spec(4, 4096)))
		require.NoError(t, err)
		scout := spec(4, 4096)
		scout.Seed = 1_000_007
		plan, second, err := s.Size(t.Context(), planOf(t, scout))
		require.NoError(t, err)
		assert.InEpsilon(t, 4096, mean(f.billedOf(plan)), Tolerance)
		assert.Less(t, second.Completions, first.Completions, "no calibration")
		assert.Equal(t, len(f.sent), first.Completions+second.Completions)
		assert.Equal(t, first.CharactersPerToken, second.CharactersPerToken)
		assert.Len(t, second.Sizes, 1)
	}
}

// The same cell is sized alike every time: its prompts are the same in every
// repeat and on every machine.
func TestSizingIsReproducible(t *testing.T) {
	for _, dialect := range []string{none, vllm} {
		var texts []string
		for _, workers := range []int{1, 8} {
			f := &fake{tokens: wordy, dialect: dialect}
			plan, _, err := sizerFor(t, f, func(o *Options) { o.Concurrency = workers }).Size(t.Context(), planOf(t, spec(10, 512)))
			require.NoError(t, err)
			var all strings.Builder
			for i := range plan.Len() {
				all.Write(plan.AppendPrompt(nil, i))
			}
			texts = append(texts, all.String())
		}
		assert.Equal(t, texts[0], texts[1])
	}
}

// No prompt that was counted is beyond the model's limit, in real tokens.
func TestTheCapHolds(t *testing.T) {
	for _, tokens := range []int{512, 2048, 4096} {
		for _, asked := range []int{tokens, 2 * tokens} { // at the cap, and cut to it
			s := spec(50, asked)
			s.MaxPromptTokens = tokens
			f := &fake{tokens: wordy, dialect: vllm}
			plan, sizing, err := sizerFor(t, f, func(o *Options) { o.MaxPromptTokens = tokens }).Size(t.Context(), planOf(t, s))
			require.NoError(t, err)
			assert.Equal(t, tokens, sizing.Sizes[0].AskedTokens)
			for i, n := range f.billedOf(plan) {
				require.LessOrEqual(t, n, tokens, "request %d", i)
				require.GreaterOrEqual(t, float64(n), 0.99*float64(tokens), "request %d", i)
			}
		}
	}
	s := spec(50, 8192)
	s.MaxPromptTokens = 8192
	f := &fake{tokens: wordy}
	plan, _, err := sizerFor(t, f, func(o *Options) { o.MaxPromptTokens = 8192 }).Size(t.Context(), planOf(t, s))
	require.NoError(t, err)
	for i, n := range f.billedOf(plan) {
		require.LessOrEqual(t, n, 8192, "request %d, by usage: aimed below the limit by more than prompts differ", i)
	}
	assert.InEpsilon(t, 8192, mean(f.billedOf(plan)), Tolerance)
}

func TestAim(t *testing.T) {
	for _, row := range []struct {
		tokens, limit int
		want          float64
		why           string
	}{
		{4096, 0, 4096, "no limit"},
		{4096, 8192, 4096, "far below it"},
		{30720, 30720, 30720 - 153.6, "half a percent below"},
		{8192, 8192, 8144, "48 tokens are more than half a percent"},
		{5000, 5000, 4960, "48 tokens would be more than 0.8 %, and are not taken"},
		{8192, 8241, 8192, "room for the spread"},
		{8192, 8233, 8185, "one less than the spread and more: 48 below the limit"},
		{512, 512, 507.904, "48 tokens would miss the size"},
	} {
		s := &Sizer{o: Options{MaxPromptTokens: row.limit}}
		assert.InDelta(t, row.want, s.aim(row.tokens), 1e-6, "%d of %d: %s", row.tokens, row.limit, row.why)
	}
}

func TestTooSmall(t *testing.T) {
	for _, dialect := range []string{none, vllm} {
		f := &fake{tokens: func(text string) int { return wordy(text) + 300 }, dialect: dialect}
		_, _, err := sizerFor(t, f).Size(t.Context(), planOf(t, spec(4, 128)))
		require.ErrorContains(t, err, "prompts of 128 tokens: ")
		assert.ErrorContains(t, err, "the chat template, the marker and the task alone take 3")
		assert.ErrorContains(t, err, "raise CAPACITY_CONTEXT_TOKENS")
	}
	f := &fake{tokens: wordy}
	s := spec(4, 600)
	s.Shared, s.SharedPrefixTokens = true, 560
	_, _, err := sizerFor(t, f).Size(t.Context(), planOf(t, s))
	require.ErrorContains(t, err, "the shared prefix, the marker and the task alone take")
}

func TestNoTokenizerDoesThat(t *testing.T) {
	for _, row := range []struct {
		name  string
		count func(string) int
		want  string
	}{
		{"constant", func(string) int { return 5 }, "calibrating: usage.prompt_tokens counts 5.0 tokens for"},
		{"falling", func(text string) int { return 1_000_000 - len(text) }, "which no tokenizer does"},
	} {
		f := &fake{tokens: row.count}
		_, _, err := sizerFor(t, f).Size(t.Context(), planOf(t, spec(4, 4096)))
		assert.ErrorContains(t, err, row.want, row.name)
	}
}

// A count that is not steady is not a size.
func TestNotReached(t *testing.T) {
	const calibrations = 2 + 4 + 1 // two probes, four samples of 2,048 nominal tokens, one of 8,192
	r := rand.New(rand.NewPCG(1, 2))
	f := &fake{}
	f.answer = func(n int, prompt string) *client.Observation {
		tokens := len(prompt) / 4
		if n > calibrations {
			tokens = int(float64(tokens) * (2 + r.Float64()))
			if n%2 == 0 {
				tokens /= 5
			}
		}
		return &client.Observation{Tokens: record.Tokens{Prompt: &tokens}}
	}
	_, _, err := sizerFor(t, f, func(o *Options) { o.Concurrency = 1 }).Size(t.Context(), planOf(t, spec(4, 8192)))
	require.ErrorIs(t, err, errNotReached)
	assert.ErrorContains(t, err, "prompts of 8192 tokens: the size was not reached: the last 1 prompts counted had")
	assert.ErrorContains(t, err, "within 1 %")
	assert.Equal(t, calibrations+Rounds, len(f.sent))
}

func TestFailuresAreTold(t *testing.T) {
	f := &fake{tokens: wordy}
	f.answer = func(int, string) *client.Observation {
		return &client.Observation{Failure: record.NewFailure(record.RateLimited, "status 429: slow down")}
	}
	_, _, err := sizerFor(t, f).Size(t.Context(), planOf(t, spec(4, 4096)))
	assert.ErrorContains(t, err, "for one token: rate_limited: status 429: slow down")
}

// A connection that the server had closed says nothing of the server; the second
// such is told.
func TestStaleConnection(t *testing.T) {
	stale := &client.Observation{Failure: record.NewFailure(record.StaleConnection, "closed")}
	f := &fake{tokens: quarter}
	f.answer = func(n int, _ string) *client.Observation {
		if n == 2 {
			return stale
		}
		return nil
	}
	_, sizing, err := sizerFor(t, f).Size(t.Context(), planOf(t, spec(4, 8192)))
	require.NoError(t, err)
	assert.Equal(t, len(f.sent), sizing.Completions)
	f.answer = func(int, string) *client.Observation { return stale }
	_, _, err = sizerFor(t, f).Size(t.Context(), planOf(t, spec(4, 8192)))
	assert.ErrorContains(t, err, "stale_connection: closed")
}

// What the chat template is told, the tokenizer is told too.
func TestTemplateArguments(t *testing.T) {
	for _, dialect := range []string{inputTokens, vllm, template} {
		f := &fake{tokens: wordy, dialect: dialect}
		s := sizerFor(t, f, func(o *Options) { o.Params.Thinking = client.ThinkingDisabled })
		_, _, err := s.Size(t.Context(), planOf(t, spec(2, 2048)))
		require.NoError(t, err)
		require.NotEmpty(t, f.kwargs)
		for _, kwargs := range f.kwargs {
			require.Equal(t, `{"enable_thinking":false}`, kwargs, dialect)
		}
	}
}

func TestCanceled(t *testing.T) {
	for _, dialect := range []string{none, vllm} {
		why := errors.New("interrupted by SIGINT")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		_, _, err := sizerFor(t, &fake{tokens: wordy, dialect: dialect}).Size(ctx, planOf(t, spec(4, 4096)))
		require.ErrorIs(t, err, why)
		assert.ErrorContains(t, err, "CAPACITY_CONTEXT_SIZING")
	}
}

func TestTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, _, err := sizerFor(t, &fake{tokens: wordy, hang: true}).Size(t.Context(), planOf(t, spec(4, 4096)))
		require.ErrorContains(t, err, "it took longer than 15m0s")
		assert.Equal(t, TimeLimit, time.Since(began))
	})
}

func TestCanceledInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := sizerFor(t, &fake{tokens: wordy, hang: true}).Size(ctx, planOf(t, spec(4, 4096)))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// After an error everything is found out anew.
func TestSecondTry(t *testing.T) {
	f := &fake{tokens: func(string) int { return 5 }}
	s := sizerFor(t, f)
	_, _, err := s.Size(t.Context(), planOf(t, spec(4, 4096)))
	require.Error(t, err)
	f.tokens = quarter
	_, _, err = s.Size(t.Context(), planOf(t, spec(4, 4096)))
	assert.NoError(t, err)
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Options{Params: client.Params{}})
	assert.ErrorContains(t, err, "no model is named")
	assert.ErrorContains(t, err, "CAPACITY_CONTEXT_SIZING")
}
