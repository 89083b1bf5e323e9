package stats

import (
	"errors"
	"fmt"
	"math"
)

// betweenTwoRuns compares one run with one run: the error within the runs from
// their rows, plus the spread between runs from elsewhere.
func (c *Comparison) betweenTwoRuns(b, k measured, o Options) (estimation, error) {
	spread, source := c.spreadOfSingleRuns(o)
	between := part{2 * spread.CV * spread.CV, spread.df()}
	within, how, err := c.withinRuns(b, k, o)
	if err != nil {
		return estimation{}, err
	}
	return estimation{
		parts: []part{between, within.part}, method: within.method, blind: within.method == MethodSpreadOnly,
		why: fmt.Sprintf("%s; between runs: a spread of %s (%s)", how, percent(spread.CV), source),
	}, nil
}

// spreadOfSingleRuns is the spread to take, and where it is from.
func (c *Comparison) spreadOfSingleRuns(o Options) (Spread, string) {
	if o.Spread == nil {
		s := DefaultSpread()
		c.warn("one run an arm: how runs differ cannot be seen from within one; a spread of %s is taken, measure it or repeat", percent(s.CV))
		return s, "by default, none was measured"
	}
	s := o.Spread.alone()
	if s != *o.Spread {
		c.warn("a spread of %s from %v degrees of freedom can widen the default and not narrow it: want %d identical runs that differ",
			percent(o.Spread.CV), o.Spread.DF, TrustedRuns)
	}
	return s, "as given"
}

// withinError is the part of the error that the rows show.
type withinError struct {
	part
	method Method
}

func (c *Comparison) withinRuns(b, k measured, o Options) (withinError, string, error) {
	seen, other := b.sample, k.sample
	if seen == nil {
		seen, other = other, nil
	}
	if seen == nil {
		c.warn("neither arm has rows: the error within a run is unknown")
		return withinError{part{0, math.Inf(1)}, MethodSpreadOnly}, "no rows, so nothing is known of the error within a run", nil
	}
	n := seen.len()
	if other != nil {
		n = min(n, other.len())
	}
	if err := enoughRequests(n, seen.percentile); err != nil {
		return withinError{}, "", err
	}
	length, blocks := blockLength(n, o.Concurrency)
	if blocks < 2 {
		return withinError{}, "", fmt.Errorf("measuring the error within a run: %d requests at concurrency %d are less than two waves, "+
			"send more or repeat the run", n, o.Concurrency)
	}
	if blocks < minBlocks {
		c.warn("%d requests at concurrency %d are %d waves, want %d: the interval is wide", n, o.Concurrency, blocks, minBlocks)
	}
	variance, method := c.blockVariance(seen, other, length, o.Paired)
	how := fmt.Sprintf("within the runs: %d blocks of %d requests, because neighbours share queue and batch", blocks, length)
	if method == MethodPairedBlocks {
		how += ", paired by request"
	}
	variance *= float64(blocks) / float64(blocks-1)
	variance += idleVariance(b.sample, k.sample, o.Concurrency)
	return withinError{part{variance, float64(blocks - 1)}, method}, how, nil
}

// enoughRequests refuses samples that say nothing about themselves.
func enoughRequests(n, percentile int) error {
	if n < MinimumRequests {
		return fmt.Errorf("measuring the error within a run: %d requests, want %d at least", n, MinimumRequests)
	}
	if percentile > 0 && n*min(percentile, 100-percentile) < 100 {
		return fmt.Errorf("measuring the error of p%d within a run: %d requests, want %d at least so that one lies beyond it",
			percentile, n, (100+min(percentile, 100-percentile)-1)/min(percentile, 100-percentile))
	}
	return nil
}

// blockVariance is the variance of the logarithm of the ratio under block
// resampling. other is nil when one arm has no rows: it is then taken to be as
// uncertain as the one that has.
func (c *Comparison) blockVariance(seen, other *sample, length int, paired bool) (float64, Method) {
	switch {
	case other == nil:
		c.warn("one arm has no rows: the error within it is taken to be the other's")
		return 2 * seen.variance(length), MethodBlocks
	case paired && seen.len() == other.len():
		return pairedVariance(seen, other, length), MethodPairedBlocks
	}
	return seen.variance(length) + other.variance(length), MethodBlocks
}

// idleVariance is what the end of a closed loop adds to the error of a rate. The
// wall clock is the slots' busy time plus the time that they stand empty while
// the last requests finish, and how that falls is luck of a few requests: of
// the size of itself, averaged over the slots.
func idleVariance(b, k *sample, concurrency int) float64 {
	sum := 0.0
	for _, s := range []*sample{b, k} {
		if s == nil || !s.rate || !(s.wallMS > 0) || concurrency < 1 {
			continue
		}
		idle := 1 - sumOf(s.den)/(float64(concurrency)*s.wallMS)
		if idle > 0 {
			sum += idle * idle / float64(concurrency)
		}
	}
	return sum
}

var errNoRows = errors.New("the run has no rows: its own error cannot be seen")
