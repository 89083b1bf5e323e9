package engine

import (
	"fmt"
	"math"
	"strings"
)

// MismatchLimit is how far the engine's count of a cell may lie from the
// client's, as a share of the client's, before it is a finding.
const MismatchLimit = 0.01

// Verdict is what a comparison comes to.
type Verdict string

// Verdicts.
const (
	Agree      Verdict = "agree"
	Differ     Verdict = "differ"
	CannotTell Verdict = "cannot_tell" // one side does not know, or not all of it
)

// Comparison is one count as both sides have it, over the cell alone: what ran
// before it (preflight, scout) is in neither.
type Comparison struct {
	// What is the role: requests, prompt_tokens or generation_tokens.
	What Role `json:"what"`
	// Client is from the answers' usage, Server from the engine's counters. Nil
	// is not known.
	Client *float64 `json:"client"`
	Server *float64 `json:"server"`
	// Difference is (server - client) / client; nil when either is not known or
	// the client's is 0.
	Difference *float64 `json:"difference"`
	Verdict    Verdict  `json:"verdict"`
	// Note says what a verdict rests on, "" for nothing more than the numbers.
	Note string `json:"note"`
}

// LatencySide is one side of a latency, milliseconds. Nil is not known.
type LatencySide struct {
	Samples float64  `json:"samples"`
	MeanMS  *float64 `json:"mean_ms"`
	// The client knows a percentile, so that low and high are the same; of the
	// engine's histogram only the bucket is known that it lies in. High is nil in
	// the last, open bucket.
	P50 BoundsMS `json:"p50"`
	P90 BoundsMS `json:"p90"`
	P99 BoundsMS `json:"p99"`
}

// BoundsMS are [Bounds] in milliseconds.
type BoundsMS struct {
	LowMS  *float64 `json:"low_ms"`
	HighMS *float64 `json:"high_ms"`
}

// LatencyComparison is one latency as both sides have it. The client's holds
// the network, the proxies and the engine's front end besides.
type LatencyComparison struct {
	// What is the engine's role, ClientMetric the client's metric beside it.
	What         Role         `json:"what"`
	ClientMetric string       `json:"client_metric"`
	Client       *LatencySide `json:"client"`
	Server       *LatencySide `json:"server"`
	// MeanGapMS is the client's mean - the engine's: what lies between the two.
	MeanGapMS *float64 `json:"mean_gap_ms"`
	Note      string   `json:"note"`
}

// Why counts differ. Both lie in the nature of the two sides.
const (
	whyMore  = "other traffic on the server, or answers that the client did not wait for, make the engine's count higher"
	whyFewer = "the metrics may be those of one of several servers behind the base URL, or the engine does not count what usage does"
)

// compare compares the counts of a cell.
func compare(d Delta, c Client) []Comparison {
	requests := Comparison{What: Requests, Client: new(float64(c.Requests)), Server: d.Value(Requests)}
	requests.judge(c.Attempted - c.Requests)
	if open := c.Attempted - c.Requests; open > 0 && requests.Server != nil {
		if *requests.Server > float64(c.Attempted)*(1+MismatchLimit) {
			requests.Verdict = Differ // more than were sent, whatever became of the open ones
		}
		requests.Note = fmt.Sprintf("%d of %d requests have no end that the server announced; it may have counted them or not", open, c.Attempted)
	}

	prompt := Comparison{What: PromptTokens, Client: c.PromptTokens, Server: d.Value(PromptTokens)}
	without := c.WithoutPrompt
	if d.ComputedOnly {
		prompt.Client, prompt.Note = c.computedTokens()
	}
	prompt.judge(without)
	prompt.noteMissing(without, c.Attempted)

	generation := Comparison{What: GenerationTokens, Client: c.GenerationTokens, Server: d.Value(GenerationTokens)}
	generation.judge(c.WithoutGeneration)
	generation.noteMissing(c.WithoutGeneration, c.Attempted)
	return []Comparison{requests, prompt, generation}
}

// computedTokens are the prompt tokens that did not come from the cache, for an
// engine that counts only those.
func (c Client) computedTokens() (tokens *float64, note string) {
	if c.PromptTokens == nil || c.CachedTokens == nil || c.WithoutCached > c.WithoutPrompt {
		return nil, "the engine counts prompt tokens without the cached ones, and not every answer says how many were cached"
	}
	return new(*c.PromptTokens - *c.CachedTokens), "without the cached tokens, as the engine counts"
}

// judge gives the verdict. missing is how many requests may be in the engine's
// count and are not in the client's: more on the engine's side then proves
// nothing, less still does.
func (c *Comparison) judge(missing int) {
	c.Verdict = CannotTell
	if c.Client == nil || c.Server == nil {
		return
	}
	excess := *c.Server - *c.Client
	if *c.Client > 0 {
		c.Difference = finiteOrNil(excess / *c.Client)
	}
	switch {
	case math.Abs(excess) <= *c.Client*MismatchLimit:
		c.Verdict = Agree
	case excess < 0 || missing == 0:
		c.Verdict = Differ
	}
}

func (c *Comparison) noteMissing(missing, attempted int) {
	if missing > 0 && c.Note == "" {
		c.Note = fmt.Sprintf("%d of %d requests have no usage, so that the client's sum is not whole", missing, attempted)
	}
}

// mismatches are the differences in words: one finding for those where the
// engine counts more and one for those where it counts fewer, since each kind
// has its own causes.
func mismatches(all []Comparison) []string {
	var more, fewer []string
	for _, c := range all {
		switch {
		case c.Verdict != Differ:
		case *c.Server > *c.Client:
			more = append(more, c.difference("more"))
		default:
			fewer = append(fewer, c.difference("fewer"))
		}
	}
	var findings []string
	for _, kind := range []struct {
		counts []string
		why    string
	}{{more, whyMore}, {fewer, whyFewer}} {
		if len(kind.counts) > 0 {
			findings = append(findings, fmt.Sprintf("over the cell the engine counts %s (limit %.0f %%): %s", strings.Join(kind.counts, ", and "), 100*MismatchLimit, kind.why))
		}
	}
	return findings
}

// difference is "102 requests, 2.0 % more than the client's 100".
func (c Comparison) difference(direction string) string {
	text := fmt.Sprintf("%.0f %s where the client has none", *c.Server, spoken(c.What))
	if c.Difference != nil {
		text = fmt.Sprintf("%.0f %s, %.1f %% %s than the client's %.0f", *c.Server, spoken(c.What), 100*math.Abs(*c.Difference), direction, *c.Client)
	}
	if c.Note != "" {
		text += " (" + c.Note + ")"
	}
	return text
}

// spoken is a role as a sentence has it.
func spoken(r Role) string {
	switch r {
	case PromptTokens:
		return "prompt tokens"
	case GenerationTokens:
		return "generation tokens"
	}
	return "requests"
}

// compareLatencies puts TTFT beside TTFO and the time per token beside TPOT.
func compareLatencies(d Delta, c Client) []LatencyComparison {
	first := LatencyComparison{
		What: TTFT, ClientMetric: "time_to_first_output", Client: clientSide(c.TTFO.Samples, c.TTFO.Mean, c.TTFO.P50, c.TTFO.P90, c.TTFO.P99),
		Server: serverSide(d.Histogram(TTFT)),
		Note:   "the engine's first token is of any kind, as TTFO is; its clock starts when the request has arrived there",
	}
	pace := LatencyComparison{
		What: TPOT, ClientMetric: "tpot", Client: clientSide(c.TPOT.Samples, c.TPOT.Mean, c.TPOT.P50, c.TPOT.P90, c.TPOT.P99),
		Server: serverSide(d.Histogram(TPOT)),
	}
	switch {
	case d.Engine == TGI && pace.Server != nil:
		pace.Note = "TGI's is the whole inference time over the tokens, the prompt's included"
	case pace.Server == nil && d.Histogram(ITL) != nil:
		pace.What, pace.Server = ITL, serverSide(d.Histogram(ITL))
		pace.Note = "the engine has one value a token, the client one a request: long answers weigh more in the engine's mean"
	}
	for _, l := range []*LatencyComparison{&first, &pace} {
		if l.Client != nil && l.Server != nil && l.Client.MeanMS != nil && l.Server.MeanMS != nil {
			l.MeanGapMS = finiteOrNil(*l.Client.MeanMS - *l.Server.MeanMS)
		}
	}
	return []LatencyComparison{first, pace}
}

// clockSlackMS is how far the engine's mean may lie above the client's before it
// is called impossible: counters and clocks are read at slightly other moments.
const clockSlackMS = 1

// finding says that an engine's mean time to its first token is longer than the
// client waited, in as many requests: with other requests in it, it may be.
func (l LatencyComparison) finding() string {
	if l.What != TTFT || l.MeanGapMS == nil || math.Abs(l.Server.Samples-l.Client.Samples) > MismatchLimit*l.Client.Samples {
		return ""
	}
	if -*l.MeanGapMS <= max(clockSlackMS, MismatchLimit**l.Client.MeanMS) {
		return ""
	}
	return fmt.Sprintf("the engine's mean time to first token over the cell, %.1f ms, is longer than the client's to first output, %.1f ms, in as many requests: it measures something else, or others' requests",
		*l.Server.MeanMS, *l.Client.MeanMS)
}

func clientSide(samples int, mean, p50, p90, p99 *float64) *LatencySide {
	if samples == 0 {
		return nil
	}
	exact := func(x *float64) BoundsMS { return BoundsMS{x, x} }
	return &LatencySide{float64(samples), mean, exact(p50), exact(p90), exact(p99)}
}

func serverSide(h *Histogram) *LatencySide {
	if h == nil || h.Count <= 0 {
		return nil
	}
	at := func(percent int) BoundsMS {
		b := h.Quantile(percent)
		return BoundsMS{inMS(b.Low), inMS(b.High)}
	}
	return &LatencySide{h.Count, inMS(h.Mean()), at(50), at(90), at(99)}
}

func inMS(seconds *float64) *float64 {
	if seconds == nil {
		return nil
	}
	return finiteOrNil(*seconds * 1000)
}
