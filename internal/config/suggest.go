package config

import (
	"strings"

	"anvil-capacity/internal/spelling"
)

// nearest gives the candidate that is fewest edits from word. It gives false
// when none is near enough to be what was meant: more than one edit, and one
// more for each four characters of word.
func nearest(word string, candidates []string) (string, bool) {
	return spelling.Nearest(word, candidates, 2+len(word)/4)
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
