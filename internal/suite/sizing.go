package suite

import (
	"context"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/config"
	"anvil-capacity/internal/sizing"
	"anvil-capacity/internal/workload"
)

// planKey tells the plans of a turn apart: the cell's own and its scout's.
type planKey struct{ seed, requests int }

// sizedPlan is a plan whose prompts have their size in the model's own tokens.
type sizedPlan struct {
	plan   *workload.Plan
	sizing artifact.ContextSizing
}

// sizePrompts sizes the plans of the turn where CAPACITY_CONTEXT_SIZING says
// measured: the cell's, and its scout's, which has markers of another length.
func (c *Cell) sizePrompts(ctx context.Context) error {
	if c.ContextSizing != config.SizingMeasured {
		return nil
	}
	promptCap, err := c.promptCap()
	if err != nil {
		return err
	}
	sizer, err := sizing.New(sizing.Options{
		Server: c.endpoint.client, BaseURL: c.endpoint.baseURL, Params: c.params(),
		MaxPromptTokens: promptCap, Concurrency: c.Concurrency,
	})
	if err != nil {
		return err
	}
	sized := map[planKey]sizedPlan{}
	for _, key := range []planKey{{c.turn.Seed, c.Requests}, {c.turn.ScoutSeed(), c.ScoutRequests}} {
		if _, done := sized[key]; done || key.requests == 0 {
			continue
		}
		nominal, err := c.nominalPlan(key.seed, key.requests)
		if err != nil {
			return err
		}
		plan, record, err := sizer.Size(ctx, nominal)
		if err != nil {
			return err
		}
		sized[key] = sizedPlan{plan, record}
	}
	c.sized = sized
	c.server.Notes = append(c.server.Notes, c.Sizing().Notes...)
	return nil
}

// Sizing is how the cell's prompts were sized in real tokens, nil for nominal
// ones and before Preflight.
func (c *Cell) Sizing() *artifact.ContextSizing { return c.sizingOf(c.turn.Seed, c.Requests) }

func (c *Cell) sizingOf(seed, requests int) *artifact.ContextSizing {
	sized, ok := c.sized[planKey{seed, requests}]
	if !ok {
		return nil
	}
	return &sized.sizing
}

// tokenUnit names what the planned sizes are counted in.
func (c *Cell) tokenUnit() string {
	if c.ContextSizing == config.SizingMeasured {
		return "tokens"
	}
	return "nominal tokens"
}

// promptCap is the most tokens that a prompt may have; 0 is no limit.
func (c *Cell) promptCap() (int, error) {
	return workload.PromptCap(c.server.MaxModelLen, c.MaxTokens, c.ContextMargin)
}
