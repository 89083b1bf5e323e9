package stats

import (
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
)

// What the gate's verdicts are worth, measured: identical arms and known
// slowdowns, thousands of times. The tables stand in fixtures/calibration.md
// (go test ./internal/stats -run Calibration -update writes them) and in the
// README between calibrationBegin and calibrationEnd.

var (
	update = flag.Bool("update", false, "rewrite fixtures/calibration.md from a full calibration")
	full   = flag.Bool("full", false, "calibrate with the counts of the published table, which takes a minute of CPU; a tenth of them otherwise")
)

const (
	calibrationFile  = "../../fixtures/calibration.md"
	calibrationBegin = "<!-- calibration:begin -->"
	calibrationEnd   = "<!-- calibration:end -->"
)

var (
	calibratedRequests = []int{20, 100, 500}
	// calibratedSpreads are the run-to-run spreads (CV) of the simulated servers.
	calibratedSpreads   = []float64{0.02, 0.05}
	calibratedSlowdowns = []float64{0, 0.05, 0.10, 0.20}
)

const (
	// calibratedMargin is the margin of the gate's table.
	calibratedMargin = 0.05
	// nominalFalseAlarms is what the confidence of 95 % allows: identical arms
	// called worse or better. Half of it is on the bad side.
	nominalFalseAlarms = 0.05
	// implausible is when an excess over the nominal rate is no longer luck of the
	// simulation. There are 288 counts, so 1 in 10,000 each is 3 % in all, once:
	// the seeds are fixed.
	implausible = 1e-4
)

// mode is how many runs an arm has, and what is known beside them.
type mode struct {
	name string
	runs int
	// identical is how many more runs of the baseline measure the spread, the A/A
	// floor; 0 leaves the default.
	identical int
}

var modes = []mode{
	{"1", 1, 0},
	{"1, spread from 5 A/A runs", 1, 5},
	{"3", 3, 0},
	{"5", 5, 0},
}

const mostRuns = 5

// pairsWithRepeats is how many pairs of arms are made of a size and compared.
const pairsWithRepeats = 1000

// pairsOf is how many of them are compared in a mode. Single runs are resampled
// and cost more, so there are fewer.
func pairsOf(requests int, m mode) int {
	pairs := pairsWithRepeats
	if m.runs == 1 {
		pairs = map[int]int{20: 800, 100: 400, 500: 200}[requests]
	}
	switch {
	case raceEnabled:
		return pairs / 100
	case !fullCalibration():
		return pairs / 10
	}
	return pairs
}

func modeOf(name string) mode {
	return modes[slices.IndexFunc(modes, func(m mode) bool { return m.name == name })]
}

// fullCalibration says that the counts are those of the published table.
func fullCalibration() bool { return !raceEnabled && (*full || *update) }

// setting is one cell of the calibration.
type setting struct {
	source   string
	spread   float64
	requests int
	mode     string
	metric   string
	slowdown float64
}

// tally counts the verdicts in one setting: without a margin, and with
// calibratedMargin.
type tally struct {
	pairs                   int
	worse, better, unknown  int
	failed, passed, unclear int
}

func (s *tally) add(o tally) {
	s.pairs += o.pairs
	s.worse, s.better, s.unknown = s.worse+o.worse, s.better+o.better, s.unknown+o.unknown
	s.failed, s.passed, s.unclear = s.failed+o.failed, s.passed+o.passed, s.unclear+o.unclear
}

// count adds what the interval of a comparison says once its candidate takes
// factor times as long: a factor on all times moves the interval by it and
// changes nothing else, which TestCompareInvariance shows. That spares most of
// the work.
func (s *tally) count(c Comparison, o Options, factor float64) {
	s.pairs++
	if c.Low == nil {
		s.unknown++
		s.unclear++
		return
	}
	if o.Direction == HigherIsBetter {
		factor = 1 / factor
	}
	low, high := (1+*c.Low)*factor-1, (1+*c.High)*factor-1
	switch verdict, _ := o.judge(low, high); verdict {
	case Worse:
		s.worse++
	case Better:
		s.better++
	}
	o.Margin = new(calibratedMargin)
	switch verdict, _ := o.judge(low, high); verdict {
	case Worse:
		s.failed++
	case CannotTell:
		s.unclear++
	default:
		s.passed++
	}
}

func share(count, of int) float64 { return float64(count) / float64(of) }

// batch is the unit of work of one processor.
const batch = 50

// calibrate runs all settings. Every pair has seeds of its own, so the counts do
// not depend on how the work is spread over processors.
func calibrate(t testing.TB) map[setting]tally {
	results := map[setting]tally{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	work := func(src source, spread float64, requests int, seed uint64, first, last int) {
		limit <- struct{}{}
		defer func() { <-limit }()
		part := map[setting]tally{}
		for pair := first; pair < last; pair++ {
			calibratePair(t, part, src, spread, requests, pair, seed+uint64(pair))
		}
		mu.Lock()
		defer mu.Unlock()
		for k, v := range part {
			sum := results[k]
			sum.add(v)
			results[k] = sum
		}
	}
	for i, src := range sources(t) {
		for j, spread := range calibratedSpreads {
			for _, requests := range calibratedRequests {
				seed, pairs := uint64(i*10+j)<<32+uint64(requests)<<16, pairsOf(requests, modes[len(modes)-1])
				for first := 0; first < pairs; first += batch {
					wg.Go(func() { work(src, spread, requests, seed, first, min(first+batch, pairs)) })
				}
			}
		}
	}
	wg.Wait()
	return results
}

// trial is the runs of one pair of identical arms.
type trial struct {
	source              source
	baseline, candidate []cellRun
	// spare makes as many more runs, to measure the spread on; identical keeps them.
	spare     func() []cellRun
	identical []cellRun
}

func newTrial(src source, spread float64, requests int, seed uint64) *trial {
	speed := rand.New(rand.NewPCG(seed, 4))
	runs := func(kind uint64) []cellRun {
		made := make([]cellRun, mostRuns)
		for i := range made {
			luck := seed<<8 + kind<<4 + uint64(i)
			made[i] = src.run(requests, seed, luck).slowed(math.Exp(spread * speed.NormFloat64()))
		}
		return made
	}
	return &trial{source: src, baseline: runs(0), candidate: runs(1), spare: func() []cellRun { return runs(2) }}
}

// compare compares the arms of a trial in one mode.
func (tr *trial) compare(t testing.TB, m mode, metric calibratedMetric) (Comparison, Options) {
	o := Options{Statistic: metric.statistic, Direction: metric.direction, Paired: true, Concurrency: tr.source.concurrency}
	if m.identical > 0 {
		if tr.identical == nil {
			tr.identical = tr.spare()
		}
		s, err := SpreadOf(metric.statistic, metric.arm(tr.identical[:m.identical]))
		assert.NoError(t, err)
		o.Spread = &s
	}
	return Compare(metric.arm(tr.baseline[:m.runs]), metric.arm(tr.candidate[:m.runs]), o), o
}

func calibratePair(t testing.TB, results map[setting]tally, src source, spread float64, requests, pair int, seed uint64) {
	tr := newTrial(src, spread, requests, seed)
	for _, m := range modes {
		if pair >= pairsOf(requests, m) {
			continue
		}
		for _, metric := range calibratedMetrics {
			c, o := tr.compare(t, m, metric)
			for _, slowdown := range calibratedSlowdowns {
				key := setting{src.name, spread, requests, m.name, metric.name, slowdown}
				sum := results[key]
				sum.count(c, o, 1+slowdown)
				results[key] = sum
			}
		}
	}
}

// excess is the probability of so many alarms or more if each had the nominal
// rate.
func excess(alarms, pairs int, nominal float64) float64 {
	if alarms == 0 {
		return 1
	}
	return distuv.Binomial{N: float64(pairs), P: nominal}.Survival(float64(alarms) - 1)
}

func TestCalibration(t *testing.T) {
	t.Parallel()
	results := calibrate(t)
	require.Len(t, results, len(sources(t))*len(calibratedSpreads)*len(calibratedRequests)*
		len(modes)*len(calibratedMetrics)*len(calibratedSlowdowns), "settings are missing")

	t.Run("false alarms are at most nominal", func(t *testing.T) { checkFalseAlarms(t, results) })
	t.Run("the gate does not fail at its margin", func(t *testing.T) { checkMargin(t, results) })
	t.Run("slowdowns are found", func(t *testing.T) { checkPower(t, results) })
	t.Run("the published tables are these", func(t *testing.T) { checkPublished(t, results) })
}

// checkFalseAlarms holds every single setting to the nominal rate as far as its
// count can say, and each mode as a whole strictly.
func checkFalseAlarms(t *testing.T, results map[setting]tally) {
	whole := map[string]*tally{}
	for key, s := range results {
		if key.slowdown != 0 {
			continue
		}
		require.Equal(t, pairsOf(key.requests, modeOf(key.mode)), s.pairs, "%+v", key)
		assert.Greater(t, excess(s.worse+s.better, s.pairs, nominalFalseAlarms), implausible,
			"%+v: %d false alarms in %d", key, s.worse+s.better, s.pairs)
		if whole[key.mode] == nil {
			whole[key.mode] = &tally{}
		}
		whole[key.mode].add(s)
	}
	require.Len(t, whole, len(modes))
	for mode, s := range whole {
		rate := share(s.worse+s.better, s.pairs)
		t.Logf("repeats %s: %.2f %% false alarms in %d comparisons", mode, 100*rate, s.pairs)
		if fullCalibration() {
			assert.LessOrEqual(t, rate, nominalFalseAlarms, "repeats %s", mode)
		}
	}
}

// checkMargin: a server that is exactly as slow as the margin allows must not
// fail more often than half of the nominal rate; an unchanged one hardly ever.
func checkMargin(t *testing.T, results map[setting]tally) {
	var unchanged tally
	for key, s := range results {
		switch {
		case key.slowdown == 0:
			unchanged.add(s)
		// A rate on a server that is 5 % slower falls by 4.8 %, within the margin too.
		case key.slowdown == calibratedMargin:
			assert.Greater(t, excess(s.failed, s.pairs, nominalFalseAlarms/2), implausible,
				"%+v: failed %d of %d", key, s.failed, s.pairs)
		}
	}
	require.NotZero(t, unchanged.pairs)
	assert.Less(t, share(unchanged.failed, unchanged.pairs), 0.005, "identical arms failed %d times", unchanged.failed)
}

// checkPower says what the method must be able to see, lest it be safe by saying
// nothing. The figures have some room to the measured ones.
func checkPower(t *testing.T, results map[setting]tally) {
	if !fullCalibration() {
		t.Skip("too few pairs for a rate")
	}
	for _, row := range []struct {
		why   string
		key   setting
		least float64
	}{
		{"3 repeats on a quiet machine see 10 %", setting{"real rows", 0.02, 100, "3", "ttft mean", 0.10}, 0.75},
		{"and 20 % surely", setting{"real rows", 0.02, 100, "3", "ttft mean", 0.20}, 0.98},
		{"3 repeats at a spread of 5 % see 20 %", setting{"real rows", 0.05, 100, "3", "ttft mean", 0.20}, 0.75},
		{"5 repeats see 5 % on a quiet machine", setting{"real rows", 0.02, 100, "5", "ttft mean", 0.05}, 0.60},
		{"5 repeats see 20 % on any", setting{"real rows", 0.05, 100, "5", "ttft mean", 0.20}, 0.98},
		{"a rate is seen as well as a time", setting{"real rows", 0.02, 100, "5", "throughput", 0.10}, 0.98},
		{"a tail takes more requests, not more luck", setting{"real rows", 0.02, 500, "3", "ttft p95", 0.10}, 0.75},
		{"one run sees 20 % where the machine was measured", setting{"real rows", 0.02, 100, modes[1].name, "ttft mean", 0.20}, 0.85},
		{"one run by default sees 20 % about every other time", setting{"real rows", 0.02, 500, "1", "ttft mean", 0.20}, 0.35},
		{"behind a queue too", setting{"queue, concurrency 16", 0.02, 100, "3", "ttft mean", 0.20}, 0.98},
	} {
		s, known := results[row.key]
		require.True(t, known, "%+v", row.key)
		assert.GreaterOrEqual(t, share(s.worse, s.pairs), row.least, "%s: %+v", row.why, row.key)
	}
}

// TestCalibrationSeesABadMethod turns the instrument on methods that are known
// to be wrong: a calibration that never complains proves nothing.
func TestCalibrationSeesABadMethod(t *testing.T) {
	t.Parallel()
	src, metric := sources(t)[1], calibratedMetrics[0]
	trials := 200
	if raceEnabled {
		trials = 100
	}
	alarms := map[string]int{}
	count := func(name string, c Comparison) {
		require.NotNil(t, c.Low, c.Why)
		if *c.Low > 0 || *c.High < 0 {
			alarms[name]++
		}
	}
	for i := range trials {
		tr := newTrial(src, 0.05, 100, 77<<32+uint64(i))
		b, k := metric.arm(tr.baseline[:1]), metric.arm(tr.candidate[:1])
		o := Options{Paired: true, Concurrency: src.concurrency}
		count("default", Compare(b, k, o))
		o.Spread = &Spread{CV: 0}
		count("no spread between runs", Compare(b, k, o))
		b.Runs, k.Runs = requestsAsRuns(b.Runs[0]), requestsAsRuns(k.Runs[0])
		count("requests taken as independent runs", Compare(b, k, Options{}))
	}
	t.Logf("false alarms in %d: %v", trials, alarms)
	assert.Greater(t, excess(alarms["default"], trials, nominalFalseAlarms), implausible)
	for _, bad := range []string{"no spread between runs", "requests taken as independent runs"} {
		assert.Less(t, excess(alarms[bad], trials, nominalFalseAlarms), implausible, bad)
	}
}

// requestsAsRuns is the mistake to be seen: every request a run of its own.
func requestsAsRuns(r Run) []Run {
	var runs []Run
	for _, v := range r.Values {
		runs = append(runs, Run{Values: []float64{v}})
	}
	return runs
}

// TestCalibrationOfMinimumDetectable: a change of the size that a comparison
// names is found with about the power that it names.
func TestCalibrationOfMinimumDetectable(t *testing.T) {
	t.Parallel()
	if !fullCalibration() {
		t.Skip("too few pairs for a rate")
	}
	src := sources(t)[0]
	for _, m := range []mode{modes[2], modes[3]} {
		for _, metric := range []calibratedMetric{calibratedMetrics[0], calibratedMetrics[3]} {
			found, trials := tally{}, 250
			var named float64
			for i := range trials {
				c, _ := newTrial(src, 0.05, 100, 78<<32+uint64(i)).compare(t, m, metric)
				named += *c.MinimumDetectable / float64(trials)
			}
			for i := range trials {
				c, o := newTrial(src, 0.05, 100, 79<<32+uint64(i)).compare(t, m, metric)
				factor := 1 + named
				if metric.direction == HigherIsBetter {
					factor = 1 / (1 - named)
				}
				found.count(c, o, factor)
			}
			power := share(found.worse, found.pairs)
			t.Logf("repeats %s, %s: %.1f %% is found in %.0f %%", m.name, metric.name, 100*named, 100*power)
			assert.InDelta(t, DetectablePower, power, 0.12, "repeats %s, %s", m.name, metric.name)
		}
	}
}

// checkPublished compares the tables with the file, and the file with the README
// where it has the markers.
func checkPublished(t *testing.T, results map[setting]tally) {
	if !fullCalibration() {
		t.Skip("the published tables are of a full calibration")
	}
	tables := calibrationTables(t, results)
	t.Logf("%s\n%s%s", calibrationBegin, tables, calibrationEnd)
	if runtime.GOARCH != "amd64" {
		t.Skip("the last bits of a logarithm, and with them a count, differ between architectures")
	}
	if *update {
		require.NoError(t, os.WriteFile(calibrationFile, []byte(tables), 0o644))
	}
	published, err := os.ReadFile(calibrationFile)
	require.NoError(t, err)
	assert.Equal(t, string(published), tables, "%s is not of this code: go test ./internal/stats -run Calibration -update",
		filepath.Base(calibrationFile))
}

// TestCalibrationInREADME needs no calibration: the README shows the file.
func TestCalibrationInREADME(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if os.IsNotExist(err) {
		t.Skip("no README yet")
	}
	require.NoError(t, err)
	_, rest, begins := strings.Cut(string(readme), calibrationBegin)
	if !begins {
		t.Skipf("the README has no %s", calibrationBegin)
	}
	shown, _, ends := strings.Cut(rest, calibrationEnd)
	require.True(t, ends, "the README has %s and no %s", calibrationBegin, calibrationEnd)
	published, err := os.ReadFile(calibrationFile)
	require.NoError(t, err)
	assert.Equal(t, strings.TrimSpace(string(published)), strings.TrimSpace(shown))
}
