package stats

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// The tables of fixtures/calibration.md.

func calibrationTables(t testing.TB, results map[setting]tally) string {
	var b strings.Builder
	fmt.Fprintf(&b, `Identical arms and known slowdowns, compared at a confidence of 95 %%. The runs are
made of the real rows of fixtures/glm-c4-16word (blocks of %d requests, without the
first %d, which were warm) and by simulated queues at concurrency 4 and 16; each run is
as fast as its server happens to be, with the spread (CV) that the column names. Each
setting has %d pairs of arms with repeats; with single runs %d, %d and %d at n = 20, 100
and 500 requests a run.

**False alarms**: identical arms called worse or better, in %% of the comparisons: the
mean over 3 sources, 2 spreads and 4 metrics, and the worst of these 24. Nominal is 5.

`, realBlock, warmRowsOfRealCell, pairsWithRepeats, pairsOf(20, modes[0]), pairsOf(100, modes[0]), pairsOf(500, modes[0]))
	falseAlarmTable(&b, results, sources(t))
	powerTable(&b, results, "real rows", "**Power on the real rows**")
	powerTable(&b, results, "queue, concurrency 4", "**Power behind a simulated queue** (concurrency 4)")
	gateTable(&b, results)
	limitLine(&b, t)
	return b.String()
}

// limitLine measures what happens where the assumption of a single run does not
// hold: runs that differ by more than DefaultSpread.
func limitLine(b *strings.Builder, t testing.TB) {
	const spread, trials = 0.10, 1000
	src, alarms := sources(t)[0], map[string]int{}
	for i := range trials {
		tr := newTrial(src, spread, 100, 80<<32+uint64(i))
		for _, m := range []mode{modes[0], modes[1], modes[2]} {
			if c, _ := tr.compare(t, m, calibratedMetrics[0]); *c.Low > 0 || *c.High < 0 {
				alarms[m.name]++
			}
		}
	}
	fmt.Fprintf(b, "\n**Where it ends**: on a machine whose runs differ by %.0f %% (CV), more than the default spread of %.1f %%,\n"+
		"single runs with the default give %.0f %% false alarms (mean TTFT of the real rows, n = 100); with the\n"+
		"spread from 5 A/A runs %.0f %%, with 3 repeats %.0f %%.\n", 100*spread, 100*DefaultSpread().CV,
		100*share(alarms[modes[0].name], trials), 100*share(alarms[modes[1].name], trials), 100*share(alarms[modes[2].name], trials))
}

// luck is what the worst of the settings of a column reaches in one of twenty
// calibrations if each has the nominal rate.
func luck(pairs, settings int) float64 {
	each := math.Pow(0.95, 1/float64(settings))
	alarms := 0
	for excess(alarms+1, pairs, nominalFalseAlarms) > 1-each {
		alarms++
	}
	return share(alarms, pairs)
}

func falseAlarmTable(b *strings.Builder, results map[setting]tally, sources []source) {
	b.WriteString("| repeats | n = 20 | n = 100 | n = 500 |\n| --- | --- | --- | --- |\n")
	for _, m := range modes {
		fmt.Fprintf(b, "| %s |", m.name)
		for _, n := range calibratedRequests {
			var sum tally
			worst := 0.0
			for _, src := range sources {
				for _, spread := range calibratedSpreads {
					for _, metric := range calibratedMetrics {
						s := results[setting{src.name, spread, n, m.name, metric.name, 0}]
						sum.add(s)
						worst = max(worst, share(s.worse+s.better, s.pairs))
					}
				}
			}
			fmt.Fprintf(b, " %.1f (worst %.1f) |", 100*share(sum.worse+sum.better, sum.pairs), 100*worst)
		}
		b.WriteString("\n")
	}
	b.WriteString("| what luck can make of a true 5 with repeats |")
	for _, n := range calibratedRequests {
		settings := len(sources) * len(calibratedSpreads) * len(calibratedMetrics)
		fmt.Fprintf(b, " worst up to %.1f |", 100*luck(pairsOf(n, modes[2]), settings))
	}
	b.WriteString("\n")
}

func powerTable(b *strings.Builder, results map[setting]tally, source, title string) {
	fmt.Fprintf(b, "\n%s: a server slower by 5 / 10 / 20 %% is called worse, in %% of the comparisons.\n\n", title)
	metrics := []string{"ttft mean", "ttft p95", "throughput"}
	b.WriteString("| repeats | n |")
	for _, metric := range metrics {
		for _, spread := range calibratedSpreads {
			fmt.Fprintf(b, " %s, CV %.0f %% |", metric, 100*spread)
		}
	}
	b.WriteString("\n| --- | --- |" + strings.Repeat(" --- |", len(metrics)*len(calibratedSpreads)) + "\n")
	for _, m := range modes {
		for _, n := range calibratedRequests {
			fmt.Fprintf(b, "| %s | %d |", m.name, n)
			for _, metric := range metrics {
				for _, spread := range calibratedSpreads {
					var cells []string
					for _, slowdown := range calibratedSlowdowns[1:] {
						s := results[setting{source, spread, n, m.name, metric, slowdown}]
						cells = append(cells, fmt.Sprintf("%.0f", 100*share(s.worse, s.pairs)))
					}
					fmt.Fprintf(b, " %s |", strings.Join(cells, " / "))
				}
			}
			b.WriteString("\n")
		}
	}
}

func gateTable(b *strings.Builder, results map[setting]tally) {
	fmt.Fprintf(b, "\n**The gate at a margin of %.0f %%** on the mean TTFT of the real rows, n = 100: fail / cannot tell / pass,\n"+
		"in %% of the comparisons, by how much slower the server is.\n\n", 100*calibratedMargin)
	b.WriteString("| repeats | CV |")
	for _, slowdown := range calibratedSlowdowns {
		fmt.Fprintf(b, " %.0f %% slower |", 100*slowdown)
	}
	b.WriteString("\n| --- | --- |" + strings.Repeat(" --- |", len(calibratedSlowdowns)) + "\n")
	for _, m := range modes {
		for _, spread := range calibratedSpreads {
			fmt.Fprintf(b, "| %s | %.0f %% |", m.name, 100*spread)
			for _, slowdown := range calibratedSlowdowns {
				s := results[setting{"real rows", spread, 100, m.name, "ttft mean", slowdown}]
				fmt.Fprintf(b, " %.0f / %.0f / %.0f |", 100*share(s.failed, s.pairs), 100*share(s.unclear, s.pairs), 100*share(s.passed, s.pairs))
			}
			b.WriteString("\n")
		}
	}
}
