package suite

import (
	"fmt"

	"anvil-capacity/internal/config"
)

// Turn is one run of one cell: its place in the order of a session.
type Turn struct {
	Cell config.Cell
	// Arm is ArmA, or ArmB for the second arm of an A/A comparison.
	Arm string
	// Repeat counts the runs of an arm from 1.
	Repeat int
	// Seed is the run's own, so that no run finds the prompts of another in the
	// server's cache.
	Seed int

	single bool // the only run of its cell
}

// The arms of a cell. Without CAPACITY_AA there is ArmA alone.
const (
	ArmA = "a"
	ArmB = "b"
)

// Seeds of a cell: its own for the first run, and at these distances those of
// its repeats, of its second arm and of its scout.
const (
	repeatSeedStep  = 1
	armSeedOffset   = 1_000
	scoutSeedOffset = 1_000_000
	seedModulus     = 1 << 31 // CAPACITY_CONTEXT_SEED is below it
)

// Name tells the runs of a cell apart: r2, or b2 for an arm of an A/A
// comparison. It is a subtest's name and part of a file's.
func (t Turn) Name() string {
	if t.Cell.AA {
		return fmt.Sprintf("%s%d", t.Arm, t.Repeat)
	}
	return fmt.Sprintf("r%d", t.Repeat)
}

// Single says that the turn is the only run of its cell: it then needs no name
// of its own.
func (t Turn) Single() bool { return t.single }

// suffix ends the file stem of a turn's evidence.
func (t Turn) suffix() string {
	if t.single {
		return ""
	}
	return "-" + t.Name()
}

// ScoutSeed is the seed of the scout before this turn.
func (t Turn) ScoutSeed() int {
	if t.Cell.ScoutSeed != nil {
		return *t.Cell.ScoutSeed
	}
	return (t.Seed + scoutSeedOffset) % seedModulus
}

// turnsOf lists the runs of one cell in the order in which they are taken: the
// repeats of one arm, or of two arms there and back (a1 b1 b2 a2 a3 b3 ...), so
// that a drift in time falls on both alike.
func turnsOf(cell config.Cell) []Turn {
	var turns []Turn
	for repeat := 1; repeat <= cell.Repeats; repeat++ {
		arms := []string{ArmA}
		if cell.AA {
			arms = []string{ArmA, ArmB}
			if repeat%2 == 0 {
				arms = []string{ArmB, ArmA}
			}
		}
		for _, arm := range arms {
			turns = append(turns, Turn{Cell: cell, Arm: arm, Repeat: repeat, Seed: seedOf(cell, arm, repeat)})
		}
	}
	if len(turns) == 1 {
		turns[0].single = true
	}
	return turns
}

func seedOf(cell config.Cell, arm string, repeat int) int {
	seed := cell.ContextSeed + (repeat-1)*repeatSeedStep
	if arm == ArmB {
		seed += armSeedOffset
	}
	return seed % seedModulus
}

// turns lists all runs of a session in order: cell after cell, or the cells in
// turn, there and back, where CAPACITY_ORDER says interleaved.
func turns(s config.Settings) []Turn {
	cells := s.Cells()
	perCell := make([][]Turn, len(cells))
	for i, cell := range cells {
		perCell[i] = turnsOf(cell)
	}
	if s.Order != config.OrderInterleaved {
		var all []Turn
		for _, of := range perCell {
			all = append(all, of...)
		}
		return all
	}
	return interleave(perCell)
}

// interleave takes the k-th run of every cell, forwards for even k and backwards
// for odd: ABBA for two cells of two runs.
func interleave(perCell [][]Turn) []Turn {
	var all []Turn
	for k := 0; len(perCell) > 0 && k < len(perCell[0]); k++ {
		for i := range perCell {
			at := i
			if k%2 == 1 {
				at = len(perCell) - 1 - i
			}
			all = append(all, perCell[at][k])
		}
	}
	return all
}
