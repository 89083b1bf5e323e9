// Package report renders artifacts: as text for a terminal, as Markdown for the
// page of a CI job, as attributes for a JUnit file, as lines for benchstat. It
// computes nothing: every number stands in the artifact.
package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/stats"
)

// tableRows are the distributions of the table, in the order of a request's life.
var tableRows = []struct{ label, name string }{
	{"TTFO ms", "time_to_first_output"},
	{"TTFT ms", "ttft"},
	{"E2E ms", "e2e"},
	{"TPOT ms", "tpot"},
	{"decode tok/s", "decode_tok_s"},
	{"eff. prefill tok/s", "effective_prefill_tok_s"},
	{"prompt tokens", "prompt_tokens"},
	{"output tokens", "completion_tokens"},
}

var tableStatistics = []string{"samples", "mean", "stddev", "p50", "p90", "p95", "p99", "max"}

// Text writes the artifact as a table: what was run, the distributions, and the
// exact metrics with every digit. A null is shown as "-".
func Text(w io.Writer, n *artifact.Native) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s\n", workload(n), target(n))
	fmt.Fprintf(&b, "%s\n\n", completion(n))
	if err := table(&b, n); err != nil {
		return err
	}
	exact(&b, n)
	_, err := io.WriteString(w, b.String())
	return err
}

func workload(n *artifact.Native) string {
	context := "a context distribution"
	if n.ContextTokens != nil {
		context = fmt.Sprintf("%d %s tokens", *n.ContextTokens, sizing(n))
	}
	words := "no words asked"
	if n.ResponseWords != nil && *n.ResponseWords > 0 {
		words = fmt.Sprintf("%d words", *n.ResponseWords)
	}
	cache := "prompts"
	if n.PromptCacheMode != nil {
		cache = *n.PromptCacheMode + " prompts"
	}
	return fmt.Sprintf("%d requests, concurrency %d, %s, %s, %s", n.Requests, n.Concurrency, context, words, cache)
}

// sizing says what the asked size of a prompt counts.
func sizing(n *artifact.Native) string {
	if n.Harness != nil && n.Harness.ContextSizing != nil {
		return "measured"
	}
	return "nominal"
}

func target(n *artifact.Native) string {
	if n.Harness != nil && n.Harness.Endpoint.Embedded {
		return "the suite's own embedded endpoint"
	}
	return fmt.Sprintf("%s at %s", n.Model, n.BaseURL)
}

func completion(n *artifact.Native) string {
	wall := "-"
	if n.WallClockMS != nil {
		wall = number(n.WallClockMS) + " ms"
	}
	text := fmt.Sprintf("completed %d of %d, failed %d, wall clock %s, %s", n.Completed, n.Requests, n.Failed, wall, n.MeasurementProtocol)
	if reason, partial := n.Partial(); partial {
		text += "\nPARTIAL: " + reason
	}
	return text
}

func table(b *strings.Builder, n *artifact.Native) error {
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "\t%s\t\n", strings.Join(tableStatistics, "\t"))
	for _, row := range tableRows {
		cells := make([]string, len(tableStatistics))
		for i, statistic := range tableStatistics {
			key, ok := stats.Key(row.name, statistic)
			if !ok {
				return fmt.Errorf("rendering %s of %s: no such metric", statistic, row.name)
			}
			cells[i] = number(metric(n, key))
			if statistic == "samples" {
				cells[i] = strings.TrimSuffix(cells[i], ".000")
			}
		}
		fmt.Fprintf(tw, "%s\t%s\t\n", row.label, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

// exactKeys are the six metrics of the derived summary.
var exactKeys = []string{"throughput_tok_s", "ttft_p50_ms", "e2e_p50_ms", "ttft_mean_ms", "e2e_mean_ms", "tpot_mean_ms"}

func exact(b *strings.Builder, n *artifact.Native) {
	b.WriteString("\nexact metrics, as a threshold sees them\n")
	for _, key := range exactKeys {
		value := "null"
		if v := metric(n, key); v != nil {
			value = strconv.FormatFloat(*v, 'g', -1, 64)
		} else if n.Metrics != nil {
			value += " (" + n.Metrics.WhyNil(key) + ")"
		}
		fmt.Fprintf(b, "  %-18s %s\n", key, value)
	}
}

func metric(n *artifact.Native, key string) *float64 {
	if n.Metrics == nil {
		return nil
	}
	v, _ := n.Metrics.Get(key)
	return v
}

func number(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 3, 64)
}
