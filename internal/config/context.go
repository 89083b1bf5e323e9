package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Context is the nominal size of a cell's prompts: one size, or several that
// share the requests by weight. Load's are canonical (sizes ascending, weights
// without a common factor), so equal contexts have equal names.
type Context struct {
	// Parts has one part for a fixed size. Sizes are distinct. The zero Context
	// has none and comes from nowhere in this package.
	Parts []ContextPart
}

// ContextPart is one size of a Context.
type ContextPart struct {
	// Tokens is the nominal size, 32 to 1,048,576.
	Tokens int
	// Weight is the part's share of the requests, over the sum of all weights.
	// 1 to 10,000.
	Weight int
}

// Fixed gives the Context of one size.
func Fixed(tokens int) Context { return Context{Parts: []ContextPart{{Tokens: tokens, Weight: 1}}} }

// Name reads like 32768, or 8192x3_32768x1 for a distribution.
func (c Context) Name() string {
	if len(c.Parts) == 1 {
		return strconv.Itoa(c.Parts[0].Tokens)
	}
	names := make([]string, len(c.Parts))
	for i, p := range c.Parts {
		names[i] = fmt.Sprintf("%dx%d", p.Tokens, p.Weight)
	}
	return strings.Join(names, "_")
}

// Smallest gives the smallest size in tokens, 0 for the zero Context.
func (c Context) Smallest() int {
	smallest := 0
	for i, p := range c.Parts {
		if i == 0 || p.Tokens < smallest {
			smallest = p.Tokens
		}
	}
	return smallest
}

// Largest gives the largest size in tokens, 0 for the zero Context.
func (c Context) Largest() int {
	largest := 0
	for _, p := range c.Parts {
		largest = max(largest, p.Tokens)
	}
	return largest
}

// contexts parses a comma list of sizes and distributions.
func contexts(field func(*Settings) *[]Context) kind {
	tokens := limits{contextMin, contextMax}
	return kind{
		allowed: fmt.Sprintf("a comma list; each %s, or a distribution of up to %d sizes with weights %s, such as 8192x3+32768x1",
			tokens, contextPartsMax, limits{1, contextWeightMax}),
		parse: func(v *value, s *Settings) {
			seen := map[string]bool{}
			for _, item := range v.items() {
				context, want, hint := parseContext(item.text, tokens)
				if want == "" && seen[context.Name()] {
					want, hint = "each context once", "it has the same sizes and weights as an item before it"
				}
				if want != "" {
					v.wrongItem(item, want, hint)
					continue
				}
				seen[context.Name()] = true
				*field(s) = append(*field(s), context)
			}
		},
	}
}

// parseContext gives the canonical Context, or what was wanted and a hint.
func parseContext(text string, tokens limits) (c Context, want, hint string) {
	for part := range strings.SplitSeq(text, "+") {
		p, want, hint := parseContextPart(strings.TrimSpace(part), tokens)
		if want != "" {
			return Context{}, want, hint
		}
		c.Parts = append(c.Parts, p)
	}
	if len(c.Parts) > contextPartsMax {
		return Context{}, fmt.Sprintf("at most %d sizes in a distribution", contextPartsMax), ""
	}
	c.canonical()
	for i := 1; i < len(c.Parts); i++ {
		if c.Parts[i].Tokens == c.Parts[i-1].Tokens {
			return Context{}, "each size once in a distribution", "add the weights up"
		}
	}
	return c, "", ""
}

// parseContextPart reads 8192x3, or 8192, which has weight 1.
func parseContextPart(text string, tokens limits) (p ContextPart, want, hint string) {
	size, weight, weighted := strings.Cut(text, "x")
	p.Weight = 1
	if p.Tokens, want, hint = parseWhole(strings.TrimSpace(size), tokens); want != "" {
		return p, want + " tokens", hint
	}
	if weighted {
		if p.Weight, want, hint = parseWhole(strings.TrimSpace(weight), limits{1, contextWeightMax}); want != "" {
			return p, want + " as weight", hint
		}
	}
	return p, "", ""
}

// canonical sorts the parts by size and takes common factors out of the weights:
// two ways to write one distribution make one plan and one name.
func (c *Context) canonical() {
	slices.SortFunc(c.Parts, func(a, b ContextPart) int { return cmp.Compare(a.Tokens, b.Tokens) })
	factor := 0
	for _, p := range c.Parts {
		factor = gcd(p.Weight, factor)
	}
	for i := range c.Parts {
		c.Parts[i].Weight /= factor
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
