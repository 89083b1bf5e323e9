package gate

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"anvil-capacity/internal/config"
)

const (
	// shownDigits is how many significant digits of a value are shown, unless it
	// takes more to tell the value from its limit.
	shownDigits = 6
	// gapDigits is how many digits of the distance to the limit are shown at least.
	gapDigits = 2
	// From plainLimit on, and below plainFloor, numbers are written with an exponent.
	plainLimit = 1e15
	plainFloor = 1e-6
)

// describe says what was got, the limit, and how far apart they are:
//
//	ttft_p50_ms = 21977.7 ms, limit <= 20000 ms: over by 1977.7 ms (9.9 %)
//
// Values are rounded for reading, yet a value that misses its limit by a hair
// never looks equal to it.
func describe(t config.Threshold, got float64) string {
	unit := unitOf(t.Metric)
	gap := math.Abs(got - t.Limit)
	decimals := max(decimalsFor(got, shownDigits), decimalsFor(gap, gapDigits))
	text := fmt.Sprintf("%s = %s, limit %s: ", t.Metric, withUnit(fixed(got, decimals), unit), limitText(t))
	side := "over"
	switch {
	case gap == 0 && len(t.Op) == 1:
		return text + fmt.Sprintf("equal to it, and %s leaves that out", t.Op)
	case gap == 0:
		return text + "equal to it"
	case got < t.Limit:
		side = "under"
	}
	text += fmt.Sprintf("%s by %s", side, withUnit(gapText(gap, decimals), unit))
	if t.Limit != 0 {
		text += fmt.Sprintf(" (%s)", percent(gap/math.Abs(t.Limit)))
	}
	return text
}

func limitText(t config.Threshold) string {
	return t.Op + " " + withUnit(number(t.Limit), unitOf(t.Metric))
}

// unitOf reads a unit off the spelling of a key: "" for counts of requests and
// samples and for ratios.
func unitOf(key string) string {
	switch {
	case strings.HasSuffix(key, "_samples"):
		return ""
	case strings.HasSuffix(key, "_ms") || strings.Contains(key, "_ms_"):
		return "ms"
	case strings.Contains(key, "tok_s"):
		return "tok/s"
	case strings.HasSuffix(key, "_chunks_s"):
		return "chunks/s"
	case strings.HasSuffix(key, "_chunks"):
		return "chunks"
	case hasAnyPrefix(key, "prompt_tokens", "completion_tokens", "output_tokens"):
		return "tokens"
	}
	return ""
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

func withUnit(number, unit string) string {
	if unit == "" {
		return number
	}
	return number + " " + unit
}

// decimalsFor is how many places after the point show so many significant
// digits of x.
func decimalsFor(x float64, digits int) int {
	if x == 0 || !isFinite(x) {
		return 0
	}
	return max(0, digits-1-int(math.Floor(math.Log10(math.Abs(x)))))
}

// fixed writes x with so many decimals, without zeros at the end.
func fixed(x float64, decimals int) string {
	if !isPlain(x) {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	text := strconv.FormatFloat(x, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// gapText writes a distance: very small and very large ones by their size alone.
func gapText(gap float64, decimals int) string {
	if !isPlain(gap) {
		return short(gap)
	}
	return fixed(gap, decimals)
}

func short(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) }

// number writes x in full: limits are shown as they were meant.
func number(x float64) string {
	if !isPlain(x) {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

func isPlain(x float64) bool {
	return x == 0 || math.Abs(x) >= plainFloor && math.Abs(x) < plainLimit
}

// percent writes a ratio, with one decimal or as many as show it is not 0.
func percent(ratio float64) string {
	p := 100 * ratio
	if !isPlain(p) {
		return short(p) + " %"
	}
	return strconv.FormatFloat(p, 'f', max(1, decimalsFor(p, 1)), 64) + " %"
}
