package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"anvil-capacity/internal/config"
	"anvil-capacity/internal/spelling"
	"anvil-capacity/internal/stats"
)

const (
	// suggestionLimit is how many keys are suggested for an unknown one.
	suggestionLimit = 3
	// An unknown key is compared with each key by edit distance; one that needs
	// more than a third of its letters changed was not meant.
	suggestionShare = 3
)

// Check finds the thresholds that no cell can ever meet: a metric that Fold does
// not give, an operator that is not known, a limit that is no finite number. It
// is meant for before the first request. The error is one message with a line
// for each fault, in the order of the thresholds, with the keys that may have
// been meant; nil when there is none.
func Check(thresholds []config.Threshold) error {
	var faults []string
	for _, t := range thresholds {
		if fault := faultOf(t); fault != "" {
			faults = append(faults, fmt.Sprintf("  %q: %s", sourceOf(t), fault))
		}
	}
	if faults == nil {
		return nil
	}
	return fmt.Errorf("checking thresholds: %d of %d cannot be judged\n%s", len(faults), len(thresholds), strings.Join(faults, "\n"))
}

func faultOf(t config.Threshold) string {
	switch {
	case !isKey(t.Metric):
		return fmt.Sprintf("no metric %q: %s", t.Metric, suggestion(t.Metric))
	case !isOp(t.Op):
		return fmt.Sprintf("operator %q, want one of <= < >= >", t.Op)
	case !isFinite(t.Limit):
		return fmt.Sprintf("limit %v, want a finite number", t.Limit)
	}
	return ""
}

// sourceOf is the threshold as typed, or spelled again where it was made by code.
func sourceOf(t config.Threshold) string {
	if t.Source != "" {
		return t.Source
	}
	return t.Metric + t.Op + number(t.Limit)
}

func isKey(key string) bool {
	_, found := slices.BinarySearch(stats.Keys(), key)
	return found
}

// suggestion says what may have been meant by an unknown key. It tries what
// people mean before what they mistype: other words for the same thing, then a
// name that lacks its statistic, then the nearest spelling.
func suggestion(key string) string {
	if keys := sameMeaning(key); len(keys) > 0 {
		return "did you mean " + either(keys) + "?"
	}
	if name := nameAlone(key); name != "" {
		return "a statistic is missing, as in " + either(someStatistics(name))
	}
	if isAboutFailures(key) {
		return "failed requests are judged by the service check, see CAPACITY_MAX_FAILURE_RATE"
	}
	if keys := nearest(key); len(keys) > 0 {
		return "did you mean " + either(keys) + "?"
	}
	return "nothing is near it; keys are spelled like ttft_p50_ms, with the names " +
		strings.Join(stats.Names(), ", ") + " and the statistics " + strings.Join(stats.Statistics(), ", ")
}

func either(keys []string) string {
	if len(keys) == 1 {
		return keys[0]
	}
	return strings.Join(keys[:len(keys)-1], ", ") + " or " + keys[len(keys)-1]
}

// phrases and words map other terms of the field to the ones in our keys.
var (
	phrases = strings.NewReplacer(
		"time_to_first_token", "ttft",
		"time_per_output_token", "tpot",
		"inter_token_latency", "tpot",
		"end_to_end", "e2e",
		"tokens_per_second", "throughput",
		"time_to_first_output", "ttfo",
		"effective_prefill", "prefill",
		"standard_deviation", "stddev",
	)
	words = map[string]string{
		"median": "p50", "avg": "mean", "average": "mean", "std": "stddev", "stdev": "stddev",
		"minimum": "min", "maximum": "max", "count": "samples", "itl": "tpot", "latency": "e2e",
		"input": "prompt", "output": "completion", "tps": "throughput",
	}
	// units are left out of the comparison: they are what people forget.
	units = []string{"ms", "s", "sec", "seconds", "tok", "tokens", "per", ""}
)

// meaning reduces a key to its words in our terms, without units, in no
// particular order: ttft_p50, p50_ttft_ms and median_ttft have the same.
func meaning(key string) string {
	split := func(r rune) bool { return r == '_' || r == '-' || r == '.' }
	spelled := phrases.Replace(strings.Join(strings.FieldsFunc(strings.ToLower(key), split), "_"))
	var kept []string
	for word := range strings.SplitSeq(spelled, "_") {
		if term, ok := words[word]; ok {
			word = term
		}
		if !slices.Contains(units, word) {
			kept = append(kept, word)
		}
	}
	slices.Sort(kept)
	return strings.Join(kept, " ")
}

func sameMeaning(key string) []string {
	meant := meaning(key)
	keys := slices.DeleteFunc(stats.Keys(), func(k string) bool { return meaning(k) != meant })
	return keys[:min(len(keys), suggestionLimit)]
}

// nameAlone gives the distribution that key names without a statistic.
func nameAlone(key string) string {
	meant := meaning(key)
	for _, name := range stats.Names() {
		if meaning(name) == meant {
			return name
		}
	}
	return ""
}

func someStatistics(name string) []string {
	var keys []string
	for _, statistic := range []string{"p50", "p95", "mean"} {
		if key, ok := stats.Key(name, statistic); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

func isAboutFailures(key string) bool {
	for _, word := range []string{"fail", "error", "success"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

// nearest gives the keys that are fewest edits away, at most suggestionLimit of
// them, in alphabetical order.
func nearest(key string) []string {
	type candidate struct {
		key   string
		edits int
	}
	var near []candidate
	for _, k := range stats.Keys() {
		if n := spelling.Distance(key, k); n*suggestionShare <= len(key) {
			near = append(near, candidate{k, n})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.edits, b.edits) })
	var keys []string
	for _, c := range near {
		if c.edits == near[0].edits && len(keys) < suggestionLimit {
			keys = append(keys, c.key)
		}
	}
	return keys
}
