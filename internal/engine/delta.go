package engine

import (
	"slices"
	"time"
)

// Delta is what an engine's counters did between two snapshots.
type Delta struct {
	// Engine is the later snapshot's.
	Engine string
	// Elapsed is between the two readings.
	Elapsed time.Duration
	// Values has the counters' increase. A role that is absent is not exposed,
	// or went back: then it is in Resets.
	Values map[Role]float64
	// Histograms have what was observed in between, likewise.
	Histograms map[Role]Histogram
	// Resets names the roles that went back, sorted; empty for none. A counter
	// goes back when the server restarts, or when the address is balanced over
	// several servers and each reading is another one's.
	Resets []Role
	// Restarted says that the process of the second reading is not the first
	// one's; every exposed role is then in Resets, also one that has overtaken
	// its old value.
	Restarted bool
	// PrefixUnit is what the prefix-cache counters count, "tokens" or "blocks";
	// "" when they are not exposed.
	PrefixUnit string
	// ComputedOnly says that PromptTokens leaves out the tokens that came from
	// the cache, where usage has them in.
	ComputedOnly bool
	// Names says what each role was read from.
	Names map[Role][]string
}

// Value is a counter's increase, nil where it is not known.
func (d Delta) Value(r Role) *float64 {
	v, ok := d.Values[r]
	if !ok {
		return nil
	}
	return &v
}

// Histogram is what was observed in between, nil where it is not known.
func (d Delta) Histogram(r Role) *Histogram {
	h, ok := d.Histograms[r]
	if !ok {
		return nil
	}
	return &h
}

// HitRate is prefix-cache hits over queries, 0 to 1: nil when either is not
// known or nothing was looked up.
func (d Delta) HitRate() *float64 {
	hits, queries := d.Value(PrefixCacheHits), d.Value(PrefixCacheQueries)
	if hits == nil || queries == nil || *queries <= 0 || *hits > *queries {
		return nil
	}
	return finiteOrNil(*hits / *queries)
}

// Between subtracts before from after, series by series: a sum over the engines
// behind one address would hide that one of them began anew. A series that
// before does not have began in between and counts from 0.
func Between(before, after *Snapshot) Delta {
	d := Delta{
		Engine: after.Engine, Elapsed: after.At.Sub(before.At),
		Values: make(map[Role]float64), Histograms: make(map[Role]Histogram), Names: make(map[Role][]string),
		Restarted: before.Engine != after.Engine || before.started > 0 && after.started > 0 && before.started != after.started,
	}
	if before.Engine != after.Engine { // two servers, whose sources do not correspond
		d.Resets = after.exposed()
		return d
	}
	for _, role := range slices.Concat(counters, histograms) {
		was, is := choose(before.readings[role], after.readings[role], pairOf(role, before), pairOf(role, after))
		if is == nil {
			if was != nil {
				d.Resets = append(d.Resets, role) // it was exposed and is no longer
			}
			continue
		}
		d.take(role, was, is, after.model)
	}
	slices.Sort(d.Resets)
	return d
}

// exposed lists the counters and histograms that the snapshot has, sorted.
func (s *Snapshot) exposed() []Role {
	var roles []Role
	for role, all := range s.readings {
		if firstReading(all) != nil && !slices.Contains(gauges, role) {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)
	return roles
}

// pairOf is the other half of a prefix-cache pair, nil for any other role.
func pairOf(role Role, s *Snapshot) []*reading {
	switch role {
	case PrefixCacheQueries:
		return s.readings[PrefixCacheHits]
	case PrefixCacheHits:
		return s.readings[PrefixCacheQueries]
	}
	return nil
}

// choose finds the source that both snapshots are read from: the newest of the
// second that the first has too, or, where the first has none of them, the
// newest. Of a pair, one whose other half is there goes before.
func choose(before, after, pairBefore, pairAfter []*reading) (was, is *reading) {
	usable := func(i int, paired bool) bool {
		if !after[i].exposed() || firstReading(before) != nil && !before[i].exposed() {
			return false
		}
		return !paired || pairAfter[i].exposed() && (firstReading(pairBefore) == nil || pairBefore[i].exposed())
	}
	for _, paired := range []bool{true, false} {
		if paired && pairAfter == nil {
			continue
		}
		for i := range after {
			if usable(i, paired) {
				return before[i], after[i]
			}
		}
	}
	return firstReading(before), nil
}

// take subtracts one role.
func (d *Delta) take(role Role, was, is *reading, model string) {
	before := map[string]point{}
	if was != nil {
		before = was.points
	}
	before, after := sameModel(before, is.points, model)
	diff, ok := subtract(before, after)
	if !ok || d.Restarted {
		d.Resets = append(d.Resets, role)
		return
	}
	d.Names[role] = is.names
	if is.source.isHistogram() {
		d.Histograms[role] = joinHistograms(diff)
		return
	}
	d.Values[role] = join(diff, is.source.fold)
	d.ComputedOnly = d.ComputedOnly || is.source.computedOnly
	if is.source.unit != "" {
		d.PrefixUnit = is.source.unit
	}
}

// sameModel filters both readings by what the second has, so that a model whose
// first request came in between is not lost among the others'.
func sameModel(before, after map[string]point, model string) (was, is map[string]point) {
	is = ofModel(after, model)
	if len(is) == len(after) {
		return before, is
	}
	was = make(map[string]point)
	for key, p := range before {
		if p.model == model {
			was[key] = p
		}
	}
	return was, is
}

// subtract gives after - before; ok is false when a series went back or away.
func subtract(before, after map[string]point) (diff map[string]point, ok bool) {
	for key := range before {
		if _, stays := after[key]; !stays {
			return nil, false
		}
	}
	diff = make(map[string]point, len(after))
	for key, a := range after {
		b := before[key]
		h, ok := a.histogram.minus(b.histogram)
		if !ok || a.value < b.value {
			return nil, false
		}
		diff[key] = point{model: a.model, value: a.value - b.value, histogram: h}
	}
	return diff, true
}
