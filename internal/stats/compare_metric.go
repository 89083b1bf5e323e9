package stats

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"anvil-capacity/internal/record"
)

// Metric is a metric key that arms can be compared on.
type Metric struct {
	// Key is the metric's key in an artifact: ttft_p95_ms, throughput_tok_s.
	Key       string
	Statistic Statistic
	Direction Direction
	// family is empty for throughput.
	family family
}

// metricAliases are the short names that settings may use beside the names of
// the distributions.
var metricAliases = map[string]string{
	"throughput": keyThroughput,
	"ttfo":       "time_to_first_output",
	"decode":     "decode_tok_s",
	"prefill":    "effective_prefill_tok_s",
}

// higherIsBetter lists the distributions that are rates; neitherIsBetter those
// that describe the work and not how well it went. All others are times.
var (
	higherIsBetter  = []string{"effective_prefill_tok_s", "decode_tok_s"}
	neitherIsBetter = []string{"prompt_tokens", "completion_tokens"}
)

// MetricOf finds a metric by its key (ttft_p95_ms, throughput_tok_s) or by its
// name alone (ttft, throughput), which stands for the mean. The error says what
// can be compared.
func MetricOf(name string) (Metric, error) {
	long := name
	if alias, ok := metricAliases[name]; ok {
		long = alias
	}
	if long == keyThroughput {
		return Metric{Key: keyThroughput, Statistic: WholeRun, Direction: HigherIsBetter}, nil
	}
	distribution, statistic, ok := SplitKey(long)
	if !ok {
		distribution, statistic = long, string(Mean)
	}
	f, known := familyOf(distribution)
	m := Metric{Statistic: Statistic(statistic), family: f}
	switch {
	case !known:
		return Metric{}, fmt.Errorf("comparing %q: no such metric, want throughput or a mean or percentile of %s", name, comparableNames())
	case slices.Contains(neitherIsBetter, distribution):
		return Metric{}, fmt.Errorf("comparing %q: neither more nor less of it is better, want throughput or one of %s", name, comparableNames())
	case m.Statistic.check() != nil:
		return Metric{}, fmt.Errorf("comparing %q: %s is not a statistic to compare, want mean or a percentile", name, statistic)
	}
	m.Key = f.key(statistic)
	if slices.Contains(higherIsBetter, distribution) {
		m.Direction = HigherIsBetter
	}
	return m, nil
}

func comparableNames() string {
	names := slices.DeleteFunc(Names(), func(n string) bool { return slices.Contains(neitherIsBetter, n) })
	return strings.Join(names, ", ")
}

// maxRequestIndex bounds the memory that a made-up index can ask for: a hundred
// times the 10,000 requests of a cell (PROTOCOL section 2).
const maxRequestIndex = 1_000_000

// Run takes the metric from the records of one run, planned being the number of
// requests that it set out to send and wallMS its wall clock in ms. Failed
// requests have no value. Records whose index is negative or not planned are
// left out.
func (m Metric) Run(records []record.Record, planned int, wallMS float64) Run {
	if m.Statistic != WholeRun {
		return Run{Values: byIndex(records, planned, m.family.value)}
	}
	r := Run{
		Work:   byIndex(records, planned, func(r *record.Record) *float64 { return count(r.Tokens.Output) }),
		Busy:   byIndex(records, planned, func(r *record.Record) *float64 { return r.Timing.E2EMS }),
		WallMS: wallMS,
	}
	r.Whole, _ = Fold(records, planned, wallMS).Get(keyThroughput)
	return r
}

// byIndex lays the values of the completed requests out by their index, NaN
// where there is none.
func byIndex(records []record.Record, planned int, value func(*record.Record) *float64) []float64 {
	var xs []float64
	for _, r := range completed(records) {
		v := value(r)
		if v == nil || r.RequestIndex < 0 || r.RequestIndex >= min(planned, maxRequestIndex) {
			continue
		}
		for len(xs) <= r.RequestIndex {
			xs = append(xs, math.NaN())
		}
		xs[r.RequestIndex] = *v
	}
	return xs
}
