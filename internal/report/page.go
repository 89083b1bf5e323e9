package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"anvil-capacity/internal/artifact"
)

// PageSource is what a page is made of.
type PageSource struct {
	// Passed and Verdict are the gate's.
	Passed  bool
	Verdict string
	// Cases are the test cases of the gate's JUnit file.
	Cases []TestCase
	// KindOf names the kind of check that a test belongs to; KindOrder lists the
	// kinds, the gravest first. Kinds that it does not list come last.
	KindOf    func(test string) string
	KindOrder []string
	// Read reads the artifact that a test case names. Nil is artifact.ReadNative.
	Read func(path string) (artifact.Native, error)
}

// NewPage puts together what test cases and artifacts say. The artifacts are
// those that the properties of the test cases name, so that files of another run
// in the same folder stay out.
func NewPage(s PageSource) Page {
	if s.Read == nil {
		s.Read = artifact.ReadNative
	}
	p := Page{Passed: s.Passed, Verdict: s.Verdict}
	parents := parentsOfFailures(s.Cases)
	for _, c := range s.Cases {
		p.addRow(c)
		if file, ok := c.Properties[PropertyArtifact]; ok {
			p.Runs = append(p.Runs, readRun(c.Name, file, s.Read))
		}
		finding := Finding{Kind: s.KindOf(c.Name), Test: c.Name, Message: c.Message}
		switch {
		case c.Failed && (c.Message != "" || !parents[c.Name]):
			p.Failures = append(p.Failures, finding)
		case c.Skipped:
			p.Skips = append(p.Skips, finding)
		}
	}
	slices.SortStableFunc(p.Runs, func(a, b PageRun) int { return cmp.Compare(startOf(a), startOf(b)) })
	slices.SortStableFunc(p.Failures, func(a, b Finding) int {
		return cmp.Compare(rank(s.KindOrder, a.Kind), rank(s.KindOrder, b.Kind))
	})
	return p
}

// parentsOfFailures names the tests that hold a failed one: they failed because
// of it, and say nothing more.
func parentsOfFailures(cases []TestCase) map[string]bool {
	parents := map[string]bool{}
	for _, c := range cases {
		if !c.Failed {
			continue
		}
		for name := c.Name; ; {
			at := strings.LastIndexByte(name, '/')
			if at < 0 {
				break
			}
			name = name[:at]
			parents[name] = true
		}
	}
	return parents
}

func rank(order []string, kind string) int {
	if i := slices.Index(order, kind); i >= 0 {
		return i
	}
	return len(order)
}

func readRun(test, file string, read func(string) (artifact.Native, error)) PageRun {
	run := PageRun{Name: below(test, 0), File: file}
	native, err := read(file)
	if err != nil {
		run.Err = err
		return run
	}
	run.Native = &native
	return run
}

// startOf orders runs by time; those without one come last.
func startOf(r PageRun) int64 {
	if r.Native == nil || r.Native.StartedAtUnixNS == nil {
		return math.MaxInt64
	}
	return *r.Native.StartedAtUnixNS
}

// addRow takes the row of a threshold or of a comparison, which their properties
// tell apart.
func (p *Page) addRow(c TestCase) {
	of := c.Properties
	if _, ok := of[PropertyLimit]; ok {
		p.Limits = append(p.Limits, LimitRow{Cell: below(c.Name, 2), Limit: of[PropertyLimit], Value: of[PropertyValue], Status: statusOf(c)})
		return
	}
	if _, ok := of[PropertyBaseline]; ok {
		p.Comparisons = append(p.Comparisons, ComparedRow{
			Cell: below(c.Name, 1), Metric: of[PropertyMetric], Baseline: of[PropertyBaseline], Value: of[PropertyValue],
			Change: of[PropertyChange], Low: of[PropertyChangeLow], High: of[PropertyChangeHigh],
			Margin: of[PropertyMargin], Status: statusOf(c), Verdict: of[PropertyVerdict],
		})
	}
}

// statusOf is the status in the properties, but never a pass for a test that did
// not pass: a threshold that holds fails all the same on a partial run.
func statusOf(c TestCase) string {
	if status := c.Properties[PropertyStatus]; !c.Failed || status != "pass" {
		return status
	}
	return "fail"
}

// below is the path of a test without the top-level test and without so many of
// its last elements: the cell, and what tells its runs apart.
func below(test string, without int) string {
	parts := strings.Split(test, "/")
	if len(parts) > 1 {
		parts = parts[1:]
	}
	return strings.Join(parts[:max(1, len(parts)-without)], "/")
}
