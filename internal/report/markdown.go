package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"anvil-capacity/internal/artifact"
)

// Page is what a CI job's page shows of a gate: the verdict, the cells, every
// limit and every comparison with what was got, and what failed and why.
type Page struct {
	// Passed and Verdict are the gate's: Verdict is its closing line.
	Passed  bool
	Verdict string
	// Runs are the cells' runs in the order in which they were taken.
	Runs []PageRun
	// Limits and Comparisons hold a row each, whatever its outcome.
	Limits      []LimitRow
	Comparisons []ComparedRow
	// Failures are the tests that failed, the gravest kind first. Skips are those
	// that were neither: comparisons which the data did not settle.
	Failures []Finding
	Skips    []Finding
}

// PageRun is a run with its artifact, or why that cannot be read.
type PageRun struct {
	Name string
	// File is the artifact's path.
	File string
	// Native is nil where Err says why the file could not be read.
	Native *artifact.Native
	Err    error
}

// Finding is a test with what it said.
type Finding struct {
	// Kind is the kind of check: service, correctness, limit, ...
	Kind    string
	Test    string
	Message string
}

// LimitRow is a threshold and what came of it. All texts are as the JUnit file
// has them.
type LimitRow struct{ Cell, Limit, Value, Status string }

// ComparedRow is a metric against its baseline, like LimitRow.
type ComparedRow struct {
	Cell, Metric, Baseline, Value string
	Change, Low, High, Margin     string
	Status, Verdict               string
}

// How many rows and findings a page shows of each kind, so that it stays below
// the 1 MiB that a job summary may have; what is left out is counted.
const (
	maxPageRuns     = 200
	maxPageTargets  = 20
	maxPageRows     = 200
	maxPageFindings = 40
)

// MaxPageBytes is what a page never reaches: GitHub refuses a summary of a step
// beyond 1 MiB.
const MaxPageBytes = 1 << 20

// Markdown writes the page. Texts of servers and settings stand in code spans
// and fenced blocks only; long ones are cut, and many are counted.
func Markdown(w io.Writer, p Page) error {
	var b strings.Builder
	verdict := "FAIL"
	if p.Passed {
		verdict = "PASS"
	}
	fmt.Fprintf(&b, "## Capacity gate: %s\n\n%s\n", verdict, span(p.Verdict))
	pageRuns(&b, p.Runs)
	pageFindings(&b, "What failed", p.Failures)
	pageFindings(&b, "Not settled", p.Skips)
	pageLimits(&b, p.Limits)
	pageComparisons(&b, p.Comparisons)
	_, err := io.WriteString(w, b.String())
	return err
}

// embeddedWarning stands where the numbers are of no model: a gate that lost its
// target must not look like one that holds it.
const embeddedWarning = "**No model was measured**: `CAPACITY_BASE_URL` is not set, and these are the numbers of the suite's own embedded endpoint."

func pageRuns(b *strings.Builder, runs []PageRun) {
	if len(runs) == 0 {
		b.WriteString("\nNothing was measured.\n")
		return
	}
	b.WriteByte('\n')
	for _, t := range targetsOf(runs) {
		b.WriteString(t + "\n\n")
	}
	t := grid{head: []string{"cell", "completed", "failed", "throughput tok/s", "TTFT p50 ms", "TTFT p95 ms", "E2E p50 ms", "TPOT mean ms", "artifact"}, left: []int{0, 8}}
	notes := []string{"`-` was not measured, which is not 0."}
	for _, r := range runs[:min(len(runs), maxPageRuns)] {
		t.add(runRow(r)...)
		if note := runNote(r); note != "" {
			notes = append(notes, note)
		}
	}
	t.write(b, len(runs))
	b.WriteString("\n" + strings.Join(notes, "  \n") + "\n")
}

// targetsOf describes each target once, in order: one in a run of the suite.
func targetsOf(runs []PageRun) []string {
	var targets []string
	for _, r := range runs {
		if r.Native == nil {
			continue
		}
		text := targetText(r.Native)
		if !slices.Contains(targets, text) && len(targets) < maxPageTargets {
			targets = append(targets, text)
		}
	}
	return targets
}

func targetText(n *artifact.Native) string {
	if n.Harness != nil && n.Harness.Endpoint.Embedded {
		return embeddedWarning
	}
	return fmt.Sprintf("Model %s, engine %s, GPU %s, at %s, protocol %s",
		span(n.Model), span(orEmpty(n.Engine)), span(orEmpty(n.GPU)), span(n.BaseURL), span(n.MeasurementProtocol))
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func runRow(r PageRun) []string {
	n := r.Native
	if n == nil {
		return []string{span(r.Name), "-", "-", "-", "-", "-", "-", "-", span(r.File)}
	}
	return []string{
		span(r.Name), fmt.Sprintf("%d of %d", n.Completed, n.Requests), strconv.Itoa(n.Failed),
		number(metric(n, "throughput_tok_s")), number(metric(n, "ttft_p50_ms")), number(metric(n, "ttft_p95_ms")),
		number(metric(n, "e2e_p50_ms")), number(metric(n, "tpot_mean_ms")), span(r.File),
	}
}

// runNote says what a row cannot: that the evidence is partial or missing.
func runNote(r PageRun) string {
	if r.Native == nil {
		return fmt.Sprintf("%s: the artifact could not be read: %s", span(r.Name), span(r.Err.Error()))
	}
	if reason, partial := r.Native.Partial(); partial {
		return fmt.Sprintf("%s: **PARTIAL**: %s", span(r.Name), span(reason))
	}
	return ""
}

func pageLimits(b *strings.Builder, rows []LimitRow) {
	if len(rows) == 0 {
		return
	}
	b.WriteString("\n### Limits\n\n")
	t := grid{head: []string{"cell", "limit", "got", "status"}, left: []int{0, 1, 3}}
	for _, r := range rows[:min(len(rows), maxPageRows)] {
		t.add(span(r.Cell), span(r.Limit), shortNumber(r.Value), span(r.Status))
	}
	t.write(b, len(rows))
}

func pageComparisons(b *strings.Builder, rows []ComparedRow) {
	if len(rows) == 0 {
		return
	}
	b.WriteString("\n### Against the baseline\n\n")
	t := grid{head: []string{"cell", "metric", "baseline", "here", "change", "interval", "margin", "verdict", "status"}, left: []int{0, 1, 7, 8}}
	for _, r := range rows[:min(len(rows), maxPageRows)] {
		t.add(span(r.Cell), span(r.Metric), shortNumber(r.Baseline), shortNumber(r.Value), percentText(r.Change, true),
			percentText(r.Low, true)+" to "+percentText(r.High, true), percentText(r.Margin, false),
			span(strings.ReplaceAll(r.Verdict, "_", " ")), span(r.Status))
	}
	t.write(b, len(rows))
}

func pageFindings(b *strings.Builder, title string, findings []Finding) {
	if len(findings) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### %s\n", title)
	for _, f := range findings[:min(len(findings), maxPageFindings)] {
		fmt.Fprintf(b, "\n%s: %s\n", span(f.Kind), span(f.Test))
		if f.Message != "" {
			b.WriteString("\n" + block(f.Message))
		}
	}
	if left := len(findings) - maxPageFindings; left > 0 {
		fmt.Fprintf(b, "\nand %d more, in the JUnit file\n", left)
	}
}

// shortNumber shows a number of a property to three decimals, "-" for null and
// whatever else is there as it is.
func shortNumber(text string) string {
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case text == PropertyNull || text == "":
		return "-"
	case err != nil:
		return span(text)
	}
	return number(&v)
}

// percentText shows a ratio of a property as percent, with its sign where asked.
func percentText(text string, signed bool) string {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return shortNumber(text)
	}
	format := "%.1f %%"
	if signed {
		format = "%+.1f %%"
	}
	return fmt.Sprintf(format, 100*v)
}

// grid is a table of GitHub's Markdown. Cells hold no pipe and no line end:
// they are numbers, or come out of span.
type grid struct {
	head []string
	// left are the columns that are flush left; numbers are flush right.
	left []int
	rows [][]string
}

func (t *grid) add(cells ...string) { t.rows = append(t.rows, cells) }

// write writes the table; total says how many rows there were to show.
func (t *grid) write(b *strings.Builder, total int) {
	rule := make([]string, len(t.head))
	for i := range rule {
		rule[i] = "--:"
		if slices.Contains(t.left, i) {
			rule[i] = ":--"
		}
	}
	for _, row := range append([][]string{t.head, rule}, t.rows...) {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
	if left := total - len(t.rows); left > 0 {
		fmt.Fprintf(b, "\nand %d more\n", left)
	}
}
