package report

import (
	"fmt"
	"io"
	"text/tabwriter"

	"anvil-capacity/internal/engine"
)

// EngineView writes the client's and the engine's view of a cell side by side.
func EngineView(w io.Writer, r *engine.Report) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "%s\tclient\tengine\t\n", r.URL)
	for _, c := range r.Comparisons {
		fmt.Fprintf(tw, "%s\t%s\t%s\t\n", c.What, whole(c.Client), whole(c.Server))
	}
	for _, l := range r.Latencies {
		fmt.Fprintf(tw, "%s mean ms\t%s\t%s\t\n", l.What, meanOf(l.Client), meanOf(l.Server))
	}
	for _, g := range []struct {
		name    string
		summary *engine.GaugeSummary
	}{{"requests running, max", r.Gauges.Running}, {"requests waiting, max", r.Gauges.Waiting}, {"KV cache use, max", r.Gauges.KVCacheUse}} {
		if g.summary != nil {
			fmt.Fprintf(tw, "%s\t\t%s\t\n", g.name, number(&g.summary.Max))
		}
	}
	if r.PrefixCache.HitRate != nil {
		fmt.Fprintf(tw, "prefix cache hit rate\t\t%s\t\n", number(r.PrefixCache.HitRate))
	}
	return tw.Flush()
}

func whole(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f", *v)
}

func meanOf(s *engine.LatencySide) string {
	if s == nil {
		return "-"
	}
	return number(s.MeanMS)
}
