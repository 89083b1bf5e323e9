package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Where the runs of the calibration come from: two sources that know the truth.

// warmRowsOfRealCell is how many rows at the start of the real cell are left out
// of resampling. Requests 0 and 4 to 7 met prefixes that the scout had warmed
// (see the README beside the data): another regime and not noise, and a block
// that holds them would put a warm start into the middle of a run.
const warmRowsOfRealCell = 8

// realBlock is the length of the blocks by which the real rows are resampled:
// three waves of the cell's concurrency of 4, so that what neighbours have in
// common stays together.
const realBlock = 12

// cellRun is one made-up run of a cell.
type cellRun struct {
	ttft, e2e, tokens []float64
	wallMS            float64
}

// source makes runs. prompts is the seed of the workload, which all runs of a
// comparison share; luck is the run's own.
type source struct {
	name        string
	concurrency int
	run         func(requests int, prompts, luck uint64) cellRun
}

func sources(t testing.TB) []source {
	real := realCellRun(t)
	return []source{
		{"real rows", 4, func(n int, _, luck uint64) cellRun { return resampled(real, n, luck) }},
		{"queue, concurrency 4", 4, func(n int, prompts, luck uint64) cellRun { return queue(n, 4, prompts, luck) }},
		{"queue, concurrency 16", 16, func(n int, prompts, luck uint64) cellRun { return queue(n, 16, prompts, luck) }},
	}
}

func realCellRun(t testing.TB) cellRun {
	var c cellRun
	for _, r := range realRecords(t, "final-rows.csv")[warmRowsOfRealCell:] {
		c.ttft = append(c.ttft, *r.Timing.TTFTMS)
		c.e2e = append(c.e2e, *r.Timing.E2EMS)
		c.tokens = append(c.tokens, float64(*r.Tokens.Output))
	}
	return c
}

// resampled strings blocks of real rows together, the rows being a ring. Its
// wall clock is that of a closed loop whose slots are never idle.
func resampled(real cellRun, requests int, luck uint64) cellRun {
	random := rand.New(rand.NewPCG(luck, 1))
	var c cellRun
	for len(c.ttft) < requests {
		start := random.IntN(len(real.ttft))
		for j := 0; j < realBlock && len(c.ttft) < requests; j++ {
			k := (start + j) % len(real.ttft)
			c.ttft = append(c.ttft, real.ttft[k])
			c.e2e = append(c.e2e, real.e2e[k])
			c.tokens = append(c.tokens, real.tokens[k])
		}
	}
	c.wallMS = sumOf(c.e2e) / 4
	return c
}

// The queue: a closed loop in virtual time against a server that prefills one
// prompt at a time, in order, and decodes all answers at once. Its speed wanders
// (first-order autoregression), so that a slow moment is seen by all requests
// around it: waiting times, and with them TTFT, are correlated over dozens of
// requests.
const (
	queuePrefillMS  = 800  // median prefill of a prompt
	queuePromptSD   = 0.15 // of the logarithm, by prompt
	queueTokens     = 120  // median output tokens of a prompt
	queueTokensSD   = 0.2  // of the logarithm, by prompt
	queueLongShare  = 0.15 // answers that are queueLongFactor longer, by luck
	queueLongFactor = 1.4
	queueTPOTMS     = 25
	queueServiceSD  = 0.05 // of the logarithm of prefill, by luck
	queueDecodeSD   = 0.1  // of the logarithm of decode, by luck
	queueSpeedSD    = 0.05 // of the logarithm of the speed
	queueSpeedLag1  = 0.8  // correlation of the speed from request to request
)

func queue(requests, concurrency int, prompts, luck uint64) cellRun {
	byPrompt, byLuck := rand.New(rand.NewPCG(prompts, 2)), rand.New(rand.NewPCG(luck, 3))
	noise := func(r *rand.Rand, sd float64) float64 { return math.Exp(sd * r.NormFloat64()) }
	slots, prefillFree := make([]float64, concurrency), 0.0
	speed := queueSpeedSD * byLuck.NormFloat64()
	var c cellRun
	for range requests {
		prefill := queuePrefillMS * noise(byPrompt, queuePromptSD) * noise(byLuck, queueServiceSD)
		tokens := math.Round(queueTokens * noise(byPrompt, queueTokensSD))
		if byLuck.Float64() < queueLongShare {
			tokens = math.Round(tokens * queueLongFactor)
		}
		speed = queueSpeedLag1*speed + queueSpeedSD*math.Sqrt(1-queueSpeedLag1*queueSpeedLag1)*byLuck.NormFloat64()
		slot := 0
		for i := range slots {
			if slots[i] < slots[slot] {
				slot = i
			}
		}
		sent := slots[slot]
		prefillFree = max(prefillFree, sent) + prefill*math.Exp(speed)
		end := prefillFree + tokens*queueTPOTMS*math.Exp(speed)*noise(byLuck, queueDecodeSD)
		slots[slot] = end
		c.ttft = append(c.ttft, prefillFree-sent)
		c.e2e = append(c.e2e, end-sent)
		c.tokens = append(c.tokens, tokens)
		c.wallMS = max(c.wallMS, end)
	}
	return c
}

// slowed is the run on a server that takes factor times as long for everything:
// in a closed loop all times grow by it and the rate falls by it.
func (c cellRun) slowed(factor float64) cellRun {
	times := func(xs []float64) []float64 {
		ys := make([]float64, len(xs))
		for i, x := range xs {
			ys[i] = factor * x
		}
		return ys
	}
	return cellRun{ttft: times(c.ttft), e2e: times(c.e2e), tokens: c.tokens, wallMS: factor * c.wallMS}
}

// calibratedMetric is one metric of the calibration.
type calibratedMetric struct {
	name      string
	statistic Statistic
	direction Direction
}

var calibratedMetrics = []calibratedMetric{
	{"ttft mean", Mean, LowerIsBetter},
	{"ttft p50", P50, LowerIsBetter},
	{"ttft p95", P95, LowerIsBetter},
	{"throughput", WholeRun, HigherIsBetter},
}

func (m calibratedMetric) of(c cellRun) Run {
	if m.statistic == WholeRun {
		return Run{Whole: new(sumOf(c.tokens) / c.wallMS), Work: c.tokens, Busy: c.e2e, WallMS: c.wallMS}
	}
	return Run{Values: c.ttft}
}

func (m calibratedMetric) arm(runs []cellRun) Arm {
	var a Arm
	for _, c := range runs {
		a.Runs = append(a.Runs, m.of(c))
	}
	return a
}
