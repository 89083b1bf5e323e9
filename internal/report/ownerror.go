package report

import (
	"fmt"
	"io"
	"text/tabwriter"

	"anvil-capacity/internal/artifact"
)

// OwnError writes the suite's own error and what the client spent: a row a time,
// and below it the same without the first wave.
func OwnError(w io.Writer, h *artifact.Harness) error {
	if h == nil || h.SelfCheck == nil {
		_, err := fmt.Fprintln(w, "the suite's own error was not measured")
		return err
	}
	c := h.SelfCheck
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "own error, ms\tsamples\tp50\tp90\tp99\tmax\t\n")
	writeSpreads(tw, "", c.TTFO, c.TTFT, c.E2E, c.TPOT)
	if r := c.Rest; r != nil {
		writeSpreads(tw, " without the first wave", r.TTFO, r.TTFT, r.E2E, r.TPOT)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "measured over %d requests at concurrency %d, %.0f events/s%s\n", c.Requests, c.Concurrency, c.EventsPerS, usage(h.Client))
	return err
}

func writeSpreads(tw io.Writer, suffix string, ttfo, ttft, e2e, tpot artifact.ErrorSpread) {
	for _, row := range []struct {
		label  string
		spread artifact.ErrorSpread
	}{{"TTFO", ttfo}, {"TTFT", ttft}, {"E2E", e2e}, {"TPOT", tpot}} {
		s := row.spread
		fmt.Fprintf(tw, "%s%s\t%d\t%s\t%s\t%s\t%s\t\n", row.label, suffix, s.Samples, number(s.P50MS), number(s.P90MS), number(s.P99MS), number(s.MaxMS))
	}
}

func usage(u *artifact.ClientUsage) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("; during the cell the client used %.1f %% of %d processors, goroutines waited %s ms for one at p99, the longest GC pause was %s ms",
		u.CPUShare*100, u.CPUs, number(u.SchedP99MS), number(u.GCPauseMaxMS))
}
