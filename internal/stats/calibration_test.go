package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the gate's verdicts are worth, measured: identical arms and known
// slowdowns, thousands of times. The tables go to fixtures/calibration.md
// (-update writes it) and from there into the README.

const calibrationFile = "../../fixtures/calibration.md"

// calibratedSpreads are the run-to-run spreads (CV) of the simulated servers.
var calibratedSpreads = []float64{0.02, 0.05}

var (
	calibratedRequests  = []int{20, 100, 500}
	calibratedSlowdowns = []float64{0, 0.05, 0.10, 0.20}
)

// calibratedMargin is the margin of the gate's table.
const calibratedMargin = 0.05

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
	{"1, A/A of 5", 1, 5},
	{"3", 3, 0},
	{"5", 5, 0},
}

const mostRuns = 5

// pairsOf is how many pairs of arms are made for a size.
func pairsOf(requests int) int {
	pairs := map[int]int{20: 1000, 100: 600, 500: 250}[requests]
	switch {
	case raceEnabled:
		return pairs / 50
	case testing.Short():
		return pairs / 10
	}
	return pairs
}

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

func (s *tally) count(c Comparison, o Options) {
	s.pairs++
	switch c.Verdict {
	case Worse:
		s.worse++
	case Better:
		s.better++
	case CannotTell:
		s.unknown++
	}
	verdict := CannotTell
	if c.Verdict != CannotTell {
		o.Margin = new(calibratedMargin)
		verdict, _ = o.judge(*c.Low, *c.High)
	}
	switch verdict {
	case Worse:
		s.failed++
	case CannotTell:
		s.unclear++
	default:
		s.passed++
	}
}

// calibrate runs all settings. Every pair has seeds of its own, so the counts do
// not depend on how the work is spread over processors.
func calibrate(t *testing.T) map[setting]tally {
	t.Helper()
	results := map[setting]tally{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, src := range sources(t) {
		for j, spread := range calibratedSpreads {
			for _, requests := range calibratedRequests {
				for first := 0; first < pairsOf(requests); first += 50 {
					seed := uint64(i*10+j)<<32 + uint64(requests)<<16
					wg.Go(func() {
						limit <- struct{}{}
						defer func() { <-limit }()
						part := map[setting]tally{}
						for pair := first; pair < min(first+50, pairsOf(requests)); pair++ {
							calibratePair(part, src, spread, requests, seed+uint64(pair))
						}
						mu.Lock()
						defer mu.Unlock()
						for k, v := range part {
							sum := results[k]
							sum.add(v)
							results[k] = sum
						}
					})
				}
			}
		}
	}
	wg.Wait()
	return results
}

// calibratePair makes the runs of one pair of arms and compares them in every
// mode, metric and slowdown.
func calibratePair(results map[setting]tally, src source, spread float64, requests int, seed uint64) {
	runSpeed := rand.New(rand.NewPCG(seed, 4))
	runs := func(n int, kind uint64) []cellRun {
		made := make([]cellRun, n)
		for i := range made {
			luck := seed<<8 + kind<<4 + uint64(i)
			made[i] = src.run(requests, seed, luck).slowed(math.Exp(spread * runSpeed.NormFloat64()))
		}
		return made
	}
	baseline, candidate, identical := runs(mostRuns, 0), runs(mostRuns, 1), runs(mostRuns, 2)
	for _, slowdown := range calibratedSlowdowns {
		slow := make([]cellRun, mostRuns)
		for i := range slow {
			slow[i] = candidate[i].slowed(1 + slowdown)
		}
		for _, m := range modes {
			for _, metric := range calibratedMetrics {
				o := Options{Statistic: metric.statistic, Direction: metric.direction, Paired: true, Concurrency: src.concurrency}
				if m.identical > 0 {
					s, err := SpreadOf(metric.statistic, metric.arm(identical[:m.identical]))
					if err != nil {
						panic(err) // a bug of the calibration: its runs always have values
					}
					o.Spread = &s
				}
				key := setting{src.name, spread, requests, m.name, metric.name, slowdown}
				sum := results[key]
				sum.count(Compare(metric.arm(baseline[:m.runs]), metric.arm(slow[:m.runs]), o), o)
				results[key] = sum
			}
		}
	}
}
var _ = fmt.Sprint
var _ = os.Args
var _ = filepath.Join
var _ = strings.Join
var _ = assert.True
var _ = require.True

func TestCalibrationDraft(t *testing.T) {
	res := calibrate(t)
	for _, slow := range calibratedSlowdowns {
	for _, src := range sources(t) { for _, sp := range calibratedSpreads { for _, n := range calibratedRequests { for _, m := range modes {
		line := fmt.Sprintf("%-22s cv%.2f n=%3d %-12s s=%.2f", src.name, sp, n, m.name, slow)
		for _, me := range calibratedMetrics {
			c := res[setting{src.name, sp, n, m.name, me.name, slow}]
			f := func(k int) float64 { return 100*float64(k)/float64(c.pairs) }
			line += fmt.Sprintf(" | w%5.1f b%4.1f ?%5.1f F%5.1f P%5.1f", f(c.worse), f(c.better), f(c.unknown), f(c.failed), f(c.passed))
		}
		t.Log(line)
	}}}}}
}
