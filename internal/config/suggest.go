package config

import "strings"

// nearest gives the candidate that is fewest edits from word. It gives false
// when none is near enough to be what was meant: more than one edit, and one
// more for each four characters of word.
func nearest(word string, candidates []string) (string, bool) {
	best, bestEdits := "", 2+len(word)/4
	for _, c := range candidates {
		if d := edits(word, c); d < bestEdits {
			best, bestEdits = c, d
		}
	}
	return best, best != ""
}

// withWords lists the candidates that hold word's underscore-separated words in
// a row, so that KEY finds API_KEY.
func withWords(word string, candidates []string) []string {
	var found []string
	if word == "" {
		return nil
	}
	for _, c := range candidates {
		if strings.Contains("_"+c+"_", "_"+word+"_") {
			found = append(found, c)
		}
	}
	return found
}

// edits counts the insertions, deletions, replacements and swaps of neighbours
// that turn a into b (optimal string alignment distance), in bytes.
func edits(a, b string) int {
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
