// Package suite runs capacity cells: it puts the parts in their order
// (preflight, scout, load, artifact, verdicts) and leaves to the caller what a
// verdict does to a test.
//
//	Open        settings -> Session: everything that can be refused before a request
//	NewCell     one cell: its target, client and plan
//	Preflight   the questions to the server
//	Scout, Run  drive a plan, keep the evidence, give an Outcome
//
// A Session and its Cells belong to one goroutine.
package suite
