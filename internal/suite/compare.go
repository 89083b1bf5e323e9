package suite

import (
	"fmt"
	"path/filepath"
	"slices"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/config"
	"anvil-capacity/internal/gate"
)

// Comparison is what a cell is held against: an earlier build, or itself.
type Comparison struct {
	// Refusal says why nothing is compared, "" for nothing against it.
	Refusal string
	// Notes are lines for people: what identical runs showed of their spread.
	Notes    []string
	Compared []gate.Compared
}

// AgainstBaseline compares a cell with CAPACITY_BASELINE. What A/A runs of this
// session showed of the spread between identical runs is taken into account.
func (s *Session) AgainstBaseline(cell config.Cell, outcomes Outcomes) Comparison {
	earlier, err := readBaseline(s.Settings.Baseline, cell.Name)
	if err != nil {
		return Comparison{Refusal: err.Error()}
	}
	b := gate.Baseline{
		Earlier: earlier, Cell: runsOf(outcomes.arm(cell.Name, ArmA)),
		Allow: s.Settings.BaselineAllow, Confidence: s.Settings.Confidence,
	}
	if s.Settings.AA {
		b.Spread = gate.SpreadsOf(s.Settings.MaxRegression, slices.Concat(b.Cell, runsOf(outcomes.arm(cell.Name, ArmB))))
	}
	return s.compare(b)
}

// AgainstItself compares the two arms of a cell, which are one build: what
// differs is chance.
func (s *Session) AgainstItself(cell config.Cell, outcomes Outcomes) Comparison {
	b := gate.Baseline{
		Earlier: runsOf(outcomes.arm(cell.Name, ArmA)), Cell: runsOf(outcomes.arm(cell.Name, ArmB)),
		Allow:      []string{"context_seed"}, // the arms have seeds of their own, or the second would find a warm cache
		Confidence: s.Settings.Confidence,
	}
	c := s.compare(b)
	if c.Refusal == "" {
		c.Notes = gate.DescribeSpreads(s.Settings.MaxRegression, s.Settings.Confidence, b.Earlier, b.Cell)
	}
	return c
}

func (s *Session) compare(b gate.Baseline) Comparison {
	if refusal := b.Refusal(); refusal != "" {
		return Comparison{Refusal: refusal}
	}
	return Comparison{Compared: b.Compare(s.Settings.MaxRegression)}
}

func runsOf(finished []Finished) []gate.Run {
	runs := make([]gate.Run, len(finished))
	for i, f := range finished {
		runs[i] = gate.Run{Name: filepath.Base(f.Outcome.NativePath), Native: &f.Outcome.Native}
	}
	return runs
}

// readBaseline reads the runs of a baseline: native artifacts, derived
// summaries, or indexes, of which the runs of the same cell are taken.
func readBaseline(paths []string, cell string) ([]gate.Run, error) {
	var runs []gate.Run
	for _, path := range paths {
		more, err := readBaselineFile(path, cell)
		if err != nil {
			return nil, fmt.Errorf("reading CAPACITY_BASELINE: %w", err)
		}
		runs = append(runs, more...)
	}
	return runs, nil
}

func readBaselineFile(path, cell string) ([]gate.Run, error) {
	schema, err := artifact.SchemaOf(path)
	if err != nil {
		return nil, err
	}
	switch schema {
	case artifact.IndexSchema:
		return readIndexed(path, cell)
	case artifact.SummarySchema:
		summary, err := artifact.ReadSummary(path)
		if err != nil {
			return nil, err
		}
		return []gate.Run{{Name: filepath.Base(path), Native: summary.AsNative()}}, nil
	}
	native, err := artifact.ReadNative(path)
	if err != nil {
		return nil, err
	}
	return []gate.Run{{Name: filepath.Base(path), Native: &native}}, nil
}

// readIndexed reads the runs that an index lists for this cell, those of the
// first arm: a second one is a repeat of it under other seeds.
func readIndexed(path, cell string) ([]gate.Run, error) {
	index, err := artifact.ReadIndex(path)
	if err != nil {
		return nil, err
	}
	var runs []gate.Run
	for _, entry := range index.Runs {
		if entry.Cell != cell || entry.Arm != ArmA {
			continue
		}
		native, err := artifact.ReadNative(filepath.Join(filepath.Dir(path), entry.Artifact))
		if err != nil {
			return nil, err
		}
		runs = append(runs, gate.Run{Name: entry.Artifact, Native: &native})
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("index %q lists no run of cell %s", path, cell)
	}
	return runs, nil
}
