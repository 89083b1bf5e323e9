package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Statistic is what a run is reduced to before arms are compared: Mean, a
// nearest-rank percentile such as P50, or WholeRun.
type Statistic string

// The statistics. Any percentile p1 to p99 will do.
const (
	Mean Statistic = "mean"
	P50  Statistic = "p50"
	P90  Statistic = "p90"
	P95  Statistic = "p95"
	P99  Statistic = "p99"
	// WholeRun is a figure that no single request has, such as throughput.
	WholeRun Statistic = "whole"
)

func (s Statistic) orMean() Statistic {
	if s == "" {
		return Mean
	}
	return s
}

// percentile gives 1..99 for a percentile, 0 for the others.
func (s Statistic) percentile() int {
	digits, ok := strings.CutPrefix(string(s), "p")
	q, err := strconv.Atoi(digits)
	if !ok || err != nil || q < 1 || q > 99 || strconv.Itoa(q) != digits {
		return 0
	}
	return q
}

func (s Statistic) check() error {
	if t := s.orMean(); t == Mean || t == WholeRun || t.percentile() > 0 {
		return nil
	}
	return fmt.Errorf("checking statistic: %q is not one to compare, want mean, p1 to p99 or whole", string(s))
}

// sample is the rows of one run: either values with a percentile to take, or a
// sum over a sum. It holds no NaN once compact or keepCommon have run.
type sample struct {
	percentile int
	// num over den is the statistic of the others: values over ones for a mean,
	// work over busy for a rate.
	num, den []float64
	rate     bool
	wallMS   float64
}

// samples gives the rows of all runs, the baseline's first, with NaN in place.
func (s Statistic) samples(arms ...Arm) ([]*sample, error) {
	var all []*sample
	for _, a := range arms {
		for i, r := range a.Runs {
			one, err := s.orMean().sample(r)
			if err != nil {
				return nil, fmt.Errorf("reading run %d: %w", i+1, err)
			}
			all = append(all, one)
		}
	}
	return all, nil
}

func (s Statistic) sample(r Run) (*sample, error) {
	if s == WholeRun {
		if len(r.Work) != len(r.Busy) {
			return nil, fmt.Errorf("%d rows of work and %d of busy time, want as many", len(r.Work), len(r.Busy))
		}
		one := &sample{num: r.Work, den: r.Busy, rate: true, wallMS: r.WallMS}
		return one, one.refuseInfinite()
	}
	one := &sample{percentile: s.percentile(), num: r.Values, den: ones(len(r.Values))}
	return one, one.refuseInfinite()
}

func ones(n int) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = 1
	}
	return xs
}

// refuseInfinite stops what no statistic can hold. NaN is absence, infinity is a
// broken reading.
func (s *sample) refuseInfinite() error {
	for i := range s.num {
		if math.IsInf(s.num[i], 0) || math.IsInf(s.den[i], 0) {
			return fmt.Errorf("request %d: an infinite value", i)
		}
	}
	return nil
}

func (s *sample) present(i int) bool {
	return i < len(s.num) && !math.IsNaN(s.num[i]) && !math.IsNaN(s.den[i])
}

// keep leaves the rows of those indexes only. The caller's slices stay as they are.
func (s *sample) keep(indexes []int) {
	num, den := make([]float64, len(indexes)), make([]float64, len(indexes))
	for j, i := range indexes {
		num[j], den[j] = s.num[i], s.den[i]
	}
	s.num, s.den = num, den
}

// compact drops the absent rows.
func (s *sample) compact() {
	if !slices.ContainsFunc(s.num, math.IsNaN) && !slices.ContainsFunc(s.den, math.IsNaN) {
		return
	}
	var indexes []int
	for i := range s.num {
		if s.present(i) {
			indexes = append(indexes, i)
		}
	}
	s.keep(indexes)
}

func (s *sample) count() int {
	n := 0
	for i := range s.num {
		if s.present(i) {
			n++
		}
	}
	return n
}

// keepCommon leaves the requests that are present in every sample that has rows.
// It says how many that are, beside what the smallest and the largest sample
// had. Samples without rows are passed over: they have no requests to compare.
func keepCommon(samples []*sample) (smallest, largest, common int) {
	rows := slices.DeleteFunc(slices.Clone(samples), func(s *sample) bool { return len(s.num) == 0 })
	if len(rows) == 0 {
		return 0, 0, 0
	}
	smallest, shortest, longest := math.MaxInt, math.MaxInt, 0
	for _, s := range rows {
		n := s.count()
		smallest, largest = min(smallest, n), max(largest, n)
		shortest, longest = min(shortest, len(s.num)), max(longest, len(s.num))
	}
	if smallest == longest {
		return smallest, largest, smallest // nothing is absent anywhere
	}
	var indexes []int
	for i := range shortest {
		if !slices.ContainsFunc(rows, func(s *sample) bool { return !s.present(i) }) {
			indexes = append(indexes, i)
		}
	}
	for _, s := range rows {
		s.keep(indexes)
	}
	return smallest, largest, len(indexes)
}

// len is how many rows there are; after compact or keepCommon all have values.
func (s *sample) len() int { return len(s.num) }

// value is the run's statistic, above 0: there is no relative change of 0.
func (s *sample) value(r Run) (float64, error) {
	s.compact()
	v, err := s.figure(r)
	if err != nil {
		return 0, err
	}
	if !(v > 0) || math.IsInf(v, 1) {
		return 0, fmt.Errorf("the statistic is %v, want a finite number above 0: there is no relative change of it", v)
	}
	return v, nil
}

func (s *sample) figure(r Run) (float64, error) {
	switch {
	case s.rate && r.Whole == nil:
		return 0, errors.New("it has no figure as a whole: throughput wants every planned request completed and counted")
	case s.rate, s.len() == 0 && r.Whole != nil:
		return *r.Whole, nil
	case s.len() == 0:
		return 0, errors.New("no request has a value")
	}
	return s.of(), nil
}

// of computes the statistic from the rows.
func (s *sample) of() float64 {
	if s.percentile > 0 {
		return nearestRank(sortedCopy(s.num), s.percentile)
	}
	return sumOf(s.num) / sumOf(s.den)
}

// influence is how much each row moves the logarithm of num/den, times n: the
// rows' mean of it has the error of the logarithm.
func (s *sample) influence() []float64 {
	num, den := meanOf(s.num), meanOf(s.den)
	z := make([]float64, s.len())
	for i := range z {
		z[i] = s.num[i]/num - s.den[i]/den
	}
	return z
}

// sumOf adds with a running correction (Neumaier), so that the last digits do
// not depend on how many rows came before.
func sumOf(xs []float64) float64 {
	sum, lost := 0.0, 0.0
	for _, x := range xs {
		t := sum + x
		if math.Abs(sum) >= math.Abs(x) {
			lost += (sum - t) + x
		} else {
			lost += (x - t) + sum
		}
		sum = t
	}
	return sum + lost
}

func meanOf(xs []float64) float64 { return sumOf(xs) / float64(len(xs)) }

// varianceOf is the sample variance (n-1); 0 for fewer than two values.
func varianceOf(xs []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	mean := meanOf(xs)
	squares := make([]float64, len(xs))
	for i, x := range xs {
		squares[i] = (x - mean) * (x - mean)
	}
	return sumOf(squares) / float64(len(xs)-1)
}
