package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEdits(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want int
		why  string
	}{
		{"", "", 0, "equal"},
		{"", "ABC", 3, "three insertions"},
		{"ABC", "", 3, "three deletions"},
		{"ABC", "ABC", 0, "equal"},
		{"ABC", "ABD", 1, "one replacement"},
		{"ABC", "AC", 1, "one deletion"},
		{"ABC", "ACB", 1, "neighbours swapped are one edit"},
		{"KITTEN", "SITTING", 3, "the textbook case"},
		{"CA", "ABC", 3, "alignment, not true Damerau: nothing is edited twice"},
	} {
		assert.Equal(t, row.want, edits(row.a, row.b), "%s to %s: %s", row.a, row.b, row.why)
		assert.Equal(t, row.want, edits(row.b, row.a), "%s to %s: the same back", row.b, row.a)
	}
}

func TestNearest(t *testing.T) {
	for _, row := range []struct{ word, want, why string }{
		{"REQUEST", "REQUESTS", "one letter short"},
		{"CONCURENCY", "CONCURRENCY", "one of a pair of letters"},
		{"TRESHOLD", "THRESHOLDS", "two edits in eight letters"},
		{"TEMP", "", "more than two edits from everything"},
		{"SEARCH", "", "a name of a later issue, far from all that there are"},
		{"", "", "nothing is near nothing"},
	} {
		got, ok := nearest(row.word, names())
		assert.Equal(t, row.want, got, row.why)
		assert.Equal(t, row.want != "", ok)
	}
	// Each name, misspelt in one place, is found again.
	looked := 0
	for _, name := range names() {
		for i := range len(name) {
			got, _ := nearest(name[:i]+name[i+1:]+"", names())
			looked++
			if got != name {
				// A shorter name may be as near: RUN less R is UN, CELL less C is ELL.
				assert.LessOrEqual(t, edits(name[:i]+name[i+1:], got), 1, "%s less letter %d gave %q", name, i, got)
			}
		}
	}
	assert.Greater(t, looked, 300)
}
