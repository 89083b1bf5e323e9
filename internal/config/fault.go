package config

import (
	"fmt"
	"strconv"
	"strings"
)

// shownLimitChars bounds how much of a value a message repeats, in characters.
const shownLimitChars = 120

// Fault is one thing that is wrong with the settings.
type Fault struct {
	// Variable is the full name, such as CAPACITY_REQUESTS; "" for a line of a
	// cell file that names none.
	Variable string
	// Where is the file and line, such as fixtures/cells/smoke.env:4; "" for the
	// environment and for defaults.
	Where string
	// Problem says what was got and what is wanted. It never holds a secret.
	Problem string
	// Hint says what to do; "" where the problem says it.
	Hint string
}

// Error gives the fault on one line.
func (f Fault) Error() string {
	var b strings.Builder
	switch {
	case f.Variable == "":
		b.WriteString(f.Where)
	case f.Where == "":
		b.WriteString(f.Variable)
	default:
		fmt.Fprintf(&b, "%s (%s)", f.Variable, f.Where)
	}
	b.WriteString(": ")
	b.WriteString(f.Problem)
	if f.Hint != "" {
		b.WriteString("; ")
		b.WriteString(f.Hint)
	}
	return b.String()
}

// Error is every fault of the settings. Load returns nothing else.
type Error struct {
	// Faults is never empty: unknown names first, then the cell file, then the
	// variables in the order of Variables, then what does not go together.
	Faults []Fault
}

// Error gives one line that counts the faults, then one line a fault.
func (e *Error) Error() string {
	var b strings.Builder
	noun := "faults"
	if len(e.Faults) == 1 {
		noun = "fault"
	}
	fmt.Fprintf(&b, "checking the settings: %d %s, so nothing was sent", len(e.Faults), noun)
	for _, f := range e.Faults {
		b.WriteString("\n  ")
		b.WriteString(f.Error())
	}
	return b.String()
}

// shown quotes a value for a message: on one line, whatever it holds, and no
// longer than shownLimitChars.
func shown(text string) string {
	kept := 0
	for at := range text {
		if kept == shownLimitChars {
			return strconv.Quote(text[:at]) + fmt.Sprintf("... (%d bytes)", len(text))
		}
		kept++
	}
	return strconv.Quote(text)
}
