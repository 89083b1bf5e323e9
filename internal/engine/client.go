package engine

import (
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/stats"
)

// Client is the client's side of the comparison: what the records of one cell
// say about that which the engine counts too. Nil is unknown, never 0.
type Client struct {
	// Attempted is how many requests were sent, and Requests how many of them
	// came to an end that the server announced, right or wrong.
	Attempted, Requests int
	// PromptTokens, GenerationTokens and CachedTokens are sums of usage, nil when
	// no answer had the count.
	PromptTokens, GenerationTokens, CachedTokens *float64
	// Without counts the requests without the count, by role: their tokens are
	// not in the sum, and may be in the engine's.
	WithoutPrompt, WithoutGeneration, WithoutCached int
	// TTFO and TPOT are in milliseconds, over the completed requests.
	TTFO, TPOT stats.Distribution
}

// ClientOf folds the records of a cell. The records are not kept.
func ClientOf(records []record.Record) Client {
	c := Client{Attempted: len(records)}
	var ttfo, tpot []float64
	for i := range records {
		r := &records[i]
		if r.Completed() || r.ResponseReceived && r.Response.TerminalObserved {
			c.Requests++
		}
		addTokens(&c.PromptTokens, &c.WithoutPrompt, r.Tokens.Prompt)
		addTokens(&c.GenerationTokens, &c.WithoutGeneration, r.Tokens.Output)
		addTokens(&c.CachedTokens, &c.WithoutCached, r.Tokens.Cached)
		if !r.Completed() {
			continue
		}
		ttfo = appendKnown(ttfo, r.Timing.TTFOMS)
		tpot = appendKnown(tpot, r.TPOTMS())
	}
	c.TTFO, c.TPOT = stats.Describe(ttfo), stats.Describe(tpot)
	return c
}

func addTokens(total **float64, without *int, n *int) {
	if n == nil {
		*without++
		return
	}
	if *total == nil {
		*total = new(0.0)
	}
	**total += float64(*n)
}

func appendKnown(xs []float64, x *float64) []float64 {
	if x == nil {
		return xs
	}
	return append(xs, *x)
}
