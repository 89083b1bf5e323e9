package suite

import (
	"context"
	"fmt"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/client"
	"anvil-capacity/internal/config"
	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/engine"
	"anvil-capacity/internal/load"
	"anvil-capacity/internal/preflight"
	"anvil-capacity/internal/workload"
)

// Cell is one run of a cell. Preflight comes first, then Scout where one is
// asked for, then Run.
type Cell struct {
	config.Cell
	turn     Turn
	session  *Session
	endpoint *endpoint
	server   preflight.Report
	scout    *Outcome
	// sized are the plans whose prompts were sized in real tokens; nil is nominal.
	sized map[planKey]sizedPlan
	// selfCheck is the suite's own error before this cell, nil when not measured;
	// selfCheckErr says why it could not be.
	selfCheck    *artifact.SelfCheck
	selfCheckErr error
	// identity is what the server says it is, asked once a cell; nil is not yet.
	identity *engine.Identity
}

// NewCell opens the target of a turn; Close ends it. It refuses when a cell
// before this one was cut short or could not keep its evidence.
func (s *Session) NewCell(turn Turn) (*Cell, error) {
	if s.halted != nil {
		return nil, fmt.Errorf("not started, since the cell before was ended: %w", s.halted)
	}
	e, err := s.openEndpoint(turn.Cell)
	if err != nil {
		return nil, fmt.Errorf("opening the target of cell %s: %w", turn.Cell.Name, err)
	}
	return &Cell{Cell: turn.Cell, turn: turn, session: s, endpoint: e}, nil
}

// Close lets the connections go, and ends the embedded endpoint.
func (c *Cell) Close() { c.endpoint.close() }

// Target is the base URL in force.
func (c *Cell) Target() string { return c.endpoint.baseURL }

// Server is what the preflight found out.
func (c *Cell) Server() preflight.Report { return c.server }

// Preflight asks the server its questions and makes sure that the plan fits its
// context. With CAPACITY_PREFLIGHT off only the model is looked up, where none
// is named.
func (c *Cell) Preflight(ctx context.Context) error {
	ask := preflight.Check
	if !c.Cell.Preflight {
		ask = preflight.Discover
	}
	report, err := ask(ctx, c.preflightOptions())
	if err != nil {
		return err
	}
	c.server = report
	plan, err := c.plan(c.turn.Seed, c.Requests)
	if err != nil {
		return err
	}
	for _, cut := range plan.Cuts() {
		if err := c.noteCut(cut); err != nil {
			return err
		}
	}
	return c.sizePrompts(ctx)
}

// noteCut says that prompts are shorter than asked. One that the model could
// not take even without an answer is no slip of the margin but a wrong cell.
func (c *Cell) noteCut(cut workload.Cut) error {
	room := fmt.Sprintf("the context of %q is %d tokens, less CAPACITY_MAX_TOKENS=%d and CAPACITY_CONTEXT_MARGIN=%d",
		c.server.Model, c.server.MaxModelLen, c.MaxTokens, c.ContextMargin)
	if cut.AskedTokens > c.server.MaxModelLen {
		return fmt.Errorf("fitting prompts of CAPACITY_CONTEXT_TOKENS=%d into the model: %s leaves %d; ask for that at most",
			cut.AskedTokens, room, cut.ContextTokens)
	}
	c.server.Notes = append(c.server.Notes, fmt.Sprintf("%d prompts are cut from %d to %d %s: %s",
		cut.Requests, cut.AskedTokens, cut.ContextTokens, c.tokenUnit(), room))
	return nil
}

// plan is the plan of this cell with a seed and a number of requests: the cell's
// own, or the scout's.
func (c *Cell) plan(seed, requests int) (*workload.Plan, error) {
	if sized, ok := c.sized[planKey{seed, requests}]; ok {
		return sized.plan, nil
	}
	return c.nominalPlan(seed, requests)
}

// nominalPlan is the plan before its prompts are sized in real tokens, if they
// are to be.
func (c *Cell) nominalPlan(seed, requests int) (*workload.Plan, error) {
	promptCap, err := c.promptCap()
	if err != nil {
		return nil, err
	}
	spec := workload.Spec{
		Requests: requests, Seed: seed, ResponseWords: c.ResponseWords,
		Canaries: c.Canaries != contract.Off,
		Shared:   c.PromptCache == config.CacheShared, SharedPrefixTokens: c.SharedPrefixTokens,
		MaxPromptTokens: promptCap,
	}
	for _, part := range c.Context.Parts {
		spec.Parts = append(spec.Parts, workload.Part{Tokens: part.Tokens, Weight: part.Weight})
	}
	return workload.New(spec)
}

// params are the request parameters that all requests of the cell share.
func (c *Cell) params() client.Params {
	return client.Params{
		Model: c.server.Model, MaxTokens: c.MaxTokens, MaxTokensName: c.server.MaxTokensName,
		OmitStreamOptions: c.server.OmitStreamOptions,
		Temperature:       c.Temperature, TopP: c.TopP,
		Thinking: c.Thinking, ReasoningEffort: c.ReasoningEffort, ExtraBody: c.ExtraBody,
	}
}

func (c *Cell) policy() load.Policy {
	return load.Policy{
		Canaries: c.Canaries, Words: c.ControlledOutput, ResponseWords: c.ResponseWords,
		RequireUsage: c.Usage == config.UsageRequire, Redact: c.endpoint.redact,
	}
}
