package refserver

import "anvil-capacity/internal/workload"

// instructions are what a prompt asks the answer to be.
type instructions struct {
	marker   string // "": none
	words    int    // how many times workload.Word follows
	hasWords bool   // false: any text may follow
}

// readInstructions reads the task of a prompt that the workload made. A prompt
// of any other kind asks for nothing in particular.
func readInstructions(prompt string) instructions {
	in, ok := workload.ParseInstructions(prompt)
	if !ok {
		return instructions{}
	}
	return instructions{marker: in.Marker, words: in.Words, hasWords: in.HasWords}
}
