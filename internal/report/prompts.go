package report

import (
	"io"

	"anvil-capacity/internal/artifact"
)

// Prompts writes what is known of the prompts beyond their nominal size: how they
// were sized in real tokens, and how a shared prefix parted cold from warm
// requests. It writes nothing where neither was asked for.
func Prompts(w io.Writer, h *artifact.Harness) error {
	if h == nil {
		return nil
	}
	text := ""
	if h.ContextSizing != nil {
		text += h.ContextSizing.String() + "\n"
	}
	if h.CacheSplit != nil {
		text += h.CacheSplit.String() + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
