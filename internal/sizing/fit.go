package sizing

import (
	"context"
	"fmt"
	"math"
	"sync"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/workload"
)

// line is how tokens grow with characters: fixed + perChar a character.
type line struct{ fixed, perChar float64 }

// charsOf is how many characters of prose these tokens are.
func (l line) charsOf(tokens float64) int { return int(math.Round(tokens / l.perChar)) }

// Bounds of line.perChar: from a tokenizer of long words to one of bytes.
const (
	leastTokensPerChar = 1.0 / 32
	mostTokensPerChar  = 2.0
)

// A calibration only finds where to begin, so it has no more samples than that;
// where counts cost nothing, any count has leastSamples.
const (
	mostCalibration = 8
	leastSamples    = 4
)

// probeLengths gives two lengths to calibrate at, the second at most as large as
// the largest prompt is nominally, which a server with room for the cell takes.
func probeLengths(plan *workload.Plan) (lengths [2]int) {
	least, full := plan.LeastChars(0), plan.FullChars(0)
	long := max(plan.MaxPromptChars(), 2*least)
	short := max(long/4, least)
	if long >= full+full/2 { // both with the full task, or the line would have a break
		short = max(short, full)
	}
	return [2]int{short, long}
}

// calibrate counts two lengths and draws the line through them.
func (s *Sizer) calibrate(ctx context.Context, plan *workload.Plan, lengths [2]int) (line, error) {
	var got [2]counted
	for i, chars := range lengths {
		var err error
		n := min(s.samplesFor(chars/workload.CharsPerToken), mostCalibration)
		if got[i], err = s.countSamples(ctx, plan, workload.Length{Chars: chars}, n); err != nil {
			return line{}, fmt.Errorf("calibrating: %w", err)
		}
	}
	l := line{perChar: (got[1].mean() - got[0].mean()) / float64(lengths[1]-lengths[0])}
	if l.perChar < leastTokensPerChar || l.perChar > mostTokensPerChar {
		return line{}, fmt.Errorf("calibrating: %s counts %.1f tokens for %d characters and %.1f for %d, which no tokenizer does",
			s.common.Source, got[0].mean(), lengths[0], got[1].mean(), lengths[1])
	}
	l.fixed = got[1].mean() - l.perChar*float64(lengths[1])
	return l, nil
}

// steadyTokens is the size from which one sample says enough: prompts of one
// length differ by 12 tokens, a third of a percent of it. Half the size needs
// four times the samples for the same.
const (
	steadyTokens = 4000
	mostSamples  = 32
)

// samplesFor is how many samples a count of this size is the mean of.
func (s *Sizer) samplesFor(tokens int) int {
	ratio := float64(steadyTokens) / float64(max(tokens, 1))
	n := int(math.Ceil(min(ratio*ratio, mostSamples)))
	if s.common.Method == artifact.SizedByTokenizer {
		return max(n, leastSamples)
	}
	return max(n, 1)
}

// counted is the tokens of some prompts.
type counted struct{ n, sum, min, max int }

func (c *counted) add(tokens int) {
	if c.n == 0 {
		c.min, c.max = tokens, tokens
	}
	c.n++
	c.sum += tokens
	c.min, c.max = min(c.min, tokens), max(c.max, tokens)
}

func (c *counted) mean() float64 { return float64(c.sum) / float64(c.n) }

func (c *counted) into(sized *artifact.SizedContext) {
	sized.Samples, sized.MeasuredTokens, sized.MeasuredMin, sized.MeasuredMax = c.n, c.mean(), c.min, c.max
}

// countSamples counts n samples of a length that were not counted before.
func (s *Sizer) countSamples(ctx context.Context, plan *workload.Plan, length workload.Length, n int) (counted, error) {
	first := s.nextIndex
	s.nextIndex += n
	tokens := make([]int, n)
	err := s.each(ctx, n, func(ctx context.Context, i int) (err error) {
		k := (first + i) % workload.MaxSamples
		tokens[i], err = s.count(ctx, plan.AppendSample(nil, k, length))
		return err
	})
	var c counted
	for _, t := range tokens {
		c.add(t)
	}
	return c, err
}

// fitAll finds one length for all prompts of a size. The samples that it is
// accepted on had no part in finding it.
func (s *Sizer) fitAll(ctx context.Context, j job, chars []int) (artifact.SizedContext, error) {
	aim := s.aim(j.tokens)
	least := j.plan.LeastChars(j.prefix)
	length := max(least, s.line.charsOf(aim-s.line.fixed))
	var got counted
	for range Rounds {
		var err error
		if got, err = s.countSamples(ctx, j.plan, workload.Length{Chars: length, PrefixChars: j.prefix}, s.samplesFor(j.tokens)); err != nil {
			return artifact.SizedContext{}, err
		}
		switch {
		case within(got.mean(), j.tokens):
			sized := artifact.SizedContext{CharactersMin: length, CharactersMax: length}
			got.into(&sized)
			j.setAll(chars, length)
			return sized, nil
		case length == least && got.mean() > aim:
			return artifact.SizedContext{}, j.least(got.mean())
		}
		length = max(least, length+s.line.charsOf(aim-got.mean()))
	}
	return artifact.SizedContext{}, fmt.Errorf("%w: the last %d prompts counted had %d to %d tokens, %.1f on average, and the mean must be within %g %%; is the server's count steady?",
		errNotReached, got.n, got.min, got.max, got.mean(), 100*Tolerance)
}

func (j job) setAll(chars []int, length int) {
	for i := range chars {
		if j.plan.Request(i).ContextTokens == j.tokens {
			chars[i] = length
		}
	}
}

func within(tokens float64, asked int) bool {
	return math.Abs(tokens-float64(asked)) <= Tolerance*float64(asked)
}

// How far below the model's limit prompts of one length are aimed, so that those
// with more tokens than the mean stay below it too: four standard deviations, or
// half a percent. It is never so much that the size is missed.
const (
	spreadTokens = 48
	spreadShare  = 0.005
	aimShare     = 0.992
)

// aim is the mean to aim at for a size.
func (s *Sizer) aim(tokens int) float64 {
	asked, limit := float64(tokens), float64(s.o.MaxPromptTokens)
	if limit == 0 {
		return asked
	}
	return min(asked, max(limit-max(spreadTokens, spreadShare*limit), aimShare*asked))
}

// fitEach cuts each prompt of a size to it.
func (s *Sizer) fitEach(ctx context.Context, j job, chars []int) (artifact.SizedContext, error) {
	var (
		mu  sync.Mutex // guards got
		got counted
	)
	indexes := j.indexes()
	err := s.each(ctx, len(indexes), func(ctx context.Context, k int) error {
		i := indexes[k]
		length, tokens, err := s.fitOne(ctx, j, i)
		if err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		mu.Lock()
		defer mu.Unlock()
		chars[i] = length
		got.add(tokens)
		return nil
	})
	if err != nil {
		return artifact.SizedContext{}, err
	}
	sized := artifact.SizedContext{EachRequest: true, CharactersMin: chars[indexes[0]], CharactersMax: chars[indexes[0]]}
	for _, i := range indexes {
		sized.CharactersMin, sized.CharactersMax = min(sized.CharactersMin, chars[i]), max(sized.CharactersMax, chars[i])
	}
	got.into(&sized)
	return sized, nil
}

func (j job) indexes() []int {
	indexes := make([]int, 0, j.requests)
	for i := range j.plan.Len() {
		if j.plan.Request(i).ContextTokens == j.tokens {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// countsOfOne bounds the counts of one prompt; two or three do.
const countsOfOne = 8

// closeEnough is a fourth of Tolerance: a prompt that is as near is not cut
// again. It is 0 below 400 tokens.
func closeEnough(tokens int) int { return tokens / 400 }

// fitOne finds the length of one request's prompt. A prompt that grows keeps
// what it had, so its tokens grow with it, but for one or two where it was cut.
func (s *Sizer) fitOne(ctx context.Context, j job, i int) (length, tokens int, err error) {
	least := j.plan.LeastChars(j.prefix)
	at := max(least, s.line.charsOf(float64(j.tokens)-s.line.fixed))
	low, high := least-1, math.MaxInt // lengths that were too small and too large
	var n int
	for range countsOfOne {
		n, err = s.count(ctx, j.plan.AppendTrial(nil, i, workload.Length{Chars: at, PrefixChars: j.prefix}))
		if err != nil {
			return 0, 0, err
		}
		if s.fits(n) && (length == 0 || abs(n-j.tokens) < abs(tokens-j.tokens)) {
			length, tokens = at, n
		}
		off := n - j.tokens
		if abs(off) <= closeEnough(j.tokens) && s.fits(n) || at == least && off > 0 {
			break
		}
		step := -s.line.charsOf(float64(off))
		if off > 0 || !s.fits(n) {
			high, step = at, min(step, -1)
		} else {
			low, step = at, max(step, 1)
		}
		if at = between(at+step, low, high); at == low || at == high {
			break // neighbouring lengths, on both sides of the size
		}
	}
	if length == 0 || abs(tokens-j.tokens) > max(1, int(Tolerance*float64(j.tokens))) {
		if at == least {
			return 0, 0, j.least(float64(n))
		}
		return 0, 0, fmt.Errorf("%w: the nearest count was %d tokens, at %d characters", errNotReached, tokens, length)
	}
	return length, tokens, nil
}

// fits says that a prompt of so many tokens is not beyond the model's limit.
func (s *Sizer) fits(tokens int) bool {
	return s.o.MaxPromptTokens == 0 || tokens <= s.o.MaxPromptTokens
}

// between keeps a length inside the two that are known to be wrong: where it
// would leave them, it is the middle; low itself where nothing is left.
func between(at, low, high int) int {
	if at > low && at < high {
		return at
	}
	return low + (high-low)/2
}

func abs(n int) int { return max(n, -n) }

// each runs n counts, some at once, and gives the first error; it ends the others.
func (s *Sizer) each(ctx context.Context, n int, count func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	next := make(chan int)
	for range min(n, s.workers()) {
		workers.Go(func() {
			for i := range next {
				if err := count(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// mostTokenizers is how many tokenizer calls are under way at once: they take the
// server's CPU.
const mostTokenizers = 4

func (s *Sizer) workers() int {
	if s.common.Method == artifact.SizedByTokenizer {
		return max(1, min(s.o.Concurrency, mostTokenizers))
	}
	return max(1, s.o.Concurrency)
}
