package stats

import (
	"cmp"
	"slices"

	"anvil-capacity/internal/record"
)

// The rule of WarmRows. A cached prefix skips most of the prefill, so a warm
// row is not somewhat but many times faster, and nothing lies between.
const (
	// WarmMinimumSpeedup is how many times faster than the median of its context
	// size a warm row reaches its first output. In fixtures/glm-c4-16word the
	// warm rows are 6 to 12 times faster, and the fastest of the others 1.9.
	WarmMinimumSpeedup = 4
	// WarmMinimumBreak is the ratio of the first output of the fastest cold row
	// to that of the slowest warm one. Requests that queue for prefill in a burst
	// spread over more than WarmMinimumSpeedup too, but evenly, with ratios near
	// 1.1 between neighbours; the break behind the warm rows of the fixture is 3.4.
	WarmMinimumBreak = 2
	// WarmMinimumRows is how many completed rows a context size needs before its
	// median says what is usual.
	WarmMinimumRows = 5
)

// WarmRows finds the requests whose prefix was probably in the server's cache
// before they came: the request indexes, ascending, of completed rows that
// reached their first output WarmMinimumSpeedup times faster than the median of
// their planned context size, with a break of WarmMinimumBreak to the rest.
//
// concurrency is the closed loop's, 0 when unknown or open. The first
// `concurrency` requests meet an empty server, where a few may be served at once
// while all later ones wait for a slot: that looks like warmth and is not. So
// when the only fast rows are among them they are not reported; one fast row
// further on confirms them.
//
// It is evidence for a caveat, not proof: a run that is mostly warm has a warm
// median and shows nothing here, and partly cached rows that are less than four
// times faster stay unseen. It looks at times only; cached_tokens, where a
// server sends them, are the server's own word on the same question.
func WarmRows(records []record.Record, concurrency int) []int {
	byContext := map[int][]*record.Record{}
	for _, r := range completed(records) {
		if t := r.Timing.TTFOMS; t != nil && *t > 0 { // false for NaN
			byContext[r.PlannedContextTokens] = append(byContext[r.PlannedContextTokens], r)
		}
	}
	var warm []int
	for _, rows := range byContext {
		warm = append(warm, warmOfContext(rows)...)
	}
	slices.Sort(warm)
	if concurrency > 1 && len(warm) > 0 && warm[len(warm)-1] < concurrency {
		return nil
	}
	return warm
}

// warmOfContext sorts the rows of one context size by their first output and
// cuts at the last break that has only fast rows before it.
func warmOfContext(rows []*record.Record) []int {
	if len(rows) < WarmMinimumRows {
		return nil
	}
	slices.SortFunc(rows, func(a, b *record.Record) int {
		return cmp.Compare(*a.Timing.TTFOMS, *b.Timing.TTFOMS)
	})
	ttfo := make([]float64, len(rows))
	for i, r := range rows {
		ttfo[i] = *r.Timing.TTFOMS
	}
	limit := nearestRank(ttfo, 50) / WarmMinimumSpeedup
	cut := 0
	for i := 0; i+1 < len(ttfo) && ttfo[i] <= limit; i++ {
		if ttfo[i+1] >= WarmMinimumBreak*ttfo[i] {
			cut = i + 1
		}
	}
	warm := make([]int, cut)
	for i := range warm {
		warm[i] = rows[i].RequestIndex
	}
	return warm
}
