package artifact

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"anvil-capacity/internal/record"
	"anvil-capacity/internal/stats"
)

// cacheEvidence is everything that an artifact knows about warm caches. The
// caveat is worked out from it and from nothing else.
type cacheEvidence struct {
	mode         string // prompt_cache_mode; "" is not stated
	sharedTokens int
	requests     int
	seed         *int

	// harnessKnown is false for another implementation's artifact, which has no
	// place to say what ran before.
	harnessKnown bool
	scout        *Scout

	rows int // eligible rows in the artifact
	// reported counts rows with cached_tokens; cachedRows are those above 0.
	reported     int
	cachedRows   []int
	cachedTokens int
	promptTokens int // of the rows that reported
	// hitAverage is prefix_cache_hit_avg, where the rows do not say.
	hitAverage *float64
	engine     *Engine

	// warm are the rows that look warm, with the fastest and slowest of them and
	// the median of the others, milliseconds to first output.
	warm                            []int
	warmMinMS, warmMaxMS, coldP50MS float64
}

func evidenceOf(n *Native) cacheEvidence {
	e := cacheEvidence{
		mode: orZero(n.PromptCacheMode), sharedTokens: orZero(n.SharedPrefixTokens),
		requests: n.Requests, seed: n.ContextSeed, rows: len(n.RequestTimings),
	}
	if n.Harness != nil {
		e.harnessKnown, e.scout, e.engine = true, n.Harness.Scout, n.Harness.Engine
	}
	e.hitAverage, _ = n.Metrics.Get("prefix_cache_hit_avg")
	records := n.Records()
	e.countCached(records)
	e.findWarm(records, n.Concurrency)
	return e
}

// countCached adds up what the server said of its cache, request by request.
func (e *cacheEvidence) countCached(records []record.Record) {
	for i := range records {
		r := &records[i]
		if !r.Completed() || r.Tokens.Cached == nil {
			continue
		}
		e.reported++
		e.cachedTokens += *r.Tokens.Cached
		e.promptTokens += orZero(r.Tokens.Prompt)
		if *r.Tokens.Cached > 0 {
			e.cachedRows = append(e.cachedRows, r.RequestIndex)
		}
	}
}

// findWarm asks stats for the rows that look warm and measures how different
// they are.
func (e *cacheEvidence) findWarm(records []record.Record, concurrency int) {
	e.warm = stats.WarmRows(records, concurrency)
	if len(e.warm) == 0 {
		return
	}
	var warm, cold []float64
	for i := range records {
		r := &records[i]
		switch {
		case !r.Completed() || r.Timing.TTFOMS == nil:
		case slices.Contains(e.warm, r.RequestIndex):
			warm = append(warm, *r.Timing.TTFOMS)
		default:
			cold = append(cold, *r.Timing.TTFOMS)
		}
	}
	e.warmMinMS, e.warmMaxMS = slices.Min(warm), slices.Max(warm)
	e.coldP50MS = orZero(stats.Describe(cold).P50)
}

// sameSeedScout is how many of the cell's first requests a scout had sent
// before; 0 when there was no such scout.
func (e *cacheEvidence) sameSeedScout() int {
	if e.scout == nil || e.seed == nil || e.scout.ContextSeed != *e.seed {
		return 0
	}
	return min(e.scout.Requests, e.requests)
}

// caveat says in words what the evidence means for whoever reads the numbers.
func (e *cacheEvidence) caveat() string {
	sentences := []string{e.sayPrompts(), e.sayScout(), e.sayCounters(), e.sayRows(), e.sayComparison()}
	return strings.Join(slices.DeleteFunc(sentences, func(s string) bool { return s == "" }), " ")
}

func (e *cacheEvidence) sayPrompts() string {
	switch e.mode {
	case CacheUnique:
		return "Prompts are unique within this cell: none begins like another."
	case CacheShared:
		return fmt.Sprintf("All prompts of this cell begin with the same %d shared tokens, so later requests can take that prefix from the cache by design.", e.sharedTokens)
	}
	return "The artifact does not say whether prompts are unique within this cell."
}

func (e *cacheEvidence) sayScout() string {
	switch again := e.sameSeedScout(); {
	case !e.harnessKnown:
		return "It does not say what ran before the cell."
	case e.scout == nil:
		return "No scout ran before it; what the server had cached from other traffic is not known."
	case again > 0 && again == e.requests:
		return fmt.Sprintf("A scout of %s with the same canary seed (%d) ran just before it and sent the same prompts: every request of the cell was possibly warm.",
			requestCount(e.scout.Requests), e.scout.ContextSeed)
	case again > 0:
		return fmt.Sprintf("A scout of %s with the same canary seed (%d) ran just before it and had already sent the prompts of its %s: %s possibly warm.",
			requestCount(e.scout.Requests), e.scout.ContextSeed, firstRequests(again), plural(again, "that was", "those were"))
	case e.seed == nil:
		return fmt.Sprintf("A scout of %s ran just before it; the cell's own seed is not stated, so whether it sent the same prompts is not known.", requestCount(e.scout.Requests))
	case e.mode == CacheShared:
		return fmt.Sprintf("A scout of %s ran just before it and may have put the shared prefix into the cache.", requestCount(e.scout.Requests))
	}
	return fmt.Sprintf("A scout of %s with another canary seed (%d, the cell's is %d) ran just before it: it shares no prompt with the cell.",
		requestCount(e.scout.Requests), e.scout.ContextSeed, *e.seed)
}

func (e *cacheEvidence) sayCounters() string {
	return strings.Join(slices.DeleteFunc([]string{e.sayCachedTokens(), e.sayEngine()}, func(s string) bool { return s == "" }), " ")
}

func (e *cacheEvidence) sayCachedTokens() string {
	switch {
	case e.reported > 0 && e.cachedTokens == 0:
		return fmt.Sprintf("The server returned cached_tokens for %d of %d answers, 0 in each: it says that nothing came from its cache.", e.reported, e.rows)
	case e.reported > 0:
		text := fmt.Sprintf("The server returned cached_tokens for %d of %d answers, above 0 in %d (%s)", e.reported, e.rows, len(e.cachedRows), listRequests(e.cachedRows))
		if e.promptTokens > 0 {
			text += fmt.Sprintf(": %.1f %% of their prompt tokens came from its cache", 100*float64(e.cachedTokens)/float64(e.promptTokens))
		}
		return text + "."
	case e.hitAverage != nil:
		return fmt.Sprintf("The server reported %.1f %% of a prompt's tokens as cached, on average (prefix_cache_hit_avg).", 100**e.hitAverage)
	case e.engineSpoke():
		return "The server returned no cached_tokens."
	}
	return "Neither cached_tokens nor engine cache counters were returned, so the cache's share is not known."
}

func (e *cacheEvidence) engineSpoke() bool {
	return e.engine != nil && e.engine.PrefixCacheQueries != nil && e.engine.PrefixCacheHits != nil
}

func (e *cacheEvidence) sayEngine() string {
	switch {
	case e.engineSpoke():
		return fmt.Sprintf("The engine's prefix-cache counters rose by %.0f hits in %.0f queries over the cell.", *e.engine.PrefixCacheHits, *e.engine.PrefixCacheQueries)
	case e.reported > 0 || e.hitAverage != nil:
		return "Engine cache counters were not returned."
	}
	return ""
}

func (e *cacheEvidence) sayRows() string {
	switch {
	case e.rows == 0:
		return "The artifact has no rows in which warm requests would show."
	case len(e.warm) == 0 && e.rows < stats.WarmMinimumRows:
		return fmt.Sprintf("%s are too few to show which were warm.", capital(requestCount(e.rows)))
	case len(e.warm) == 0:
		return "In the rows no request stands out as warm."
	}
	text := fmt.Sprintf("In the rows %s %s warm: first output after %s, against a median of %.0f ms for the rest.",
		listRequests(e.warm), plural(len(e.warm), "looks", "look"), rangeMS(e.warmMinMS, e.warmMaxMS), e.coldP50MS)
	if again := e.sameSeedScout(); again > 0 {
		beyond := slices.DeleteFunc(slices.Clone(e.warm), func(i int) bool { return i < again })
		if len(beyond) > 0 {
			text += fmt.Sprintf(" The scout does not explain %s.", listRequests(beyond))
		}
	} else if e.mode == CacheUnique {
		text += " Unique prompts do not explain that: something may have sent them before."
	}
	return text
}

func (e *cacheEvidence) sayComparison() string {
	switch again := e.sameSeedScout(); {
	case again > 0:
		return fmt.Sprintf("A comparison must retain the matched sequence, this scout and then this cell with the same seeds, or leave the %s out on both sides.", firstRequests(again))
	case e.mode == CacheShared:
		return "A comparison must retain the shared prefix, its length and the cache state at the start."
	case len(e.warm) > 0 || e.cachedTokens > 0:
		return "A comparison must start from the same cache state, or leave the warm requests out on both sides."
	case e.mode == CacheUnique:
		return "A comparison must retain unique prompts and a cache that has not seen them."
	}
	return "A comparison must first establish that both sides had the same cache state."
}

// listedRequests bounds a list of request indexes in a sentence.
const listedRequests = 12

// listRequests is "request 3", "requests 0, 4 and 7", or a shortened list.
func listRequests(indexes []int) string {
	if len(indexes) == 1 {
		return "request " + strconv.Itoa(indexes[0])
	}
	shown := make([]string, 0, listedRequests)
	for _, i := range indexes[:min(len(indexes), listedRequests)] {
		shown = append(shown, strconv.Itoa(i))
	}
	if more := len(indexes) - len(shown); more > 0 {
		return fmt.Sprintf("requests %s and %d more", strings.Join(shown, ", "), more)
	}
	last := len(shown) - 1
	return "requests " + strings.Join(shown[:last], ", ") + " and " + shown[last]
}

var numberWords = []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}

// requestCount is "one request", "eight requests", "100 requests".
func requestCount(n int) string {
	word := strconv.Itoa(n)
	if n >= 0 && n < len(numberWords) {
		word = numberWords[n]
	}
	return word + " " + plural(n, "request", "requests")
}

// firstRequests is "first request", "first eight requests".
func firstRequests(n int) string {
	if n == 1 {
		return "first request"
	}
	return "first " + requestCount(n)
}

// rangeMS is "515 to 986 ms", or one number where both round to it.
func rangeMS(low, high float64) string {
	from, to := fmt.Sprintf("%.0f", low), fmt.Sprintf("%.0f", high)
	if from == to {
		return to + " ms"
	}
	return from + " to " + to + " ms"
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
