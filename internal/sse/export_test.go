package sse

// Exports for the tests of package sse_test.

// Held is the memory that p keeps, in bytes; see TestMemory.
func Held(p *Parser) int { return held(p) }

// StartBytes and MarkBytes bound it from below.
const (
	StartBytes = startBytes
	MarkBytes  = 3
)
