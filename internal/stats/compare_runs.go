package stats

import (
	"fmt"
	"math"
)

// betweenRepeats compares arms of which one at least has several runs.
func (c *Comparison) betweenRepeats(b, k measured, o Options) estimation {
	c.warnOfFewRuns(b, k)
	e := welch(b, k)
	if len(b.logs) == 1 || len(k.logs) == 1 {
		e = oneAgainstSeveral(b, k)
	}
	if o.Spread != nil {
		return e.atLeast(*o.Spread, b, k, c.Confidence)
	}
	// Figures that agree to the last bit say that the runs are copies, or made of
	// constants. Either way they do not show a spread, and an interval without
	// width would flag the next rounding.
	if quantile(DetectablePower, e.parts...) == 0 {
		c.warn("the runs of each arm agree to the last bit: no spread to see, the default stands in")
		return e.atLeast(DefaultSpread(), b, k, c.Confidence)
	}
	return e
}

func (c *Comparison) warnOfFewRuns(b, k measured) {
	for _, m := range []measured{b, k} {
		if n := len(m.logs); n < TrustedRuns {
			c.warn("the %s has %d of the %d runs from which on a spread is known well: the interval is wide", m.name, n, TrustedRuns)
		}
	}
}

// welch takes each arm's variance for itself, with the degrees of freedom of
// Welch and Satterthwaite.
func welch(b, k measured) estimation {
	nb, nk := float64(len(b.logs)), float64(len(k.logs))
	vb, vk := varianceOf(b.logs)/nb, varianceOf(k.logs)/nk
	return estimation{
		parts: []part{{vb + vk, welchDF(vb, nb, vk, nk)}}, method: MethodRuns,
		why: fmt.Sprintf("runs are the unit (%d and %d), because requests of one run share its queue, batches and caches; "+
			"Welch's t on the logarithms", len(b.logs), len(k.logs)),
	}
}

// welchDF is between the smaller of nb-1 and nk-1, and their sum.
func welchDF(vb, nb, vk, nk float64) float64 {
	below := vb*vb/(nb-1) + vk*vk/(nk-1)
	if below == 0 {
		return nb + nk - 2
	}
	return (vb + vk) * (vb + vk) / below
}

func oneAgainstSeveral(b, k measured) estimation {
	several := b
	if len(k.logs) > 1 {
		several = k
	}
	n := float64(len(several.logs))
	return estimation{
		parts: []part{{varianceOf(several.logs) * (1 + 1/n), n - 1}}, method: MethodOneRunAgainstSeveral,
		why: fmt.Sprintf("runs are the unit, one against %d; both arms are taken to spread as the %s does", len(several.logs), several.name),
	}
}

// atLeast widens the estimation to what identical runs showed, where that is
// more.
func (e estimation) atLeast(s Spread, b, k measured, confidence float64) estimation {
	p, share := (1+confidence)/2, 1/float64(len(b.logs))+1/float64(len(k.logs))
	if s.floor(p, share) <= quantile(p, e.parts...) {
		return e
	}
	e.parts = []part{{s.CV * s.CV * share, math.Inf(1)}}
	e.why += fmt.Sprintf("; the spread of %s between identical runs is wider than theirs and counts", percent(s.CV))
	return e
}
