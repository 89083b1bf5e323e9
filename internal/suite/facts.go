package suite

import (
	"path/filepath"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/config"
	"anvil-capacity/internal/workload"
)

// facts writes down what is known of a run before its first request.
func (c *Cell) facts(plan *workload.Plan, seed int) (artifact.Facts, error) {
	f := artifact.Facts{
		BaseURL: c.endpoint.baseURL, Model: c.server.Model, Engine: c.Engine, GPU: c.GPU,
		ClockDomainID: c.ClockDomainID, ConfigurationFingerprint: c.ConfigurationFingerprint,
		Requests: plan.Len(), Concurrency: c.Concurrency,
		ContextTokens: fixedContext(c.Context), ContextSeed: seed, ContextDistribution: plan.ContextDistribution(),
		MaxContextTokens: c.server.MaxModelLen, MaxTokens: c.MaxTokens, ResponseWords: c.ResponseWords,
		PromptCacheMode: c.PromptCache, SharedPrefixTokens: c.SharedPrefixTokens,
		CanaryPolicy: c.Canaries, ControlledOutputPolicy: c.ControlledOutput, UsagePolicy: c.Usage,
		Sampling: c.sampling(),
		ServeFlags: artifact.ServeFlags{
			ThinkingMode: c.Thinking, ReasoningEffort: given(c.ReasoningEffort),
			SharedPrefixBurst: c.PromptCache == config.CacheShared,
		},
		Endpoint: artifact.Endpoint{Embedded: c.endpoint.embedded != nil},
		Notes:    c.server.Notes,

		ContextSizing: c.sizingOf(seed, plan.Len()),
	}
	if c.endpoint.embedded != nil {
		f.Engine = EmbeddedEngine
	}
	if c.scout == nil {
		return f, nil
	}
	link, err := artifact.ScoutFrom(c.scout.NativePath)
	if err != nil {
		return f, err
	}
	link.Artifact = filepath.Base(link.Artifact)
	f.Scout = &link
	return f, nil
}

// fixedContext is the one size of a context, 0 for a distribution.
func fixedContext(c config.Context) int {
	if len(c.Parts) != 1 {
		return 0
	}
	return c.Parts[0].Tokens
}

// sampling records what was asked and what is sent; they are the same here, and
// what the server made of it it does not say.
func (c *Cell) sampling() artifact.Sampling {
	asked := artifact.SamplingValues{Temperature: &c.Temperature, TopP: c.TopP}
	return artifact.Sampling{Requested: asked, Sent: asked}
}

func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
