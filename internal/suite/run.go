package suite

import (
	"context"
	"errors"
	"fmt"
	"os"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/client"
	"anvil-capacity/internal/load"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/selfcheck"
	"anvil-capacity/internal/workload"
)

// Outcome is a run of one plan with its evidence on disk.
type Outcome struct {
	Result load.Result
	Native artifact.Native
	// NativePath is the artifact's file: the partial one where the run was cut
	// short. SummaryPath is "" then.
	NativePath, SummaryPath string
	// Cause is why the run was cut short, nil for one that came to its end.
	Cause error
	// EvidenceErr is what went wrong with the files, nil when all are written.
	EvidenceErr error
}

// Scout runs the warm-up: the cell's workload over CAPACITY_SCOUT_REQUESTS
// requests with the scout's seed and an artifact of its own.
func (c *Cell) Scout(ctx context.Context, progress func(load.Progress)) (*Outcome, error) {
	seed := c.ContextSeed + 1
	if c.ScoutSeed != nil {
		seed = *c.ScoutSeed
	}
	out, err := c.drive(ctx, seed, c.ScoutRequests, scoutSuffix, progress)
	c.scout = out
	return out, err
}

// Run runs the cell itself.
func (c *Cell) Run(ctx context.Context, progress func(load.Progress)) (*Outcome, error) {
	return c.drive(ctx, c.ContextSeed, c.Requests, "", progress)
}

// drive runs one plan and leaves its evidence. An error means that nothing was
// sent; what goes wrong with the evidence afterwards stands in the Outcome.
func (c *Cell) drive(ctx context.Context, seed, requests int, suffix string, progress func(load.Progress)) (*Outcome, error) {
	plan, err := c.plan(seed, requests)
	if err != nil {
		return nil, err
	}
	facts, err := c.facts(plan, seed)
	if err != nil {
		return nil, err
	}
	template, err := client.NewTemplate(c.params())
	if err != nil {
		return nil, err
	}
	paths := c.session.paths(c.Cell, suffix)
	journal, err := artifact.CreateJournal(paths.Journal, facts)
	if err != nil {
		return nil, err
	}
	if c.endpoint.embedded != nil {
		c.endpoint.embedded.DrainLog() // what came before is not this run's
	}
	// Handshakes are no part of an answer: the pool is connected before the
	// first clock starts. Where that fails the requests will say why.
	_, _ = c.endpoint.client.Warm(ctx, min(c.Concurrency, requests))
	var journalErr error
	result, err := load.Run(ctx, load.Options{
		Plan: plan, Client: c.endpoint.client, Body: bodies(plan, template),
		Concurrency: c.Concurrency, Policy: c.policy(), OnProgress: progress,
		OnRecord: func(r record.Record) { journalErr = errors.Join(journalErr, journal.Append(r)) },
	})
	if err != nil {
		return nil, errors.Join(err, journal.Remove())
	}
	if c.endpoint.embedded != nil {
		facts.SelfCheck = selfcheck.Compare(result.Records, c.endpoint.embedded.DrainLog(), c.Concurrency)
	}
	out := c.keep(facts, result, paths, journal)
	out.EvidenceErr = errors.Join(out.EvidenceErr, journalErr)
	return out, nil
}

// bodies gives the body builder of a plan: the prompt goes through one buffer a
// call and dies with it.
func bodies(plan *workload.Plan, template *client.Template) func(int) ([]byte, error) {
	return func(index int) ([]byte, error) {
		prompt := plan.AppendPrompt(nil, index)
		return template.Append(nil, prompt), nil
	}
}

// keep writes the evidence of a run that has ended, and only then lets go of
// its journal.
func (c *Cell) keep(facts artifact.Facts, result load.Result, paths Paths, journal *artifact.Journal) *Outcome {
	out := &Outcome{Result: result, Cause: result.Cause, NativePath: paths.Native, SummaryPath: paths.Summary}
	run := artifact.Run{Facts: facts, Records: result.Records, StartedAt: result.StartedAt, WallMS: record.MS(result.Wall)}
	if !result.Complete() {
		run.IncompleteReason = incompleteReason(result)
		out.NativePath, out.SummaryPath = paths.Partial, ""
	}
	out.Native = artifact.Build(run)
	err := artifact.Write(out.NativePath, out.Native)
	var invalid *artifact.InvalidError
	if errors.As(err, &invalid) {
		// A fault of the suite: the rows are evidence all the same.
		out.Native.MarkPartial(err.Error())
		out.NativePath, out.SummaryPath = paths.Partial, ""
		err = errors.Join(err, artifact.Write(paths.Partial, out.Native))
	}
	switch {
	case err != nil:
		out.EvidenceErr = errors.Join(err, journal.Close(), fmt.Errorf("the rows are kept in %q", journal.Path()))
	case out.SummaryPath != "":
		out.EvidenceErr = errors.Join(artifact.WriteSummary(out.NativePath, out.SummaryPath), removed(journal))
	default:
		out.EvidenceErr = removed(journal)
	}
	return out
}

func removed(j *artifact.Journal) error {
	err := j.Remove()
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func incompleteReason(result load.Result) string {
	if result.Cause != nil {
		return result.Cause.Error()
	}
	return fmt.Sprintf("%d of %d planned requests were run", len(result.Records), result.Planned)
}
