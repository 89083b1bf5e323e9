// Package artifact holds the evidence of a run: the native artifact of one
// cell, the summary derived from it, and the journal that survives a kill.
//
// The three files of a cell, and who makes them:
//
//	Build(Run) Native        facts and records -> the artifact as a value
//	Write(path, native)      validated when complete, written atomically
//	Summarize(path) Summary  from the native file alone; the same bytes again
//	Journal                  one line a finished record, while the cell runs
//	Recover(path)            a journal -> an artifact that says it is partial
//
// Definitions: PROTOCOL sections 1 to 6. Artifacts of other implementations of
// the protocol (capacity-v2 to v4) are read by ReadNative; keys that they lack
// are nil here, and nil never reads as zero. Whatever this suite adds to the
// format stands under the key harness or as an extra key of a row.
//
// Nothing here measures: every number comes from internal/record and
// internal/stats.
package artifact
