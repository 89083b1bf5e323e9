package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Snapshot is one reading of an engine's metrics. It is made once and read
// only after that.
type Snapshot struct {
	// At is when the page had been read.
	At time.Time
	// Engine is whose names the page has most of, one of [Engines].
	Engine string
	// Values has the gauges and counters, summed over labels ([KVCacheUse]: the
	// largest). A role that is absent is not exposed, which is not 0.
	Values map[Role]float64
	// Histograms likewise.
	Histograms map[Role]Histogram
	// Names says which metrics a role was read from, as the server spells them.
	Names map[Role][]string
	// Faults counts the lines and series of known metrics that could not be
	// used; Fault tells of the first, "" for none.
	Faults int
	Fault  string

	model    string // of the requests; "" for any
	readings map[Role][]*reading
	started  float64 // process start, Unix seconds; 0 is not exposed
}

// Value is a gauge or counter, nil where it is not exposed.
func (s *Snapshot) Value(r Role) *float64 {
	if s == nil {
		return nil
	}
	v, ok := s.Values[r]
	if !ok {
		return nil
	}
	return &v
}

// reading is one source of a role: every series of it, still apart, because a
// sum hides that one of them went back.
type reading struct {
	source *source
	names  []string
	points map[string]point
	// partial says that a term is missing, so that the source is not exposed; the
	// rest of it is kept for the difference to a snapshot where it is.
	partial bool
	// over is what the sum is divided by; nil is nothing.
	over *float64
}

// point is one series.
type point struct {
	model     string
	value     float64
	histogram Histogram
}

// newSnapshot finds the engine and reads its roles. ok is false where no known
// engine has a name on the page.
func newSnapshot(p *page, at time.Time, model string, roles []Role) (s *Snapshot, ok bool) {
	d := p.dialect()
	if d == nil {
		return nil, false
	}
	s = &Snapshot{
		At: at, Engine: d.engine, Faults: p.faults.count, Fault: p.faults.first, model: model,
		Values: make(map[Role]float64), Histograms: make(map[Role]Histogram),
		Names: make(map[Role][]string), readings: make(map[Role][]*reading),
	}
	if f := p.families[familyKey(processStart)]; f != nil && len(f.series) == 1 {
		s.started = f.series[0].value
	}
	for _, role := range roles {
		s.read(role, p, d)
	}
	return s, true
}

// dialect is the one with most families on the page; of two, the one that comes
// first in the table.
func (p *page) dialect() *dialect {
	var best *dialect
	bestCount := 0
	for i := range dialects {
		count := 0
		for key := range dialectKeys[i] {
			if p.families[key] != nil {
				count++
			}
		}
		if count > bestCount {
			best, bestCount = &dialects[i], count
		}
	}
	return best
}

// dialectKeys are the family keys of each dialect.
var dialectKeys = func() []map[string]bool {
	all := make([]map[string]bool, len(dialects))
	for i := range dialects {
		all[i] = dialects[i].keys()
	}
	return all
}()

func (d *dialect) keys() map[string]bool {
	keys := make(map[string]bool)
	for _, sources := range d.sources {
		for _, s := range sources {
			for _, t := range slices.Concat(s.terms, s.over) {
				keys[familyKey(t.name)] = true
			}
		}
	}
	return keys
}

// read gives a role the first source that is exposed.
func (s *Snapshot) read(role Role, p *page, d *dialect) {
	for i := range d.sources[role] {
		s.readings[role] = append(s.readings[role], p.reading(&d.sources[role][i], d, slices.Contains(gauges, role)))
	}
	r := firstReading(s.readings[role])
	if r == nil {
		return
	}
	s.Names[role] = r.names
	points := ofModel(r.points, s.model)
	if r.source.isHistogram() {
		s.Histograms[role] = joinHistograms(points)
		return
	}
	v := join(points, r.source.fold)
	if r.over != nil {
		v /= *r.over
	}
	s.Values[role] = v
}

// firstReading is the newest source that is exposed, nil for none.
func firstReading(all []*reading) *reading {
	for _, r := range all {
		if r.exposed() {
			return r
		}
	}
	return nil
}

func (r *reading) exposed() bool { return r != nil && !r.partial }

// reading reads one source, nil or partial where it is not exposed: a term whose
// family is absent, or a gauge without a series. A counter that was declared and
// has no series has not counted yet, and is 0.
func (p *page) reading(src *source, d *dialect, gauge bool) *reading {
	r := &reading{source: src, points: make(map[string]point)}
	for i, t := range src.terms {
		if !p.take(t, i, d, r) {
			r.partial = true
		}
	}
	if gauge && len(r.points) == 0 {
		return nil
	}
	if src.over == nil {
		return r
	}
	divisor := &reading{points: make(map[string]point)}
	for i, t := range src.over {
		if !p.take(t, i, d, divisor) {
			return nil
		}
	}
	total := join(divisor.points, sum)
	if total == 0 {
		return nil
	}
	r.over = &total
	return r
}

// take adds the series of a term; false says that its family is not there.
func (p *page) take(t term, index int, d *dialect, r *reading) bool {
	f := p.families[familyKey(t.name)]
	if f == nil {
		return false
	}
	r.names = append(r.names, f.name)
	for _, s := range f.series {
		if !t.takes(s.labels) || d.partLabel != "" && labelValue(s.labels, d.partLabel) != "" {
			continue
		}
		key := fmt.Sprintf("%d %s", index, d.identity(s.labels))
		got := point{model: labelValue(s.labels, "model_name"), value: s.value, histogram: s.histogram}
		if t.part == histSum {
			got.value = s.histogram.Sum
		}
		if before, ok := r.points[key]; ok && before.value+before.histogram.Count > got.value+got.histogram.Count {
			got = before // of the ranks of one engine, the one that counted most
		}
		r.points[key] = got
	}
	return true
}

// identity is what tells a series from its sisters, the rank apart.
func (d *dialect) identity(labels []label) string {
	var b strings.Builder
	for _, l := range labels {
		if !slices.Contains(d.rankLabels, l.name) {
			fmt.Fprintf(&b, "%s=%q ", l.name, l.value)
		}
	}
	return b.String()
}

// ofModel keeps the series of one model where any is: a server can serve
// several. Where none is (the server calls it otherwise, or labels nothing), all
// of them count.
func ofModel(points map[string]point, model string) map[string]point {
	own := make(map[string]point)
	for key, p := range points {
		if model != "" && p.model == model {
			own[key] = p
		}
	}
	if len(own) == 0 {
		return points
	}
	return own
}

func join(points map[string]point, how fold) float64 {
	total := 0.0
	for _, key := range sortedKeys(points) { // in one order: a float sum depends on it
		v := points[key].value
		if how == most {
			total = max(total, v)
		} else {
			total += v
		}
	}
	return total
}

func joinHistograms(points map[string]point) Histogram {
	all := make([]Histogram, 0, len(points))
	for _, key := range sortedKeys(points) {
		all = append(all, points[key].histogram)
	}
	return addHistograms(all)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (s *source) isHistogram() bool { return s.terms[0].part == histFull }
