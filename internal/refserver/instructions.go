package refserver

// readInstructions reads what a prompt asks for, in the language of the suite's prompts.
func readInstructions(prompt string) instructions { return instructions{} }
