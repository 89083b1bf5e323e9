package gate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/config"
	"anvil-capacity/internal/stats"
)

// Warn is the status of a comparison whose interval has the margin inside: the
// data are there and do not settle it. It neither passes nor fails.
const Warn Status = "warn"

// Run is one run of an arm: its evidence as read or as just written. Rows and
// wall clock are missing where only a summary was kept.
type Run struct {
	// Name is the file, for messages.
	Name   string
	Native *artifact.Native
}

// Baseline compares a cell with earlier runs.
type Baseline struct {
	// Earlier and Cell are the two arms, one or more runs each.
	Earlier, Cell []Run
	// Allow names what may differ (config.AllowedDifferences).
	Allow []string
	// Confidence of the intervals; 0 is stats.DefaultConfidence.
	Confidence float64
	// Spread is what identical runs on this machine showed, by metric key; nil is
	// not known.
	Spread map[string]stats.Spread
}

// ReportedMetrics are compared where no margins are given: what people look at
// first. Nothing fails then.
var ReportedMetrics = []string{"ttft", "ttft_p95_ms", "e2e", "tpot", "throughput"}

// CheckRegressions says which metrics of CAPACITY_MAX_REGRESSION cannot be
// compared, all of them in one error.
func CheckRegressions(regressions []config.Regression) error {
	var faults []error
	for _, r := range regressions {
		if _, err := stats.MetricOf(r.Metric); err != nil {
			faults = append(faults, fmt.Errorf("checking CAPACITY_MAX_REGRESSION: %w", err))
		}
	}
	return errors.Join(faults...)
}

// Refusal says why the two arms cannot be compared, every reason in one
// message; "" is none. Engine, GPU, model and recipe may always differ.
func (b Baseline) Refusal() string {
	if len(b.Earlier) == 0 || len(b.Cell) == 0 {
		return "there is nothing to compare: an arm has no run"
	}
	var reasons []string
	for _, run := range append(slices.Clone(b.Earlier), b.Cell...) {
		if reason := unfit(run); reason != "" {
			reasons = append(reasons, fmt.Sprintf("%s: %s", run.Name, reason))
		}
	}
	reference := factsOf(b.Cell[0].Native)
	for _, run := range b.Earlier {
		reasons = append(reasons, b.differences(run, reference)...)
	}
	reasons = append(reasons, b.seedReasons()...)
	if len(reasons) == 0 {
		return ""
	}
	return "the runs are not comparable:\n" + strings.Join(reasons, "\n") +
		"\nCAPACITY_BASELINE_ALLOW names what may differ"
}

// unfit says why a run is no evidence of performance.
func unfit(run Run) string {
	if reason, partial := run.Native.Partial(); partial {
		return "it is partial (" + reason + ")"
	}
	if !run.Native.Eligible() {
		return fmt.Sprintf("%d of %d requests failed, so it is not eligible for performance", run.Native.Failed, run.Native.Requests)
	}
	return ""
}

// differences lists what a run of the baseline has other than the cell. What the
// baseline does not say counts as different: it was not looked at.
func (b Baseline) differences(run Run, want map[string]string) []string {
	got := factsOf(run.Native)
	var reasons []string
	for _, name := range config.AllowedDifferences {
		if name == "context_seed" || got[name] == want[name] || slices.Contains(b.Allow, name) {
			continue
		}
		reasons = append(reasons, fmt.Sprintf("%s: %s is %s, and %s here", run.Name, name, got[name], want[name]))
	}
	return reasons
}

// seedReasons holds the seeds of the arms against each other: repeats have a
// seed each, and the arms must have had the same ones.
func (b Baseline) seedReasons() []string {
	if slices.Contains(b.Allow, "context_seed") {
		return nil
	}
	earlier, cell := seedsOf(b.Earlier), seedsOf(b.Cell)
	n := min(len(earlier), len(cell))
	if slices.Equal(earlier[:n], cell[:n]) {
		return nil
	}
	return []string{fmt.Sprintf("context_seed is %s in the baseline, and %s here", strings.Join(earlier, ", "), strings.Join(cell, ", "))}
}

func seedsOf(runs []Run) []string {
	seeds := make([]string, len(runs))
	for i, r := range runs {
		seeds[i] = text(r.Native.ContextSeed)
	}
	slices.Sort(seeds)
	return seeds
}

// factsOf writes down what makes two runs comparable, by the names of
// config.AllowedDifferences.
func factsOf(n *artifact.Native) map[string]string {
	return map[string]string{
		"measurement_protocol":     n.MeasurementProtocol,
		"context":                  contextText(n),
		"max_context_tokens":       text(n.MaxContextTokens),
		"max_tokens":               fmt.Sprint(n.MaxTokens),
		"requests":                 fmt.Sprint(n.Requests),
		"concurrency":              fmt.Sprint(n.Concurrency),
		"response_words":           text(n.ResponseWords),
		"prompt_cache_mode":        text(n.PromptCacheMode),
		"shared_prefix_tokens":     text(n.SharedPrefixTokens),
		"request_canaries":         text(n.RequestCanaries),
		"controlled_output_policy": text(n.ControlledOutputPolicy),
		"context_seed":             text(n.ContextSeed),
		"thinking":                 thinkingText(n.ServeFlags),
		"sampling":                 samplingText(n.Sampling),
	}
}

const notSaid = "not said"

func text[T any](v *T) string {
	if v == nil {
		return notSaid
	}
	return fmt.Sprint(*v)
}

// contextText writes the sizes of the prompts, and whether they are the model's
// own tokens: the same number is another prompt then.
func contextText(n *artifact.Native) string {
	text := distributionText(n.ContextDistribution)
	if n.Harness != nil && n.Harness.ContextSizing != nil {
		text += ", measured tokens"
	}
	return text
}

// distributionText writes the sizes and their shares, so that runs of different
// length are compared by what they sent and not by how often.
func distributionText(counts map[string]int) string {
	if len(counts) == 0 {
		return notSaid
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	parts := make([]string, 0, len(counts))
	for _, size := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s x %s", size, percent(float64(counts[size])/float64(total))))
	}
	return strings.Join(parts, " + ")
}

func thinkingText(f *artifact.ServeFlags) string {
	if f == nil {
		return notSaid
	}
	return f.ThinkingMode + ", effort " + text(f.ReasoningEffort)
}

func samplingText(s *artifact.Sampling) string {
	if s == nil {
		return notSaid
	}
	return fmt.Sprintf("temperature %s, top_p %s", text(s.Requested.Temperature), text(s.Requested.TopP))
}

// Compared is the verdict on one metric against the baseline.
type Compared struct {
	// Metric is the key that was compared, Margin the accepted change; nil where
	// the comparison is only reported.
	Metric     string
	Margin     *float64
	Status     Status
	Comparison stats.Comparison
	// Message is for people, several lines.
	Message string
}

// Compare holds each metric to its margin. Call it only when Refusal is "".
//
// A metric fails when it is worse than its margin at the confidence, and when
// there is too little data for an interval: no gate passes by lack of data. It
// warns when the interval has the margin inside.
func (b Baseline) Compare(regressions []config.Regression) []Compared {
	if len(regressions) == 0 {
		return b.report()
	}
	compared := make([]Compared, len(regressions))
	for i, r := range regressions {
		compared[i] = b.compare(r.Metric, new(r.Margin))
	}
	return compared
}

func (b Baseline) report() []Compared {
	compared := make([]Compared, len(ReportedMetrics))
	for i, metric := range ReportedMetrics {
		compared[i] = b.compare(metric, nil)
		compared[i].Status = Pass
	}
	return compared
}

func (b Baseline) compare(name string, margin *float64) Compared {
	metric, err := stats.MetricOf(name)
	if err != nil {
		return Compared{Metric: name, Margin: margin, Status: Unknown, Message: err.Error()}
	}
	options := stats.Options{
		Statistic: metric.Statistic, Direction: metric.Direction, Margin: margin, Confidence: b.Confidence,
		Paired: b.paired(), Concurrency: b.Cell[0].Native.Concurrency,
	}
	if spread, ok := b.Spread[metric.Key]; ok {
		options.Spread = &spread
	}
	c := stats.Compare(armOf(b.Earlier, metric), armOf(b.Cell, metric), options)
	return Compared{Metric: metric.Key, Margin: margin, Status: statusOf(c, margin), Comparison: c, Message: describeComparison(metric, margin, c)}
}

// paired says that all runs sent the same prompts under the same indexes.
func (b Baseline) paired() bool {
	first := b.Earlier[0].Native
	for _, run := range append(slices.Clone(b.Earlier), b.Cell...) {
		n := run.Native
		if n.ContextSeed == nil || first.ContextSeed == nil || *n.ContextSeed != *first.ContextSeed ||
			!maps.Equal(n.ContextDistribution, first.ContextDistribution) || n.RequestTimings == nil {
			return false
		}
	}
	return true
}

// armOf takes one metric from each run of an arm: from its rows, or from its
// metrics where it has none.
func armOf(runs []Run, metric stats.Metric) stats.Arm {
	arm := stats.Arm{Runs: make([]stats.Run, len(runs))}
	for i, run := range runs {
		n := run.Native
		if n.RequestTimings != nil && n.WallClockMS != nil {
			arm.Runs[i] = metric.Run(n.Records(), n.Requests, *n.WallClockMS)
			continue
		}
		if n.Metrics != nil {
			arm.Runs[i].Whole, _ = n.Metrics.Get(metric.Key)
		}
	}
	return arm
}

func statusOf(c stats.Comparison, margin *float64) Status {
	switch {
	case c.Low == nil || c.High == nil:
		return NotMeasured
	case c.Verdict == stats.Worse:
		return Fail
	case c.Verdict == stats.CannotTell && margin != nil:
		return Warn
	}
	return Pass
}

// describeComparison is the verdict in words: what changed, how surely, what
// this sample could have seen, and by which method.
func describeComparison(metric stats.Metric, margin *float64, c stats.Comparison) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", metric.Key, strings.ReplaceAll(string(c.Verdict), "_", " "))
	if c.Change != nil {
		unit := unitOf(metric.Key)
		fmt.Fprintf(&b, ", %s from %s to %s", signedPercent(*c.Change), shownValue(*c.Baseline.Value, unit), shownValue(*c.Candidate.Value, unit))
	}
	if c.Low != nil && c.High != nil {
		fmt.Fprintf(&b, ", %s interval %s to %s", percent(c.Confidence), signedPercent(*c.Low), signedPercent(*c.High))
	}
	if margin != nil {
		fmt.Fprintf(&b, ", margin %s (%s)", percent(*margin), metric.Direction)
	}
	if c.MinimumDetectable != nil {
		fmt.Fprintf(&b, "\nthis sample sees a change for the worse of %s or more four times in five", percent(*c.MinimumDetectable))
	}
	fmt.Fprintf(&b, "\n%s (%s; %d and %d runs, %d and %d requests)", c.Why, c.Method,
		c.Baseline.Runs, c.Candidate.Runs, c.Baseline.Requests, c.Candidate.Requests)
	for _, w := range c.Warnings {
		fmt.Fprintf(&b, "\nnote: %v", w)
	}
	return b.String()
}

func shownValue(x float64, unit string) string {
	return withUnit(fixed(x, decimalsFor(x, shownDigits)), unit)
}

func signedPercent(x float64) string {
	if x >= 0 {
		return "+" + percent(x)
	}
	return "-" + percent(-x)
}

// SpreadsOf measures how much runs of one build differ, by metric key. A metric
// for which it cannot be said, as of a single run, is left out.
func SpreadsOf(regressions []config.Regression, runs []Run) map[string]stats.Spread {
	spreads := map[string]stats.Spread{}
	for _, name := range comparedMetrics(regressions) {
		metric, err := stats.MetricOf(name)
		if err != nil {
			continue
		}
		if spread, err := stats.SpreadOf(metric.Statistic, armOf(runs, metric)); err == nil {
			spreads[metric.Key] = spread
		}
	}
	return spreads
}

// DescribeSpreads says, a line a metric, how much identical runs differ here, and
// which change a comparison of as many runs must therefore not flag. Both arms are
// runs of one build.
func DescribeSpreads(regressions []config.Regression, confidence float64, a, b []Run) []string {
	spreads := SpreadsOf(regressions, slices.Concat(a, b))
	lines := make([]string, 0, len(spreads))
	for _, key := range slices.Sorted(maps.Keys(spreads)) {
		s := spreads[key]
		lines = append(lines, fmt.Sprintf("%s: identical runs differ by %s (coefficient of variation); a gate must not flag less than %s between arms of %d and %d runs",
			key, percent(s.CV), percent(s.Unflagged(confidence, len(a), len(b))), len(a), len(b)))
	}
	return lines
}

// comparedMetrics names the metrics that a comparison looks at.
func comparedMetrics(regressions []config.Regression) []string {
	if len(regressions) == 0 {
		return ReportedMetrics
	}
	names := make([]string, len(regressions))
	for i, r := range regressions {
		names[i] = r.Metric
	}
	return names
}
