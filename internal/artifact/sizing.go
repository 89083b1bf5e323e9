package artifact

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"anvil-capacity/internal/record"
)

// Methods of ContextSizing.
const (
	// SizedByTokenizer counts with the server's own tokenizer; nothing is generated.
	SizedByTokenizer = "tokenize"
	// SizedByUsage counts with usage.prompt_tokens of requests for one token.
	SizedByUsage = "usage"
)

// ContextSizing says how prompts came to have their size in the model's own
// tokens (CAPACITY_CONTEXT_SIZING=measured). A token here is one of the prompt
// as the server bills it: chat template, marker and task are counted too.
type ContextSizing struct {
	// Method is SizedByTokenizer or SizedByUsage, and Source what was asked: a path
	// of the server, or usage.prompt_tokens.
	Method string `json:"method"`
	Source string `json:"source"`
	// Checked says that Source was held against usage; OffsetTokens is what usage
	// has beyond it, a chat template that it does not know.
	Checked      bool `json:"checked_against_usage"`
	OffsetTokens int  `json:"offset_tokens"`
	// Counts is how many prompts were counted, and Completions how many requests
	// the server was sent for it, beside the cell's own. None shares a prompt with
	// the cell.
	Counts      int `json:"counts"`
	Completions int `json:"completions"`
	// Tokens grow with characters by this line; it is of English prose.
	CharactersPerToken float64 `json:"characters_per_token"`
	FixedTokens        float64 `json:"fixed_tokens"`
	// ToleranceShare is how far from what was asked a size may be measured: 0.01.
	ToleranceShare float64 `json:"tolerance_share"`
	// Sizes has one entry a planned size, in ascending order.
	Sizes []SizedContext `json:"sizes"`
	// SharedPrefix is nil for unique prompts.
	SharedPrefix *SizedPrefix `json:"shared_prefix,omitempty"`
	// Notes are findings in words.
	Notes []string `json:"notes,omitempty"`
}

// SizedContext is one planned size.
type SizedContext struct {
	// AskedTokens is the planned size, after the cap, and Requests how many
	// requests of the plan have it.
	AskedTokens int `json:"asked_tokens"`
	Requests    int `json:"requests"`
	// EachRequest says that every prompt was counted and cut to size by itself;
	// otherwise all have one length, and Samples other prompts of it were counted.
	EachRequest bool `json:"each_request"`
	Samples     int  `json:"samples"`
	// CharactersMin to CharactersMax are the lengths of the prompts.
	CharactersMin int `json:"characters_min"`
	CharactersMax int `json:"characters_max"`
	// MeasuredTokens is the mean of what was counted.
	MeasuredTokens float64 `json:"measured_tokens"`
	MeasuredMin    int     `json:"measured_tokens_min"`
	MeasuredMax    int     `json:"measured_tokens_max"`
	// ErrorShare is measured over asked, less 1.
	ErrorShare float64 `json:"error_share"`
	// Observed is what the cell's own requests had; nil before the run, and where
	// no usage came.
	Observed *ObservedContext `json:"observed,omitempty"`
}

// SizedPrefix is the shared prefix of every prompt. Its tokens follow from the
// line and are not counted by themselves.
type SizedPrefix struct {
	AskedTokens     int     `json:"asked_tokens"`
	Characters      int     `json:"characters"`
	EstimatedTokens float64 `json:"estimated_tokens"`
}

// ObservedContext is the prompts of one size by the usage of the cell's own
// completed requests.
type ObservedContext struct {
	Requests   int     `json:"requests"`
	MeanTokens float64 `json:"mean_tokens"`
	MinTokens  int     `json:"min_tokens"`
	MaxTokens  int     `json:"max_tokens"`
	// ErrorShare is of the mean, WorstErrorShare of the request furthest off; each
	// is over what was asked, less 1.
	ErrorShare      float64 `json:"error_share"`
	WorstErrorShare float64 `json:"worst_error_share"`
}

// observed gives the sizing with what the records say of it, nil for nil. The
// sizing itself is not changed.
func (s *ContextSizing) observed(records []record.Record) *ContextSizing {
	if s == nil {
		return nil
	}
	with := *s
	with.Sizes = slices.Clone(s.Sizes)
	for i := range with.Sizes {
		with.Sizes[i].Observed = observeSize(records, with.Sizes[i].AskedTokens)
	}
	return &with
}

func observeSize(records []record.Record, asked int) *ObservedContext {
	var o ObservedContext
	sum := 0
	for i := range records {
		r := &records[i]
		if !r.Completed() || r.Tokens.Prompt == nil || r.PlannedContextTokens != asked {
			continue
		}
		n := *r.Tokens.Prompt
		if o.Requests == 0 {
			o.MinTokens, o.MaxTokens = n, n
		}
		o.Requests++
		sum += n
		o.MinTokens, o.MaxTokens = min(o.MinTokens, n), max(o.MaxTokens, n)
	}
	if o.Requests == 0 || asked < 1 {
		return nil
	}
	o.MeanTokens = float64(sum) / float64(o.Requests)
	o.ErrorShare = o.MeanTokens/float64(asked) - 1
	o.WorstErrorShare = float64(o.MaxTokens)/float64(asked) - 1
	if low := float64(o.MinTokens)/float64(asked) - 1; -low > o.WorstErrorShare {
		o.WorstErrorShare = low
	}
	return &o
}

// Deviations says, a line a size, where the cell's own prompts were not as large
// as they had been measured to be; nil where they were.
func (s *ContextSizing) Deviations() []string {
	if s == nil {
		return nil
	}
	var lines []string
	for _, size := range s.Sizes {
		o := size.Observed
		asked := float64(size.AskedTokens)
		if o == nil || math.Abs(o.MeanTokens-asked) <= s.ToleranceShare*asked {
			continue
		}
		lines = append(lines, fmt.Sprintf("prompts of %d tokens (CAPACITY_CONTEXT_SIZING=measured) had %.1f on average by the usage of %d requests, %+.1f %%, though %.1f had been measured before (%s)",
			size.AskedTokens, o.MeanTokens, o.Requests, 100*o.ErrorShare, size.MeasuredTokens, s.Source))
	}
	return lines
}

// String tells it in a line a size.
func (s *ContextSizing) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "prompts sized in the model's own tokens by %s (%d counted, %d requests for it)", s.Source, s.Counts, s.Completions)
	for _, size := range s.Sizes {
		fmt.Fprintf(&b, "\n%d tokens asked: %s characters, %.1f tokens measured (%+.2f %%)",
			size.AskedTokens, rangeText(size.CharactersMin, size.CharactersMax), size.MeasuredTokens, 100*size.ErrorShare)
		if size.EachRequest {
			fmt.Fprintf(&b, ", each of %d prompts by itself", size.Samples)
		} else {
			fmt.Fprintf(&b, ", %d samples", size.Samples)
		}
		if o := size.Observed; o != nil {
			fmt.Fprintf(&b, "; %d requests had %s, mean %.1f (%+.2f %%)", o.Requests, rangeText(o.MinTokens, o.MaxTokens), o.MeanTokens, 100*o.ErrorShare)
		}
	}
	if p := s.SharedPrefix; p != nil {
		fmt.Fprintf(&b, "\nshared prefix of %d tokens asked: %d characters, about %.0f tokens", p.AskedTokens, p.Characters, p.EstimatedTokens)
	}
	return b.String()
}

func rangeText(low, high int) string {
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}
