package stats

import (
	"math"
	"slices"
)

// ci95Factor is the normal quantile of the mean's 95 % interval (PROTOCOL
// section 4).
const ci95Factor = 1.96

// Distribution describes one sample. A nil statistic was not measured (there
// was no value) or cannot be written as a finite float64. Values are in the
// unit of the sample.
type Distribution struct {
	// Samples is how many values stand behind the statistics, 0 or more.
	Samples int
	// NonFinite counts the NaN and infinite values that were given. With any of
	// them the whole sample is refused: Samples is 0 and every statistic nil,
	// because a statistic of the rest would hide a broken reading.
	NonFinite int

	Mean *float64
	// StdDev is the sample standard deviation (n-1), 0 for one value.
	StdDev *float64
	// CI95Low and CI95High are mean -/+ 1.96 * stddev / sqrt(n): a normal
	// approximation that takes the requests as independent.
	CI95Low, CI95High *float64
	Min               *float64
	// P25 to P99 are nearest-rank percentiles: a value of the sample, never
	// between two.
	P25, P50, P75, P90, P95, P99 *float64
	Max                          *float64
}

const statSamples = "samples"

// statistics ties the names in the keys to the fields, in the order of PROTOCOL
// section 4.
var statistics = []struct {
	name string
	of   func(*Distribution) *float64
}{
	{statSamples, func(d *Distribution) *float64 { return new(float64(d.Samples)) }},
	{"mean", func(d *Distribution) *float64 { return d.Mean }},
	{"stddev", func(d *Distribution) *float64 { return d.StdDev }},
	{"mean_ci95_low", func(d *Distribution) *float64 { return d.CI95Low }},
	{"mean_ci95_high", func(d *Distribution) *float64 { return d.CI95High }},
	{"min", func(d *Distribution) *float64 { return d.Min }},
	{"p25", func(d *Distribution) *float64 { return d.P25 }},
	{"p50", func(d *Distribution) *float64 { return d.P50 }},
	{"p75", func(d *Distribution) *float64 { return d.P75 }},
	{"p90", func(d *Distribution) *float64 { return d.P90 }},
	{"p95", func(d *Distribution) *float64 { return d.P95 }},
	{"p99", func(d *Distribution) *float64 { return d.P99 }},
	{"max", func(d *Distribution) *float64 { return d.Max }},
}

// Describe computes the distribution of xs. It neither changes nor keeps xs,
// and the order of xs does not matter, to the last bit. An empty sample gives
// Samples 0 and nil statistics; see Distribution.NonFinite for NaN and Inf.
func Describe(xs []float64) Distribution {
	if bad := countNonFinite(xs); bad > 0 || len(xs) == 0 {
		return Distribution{NonFinite: bad}
	}
	sorted := sortedCopy(xs)
	m := momentsOf(sorted)
	mean, stddev := m.mean(), m.stddev()
	// The product is divided before it is subtracted, so no compiler can fuse
	// the two into one rounding: the interval is the same on every machine.
	half := ci95Factor * stddev / math.Sqrt(float64(len(xs)))
	rank := func(q int) *float64 { return new(nearestRank(sorted, q)) }
	return Distribution{
		Samples: len(xs),
		Mean:    finite(mean), StdDev: finite(stddev),
		CI95Low: finite(mean - half), CI95High: finite(mean + half),
		Min: new(sorted[0]),
		P25: rank(25), P50: rank(50), P75: rank(75), P90: rank(90), P95: rank(95), P99: rank(99),
		Max: new(sorted[len(sorted)-1]),
	}
}

// usable is how many samples Describe would report for xs.
func usable(xs []float64) int {
	if countNonFinite(xs) > 0 {
		return 0
	}
	return len(xs)
}

func countNonFinite(xs []float64) int {
	bad := 0
	for _, x := range xs {
		if finite(x) == nil {
			bad++
		}
	}
	return bad
}

// sortedCopy makes every zero the positive one: the two compare equal, so which
// of them were first would otherwise depend on the order of xs.
func sortedCopy(xs []float64) []float64 {
	sorted := slices.Clone(xs)
	for i, x := range sorted {
		if x == 0 {
			sorted[i] = 0
		}
	}
	slices.Sort(sorted)
	return sorted
}

// nearestRank is the ceil(q*n/100)-th smallest of a sorted, non-empty sample, q
// in 1..100. In integers, so that no product lands a hair above a whole number
// and takes the next value, as 0.07*100 would in floating point.
func nearestRank(sorted []float64, q int) float64 {
	rank := (q*len(sorted) + 99) / 100
	return sorted[rank-1]
}
