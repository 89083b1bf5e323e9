package config

import (
	"fmt"
	"slices"
	"strings"

	"anvil-capacity/internal/contract"
)

// contradiction is one way in which variables that are right alone do not go
// together.
type contradiction struct {
	// names lists the variables that the check reads, without Prefix. The fault
	// is reported under the first one. When any of them is suspect the check is
	// left out: it would judge a value that nobody meant.
	names []string
	// found gives the problem and a hint; "" is none.
	found func(Settings, map[string]given) (problem, hint string)
}

// crossCheck reports every contradiction, and lets the default of STALL_TIMEOUT
// follow a shorter TIMEOUT.
func (l *loader) crossCheck() {
	if _, ok := l.given["STALL_TIMEOUT"]; !ok {
		l.settings.StallTimeout = min(l.settings.StallTimeout, l.settings.Timeout)
	}
	if l.blind || l.suspect["CELL"] {
		return
	}
	for _, c := range contradictions {
		if slices.ContainsFunc(c.names, func(name string) bool { return l.suspect[name] }) {
			continue
		}
		if problem, hint := c.found(l.settings, l.given); problem != "" {
			l.faults = append(l.faults, Fault{
				Variable: Prefix + c.names[0], Where: l.given[c.names[0]].where, Problem: problem, Hint: hint,
			})
		}
	}
}

// contradictions are looked for in this order.
var contradictions = []contradiction{
	{[]string{"API_KEY_FILE", "API_KEY"}, twoKeys},
	{[]string{"HEADERS", "API_KEY", "API_KEY_FILE"}, twoAuthorizations},
	{[]string{"CA_FILE", "BASE_URL"}, certificatesInTheClear},
	{[]string{"MAX_TOKENS", "CANARIES"}, noRoomForMarker},
	{[]string{"MAX_TOKENS", "RESPONSE_WORDS"}, noRoomForWords},
	{[]string{"CONTROLLED_OUTPUT", "RESPONSE_WORDS"}, strictWithoutWords},
	{[]string{"RESPONSE_WORDS", "CONTROLLED_OUTPUT", "CANARIES"}, wordsBeyondCapture},
	{[]string{"SHARED_PREFIX_TOKENS", "PROMPT_CACHE"}, prefixWithoutSharing},
	{[]string{"SHARED_PREFIX_TOKENS", "PROMPT_CACHE", "CONTEXT_TOKENS"}, prefixBeyondContext},
	{[]string{"CONTEXT_TOKENS", "MAX_MODEL_LEN", "MAX_TOKENS", "CONTEXT_MARGIN"}, contextBeyondModel},
	{[]string{"CONCURRENCY", "CONTEXT_TOKENS", "RESPONSE_WORDS"}, tooManyCells},
	{[]string{"STALL_TIMEOUT", "TIMEOUT"}, stallBeyondTimeout},
	{[]string{"REASONING_EFFORT", "THINKING"}, thinkingTwice},
	{[]string{"MAX_REGRESSION", "BASELINE", "AA"}, marginsWithoutBaseline},
	{[]string{"BASELINE_ALLOW", "BASELINE"}, allowedWithoutBaseline},
}

func twoKeys(_ Settings, set map[string]given) (problem, hint string) {
	_, key := set["API_KEY"]
	_, file := set["API_KEY_FILE"]
	if !key || !file {
		return "", ""
	}
	return "got a key beside that of CAPACITY_API_KEY, want one of the two", ""
}

func twoAuthorizations(s Settings, _ map[string]given) (problem, hint string) {
	isAuthorization := func(h Header) bool { return h.Name == "Authorization" }
	if s.APIKey == "" || !slices.ContainsFunc(s.Headers, isAuthorization) {
		return "", ""
	}
	return "got an Authorization header beside a key, want one of the two", "CAPACITY_API_KEY sends Authorization: Bearer by itself"
}

func certificatesInTheClear(s Settings, _ map[string]given) (problem, hint string) {
	if s.CAFile == "" || !strings.HasPrefix(s.BaseURL, "http://") {
		return "", ""
	}
	return "got certificates for a base URL that begins with http://, want https:// or no certificates", ""
}

func noRoomForMarker(s Settings, _ map[string]given) (problem, hint string) {
	if s.Canaries == contract.Off || s.MaxTokens >= canaryTokensMin {
		return "", ""
	}
	return fmt.Sprintf("got %d with CAPACITY_CANARIES=%s, want at least %d", s.MaxTokens, s.Canaries, canaryTokensMin),
		"a shorter answer cannot hold its marker; CAPACITY_CANARIES=off asks for none"
}

func noRoomForWords(s Settings, _ map[string]given) (problem, hint string) {
	words := slices.Max(s.ResponseWords)
	if words <= s.MaxTokens {
		return "", ""
	}
	return fmt.Sprintf("got %d with CAPACITY_RESPONSE_WORDS=%d, want at least %d", s.MaxTokens, words, words), "a word is at least one token"
}

func strictWithoutWords(s Settings, _ map[string]given) (problem, hint string) {
	if s.ControlledOutput != contract.Strict || slices.Min(s.ResponseWords) > 0 {
		return "", ""
	}
	return "got strict with CAPACITY_RESPONSE_WORDS=0, want words in every cell", "set CAPACITY_RESPONSE_WORDS, or CAPACITY_CONTROLLED_OUTPUT=observe"
}

func wordsBeyondCapture(s Settings, _ map[string]given) (problem, hint string) {
	words := slices.Max(s.ResponseWords)
	strict := s.ControlledOutput == contract.Strict || s.Canaries == contract.Strict
	if !strict || words <= capturableWordsMax {
		return "", ""
	}
	return fmt.Sprintf("got %d under a strict policy, want at most %d", words, capturableWordsMax),
		fmt.Sprintf("an answer is captured up to %d characters, and a longer one fails strict checks; set CAPACITY_CONTROLLED_OUTPUT and CAPACITY_CANARIES to observe", contract.CaptureLimitChars)
}

func prefixWithoutSharing(s Settings, _ map[string]given) (problem, hint string) {
	switch {
	case s.PromptCache == CacheShared && s.SharedPrefixTokens == 0:
		return "got 0 with CAPACITY_PROMPT_CACHE=shared, want above 0", "say how much of each prompt is shared"
	case s.PromptCache != CacheShared && s.SharedPrefixTokens > 0:
		return fmt.Sprintf("got %d with CAPACITY_PROMPT_CACHE=%s, want 0", s.SharedPrefixTokens, s.PromptCache), "set CAPACITY_PROMPT_CACHE=shared to share a prefix"
	}
	return "", ""
}

func prefixBeyondContext(s Settings, _ map[string]given) (problem, hint string) {
	if s.PromptCache != CacheShared {
		return "", ""
	}
	for _, c := range s.Context {
		if s.SharedPrefixTokens >= c.Smallest() {
			return fmt.Sprintf("got %d with a context of %d tokens, want less than every context", s.SharedPrefixTokens, c.Smallest()), ""
		}
	}
	return "", ""
}

func contextBeyondModel(s Settings, _ map[string]given) (problem, hint string) {
	if s.MaxModelLen == 0 {
		return "", ""
	}
	room := s.MaxModelLen - s.MaxTokens - s.ContextMargin
	for _, c := range s.Context {
		if c.Largest() > room {
			return fmt.Sprintf("got %d, want at most %d: CAPACITY_MAX_MODEL_LEN=%d less CAPACITY_MAX_TOKENS=%d and CAPACITY_CONTEXT_MARGIN=%d",
				c.Largest(), max(room, 0), s.MaxModelLen, s.MaxTokens, s.ContextMargin), ""
		}
	}
	return "", ""
}

func tooManyCells(s Settings, _ map[string]given) (problem, hint string) {
	cells := len(s.Concurrency) * len(s.Context) * len(s.ResponseWords)
	if cells <= cellsMax {
		return "", ""
	}
	return fmt.Sprintf("got lists that make %d cells with CAPACITY_CONTEXT_TOKENS and CAPACITY_RESPONSE_WORDS, want at most %d", cells, cellsMax), ""
}

func stallBeyondTimeout(s Settings, _ map[string]given) (problem, hint string) {
	if s.StallTimeout <= s.Timeout {
		return "", ""
	}
	return fmt.Sprintf("got %s, want at most CAPACITY_TIMEOUT=%s", s.StallTimeout, s.Timeout), ""
}

func thinkingTwice(s Settings, _ map[string]given) (problem, hint string) {
	if s.ReasoningEffort == "" || s.Thinking == ThinkingDefault {
		return "", ""
	}
	return fmt.Sprintf("got %s with CAPACITY_THINKING=%s, want one of the two", shown(s.ReasoningEffort), s.Thinking), ""
}

const namesABaseline = "CAPACITY_BASELINE names the artifact of an earlier run"

func marginsWithoutBaseline(s Settings, _ map[string]given) (problem, hint string) {
	if len(s.MaxRegression) == 0 || len(s.Baseline) > 0 || s.AA {
		return "", ""
	}
	return "got margins and nothing to hold the cell against", namesABaseline
}

func allowedWithoutBaseline(s Settings, _ map[string]given) (problem, hint string) {
	if len(s.BaselineAllow) == 0 || len(s.Baseline) > 0 {
		return "", ""
	}
	return "got names and no CAPACITY_BASELINE", namesABaseline
}
