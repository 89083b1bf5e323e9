package suite

import (
	"fmt"
	"slices"

	"anvil-capacity/internal/config"
)

// Group is what one subtest of the suite holds: some turns, and the comparisons
// of cells that all their runs are there for.
type Group struct {
	Name  string
	Turns []Turn
	// Names are the subtests of the turns below the group, "" where the group is
	// one turn and needs none.
	Names    []string
	Compared []config.Cell
}

// Groups arranges the session as subtests. In sequence each cell is a group.
// Where cells take turns one group holds them all in their order, numbered, and
// the comparisons of each cell follow under its name.
func (s *Session) Groups() []Group {
	if s.Settings.Order == config.OrderInterleaved && len(s.Turns) > 1 {
		return s.interleavedGroups()
	}
	groups := make([]Group, len(s.Cells))
	for i, cell := range s.Cells {
		groups[i] = Group{Name: cell.Name, Turns: turnsOf(cell), Compared: []config.Cell{cell}}
		for _, turn := range groups[i].Turns {
			name := turn.Name()
			if turn.Single() {
				name = ""
			}
			groups[i].Names = append(groups[i].Names, name)
		}
	}
	return groups
}

func (s *Session) interleavedGroups() []Group {
	all := Group{Name: "turns", Turns: s.Turns}
	for i, turn := range s.Turns {
		all.Names = append(all.Names, fmt.Sprintf("%02d-%s-%s", i+1, turn.Cell.Name, turn.Name()))
	}
	groups := []Group{all}
	if s.Settings.AA || len(s.Settings.Baseline) > 0 {
		for _, cell := range s.Cells {
			groups = append(groups, Group{Name: cell.Name, Compared: []config.Cell{cell}})
		}
	}
	return groups
}

// Outcomes are the finished turns of a session, by cell. Not safe for concurrent
// use: turns run one after the other.
type Outcomes map[string][]Finished

// Finished is a turn with its outcome.
type Finished struct {
	Turn    Turn
	Outcome *Outcome
}

// Add keeps the outcome of a turn; a nil outcome, of a turn that measured
// nothing, is not kept.
func (o Outcomes) Add(turn Turn, out *Outcome) {
	if out != nil {
		o[turn.Cell.Name] = append(o[turn.Cell.Name], Finished{turn, out})
	}
}

// arm gives the outcomes of one arm of a cell in the order of repeats.
func (o Outcomes) arm(cell, arm string) []Finished {
	var of []Finished
	for _, f := range o[cell] {
		if f.Turn.Arm == arm {
			of = append(of, f)
		}
	}
	slices.SortFunc(of, func(a, b Finished) int { return a.Turn.Repeat - b.Turn.Repeat })
	return of
}

// Halted says that the session was ended early: what is missing is then no
// finding about the server, and nothing is compared.
func (s *Session) Halted() bool { return s.halted != nil }
