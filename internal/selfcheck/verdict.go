package selfcheck

import (
	"fmt"

	"anvil-capacity/internal/artifact"
)

// Limits of the suite's own error.
const (
	// ErrorShare is how large the p99 of the suite's own error may be against the
	// median of what it measures, and ErrorFloorMS is what is always accepted:
	// timers and wake-ups of a general-purpose system are that coarse.
	ErrorShare   = 0.01
	ErrorFloorMS = 1.0
	// CPUShareMax is the share of its processors above which the client is taken
	// to be short of them.
	CPUShareMax = 0.9
)

// LimitMS is the largest accepted p99 error of something whose median is this.
func LimitMS(medianMS float64) float64 { return max(ErrorFloorMS, ErrorShare*medianMS) }

// Measured are the medians of a cell that its error is held against, in
// milliseconds; nil was not measured.
type Measured struct {
	TTFOMS, TTFTMS, E2EMS *float64
}

// Findings says what is wrong with the clock of a cell, nothing where all is
// well: the error of the check against what the cell measured, and whether the
// client was short of CPU during the cell. Both arguments may be nil: what was
// not measured is not found fault with here.
func Findings(check *artifact.SelfCheck, during *artifact.ClientUsage, m Measured) []string {
	var findings []string
	add := func(format string, args ...any) { findings = append(findings, fmt.Sprintf(format, args...)) }
	if check != nil {
		ttfo, ttft, e2e := check.TTFO, check.TTFT, check.E2E
		if check.Rest != nil {
			// The lock-step start is reported, and is a property of every closed loop.
			ttfo, ttft, e2e = check.Rest.TTFO, check.Rest.TTFT, check.Rest.E2E
		}
		for _, row := range []struct {
			name   string
			spread artifact.ErrorSpread
			median *float64
		}{{"TTFO", ttfo, m.TTFOMS}, {"TTFT", ttft, m.TTFTMS}, {"E2E", e2e, m.E2EMS}} {
			if row.spread.P99MS == nil || row.median == nil {
				continue
			}
			if limit := LimitMS(*row.median); *row.spread.P99MS > limit {
				add("the p99 of the suite's own error of %s is %.3f ms, limit %.3f ms (%g %% of the median %.3f ms, at least %g ms)",
					row.name, *row.spread.P99MS, limit, ErrorShare*100, *row.median, ErrorFloorMS)
			}
		}
	}
	return append(findings, shortOfCPU(during, m)...)
}

func shortOfCPU(during *artifact.ClientUsage, m Measured) []string {
	if during == nil {
		return nil
	}
	var findings []string
	if during.CPUShare > CPUShareMax {
		findings = append(findings, fmt.Sprintf("the client used %.0f %% of its %d processors during the cell, limit %.0f %%: it was itself the bottleneck",
			during.CPUShare*100, during.CPUs, CPUShareMax*100))
	}
	if during.SchedP99MS != nil && m.TTFOMS != nil {
		if limit := LimitMS(*m.TTFOMS); *during.SchedP99MS > limit {
			findings = append(findings, fmt.Sprintf("the p99 of goroutine scheduling latency during the cell is %.3f ms, limit %.3f ms: other work takes the client's processors",
				*during.SchedP99MS, limit))
		}
	}
	return findings
}

// Advice is what helps against any finding.
const Advice = "give the client processors of its own, lower CAPACITY_CONCURRENCY, or spread the load over more client machines"
