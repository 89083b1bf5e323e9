// Package spelling measures how far a word is from those that it may have been
// meant for, so that an error can name the one that is near.
package spelling

// Distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b, in bytes: the optimal string alignment
// distance, in which no part is edited twice.
func Distance(a, b string) int {
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := prev[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, prev[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}

// Nearest gives the first of the candidates at the smallest Distance from word,
// and false when none is nearer than limit edits.
func Nearest(word string, candidates []string, limit int) (string, bool) {
	best, bestDistance := "", limit
	for _, c := range candidates {
		if d := Distance(word, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best, bestDistance < limit
}
