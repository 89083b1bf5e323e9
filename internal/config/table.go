package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"anvil-capacity/internal/contract"
)

// Variable describes one variable to people.
type Variable struct {
	// Name is the full name, such as CAPACITY_REQUESTS.
	Name string
	// Group is the part of the run that it belongs to; see Groups.
	Group string
	// Meaning says what it does and what happens when it is not set.
	Meaning string
	// Unit is the unit of the value, "" where it has none.
	Unit string
	// Range says what is allowed, in words; made from the parser's own limits.
	Range string
	// Default is what stands for it when it is not set; "" is no value.
	Default string
	// Example is a value to copy from where Default is "" or says little.
	Example string
	// List says that a comma list makes cells.
	List bool
	// Secret says that the value is never shown and never taken from a cell file.
	Secret bool
}

// Group is a part of a run that variables belong to.
type Group struct{ Name, Meaning string }

// The names of the groups.
const (
	groupTarget   = "target"
	groupWorkload = "workload"
	groupLoad     = "load"
	groupRequest  = "request"
	groupGate     = "gate"
	groupChecks   = "checks"
	groupEvidence = "evidence"
)

// Groups gives the groups in the order of Variables. The caller owns the slice.
func Groups() []Group {
	return []Group{
		{groupTarget, "the server, how to reach it, and what is known of it"},
		{groupWorkload, "what a cell sends and what is asked of the answers"},
		{groupLoad, "how long a request may take"},
		{groupRequest, "sampling and further fields of each request"},
		{groupGate, "what passes"},
		{groupChecks, "what is looked at beside the numbers"},
		{groupEvidence, "what is written, and where"},
	}
}

// Variables lists every variable once, group by group. The caller owns the slice.
func Variables() []Variable {
	all := make([]Variable, len(table))
	for i, row := range table {
		all[i] = Variable{
			Name: Prefix + row.Name, Group: row.Group, Meaning: row.Meaning, Unit: row.Unit, Range: row.allowed,
			Default: row.Default, Example: row.Example, List: row.List, Secret: row.Secret,
		}
	}
	return all
}

// names gives the names without Prefix, in table order.
func names() []string {
	all := make([]string, len(table))
	for i, row := range table {
		all[i] = row.Name
	}
	return all
}

// rowOf gives the row of a name without Prefix, false for an unknown one.
func rowOf(name string) (*setting, bool) {
	i := slices.IndexFunc(table, func(row setting) bool { return row.Name == name })
	if i < 0 {
		return nil, false
	}
	return &table[i], true
}

func known(name string) bool {
	_, ok := rowOf(name)
	return ok
}

// setting is one row of the table: a Variable, its Name without Prefix, with
// the kind that parses it. Default and Example are texts that kind accepts.
type setting struct {
	Name, Group, Meaning, Unit string
	Default, Example           string
	List, Secret               bool
	kind
}

// table holds every variable, group by group. A new one is a row here and a
// field of Settings; `go test ./internal/config -update` rewrites .env.example.
var table = []setting{
	{
		Name: "BASE_URL", Group: groupTarget, Unit: "URL",
		Meaning: "Where the OpenAI-compatible server is, up to and with /v1. Nothing else makes a run live. Not set: the endpoint that is built in.",
		Example: "http://localhost:8000/v1",
		kind:    baseURL(func(s *Settings) *string { return &s.BaseURL }),
	},
	{
		Name: "MODEL", Group: groupTarget,
		Meaning: "Which model to ask for. Not set: the only one served, or the first.",
		Example: "llama-3.3-70b-instruct",
		kind:    label("the id of a model", func(s *Settings) *string { return &s.Model }),
	},
	{
		Name: "API_KEY", Group: groupTarget, Secret: true,
		Meaning: "The key, sent as Authorization: Bearer to the base URL's host alone. Not set: none is sent. Never an OPENAI_API_KEY in its place.",
		kind:    apiKey(func(s *Settings) *Secret { return &s.APIKey }),
	},
	{
		Name: "API_KEY_FILE", Group: groupTarget, Unit: "path",
		Meaning: "A file that holds the key, white space around it dropped; instead of CAPACITY_API_KEY.",
		Example: "/run/secrets/capacity-key",
		kind:    apiKeyFile(func(s *Settings) *Secret { return &s.APIKey }),
	},
	{
		Name: "HEADERS", Group: groupTarget, Secret: true,
		Meaning: "Further headers of every request. A value holds no |. Their values are kept like keys.",
		Example: "X-Route: canary | X-Team: serving",
		kind:    headers(func(s *Settings) *[]Header { return &s.Headers }),
	},
	{
		Name: "CA_FILE", Group: groupTarget, Unit: "path",
		Meaning: "Certificates of a private authority that the server's may come from; for an https base URL. Not set: the system's.",
		Example: "/etc/ssl/staging-ca.pem",
		kind:    caFile(func(s *Settings) *string { return &s.CAFile }),
	},
	{
		Name: "HTTP_VERSION", Group: groupTarget, Default: HTTP11,
		Meaning: "The HTTP version to speak; 2 is for servers that are reached over it (h2c with an http base URL).",
		kind:    oneOf(func(s *Settings) *string { return &s.HTTPVersion }, HTTP11, HTTP2),
	},
	{
		Name: "ENGINE", Group: groupTarget,
		Meaning: "The serving engine and its version, recorded in the artifact. Not set: null there.",
		Example: "vllm-0.11.0",
		kind:    label("a text", func(s *Settings) *string { return &s.Engine }),
	},
	{
		Name: "GPU", Group: groupTarget,
		Meaning: "The accelerator, recorded in the artifact. Not set: null there.",
		Example: "rtx-pro-6000",
		kind:    label("a text", func(s *Settings) *string { return &s.GPU }),
	},
	{
		Name: "MAX_MODEL_LEN", Group: groupTarget, Unit: "tokens",
		Meaning: "The model's context. Not set: what the server says in /v1/models.",
		Example: "131072",
		kind:    whole(1, modelLenMax, func(s *Settings) *int { return &s.MaxModelLen }),
	},
	{
		Name: "CONTEXT_MARGIN", Group: groupTarget, Unit: "tokens", Default: "1024",
		Meaning: "What stays free in the model's context beside prompt and answer, since prompts are sized in characters.",
		kind:    whole(0, contextMax, func(s *Settings) *int { return &s.ContextMargin }),
	},

	{
		Name: "REQUESTS", Group: groupWorkload, Unit: "requests", Default: "32",
		Meaning: "How many requests a cell sends.",
		kind:    whole(requestsMin, requestsMax, func(s *Settings) *int { return &s.Requests }),
	},
	{
		Name: "CONCURRENCY", Group: groupWorkload, Unit: "requests", Default: "4", List: true,
		Meaning: "How many requests are in flight at most; the next starts when one ends.",
		Example: "1,4,16",
		kind:    wholes(concurrencyMin, concurrencyMax, func(s *Settings) *[]int { return &s.Concurrency }),
	},
	{
		Name: "CONTEXT_TOKENS", Group: groupWorkload, Unit: "tokens (nominal, 3 characters each)", Default: "2048", List: true,
		Meaning: "The size of each prompt, or a distribution of sizes in which xN is a weight.",
		Example: "4096,8192x3+32768x1",
		kind:    contexts(func(s *Settings) *[]Context { return &s.Context }),
	},
	{
		Name: "CONTEXT_SIZING", Group: groupWorkload, Default: SizingNominal,
		Meaning: "Whether prompts have their size in nominal tokens (3 characters each), or in the model's own, measured before the cell to within 1 %.",
		kind:    oneOf(func(s *Settings) *string { return &s.ContextSizing }, SizingNominal, SizingMeasured),
	},
	{
		Name: "CONTEXT_SEED", Group: groupWorkload, Default: "0",
		Meaning: "The seed of the plan: the same seed and workload give the same prompts everywhere.",
		kind:    whole(seedMin, seedMax, func(s *Settings) *int { return &s.ContextSeed }),
	},
	{
		Name: "MAX_TOKENS", Group: groupWorkload, Unit: "tokens", Default: "256",
		Meaning: fmt.Sprintf("The longest answer, reasoning included. At least %d unless canaries are off, and at least one for each response word.", canaryTokensMin),
		kind:    whole(maxTokensMin, maxTokensMax, func(s *Settings) *int { return &s.MaxTokens }),
	},
	{
		Name: "RESPONSE_WORDS", Group: groupWorkload, Unit: "words", Default: "16", List: true,
		Meaning: fmt.Sprintf("How often the answer is to say the word code after its marker; 0 asks for no words. At most %d under a strict policy: a longer answer is not captured whole.", capturableWordsMax),
		Example: "16,256",
		kind:    wholes(wordsMin, wordsMax, func(s *Settings) *[]int { return &s.ResponseWords }),
	},
	{
		Name: "CONTROLLED_OUTPUT", Group: groupWorkload, Default: string(contract.Observe),
		Meaning: "Whether an answer without exactly these words fails (strict) or is counted (observe). Strict needs words in every cell.",
		kind:    oneOf(func(s *Settings) *contract.Policy { return &s.ControlledOutput }, contract.Observe, contract.Strict),
	},
	{
		Name: "CANARIES", Group: groupWorkload, Default: string(contract.Strict),
		Meaning: "Whether each prompt carries a marker that its answer must begin with (strict), is seen to begin with or not (observe), or none (off). Another request's marker fails in every mode.",
		kind:    canaryPolicy(func(s *Settings) *contract.Policy { return &s.Canaries }),
	},
	{
		Name: "PROMPT_CACHE", Group: groupWorkload, Default: CacheUnique,
		Meaning: "Whether prompts differ from their first character on (unique) or begin with the same text (shared).",
		kind:    oneOf(func(s *Settings) *string { return &s.PromptCache }, CacheUnique, CacheShared),
	},
	{
		Name: "SHARED_PREFIX_TOKENS", Group: groupWorkload, Unit: "tokens (nominal)", Default: "0",
		Meaning: "How much of each prompt is the same text: above 0 and below every context with CAPACITY_PROMPT_CACHE=shared, 0 without.",
		kind:    whole(0, contextMax, func(s *Settings) *int { return &s.SharedPrefixTokens }),
	},
	{
		Name: "SCOUT_REQUESTS", Group: groupWorkload, Unit: "requests", Default: "0",
		Meaning: "How many requests run before the cell, with an artifact of their own; 0 is no scout.",
		kind:    whole(0, requestsMax, func(s *Settings) *int { return &s.ScoutRequests }),
	},
	{
		Name: "SCOUT_SEED", Group: groupWorkload,
		Meaning: "The scout's seed. The cell's own seed lets the scout warm the server's prefix cache. Not set: a seed that shares no prompt with the cell.",
		Example: "1",
		kind:    optional(func(f func(*Settings) *int) kind { return whole(seedMin, seedMax, f) }, func(s *Settings) **int { return &s.ScoutSeed }),
	},
	{
		Name: "CELL", Group: groupWorkload,
		Meaning: "The file fixtures/cells/NAME.env to take settings from; the environment goes before it.",
		Example: "glm-c4-16word",
		// The loader has opened the file by then, and reported what is wrong with it.
		kind: kind{"the name of a file in fixtures/cells, without .env", func(v *value, s *Settings) { s.Cell = v.text }},
	},

	{
		Name: "TIMEOUT", Group: groupLoad, Unit: "duration", Default: "10m",
		Meaning: "How long a request may take, from its start to the end of the answer.",
		kind:    span(func(s *Settings) *time.Duration { return &s.Timeout }),
	},
	{
		Name: "STALL_TIMEOUT", Group: groupLoad, Unit: "duration", Default: "2m",
		Meaning: "How long a server may go without output. At most CAPACITY_TIMEOUT, which the default follows down.",
		kind:    span(func(s *Settings) *time.Duration { return &s.StallTimeout }),
	},
	{
		Name: "REPEATS", Group: groupLoad, Unit: "runs", Default: "1",
		Meaning: "How often each cell runs, each time with a seed of its own. Three or more let a comparison see how much runs differ by themselves.",
		kind:    whole(1, repeatsMax, func(s *Settings) *int { return &s.Repeats }),
	},
	{
		Name: "ORDER", Group: groupLoad, Default: OrderSequential,
		Meaning: "Whether the repeats of a cell run one after the other, or the cells take turns, there and back, so that drift does not look like a difference.",
		kind:    oneOf(func(s *Settings) *string { return &s.Order }, OrderSequential, OrderInterleaved),
	},

	{
		Name: "TEMPERATURE", Group: groupRequest, Default: "0",
		Meaning: "The sampling temperature.",
		kind:    number(0, temperatureMax, false, func(s *Settings) *float64 { return &s.Temperature }),
	},
	{
		Name: "TOP_P", Group: groupRequest,
		Meaning: "Nucleus sampling. Not set: not sent.",
		Example: "0.95",
		kind:    optional(func(f func(*Settings) *float64) kind { return number(0, 1, true, f) }, func(s *Settings) **float64 { return &s.TopP }),
	},
	{
		Name: "THINKING", Group: groupRequest, Default: ThinkingDefault,
		Meaning: "Whether chat_template_kwargs.enable_thinking is sent, and as what.",
		kind:    oneOf(func(s *Settings) *string { return &s.Thinking }, ThinkingDefault, ThinkingEnabled, ThinkingDisabled),
	},
	{
		Name: "REASONING_EFFORT", Group: groupRequest,
		Meaning: "Sent as reasoning_effort; instead of CAPACITY_THINKING. Not set: not sent.",
		Example: "low",
		kind:    token("a word, such as low, medium or high,", "_-", 32, func(s *Settings) *string { return &s.ReasoningEffort }),
	},
	{
		Name: "EXTRA_BODY", Group: groupRequest, Unit: "JSON",
		Meaning: "Further fields of the request body, recorded in the artifact: no place for a secret.",
		Example: `{"top_k":20,"min_p":0}`,
		kind:    extraBody(func(s *Settings) *json.RawMessage { return &s.ExtraBody }),
	},

	{
		Name: "THRESHOLDS", Group: groupGate,
		Meaning: "Limits on any metric key of the artifact, in the metric's own unit; each is a subtest. A metric that was not measured fails.",
		Example: "ttft_p50_ms<=22500, throughput_tok_s>=21",
		kind:    thresholds(func(s *Settings) *[]Threshold { return &s.Thresholds }),
	},
	{
		Name: "MAX_FAILURE_RATE", Group: groupGate, Unit: "share of the planned requests", Default: "0",
		Meaning: "How many requests may fail before the cell does. A cell with a failed request has no throughput either way.",
		Example: "5%",
		kind:    share(func(s *Settings) *float64 { return &s.MaxFailureRate }),
	},
	{
		Name: "BASELINE", Group: groupGate, Unit: "path",
		Meaning: "Artifacts, summaries or the index of earlier runs to compare each cell with. Several runs of one build are its repeats. Not set: no comparison.",
		Example: "baseline/nightly-r1.json,baseline/nightly-r2.json",
		kind:    files("native artifacts, derived summaries or index files", func(s *Settings) *[]string { return &s.Baseline }),
	},
	{
		Name: "BASELINE_ALLOW", Group: groupGate,
		Meaning: "What may differ between baseline and cell; everything else that differs refuses the comparison. Engine, GPU, model and recipe always may.",
		Example: "max_context_tokens",
		kind:    differences(func(s *Settings) *[]string { return &s.BaselineAllow }),
	},
	{
		Name: "MAX_REGRESSION", Group: groupGate,
		Meaning: "How much worse than the baseline a metric may be; each is a subtest that fails when the cell is worse than that for sure. Not set: the comparison is reported and fails nothing.",
		Example: "ttft=5%, ttft_p95_ms=10%, throughput=3%",
		kind:    regressions(func(s *Settings) *[]Regression { return &s.MaxRegression }),
	},
	{
		Name: "CONFIDENCE", Group: groupGate, Default: "95%",
		Meaning: "The confidence of the comparison's intervals.",
		kind:    confidence(func(s *Settings) *float64 { return &s.Confidence }),
	},
	{
		Name: "AA", Group: groupGate, Default: "false",
		Meaning: "Whether each cell also runs against itself: as two arms in turn, whose difference is chance and must not be flagged.",
		kind:    boolean(func(s *Settings) *bool { return &s.AA }),
	},

	{
		Name: "PREFLIGHT", Group: groupChecks, Default: "true",
		Meaning: "Whether the server is asked first: reachable, key accepted, model served, context large enough, options accepted.",
		kind:    boolean(func(s *Settings) *bool { return &s.Preflight }),
	},
	{
		Name: "SELF_CHECK", Group: groupChecks, Default: "true",
		Meaning: "Whether the suite measures its own error at the cell's load, against its embedded endpoint, before a live cell.",
		kind:    boolean(func(s *Settings) *bool { return &s.SelfCheck }),
	},
	{
		Name: "USAGE", Group: groupChecks, Default: UsageRequire,
		Meaning: "Whether an answer without token usage fails (require) or only has null token counts (observe).",
		kind:    oneOf(func(s *Settings) *string { return &s.Usage }, UsageRequire, UsageObserve),
	},

	{
		Name: "RUN", Group: groupEvidence,
		Meaning: "The stem of the file names. Not set: made from the time.",
		Example: "staging-nightly",
		kind:    token("a name", "._-", runMaxChars, func(s *Settings) *string { return &s.Run }),
	},
	{
		Name: "ARTIFACT_DIR", Group: groupEvidence, Unit: "path", Default: "artifacts",
		Meaning: "The folder of the evidence; made if need be.",
		kind:    label("a path", func(s *Settings) *string { return &s.ArtifactDir }),
	},
	{
		Name: "GAPS", Group: groupEvidence, Default: GapsHistogram,
		Meaning: "How the times between output events are kept: as a histogram a request in the artifact, or each of them too, in <run>-gaps.jsonl (all).",
		kind:    oneOf(func(s *Settings) *string { return &s.Gaps }, GapsHistogram, GapsAll),
	},
	{
		Name: "CLOCK_DOMAIN_ID", Group: groupEvidence,
		Meaning: "Names the clock of this machine, so that artifacts of load generators on one clock can be joined exactly. Not set: null.",
		Example: "rack-7-ptp",
		kind:    label("a text", func(s *Settings) *string { return &s.ClockDomainID }),
	},
	{
		Name: "CONFIGURATION_FINGERPRINT", Group: groupEvidence,
		Meaning: "The digest of the server's configuration; artifacts are joined only when theirs are equal. Not set: null.",
		Example: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		kind:    fingerprint(func(s *Settings) *string { return &s.ConfigurationFingerprint }),
	},
	{
		Name: "METRICS_URL", Group: groupEvidence, Unit: "URL",
		Meaning: "Where the engine's own counters are, in the Prometheus text format. Not set: /metrics beside the base URL, and none if nothing is there.",
		Example: "http://localhost:8000/metrics",
		kind:    metricsURL(func(s *Settings) *string { return &s.MetricsURL }),
	},
}
