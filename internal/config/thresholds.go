package config

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Threshold is one limit on a metric of a cell.
type Threshold struct {
	// Metric is a metric key of the artifact, such as ttft_p50_ms. It has the
	// right form; whether such a key exists is for gate.Check to say.
	Metric string
	// Op is one of "<=", "<", ">=" and ">": the metric stands left of it.
	Op string
	// Limit is finite and in the metric's own unit.
	Limit float64
	// Source is the threshold as typed, without spaces around it.
	Source string
	// Bound, when not 0, is a confidence above 0.5 and below 1: the limit then
	// holds for the bound of the metric's one-sided interval that is nearer to it
	// (`ttft_p95_ms<=2000@95%`), and not for the value alone.
	Bound float64
}

// thresholdOps are the operators, each before its own prefix.
var thresholdOps = []string{"<=", ">=", "<", ">"}

const thresholdAllowed = "a comma list of METRIC OP NUMBER with OP one of <= < >= >, and @95% behind it for the interval's bound"

// thresholds parses `ttft_p50_ms<=22500, throughput_tok_s>=21`.
func thresholds(field func(*Settings) *[]Threshold) kind {
	return kind{thresholdAllowed + "; each metric and OP once", func(v *value, s *Settings) {
		for _, item := range v.items() {
			t, want, hint := parseThreshold(item.text)
			if want == "" {
				want, hint = wantBeside(*field(s), t)
			}
			if want != "" {
				v.wrongItem(item, want, hint)
				continue
			}
			*field(s) = append(*field(s), t)
		}
	}}
}

// parseThreshold gives the threshold, or what was wanted and a hint.
func parseThreshold(text string) (t Threshold, want, hint string) {
	at := strings.IndexAny(text, "<>=")
	if text == "" || at < 0 {
		return t, "METRIC OP NUMBER with OP one of <= < >= >", "such as ttft_p50_ms<=22500"
	}
	metric, rest := strings.TrimSpace(text[:at]), text[at:]
	if !isMetric(metric) {
		return t, "a metric key before the operator: lower-case letters, digits and _", "such as ttft_p50_ms"
	}
	i := slices.IndexFunc(thresholdOps, func(op string) bool { return strings.HasPrefix(rest, op) })
	if i < 0 {
		return t, "one of <= < >= > after the metric", "there is no == and no =<: write <= or >="
	}
	op := thresholdOps[i]
	number, bound, want := parseBound(rest[len(op):])
	if want != "" {
		return t, want, "such as ttft_p95_ms<=2000@95%"
	}
	limit, ok := parseNumber(strings.TrimSpace(number))
	if !ok {
		return t, "a finite number after " + op, "without a unit: the metric's key says it"
	}
	return Threshold{Metric: metric, Op: op, Limit: limit, Bound: bound, Source: text}, "", ""
}

// isMetric says that text has the form of a metric key.
func isMetric(text string) bool {
	return text != "" && 'a' <= text[0] && text[0] <= 'z' &&
		strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// wantBeside says what is wrong with t among those before it: said twice, or
// no number can satisfy both.
func wantBeside(before []Threshold, t Threshold) (want, hint string) {
	for _, b := range before {
		if b.Metric != t.Metric {
			continue
		}
		if b.Op == t.Op {
			return "each metric and operator once", strconv.Quote(b.Source) + " stands before it"
		}
		if excludes(b, t) {
			return "thresholds that one number can meet", strconv.Quote(b.Source) + " stands before it"
		}
	}
	return "", ""
}

// excludes says that no number satisfies both.
func excludes(a, b Threshold) bool {
	low, high, strict := math.Inf(-1), math.Inf(1), false
	for _, t := range []Threshold{a, b} {
		if t.Op[0] == '<' {
			high = min(high, t.Limit)
		} else {
			low = max(low, t.Limit)
		}
		strict = strict || len(t.Op) == 1
	}
	return low > high || low == high && strict
}
