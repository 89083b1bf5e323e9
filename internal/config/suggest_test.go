package config

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"anvil-capacity/internal/spelling"
)

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
				assert.LessOrEqual(t, spelling.Distance(name[:i]+name[i+1:], got), 1, "%s less letter %d gave %q", name, i, got)
			}
		}
	}
	assert.Greater(t, looked, 300)
}
