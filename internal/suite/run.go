package suite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"time"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/client"
	"anvil-capacity/internal/config"
	"anvil-capacity/internal/engine"
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
	// Engine is the engine's own view of the run.
	Engine *engine.Report
}

// Partial says that the artifact is not one that a threshold may pass on: the
// run was cut short, or the artifact is not valid.
func (o *Outcome) Partial() bool {
	_, partial := o.Native.Partial()
	return partial
}

// Scout runs the warm-up: the cell's workload over CAPACITY_SCOUT_REQUESTS
// requests with the scout's seed and an artifact of its own.
func (c *Cell) Scout(ctx context.Context, progress func(load.Progress)) (*Outcome, error) {
	out, err := c.drive(ctx, c.turn.ScoutSeed(), c.ScoutRequests, scoutSuffix, progress)
	c.scout = out
	return out, err
}

// Run runs the cell itself, after the suite has measured its own error at the
// same load.
func (c *Cell) Run(ctx context.Context, progress func(load.Progress)) (*Outcome, error) {
	c.checkSelf(ctx)
	return c.drive(ctx, c.turn.Seed, c.Requests, "", progress)
}

// errSuitePanicked keeps further cells from starting after a panic.
var errSuitePanicked = errors.New("the suite panicked")

// drive runs one plan and leaves its evidence. An error means that nothing was
// sent; what goes wrong with the evidence afterwards stands in the Outcome.
func (c *Cell) drive(ctx context.Context, seed, requests int, suffix string, progress func(load.Progress)) (out *Outcome, err error) {
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
	paths := c.session.paths(c.turn, suffix)
	if c.Gaps == config.GapsAll {
		facts.GapsFile = filepath.Base(paths.Gaps)
	}
	k, err := newKeeper(paths, facts, c.endpoint.redact)
	if err != nil {
		c.session.halt(err)
		return nil, err
	}
	defer func() {
		if value := recover(); value != nil {
			out, err = k.salvage(value, debug.Stack())
			c.session.halt(errSuitePanicked)
		}
	}()
	ctx, stop := k.watch(ctx)
	defer stop()
	if c.endpoint.embedded != nil {
		c.endpoint.embedded.DrainLog() // what came before is not this run's
	}
	counters, err := c.watchEngine(ctx)
	if err != nil {
		return nil, errors.Join(err, k.drop())
	}
	// Handshakes are no part of an answer: the pool is connected before the
	// first clock starts, and last of all, since a server may close what idles.
	// Where that fails the requests will say why.
	_, _ = c.endpoint.client.Warm(ctx, min(c.Concurrency, requests))
	usage := selfcheck.StartUsage()
	result, err := load.Run(ctx, load.Options{
		Plan: plan, Client: c.endpoint.client, Body: bodies(plan, template),
		Concurrency: c.Concurrency, Policy: c.policy(), OnProgress: progress,
		OnRecord: k.add, OnArrivals: k.addArrivals(),
	})
	if err != nil {
		return nil, errors.Join(err, k.drop())
	}
	facts.Client = usage.Stop()
	view := counters.report(ctx, result.Records)
	facts.SelfCheck = c.ownError(result)
	out = outcome(facts, result)
	out.Engine, out.Native.Harness.Engine = &view, engineOf(view)
	out.Native.Harness.TimingSuspect = suspect(&out.Native, result.Records)
	k.keep(out)
	c.session.halt(errors.Join(out.Cause, out.EvidenceErr))
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

// outcome folds a run into its artifact; nothing is written yet.
func outcome(facts artifact.Facts, result load.Result) *Outcome {
	run := artifact.Run{Facts: facts, Records: result.Records, StartedAt: result.StartedAt, WallMS: record.MS(result.Wall)}
	if len(result.Records) == 0 {
		run.StartedAt = time.Now() // it was ended before its first request
	}
	if !result.Complete() {
		run.IncompleteReason = incompleteReason(result)
	}
	return &Outcome{Result: result, Native: artifact.Build(run), Cause: result.Cause}
}

func incompleteReason(result load.Result) string {
	if result.Cause != nil {
		return result.Cause.Error()
	}
	return fmt.Sprintf("%d of %d planned requests were run", len(result.Records), result.Planned)
}
