// Package stats folds the records of a cell into its metrics: distributions,
// totals, throughput, the population that they stand on, and the rows that a
// warm prefix cache betrays. It is pure: records in, numbers out, no clock.
//
// Three rules hold everywhere (PROTOCOL section 4):
//
//   - Only completed requests count. A failed one is in no distribution.
//   - What was not measured is nil and becomes JSON null; it is never 0.
//   - A statistic depends on the values and not on their order: every sum is
//     exact, and is rounded to a float64 once, at the end (see exact.go).
//
// All functions are safe for concurrent use: nothing is kept between calls and
// no argument is changed.
package stats

import (
	"math"

	"anvil-capacity/internal/record"
)

// The measurement protocols. Results of different protocols are not comparable.
const (
	// ProtocolVisible is a run in which no eligible request streamed reasoning.
	ProtocolVisible = "capacity-v3"
	// ProtocolReasoning is a run in which at least one eligible request did.
	ProtocolReasoning = "capacity-v4-reasoning"
)

// Protocol gives the measurement_protocol of a run: ProtocolReasoning when any
// completed request had reasoning events, else ProtocolVisible.
func Protocol(records []record.Record) string {
	for i := range records {
		if records[i].Completed() && records[i].Response.ReasoningChunks > 0 {
			return ProtocolReasoning
		}
	}
	return ProtocolVisible
}

// Fold computes every metric of a cell. records may be in any order and may be
// fewer than planned, the number of requests that the cell set out to send.
// wallMS is the first request's start to the last one's end, in milliseconds.
//
// Throughput is nil unless each of the planned requests completed exactly once,
// every output count came from usage, and wallMS is positive and finite. The
// keys are those of Keys; definitions: PROTOCOL sections 1, 4 and 5.
func Fold(records []record.Record, planned int, wallMS float64) Metrics {
	rows := completed(records)
	m := Metrics{
		values:             make(map[string]*float64, len(families)*len(statistics)+len(totalKeys)),
		OutputTokenSources: tokenSources(rows),
	}
	for _, f := range families {
		m.setDistribution(f, Describe(f.sample(rows)))
	}
	m.setTotals(rows)
	m.setVerdicts(rows)
	m.setRates(rows, PerformanceEligible(records, planned), wallMS)
	return m
}

// completed gives the eligible requests, in the order of records.
func completed(records []record.Record) []*record.Record {
	rows := make([]*record.Record, 0, len(records))
	for i := range records {
		if records[i].Completed() {
			rows = append(rows, &records[i])
		}
	}
	return rows
}

func tokenSources(rows []*record.Record) map[string]int {
	sources := map[string]int{}
	for _, r := range rows {
		sources[r.Tokens.Source()]++
	}
	return sources
}

// setTotals sums over the eligible requests. With none of them there is nothing
// to sum and every total is nil: a gate on reasoning_chunks<=0 must not pass
// because nothing ran.
func (m *Metrics) setTotals(rows []*record.Record) {
	var prompt, output, content, reasoning, prompts, outputs int
	for _, r := range rows {
		content += r.Response.ContentChunks
		reasoning += r.Response.ReasoningChunks
		if r.Tokens.Prompt != nil {
			prompt += *r.Tokens.Prompt
			prompts++
		}
		if r.Tokens.Output != nil {
			output += *r.Tokens.Output
			outputs++
		}
	}
	m.setCount(keyPromptTokens, prompt, prompts > 0)
	m.setCount(keyPromptTokenSamples, prompts, true)
	// A sum over some of the requests would read as the sum over all of them.
	m.setCount(keyOutputTokens, output, len(rows) > 0 && outputs == len(rows))
	m.setCount(keyContentChunks, content, len(rows) > 0)
	m.setCount(keyReasoningChunks, reasoning, len(rows) > 0)
	m.values[keyPrefixCacheHitAvg] = Describe(cachedFractions(rows)).Mean
	cached, of := cachedTokens(rows)
	m.setRatio(keyPrefixCacheHitRate, float64(cached), float64(of), of > 0)
}

// cachedTokens sums cached and prompt tokens over the requests where the server
// said both. Their ratio weighs each token alike, where cachedFractions weighs
// each request alike: the two differ where prompts have several sizes.
func cachedTokens(rows []*record.Record) (cached, prompt int) {
	for _, r := range rows {
		if r.Tokens.Cached != nil && r.Tokens.Prompt != nil {
			cached += *r.Tokens.Cached
			prompt += *r.Tokens.Prompt
		}
	}
	return cached, prompt
}

// cachedFractions is cached / prompt tokens of each request where the server
// said both. A server that says nothing gives none, which is not 0.
func cachedFractions(rows []*record.Record) []float64 {
	var fractions []float64
	for _, r := range rows {
		if r.Tokens.Cached != nil && r.Tokens.Prompt != nil && *r.Tokens.Prompt > 0 {
			fractions = append(fractions, float64(*r.Tokens.Cached)/float64(*r.Tokens.Prompt))
		}
	}
	return fractions
}

// setVerdicts counts the verdicts on the answers. Without a sample the counts
// are nil, so that controlled_output_unobservable<=0 fails on a run that asked
// for no words.
func (m *Metrics) setVerdicts(rows []*record.Record) {
	var canaries, passed, words, exact, unobservable int
	for _, r := range rows {
		if r.Canary != nil && !r.CanaryObserved {
			canaries++
			if r.Canary.Passed {
				passed++
			}
		}
		if r.Words == nil {
			continue
		}
		words++
		switch adherence := r.Words.ExactAdherence; {
		case adherence == nil:
			unobservable++
		case *adherence:
			exact++
		}
	}
	m.setCount(keyCanarySamples, canaries, true)
	m.setCount(keyCanaryPassed, passed, canaries > 0)
	m.setCount(keyWordsSamples, words, true)
	m.setCount(keyWordsExact, exact, words > 0)
	m.setCount(keyWordsUnobservable, unobservable, words > 0)
	m.setRatio(keyWordsExactRate, float64(exact), float64(words-unobservable), words > unobservable)
}

// setRates sets what is divided by the wall clock. Chunks are counted per
// second only where tokens cannot be, and never in their place.
func (m *Metrics) setRates(rows []*record.Record, complete bool, wallMS float64) {
	complete = complete && wallMS > 0 && !math.IsInf(wallMS, 1)
	output := m.values[keyOutputTokens]
	eligible := complete && output != nil
	m.ThroughputPerformanceEligible = &eligible
	m.values[keyThroughput], m.values[keyContentChunksS] = nil, nil
	wallS := wallMS / 1000
	switch {
	case eligible:
		m.setRatio(keyThroughput, *output, wallS, true)
	case complete && len(rows) > 0:
		m.setRatio(keyContentChunksS, *m.values[keyContentChunks], wallS, true)
	}
}

func (m *Metrics) setCount(key string, n int, measured bool) {
	m.setRatio(key, float64(n), 1, measured)
}

// setRatio refuses what is not a finite number (a subnormal wall, say): JSON
// cannot hold it, and no gate should.
func (m *Metrics) setRatio(key string, num, den float64, measured bool) {
	m.values[key] = nil
	if measured {
		m.values[key] = finite(num / den)
	}
}

// finite gives nil for NaN and the infinities.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
