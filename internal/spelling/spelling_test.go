package spelling

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDistance(t *testing.T) {
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
		{"FLAW", "LAWN", 2, "one deleted, one inserted"},
		{"CA", "ABC", 3, "alignment, not true Damerau: nothing is edited twice"},
	} {
		assert.Equal(t, row.want, Distance(row.a, row.b), "%s to %s: %s", row.a, row.b, row.why)
		assert.Equal(t, row.want, Distance(row.b, row.a), "%s to %s: the same back", row.b, row.a)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"REQUESTS", "REPEATS"}
	for _, row := range []struct {
		word  string
		limit int
		want  string
		why   string
	}{
		{"REQUEST", 3, "REQUESTS", "one edit"},
		{"REPEAT", 3, "REPEATS", "one edit from the second"},
		{"XYZ", 3, "", "nothing is near"},
		{"REQUEST", 1, "", "one edit is not nearer than one"},
	} {
		got, ok := Nearest(row.word, words, row.limit)
		assert.Equal(t, row.want, got, row.why)
		assert.Equal(t, row.want != "", ok, row.why)
	}
}
