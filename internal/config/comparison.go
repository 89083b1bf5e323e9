package config

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Regression is how much worse than the baseline a metric may be.
type Regression struct {
	// Metric is a metric key (ttft_p95_ms) or a short name (ttft, throughput),
	// which stands for the mean. Whether it can be compared is for gate to say.
	Metric string
	// Margin is the relative change for the worse that is accepted, 0 to below 1:
	// 0.05 lets a time rise and a rate fall by 5 %.
	Margin float64
	// Source is the item as typed.
	Source string
}

// regressionsAllowed is what an item of CAPACITY_MAX_REGRESSION looks like.
const regressionsAllowed = "a comma list of METRIC=PERCENT, each metric once and 0% to below 100%"

// regressions parses `ttft=5%, throughput=3%`.
func regressions(field func(*Settings) *[]Regression) kind {
	return kind{regressionsAllowed, func(v *value, s *Settings) {
		for _, item := range v.items() {
			r, want, hint := parseRegression(item.text)
			if want == "" && slices.ContainsFunc(*field(s), func(b Regression) bool { return b.Metric == r.Metric }) {
				want, hint = "each metric once", ""
			}
			if want != "" {
				v.wrongItem(item, want, hint)
				continue
			}
			*field(s) = append(*field(s), r)
		}
	}}
}

func parseRegression(text string) (r Regression, want, hint string) {
	metric, margin, found := strings.Cut(text, "=")
	metric = strings.TrimSpace(metric)
	if !found || !isMetric(metric) {
		return r, "METRIC=PERCENT", "such as ttft=5%"
	}
	n, ok := parsePercent(margin)
	if !ok || n < 0 || n >= 1 {
		return r, "a margin from 0% to below 100%, with its % sign", "such as " + metric + "=5%"
	}
	return Regression{Metric: metric, Margin: n, Source: text}, "", ""
}

// parsePercent reads a number with a % sign as a share of one.
func parsePercent(text string) (float64, bool) {
	digits, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	n, ok := parseNumber(strings.TrimSpace(digits))
	return n / 100, ok && percent
}

// Bounds of a confidence, as shares of one.
const (
	confidenceMin = 0.5
	confidenceMax = 0.9999
)

const confidenceAllowed = "above 50%, up to 99.99%"

func isConfidence(n float64) bool { return n > confidenceMin && n <= confidenceMax }

// confidence parses a percentage such as 95%, also written 0.95.
func confidence(field func(*Settings) *float64) kind {
	return kind{confidenceAllowed + "; or a share such as 0.95", func(v *value, s *Settings) {
		n, ok := parsePercent(v.text)
		if !ok {
			n, ok = parseNumber(v.text)
		}
		if !ok || !isConfidence(n) {
			v.wrong("", "")
			return
		}
		*field(s) = n
	}}
}

// parseBound takes `2000@95%` apart: the limit, and the confidence of the
// interval's bound that is held to it, 0 where the value itself is.
func parseBound(text string) (limit string, bound float64, want string) {
	limit, level, asked := strings.Cut(text, "@")
	if !asked {
		return limit, 0, ""
	}
	n, ok := parsePercent(level)
	if !ok || !isConfidence(n) {
		return limit, 0, "a confidence after @, " + confidenceAllowed
	}
	return limit, n, ""
}

// AllowedDifferences are what CAPACITY_BASELINE_ALLOW may name. Engine, GPU,
// model and recipe may always differ: that is what one compares.
var AllowedDifferences = []string{
	"measurement_protocol", "context", "max_context_tokens", "max_tokens", "requests", "concurrency",
	"response_words", "prompt_cache_mode", "shared_prefix_tokens", "request_canaries",
	"controlled_output_policy", "context_seed", "thinking", "sampling",
}

// differences parses a comma list of AllowedDifferences.
func differences(field func(*Settings) *[]string) kind {
	allowed := "a comma list of " + strings.Join(AllowedDifferences, ", ")
	return kind{allowed, func(v *value, s *Settings) {
		for _, item := range v.items() {
			switch {
			case !slices.Contains(AllowedDifferences, item.text):
				v.wrongItem(item, "one of "+strings.Join(AllowedDifferences, ", "), maybe(item.text, AllowedDifferences))
			case slices.Contains(*field(s), item.text):
				v.wrongItem(item, "each name once", "")
			default:
				*field(s) = append(*field(s), item.text)
			}
		}
	}}
}

// baselineMaxBytes bounds a file that is only looked at here; artifact reads it.
const baselineMaxBytes = 512 << 20

// files parses a comma list of files that must be there, so that a wrong path
// is found before the first request.
func files(what string, field func(*Settings) *[]string) kind {
	return kind{"a comma list of paths of " + what, func(v *value, s *Settings) {
		for _, item := range v.items() {
			switch _, _, err := readRegular(item.text, baselineMaxBytes); {
			case err != nil:
				v.wrongItem(item, "a file that can be read", err.Error())
			case slices.Contains(*field(s), item.text):
				v.wrongItem(item, "each file once", "")
			default:
				*field(s) = append(*field(s), item.text)
			}
		}
	}}
}

// metricsURL parses the address of the engine's metrics, or off.
func metricsURL(field func(*Settings) *string) kind {
	return kind{"http:// or https:// and a host, or off", func(v *value, s *Settings) {
		if strings.EqualFold(v.text, MetricsOff) {
			*field(s) = MetricsOff
			return
		}
		u, err := url.Parse(v.text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Contains(u.Path, "@") {
			// The text may hold a password: it is not repeated.
			v.report("a value that is not one", "", "such as http://localhost:8000/metrics")
			return
		}
		*field(s) = v.text
	}}
}

// percentText writes a share of one as people do: 0.05 is 5%.
func percentText(n float64) string {
	return strconv.FormatFloat(n*100, 'g', 6, 64) + "%"
}

// String writes the regression as it is typed.
func (r Regression) String() string { return fmt.Sprintf("%s=%s", r.Metric, percentText(r.Margin)) }
