package config

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/contract"
)

func TestDefaults(t *testing.T) {
	want := Settings{
		HTTPVersion: "1.1", ContextMargin: 1024,
		Requests: 32, Concurrency: []int{4}, Context: []Context{{[]ContextPart{{2048, 1}}}}, ResponseWords: []int{16},
		MaxTokens: 256, ControlledOutput: contract.Observe, Canaries: contract.Strict, PromptCache: "unique", Usage: "require",
		Timeout: 10 * time.Minute, StallTimeout: 2 * time.Minute,
		Thinking: "default", Preflight: true, Gaps: "histogram", ArtifactDir: "artifacts",
		ContextSizing: "nominal", Repeats: 1, Order: "sequential", Confidence: 0.95, SelfCheck: true,
	}
	assert.Equal(t, want, mustLoad(t, nil))
	assert.True(t, want.Embedded(), "only a base URL makes a run live")
}

func TestEveryVariableSetsItsField(t *testing.T) {
	key := writeFile(t, " sk-from-file\r\n")
	ca := writeFile(t, certificate(t))
	earlier := writeFile(t, "{}")
	s := mustLoad(t, nil,
		"BASE_URL=HTTPS://gpu-1.example:8443/v1/", "MODEL=m/70b:q4 (x)", "API_KEY_FILE="+key, "HEADERS=x-route: a:b | X-Team:  t ",
		"CA_FILE="+ca, "HTTP_VERSION=2", "ENGINE=vllm", "GPU=h100", "MAX_MODEL_LEN=131072", "CONTEXT_MARGIN=0",
		"REQUESTS=100", "CONCURRENCY= 1 , 16", "CONTEXT_TOKENS=4096, 32768x2 + 8192x6", "CONTEXT_SEED=7", "MAX_TOKENS=2048",
		"RESPONSE_WORDS=16,256", "CONTROLLED_OUTPUT=Strict", "CANARIES=observe", "PROMPT_CACHE=shared", "SHARED_PREFIX_TOKENS=1024",
		"SCOUT_REQUESTS=8", "SCOUT_SEED=0", "TIMEOUT=1h", "STALL_TIMEOUT=90s", "TEMPERATURE=0.7", "TOP_P=0.9", "THINKING=disabled",
		`EXTRA_BODY={ "top_k": 20, "chat_template_kwargs": {"a": [1]} }`, "THRESHOLDS=ttft_p50_ms <= 22500,throughput_tok_s>=21",
		"MAX_FAILURE_RATE=5%", "PREFLIGHT=off", "USAGE=observe", "RUN=a.b_c-1", "GAPS=All", "ARTIFACT_DIR=/tmp/e v", "CLOCK_DOMAIN_ID=rack 7",
		"CONFIGURATION_FINGERPRINT=sha256:"+strings.Repeat("aF", 32),
		"CONTEXT_SIZING=measured", "REPEATS=3", "ORDER=interleaved", "BASELINE="+earlier, "BASELINE_ALLOW=max_context_tokens, thinking",
		"MAX_REGRESSION=ttft=5%, throughput = 3%", "CONFIDENCE=99%", "AA=on", "SELF_CHECK=off", "METRICS_URL=http://gpu-1.example/metrics")
	want := Settings{
		BaseURL: "https://gpu-1.example:8443/v1", Model: "m/70b:q4 (x)", APIKey: "sk-from-file",
		Headers: []Header{{"X-Route", "a:b"}, {"X-Team", "t"}},
		CAFile:  ca, HTTPVersion: "2", Engine: "vllm", GPU: "h100", MaxModelLen: 131072,
		Requests: 100, Concurrency: []int{1, 16},
		Context:     []Context{{[]ContextPart{{4096, 1}}}, {[]ContextPart{{8192, 3}, {32768, 1}}}},
		ContextSeed: 7, MaxTokens: 2048, ResponseWords: []int{16, 256}, ControlledOutput: contract.Strict, Canaries: contract.Observe,
		PromptCache: "shared", SharedPrefixTokens: 1024, ScoutRequests: 8, ScoutSeed: new(0), Usage: "observe",
		Timeout: time.Hour, StallTimeout: 90 * time.Second, Temperature: 0.7, TopP: new(0.9), Thinking: "disabled",
		ExtraBody:      json.RawMessage(`{"top_k":20,"chat_template_kwargs":{"a":[1]}}`),
		Thresholds:     []Threshold{{"ttft_p50_ms", "<=", 22500, "ttft_p50_ms <= 22500", 0}, {"throughput_tok_s", ">=", 21, "throughput_tok_s>=21", 0}},
		MaxFailureRate: 0.05, Run: "a.b_c-1", Gaps: "all", ArtifactDir: "/tmp/e v", ClockDomainID: "rack 7",
		ConfigurationFingerprint: "sha256:" + strings.Repeat("af", 32),
		ContextSizing:            "measured", Repeats: 3, Order: "interleaved", Baseline: []string{earlier},
		BaselineAllow: []string{"max_context_tokens", "thinking"},
		MaxRegression: []Regression{{"ttft", 0.05, "ttft=5%"}, {"throughput", 0.03, "throughput = 3%"}},
		Confidence:    0.99, AA: true, MetricsURL: "http://gpu-1.example/metrics",
	}
	assert.Equal(t, want, s)
	assert.Equal(t, "low", mustLoad(t, nil, "REASONING_EFFORT=low").ReasoningEffort)
	assert.Equal(t, Secret("sk-$x\\y"), mustLoad(t, nil, "API_KEY= sk-$x\\y ").APIKey)
	assert.Equal(t, Secret("!~"), mustLoad(t, nil, "API_KEY=!~").APIKey, "the first and the last character that a key may have")
}

func TestPrecedence(t *testing.T) {
	cells := oneCell("REQUESTS=50\nCAPACITY_CONCURRENCY=8\n")
	for _, row := range []struct {
		name, why             string
		pairs                 []string
		requests, concurrency int
	}{
		{"default", "nothing is set", nil, 32, 4},
		{"cell", "the file goes before the default", []string{"CELL=x"}, 50, 8},
		{"environment", "the environment goes before the file, variable by variable", []string{"CELL=x", "REQUESTS=7"}, 7, 8},
		{"empty", "set but empty is not set, so the file stands", []string{"CELL=x", "REQUESTS="}, 50, 8},
		{"blank", "blank is empty", []string{"CELL=x", "REQUESTS= \t"}, 50, 8},
		{"last wins", "as exec.Cmd does with equal names", []string{"REQUESTS=1", "REQUESTS=2"}, 2, 4},
		{"last is empty", "then the variable is not set", []string{"REQUESTS=1", "REQUESTS="}, 32, 4},
		{"empty cell name", "no file is asked for", []string{"CELL="}, 32, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := mustLoad(t, cells, row.pairs...)
			assert.Equal(t, row.requests, s.Requests, row.why)
			assert.Equal(t, []int{row.concurrency}, s.Concurrency, row.why)
		})
	}
}

// The process's own environment must not be seen: not CAPACITY_ names, which
// env would read by itself when given no map, and not OPENAI_ ones.
func TestProcessEnvironmentIsNotRead(t *testing.T) {
	t.Setenv("CAPACITY_REQUESTS", "9")
	t.Setenv("CAPACITY_API_KEY", "sk-process")
	t.Setenv("OPENAI_API_KEY", "sk-openai")
	t.Setenv("OPENAI_BASE_URL", "https://openai.example/v1")
	s, err := Load(nil, nil)
	require.NoError(t, err)
	assert.Equal(t, 32, s.Requests)
	assert.Empty(t, s.APIKey.Reveal())
	assert.Empty(t, s.BaseURL)
}

func TestStallTimeoutFollowsTimeout(t *testing.T) {
	for _, row := range []struct {
		name, why string
		pairs     []string
		want      time.Duration
	}{
		{"both default", "2m stands", nil, 2 * time.Minute},
		{"short timeout", "only TIMEOUT was asked for, so the default gives way", []string{"TIMEOUT=30s"}, 30 * time.Second},
		{"equal", "at most TIMEOUT", []string{"TIMEOUT=30s", "STALL_TIMEOUT=30s"}, 30 * time.Second},
		{"longer timeout", "the default does not grow", []string{"TIMEOUT=1h"}, 2 * time.Minute},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.want, mustLoad(t, nil, row.pairs...).StallTimeout, row.why)
		})
	}
}

func TestAllFaultsInOneMessage(t *testing.T) {
	_, err := Load(environment([]string{
		"REQEUSTS=5", "REQUESTS=0", "CONCURRENCY=1,x,1", "TIMEOUT=5", "CELL=x", "BASE_URL=localhost:8000",
	}), oneCell("# head\nMODLE=m\nGPU='\n"))
	require.Error(t, err)
	assert.Equal(t, `checking the settings: 8 faults, so nothing was sent
  CAPACITY_REQEUSTS: got a name that is not known; did you mean CAPACITY_REQUESTS?
  fixtures/cells/x.env:3: got an opening quote alone, want a closing one too
  CAPACITY_MODLE (fixtures/cells/x.env:2): got a name that is not known; did you mean CAPACITY_MODEL?
  CAPACITY_BASE_URL: got "localhost:8000", want a scheme: http:// or https://, a host and a path such as /v1; write http://localhost:8000/v1
  CAPACITY_REQUESTS: got "0", want a whole number, 1 to 10000
  CAPACITY_CONCURRENCY: got "x" (item 2), want a whole number, 1 to 4096; digits only: no unit, no separator, no k
  CAPACITY_CONCURRENCY: got "1" (item 3), want each number once
  CAPACITY_TIMEOUT: got "5", want a duration, 1ms to 1h; write a number and its unit, such as 90s, 10m or 1h`, err.Error())
}

func TestOneFault(t *testing.T) {
	_, err := Load([]string{"CAPACITY_REQUESTS=x"}, nil)
	require.Error(t, err)
	assert.True(t, strings.HasPrefix(err.Error(), "checking the settings: 1 fault, so nothing was sent\n"), err)
}

// One mistake is told once: a check of a pair does not judge a value that is at
// fault itself, or that a misspelt name or a missing cell file was to give.
func TestContradictionsOfSuspectValuesAreLeftOut(t *testing.T) {
	for _, row := range []struct {
		name, why string
		pairs     []string
	}{
		{"value at fault", "MAX_TOKENS=4 would contradict canaries, but CANARIES is what is wrong", []string{"MAX_TOKENS=4", "RESPONSE_WORDS=0", "CANARIES=strikt"}},
		{"misspelt name", "the misspelt CANARIES was to be off", []string{"MAX_TOKENS=4", "RESPONSE_WORDS=0", "CANARES=off"}},
		{"no cell file", "the file may say canaries off", []string{"MAX_TOKENS=4", "RESPONSE_WORDS=0", "CELL=none"}},
		{"misspelt CELL", "as with no cell file", []string{"MAX_TOKENS=4", "RESPONSE_WORDS=0", "CEL=x"}},
		{"broken line", "the line may have said canaries off", []string{"MAX_TOKENS=4", "RESPONSE_WORDS=0", "CELL=x"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Len(t, faultsOf(t, oneCell("CANARIES\n"), row.pairs...), 1, row.why)
		})
	}
	assert.Len(t, faultsOf(t, nil, "MAX_TOKENS=4", "RESPONSE_WORDS=0"), 1, "and without such an excuse the pair is refused")
}

// badFS fails to open anything with an error that is not "does not exist".
type badFS struct{}

func (badFS) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("disk on fire")}
}

// Each row is one mistake: exactly one fault, which holds every key phrase.
func TestBadInput(t *testing.T) {
	long := strings.Repeat("a", 200)
	for _, row := range []struct {
		name, why string
		pairs     []string
		want      []string
	}{
		// Names.
		{"unknown near", "two letters swapped", []string{"REQEUSTS=5"}, []string{"CAPACITY_REQEUSTS: ", "did you mean CAPACITY_REQUESTS?"}},
		{"unknown joined", "an underscore too few", []string{"BASEURL=http://h/v1"}, []string{"CAPACITY_BASEURL: ", "did you mean CAPACITY_BASE_URL?"}},
		{"unknown lower case", "names are upper case", []string{"requests=5"}, []string{"CAPACITY_requests: ", "did you mean CAPACITY_REQUESTS?"}},
		{"unknown part", "no single name is near, but its word is in these", []string{"KEY=v"}, []string{"CAPACITY_API_KEY or CAPACITY_API_KEY_FILE?"}},
		{"unknown far", "nothing is near", []string{"FROBNICATE=5"}, []string{"CAPACITY_FROBNICATE: ", "not known", ".env.example lists every name"}},
		{"unknown later", "a name of a later issue is unknown until it comes", []string{"SHARD=0/2"}, []string{"CAPACITY_SHARD: ", "not known"}},
		{"unknown empty", "a typo is one even when emptied", []string{"REQUEST="}, []string{"CAPACITY_REQUEST: ", "did you mean CAPACITY_REQUESTS?"}},
		{"unknown with line end", "the message keeps to its line", []string{"A\nB=5"}, []string{`CAPACITY_"A\nB": `}},
		{"unknown key", "a misspelt key's value is never shown", []string{"API_KYE=sk-s3cr3t"}, []string{"did you mean CAPACITY_API_KEY?"}},
		{"prefix alone", "no name at all", []string{"=5"}, []string{"CAPACITY_: got a name that is not known"}},

		// Base URL.
		{"no scheme", "a host and port alone", []string{"BASE_URL=localhost:8000"}, []string{`"localhost:8000"`, "want a scheme", "write http://localhost:8000/v1"}},
		{"no scheme, a path", "the path is kept in the hint", []string{"BASE_URL=gpu/openai/v1"}, []string{"write http://gpu/openai/v1"}},
		{"scheme without slashes", "no host can be told from it", []string{"BASE_URL=http:localhost"}, []string{"want a scheme", "write http://localhost:8000/v1"}},
		{"one slash", "http is not the host that was meant", []string{"BASE_URL=http:/localhost/v1"}, []string{"want a scheme", "write http://localhost:8000/v1"}},
		{"path alone", "no host to keep in the hint", []string{"BASE_URL=/v1"}, []string{"want a scheme", "write http://localhost:8000/v1"}},
		{"other scheme", "nothing but http is spoken", []string{"BASE_URL=ftp://host/v1"}, []string{"ftp://host/v1", "want the scheme http or https"}},
		{"no host", "a port alone", []string{"BASE_URL=http://:8000/v1"}, []string{"want a host"}},
		{"port too large", "65536 is no port", []string{"BASE_URL=http://h:65536/v1"}, []string{"want a port, 1 to 65535"}},
		{"port zero", "0 is no port to connect to", []string{"BASE_URL=http://h:0/v1"}, []string{"want a port, 1 to 65535"}},
		{"port is a word", "url.Parse refuses it", []string{"BASE_URL=http://h:80a/v1"}, []string{"want a URL"}},
		{"query", "it would be dropped on the way, and may hold a key", []string{"BASE_URL=http://h/v1?key=s3cr3t"}, []string{`"http://h/v1?[redacted]"`, "no query"}},
		{"empty query", "a ? alone is one", []string{"BASE_URL=http://h/v1?"}, []string{"no query"}},
		{"fragment", "it is never sent", []string{"BASE_URL=http://h/v1#s3cr3t"}, []string{`"http://h/v1#[redacted]"`, "no fragment"}},
		{"userinfo", "it would be sent as Basic auth", []string{"BASE_URL=http://me:s3cr3t@h:1/v1"}, []string{`"http://[redacted]@h:1/v1"`, "no user or password", "CAPACITY_API_KEY"}},
		{"userinfo with @", "up to the last @", []string{"BASE_URL=http://me:s3cr3t@x@h/v1"}, []string{`[redacted]@h/v1`}},
		{"userinfo, no scheme", "nothing of it in the hint either", []string{"BASE_URL=me:s3cr3t@h/v1"}, []string{`"[redacted]@h/v1"`, "want a scheme", "write http://localhost:8000/v1"}},
		{"userinfo with /", "it ends the host early, and the rest would be a path that is shown", []string{"BASE_URL=http://me/s3cr3t@h/v1"}, []string{`"http://[redacted]@h/v1"`, "no @ after the host", "CAPACITY_API_KEY"}},
		{"userinfo escaped", "an @ too much escaped, so that it does not parse", []string{"BASE_URL=http://me:s3cr3t%40h/v1"}, []string{`[redacted]%40h/v1`}},
		{"userinfo and bad host", "url.Parse's error would repeat it", []string{"BASE_URL=http://me:s3cr3t@h h/v1"}, []string{`[redacted]@h h/v1`, "want a URL"}},
		{"query with @", "what is userinfo and what is query cannot be told", []string{"BASE_URL=http://h/v1?user=a@b&key=s3cr3t"}, []string{`"http://[redacted]"`, "no query"}},
		{"query alone", "no host before it", []string{"BASE_URL=http://?s3cr3t"}, []string{`"http://?[redacted]"`, "want a host"}},
		{"query alone with @", "no host, and nothing can be told apart", []string{"BASE_URL=http://?s3cr3t@h"}, []string{`"http://[redacted]"`, "want a host"}},
		{"userinfo and query", "both are hidden, and the host is not", []string{"BASE_URL=http://s3cr3t@h/v1?s3cr3t"}, []string{`"http://[redacted]@h/v1?[redacted]"`, "no user or password"}},
		{"no path", "the API is never at the root", []string{"BASE_URL=http://h:8000"}, []string{"want a path", "write http://h:8000/v1"}},
		{"slash alone", "the root again", []string{"BASE_URL=http://h:8000/"}, []string{"want a path", "write http://h:8000/v1"}},
		{"chat endpoint", "it would be doubled", []string{"BASE_URL=http://h/v1/chat/completions/"}, []string{"without /chat/completions", "the suite adds it", "write http://h/v1"}},
		{"models endpoint", "as the chat endpoint", []string{"BASE_URL=http://h/v1/models"}, []string{"without /models", "write http://h/v1"}},

		// Target.
		{"model with line end", "it must fit on one line of a report", []string{"MODEL=a\nb"}, []string{`"a\nb"`, "without control characters"}},
		{"model begins with a control character", "looked at from the first character on", []string{"MODEL=\x01a"}, []string{`"\x01a"`, "without control characters"}},
		{"model not UTF-8", "JSON cannot carry it", []string{"MODEL=a\xff"}, []string{`"a\xff"`, "valid UTF-8"}},
		{"key with Bearer", "the suite adds Bearer", []string{"API_KEY=Bearer s3cr3t"}, []string{"got [redacted], want the key alone", "without Bearer"}},
		{"key not ASCII", "typographic quotes from a document", []string{"API_KEY=“s3cr3t”"}, []string{"got [redacted], want printable ASCII"}},
		{"key file missing", "the value may be the key itself", []string{"API_KEY_FILE=/s3cr3t"}, []string{"got [redacted], want a file that exists", "CAPACITY_API_KEY"}},
		{"key file is a folder", "nothing to read", []string{"API_KEY_FILE=" + t.TempDir()}, []string{"want a file that can be read", "not a regular file"}},
		{"key file empty", "a mount that is not there yet", []string{"API_KEY_FILE=" + writeFile(t, " \n")}, []string{"a file that holds a key; it is empty"}},
		{"key file of two lines", "which of them?", []string{"API_KEY_FILE=" + writeFile(t, "s3cr3t\ns3cr3t")}, []string{"a file that holds the key alone"}},
		{"key file too long", "a key is no book; the name of a file that exists is no key", []string{"API_KEY_FILE=" + writeFile(t, strings.Repeat("k", 16<<10+1))}, []string{`/file", want a file that can be read; it is longer than 16384 bytes`}},
		{"two keys", "which of them?", []string{"API_KEY=a", "API_KEY_FILE=" + writeFile(t, "b")}, []string{"CAPACITY_API_KEY_FILE: ", "CAPACITY_API_KEY, want one of the two"}},
		{"header without colon", "all of it may be a secret", []string{"HEADERS=s3cr3t"}, []string{"got [redacted] (item 1), want `Name: value`"}},
		{"header name with space", "not a token", []string{"HEADERS=A: b|X s3cr3t: v"}, []string{"got [redacted] (item 2), want a header name"}},
		{"header name begins with a dot", "the rest is still looked at", []string{"HEADERS=.s3cr3t x: v"}, []string{"want a header name"}},
		{"header without value", "an emptied variable behind it", []string{"HEADERS=X-A:"}, []string{"want a value after the colon"}},
		{"header value with CR", "header injection", []string{"HEADERS=X-A: s3\rcr3t"}, []string{"want a value without control characters"}},
		{"header value begins with NUL", "looked at from the first character on", []string{"HEADERS=X-A:\x00s3cr3t"}, []string{"want a value without control characters"}},
		{"header twice", "which of them? The names are told apart without case", []string{"HEADERS=X-A: s3cr3t\nx-a: 2"}, []string{"(item 2), want each name once, and item 1 has the same"}},
		{"header of the suite", "another encoding would change what is timed", []string{"HEADERS=accept-encoding: gzip"}, []string{"other than Accept-Encoding, which the suite sets itself"}},
		{"no header", "separators alone", []string{"HEADERS=|"}, []string{"got [redacted], want `Name: value` items"}},
		{"two authorizations", "only one can be sent", []string{"HEADERS=authorization: Basic s3cr3t", "API_KEY=k"}, []string{"CAPACITY_HEADERS: ", "Authorization", "one of the two"}},
		{"two authorizations, key file", "the same by file", []string{"HEADERS=authorization: Basic s3cr3t", "API_KEY_FILE=" + writeFile(t, "k")}, []string{"CAPACITY_HEADERS: ", "Authorization"}},
		{"CA file missing", "its path is no secret", []string{"CA_FILE=/none.pem"}, []string{`"/none.pem"`, "want a file that can be read; no such file"}},
		{"CA file without certificates", "a key file, say", []string{"CA_FILE=" + writeFile(t, "-----BEGIN X-----\nAAAA\n-----END X-----\n")}, []string{"PEM certificates; it holds none"}},
		{"CA file damaged", "DER cut short", []string{"CA_FILE=" + writeFile(t, certificate(t)+"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")}, []string{"certificate 2 in it is damaged"}},
		{"CA file over http", "nothing would be verified", []string{"CA_FILE=" + writeFile(t, certificate(t)), "BASE_URL=http://h/v1"}, []string{"CAPACITY_CA_FILE: ", "http://", "want https://"}},
		{"HTTP 3", "not spoken", []string{"HTTP_VERSION=3"}, []string{`got "3", want 1.1 or 2`}},
		{"engine too long", "1025 characters", []string{"ENGINE=" + strings.Repeat("e", 1025)}, []string{"(1025 bytes)", "up to 1024 characters"}},

		// Workload.
		{"not a number", "a word", []string{"REQUESTS=many"}, []string{`got "many", want a whole number, 1 to 10000`, "digits only"}},
		{"thousands separator", "it makes a list in CONCURRENCY and nothing here", []string{"REQUESTS=1,000"}, []string{`got "1,000"`, "no separator"}},
		{"k", "is it 1000 or 1024?", []string{"CONTEXT_TOKENS=32k"}, []string{`got "32k", want a whole number, 32 to 1048576 tokens`, "no k"}},
		{"separator in a list", "1,024 must not run as 24", []string{"CONCURRENCY=1,024"}, []string{`got "024" (item 2)`, "no leading zero and no thousands separator"}},
		{"negative", "below the range, not another kind of text", []string{"REQUESTS=-1"}, []string{`got "-1", want a whole number, 1 to 10000`}},
		{"overflow", "more than an int holds", []string{"REQUESTS=99999999999999999999"}, []string{"want a whole number, 1 to 10000"}},
		{"trailing comma", "an item that is not there", []string{"CONCURRENCY=1,"}, []string{`got "" (item 2)`, "a comma too many"}},
		{"twice in a list", "two cells of one name", []string{"RESPONSE_WORDS=16,4,16"}, []string{`got "16" (item 3), want each number once`}},
		{"context twice", "one distribution, written in two ways", []string{"CONTEXT_TOKENS=64x2+128x4,128x2+64"}, []string{"(item 2), want each context once"}},
		{"size twice", "in one distribution", []string{"CONTEXT_TOKENS=64x2+64"}, []string{"want each size once in a distribution", "add the weights up"}},
		{"weight zero", "a part that never comes", []string{"CONTEXT_TOKENS=64x0+128"}, []string{"1 to 10000 as weight"}},
		{"nine sizes", "the name would not fit a file name", []string{"CONTEXT_TOKENS=32+33+34+35+36+37+38+39+40"}, []string{"at most 8 sizes"}},
		{"fractional weight", "weights are whole", []string{"CONTEXT_TOKENS=64x0.5+128"}, []string{"as weight", "digits only"}},
		{"unknown word", "a near miss is suggested", []string{"CONTROLLED_OUTPUT=stict"}, []string{`got "stict", want observe or strict; did you mean strict?`}},
		{"canaries yes", "not one of the booleans", []string{"CANARIES=yes"}, []string{"want off, observe or strict"}},
		{"strict without words", "there is nothing to be strict about", []string{"CONTROLLED_OUTPUT=strict", "RESPONSE_WORDS=0"}, []string{"CAPACITY_CONTROLLED_OUTPUT: ", "CAPACITY_RESPONSE_WORDS=0", "words in every cell"}},
		{"strict with one cell without", "every cell needs words", []string{"CONTROLLED_OUTPUT=strict", "RESPONSE_WORDS=16,0"}, []string{"words in every cell"}},
		{"canaries with 4 tokens", "no answer can hold its marker", []string{"MAX_TOKENS=4", "RESPONSE_WORDS=1"}, []string{"CAPACITY_MAX_TOKENS: got 4 with CAPACITY_CANARIES=strict, want at least 16", "CAPACITY_CANARIES=off"}},
		{"words beyond tokens", "a word is a token at least", []string{"MAX_TOKENS=32", "RESPONSE_WORDS=33"}, []string{"CAPACITY_MAX_TOKENS: got 32 with CAPACITY_RESPONSE_WORDS=33"}},
		{"words beyond capture", "no strict cell could pass", []string{"MAX_TOKENS=4096", "RESPONSE_WORDS=1634"}, []string{"CAPACITY_RESPONSE_WORDS: got 1634", "at most 1633", "8192 characters"}},
		{"shared without prefix", "shared over nothing", []string{"PROMPT_CACHE=shared"}, []string{"CAPACITY_SHARED_PREFIX_TOKENS: got 0 with CAPACITY_PROMPT_CACHE=shared, want above 0"}},
		{"prefix without shared", "it would be ignored", []string{"SHARED_PREFIX_TOKENS=64"}, []string{"CAPACITY_SHARED_PREFIX_TOKENS: got 64 with CAPACITY_PROMPT_CACHE=unique, want 0", "CAPACITY_PROMPT_CACHE=shared"}},
		{"prefix as long as a context", "nothing particular would be left", []string{"PROMPT_CACHE=shared", "SHARED_PREFIX_TOKENS=64", "CONTEXT_TOKENS=4096,8192x2+64"}, []string{"CAPACITY_SHARED_PREFIX_TOKENS: got 64 with a context of 64 tokens"}},
		{"context beyond model", "3329 > 3328", []string{"MAX_MODEL_LEN=3327"}, []string{"CAPACITY_CONTEXT_TOKENS: got 2048, want at most 2047", "CAPACITY_MAX_MODEL_LEN=3327", "CAPACITY_MAX_TOKENS=256", "CAPACITY_CONTEXT_MARGIN=1024"}},
		{"no room at all", "the margin alone is more than the model", []string{"MAX_MODEL_LEN=100"}, []string{"CAPACITY_CONTEXT_TOKENS: got 2048, want at most 0"}},
		{"largest part beyond model", "each part has to fit", []string{"MAX_MODEL_LEN=8192", "CONTEXT_TOKENS=64x100+8192"}, []string{"CAPACITY_CONTEXT_TOKENS: got 8192, want at most 6912"}},
		{"too many cells", "257 of them", []string{"CONCURRENCY=" + ones(257)}, []string{"257 cells", "at most 256"}},
		{"path as cell", "only names of the folder", []string{"CELL=../cells/x"}, []string{`CAPACITY_CELL: got "../cells/x"`, "no path"}},
		{"hidden cell", "a leading dot", []string{"CELL=..x"}, []string{"want the name of a cell file"}},
		{"missing cell", "those that exist are listed", []string{"CELL=y"}, []string{`CAPACITY_CELL: got "y", want a cell file in fixtures/cells; there are x`}},
		{"cell with suffix", "the name is without .env", []string{"CELL=x.env"}, []string{"there are x; did you mean x?"}},

		// Load.
		{"bare number", "seconds or milliseconds?", []string{"TIMEOUT=600"}, []string{`got "600", want a duration, 1ms to 1h`, "such as 90s"}},
		{"timeout zero", "no limit is not offered", []string{"TIMEOUT=0s"}, []string{`got "0s", want a duration, 1ms to 1h`}},
		{"stall beyond timeout", "it could never fire", []string{"TIMEOUT=30s", "STALL_TIMEOUT=31s"}, []string{"CAPACITY_STALL_TIMEOUT: got 31s, want at most CAPACITY_TIMEOUT=30s"}},

		// Request.
		{"temperature NaN", "no number", []string{"TEMPERATURE=NaN"}, []string{`got "NaN", want a number, 0 to 2`}},
		{"temperature hexadecimal", "not a decimal number", []string{"TEMPERATURE=0x1"}, []string{`got "0x1", want a number`}},
		{"temperature with comma", "a comma is no decimal point", []string{"TEMPERATURE=0,5"}, []string{`got "0,5", want a number`}},
		{"top_p zero", "nothing could be sampled", []string{"TOP_P=0"}, []string{`got "0", want a number, above 0, up to 1`}},
		{"thinking and effort", "one or the other", []string{"THINKING=enabled", "REASONING_EFFORT=low"}, []string{"CAPACITY_REASONING_EFFORT: ", "CAPACITY_THINKING=enabled, want one of the two"}},
		{"effort with a space", "one word", []string{"REASONING_EFFORT=very low"}, []string{`got "very low", want a word`}},
		{"thinking on", "its words are its own", []string{"THINKING=enable"}, []string{"did you mean enabled?"}},
		{"extra body is a list", "fields have names", []string{"EXTRA_BODY=[1]"}, []string{"want a JSON object; it is another JSON value"}},
		{"extra body cut", "JSON says where", []string{`EXTRA_BODY={"a":1`}, []string{"want a JSON object; parsing it: unexpected end"}},
		{"extra body and more", "two values", []string{`EXTRA_BODY={} {}`}, []string{"want a JSON object; parsing it: invalid character"}},
		{"extra body twice", "servers differ in which counts", []string{`EXTRA_BODY={"a":1,"a":2}`}, []string{`each field once, and "a" stands twice`}},
		{"extra body sets stream", "the suite reads streams only", []string{`EXTRA_BODY={"stream":false}`}, []string{`no field "stream"; the suite sets it itself`}},
		{"extra body sets model", "it has a variable", []string{`EXTRA_BODY={"model":"x"}`}, []string{`no field "model"; set CAPACITY_MODEL instead`}},
		{"extra body sets thinking", "it has a variable, and the artifact records that", []string{`EXTRA_BODY={"chat_template_kwargs":{"enable_thinking":true}}`}, []string{"CAPACITY_THINKING instead"}},
		{"extra body breaks kwargs", "thinking could not be added", []string{`EXTRA_BODY={"chat_template_kwargs":null}`}, []string{"an object as chat_template_kwargs"}},

		// Gate.
		{"threshold without operator", "a typo", []string{"THRESHOLDS=ttft_p50_ms"}, []string{`got "ttft_p50_ms", want METRIC OP NUMBER`, "such as ttft_p50_ms<=22500"}},
		{"threshold with =", "equality of floats gates nothing", []string{"THRESHOLDS=a<=1, b=2"}, []string{`got "b=2" (item 2), want one of <= < >= >`}},
		{"threshold with =<", "the other way round", []string{"THRESHOLDS=a=<2"}, []string{"there is no == and no =<"}},
		{"threshold with <<", "no such operator", []string{"THRESHOLDS=a<<2"}, []string{"want a finite number after <"}},
		{"threshold with unit", "the key says the unit", []string{"THRESHOLDS=ttft_p50_ms<=22.5s"}, []string{"want a finite number after <=; without a unit"}},
		{"threshold infinite", "it would always pass", []string{"THRESHOLDS=a<=Inf"}, []string{"want a finite number"}},
		{"threshold overflow", "it would be infinite", []string{"THRESHOLDS=a<=1e999"}, []string{"want a finite number"}},
		{"threshold without metric", "nothing to compare", []string{"THRESHOLDS=<=5"}, []string{"want a metric key before the operator"}},
		{"threshold upper case", "keys are lower case", []string{"THRESHOLDS=TTFT<=5"}, []string{"want a metric key", "lower-case"}},
		{"threshold chained", "one limit each", []string{"THRESHOLDS=1<=a<=5"}, []string{"want a metric key"}},
		{"threshold empty item", "a comma too many", []string{"THRESHOLDS=a<=1,,b<=2"}, []string{`got "" (item 2)`}},
		{"threshold twice", "same metric and operator", []string{"THRESHOLDS=a<=1,a <= 2"}, []string{`got "a <= 2" (item 2), want each metric and operator once; "a<=1" stands before it`}},
		{"thresholds exclude", "nothing is both", []string{"THRESHOLDS=a<=1,a>=2"}, []string{"want thresholds that one number can meet"}},
		{"thresholds exclude at the limit", "below 1 and at least 1", []string{"THRESHOLDS=a>=1,a<1"}, []string{"want thresholds that one number can meet"}},
		{"rate over one", "5 is 500 %", []string{"MAX_FAILURE_RATE=5"}, []string{`got "5", want 0 to 1, or 0% to 100%; write 5% if that is meant`}},
		{"rate over 100 %", "more than all", []string{"MAX_FAILURE_RATE=101%"}, []string{`got "101%", want 0 to 1`}},
		{"rate negative", "less than none", []string{"MAX_FAILURE_RATE=-0.1"}, []string{"want 0 to 1"}},
		{"rate of nothing", "a percent sign alone", []string{"MAX_FAILURE_RATE=%"}, []string{"want 0 to 1"}},

		// Checks and evidence.
		{"boolean yes", "three pairs are enough", []string{"PREFLIGHT=yes"}, []string{`got "yes", want true/false, on/off or 1/0`}},
		{"usage strict", "its words are its own", []string{"USAGE=strict"}, []string{"want require or observe"}},
		{"run with slash", "a file stem", []string{"RUN=a/b"}, []string{`got "a/b", want a name of letters, digits and . _ -`}},
		{"run with dot first", "a hidden file, or the folder above", []string{"RUN=.."}, []string{`got ".."`}},
		{"folder with line end", "a mistake in a script", []string{"ARTIFACT_DIR=a\nb"}, []string{"want a path"}},
		{"fingerprint without sha256", "the digest says its kind", []string{"CONFIGURATION_FINGERPRINT=" + strings.Repeat("a", 64)}, []string{"want sha256: and 64 hexadecimal digits"}},
		{"fingerprint short", "63 digits", []string{"CONFIGURATION_FINGERPRINT=sha256:" + strings.Repeat("a", 63)}, []string{"want sha256: and 64 hexadecimal digits"}},
		{"fingerprint not hexadecimal", "g", []string{"CONFIGURATION_FINGERPRINT=sha256:" + strings.Repeat("g", 64)}, []string{"want sha256: and 64 hexadecimal digits"}},
		{"long value", "a message repeats 120 characters at most", []string{"REQUESTS=" + long}, []string{`"` + long[:120] + `"... (200 bytes), want`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			faults := faultsOf(t, oneCell(""), row.pairs...)
			require.Len(t, faults, 1, row.why)
			for _, phrase := range row.want {
				assert.Contains(t, faults[0], phrase, row.why)
			}
			if !strings.HasPrefix(row.want[0], Prefix) {
				name, _, _ := strings.Cut(row.pairs[0], "=")
				assert.True(t, strings.HasPrefix(faults[0], Prefix+name+": "), "the fault names the variable: %s", faults[0])
			}
			for _, leak := range []string{"s3cr3t", "sk-", "not.ours"} {
				assert.NotContains(t, faults[0], leak)
			}
			for _, goism := range []string{"Settings", "strconv", "config.", "parse error", "unmarshal", "lstat", "open /"} {
				assert.NotContains(t, faults[0], goism, "messages speak of variables, not of Go")
			}
		})
	}
}

// What the suite sets itself cannot be set a second way.
func TestOwnHeadersAndFieldsAreRefused(t *testing.T) {
	own := []string{
		"accept", "accept-encoding", "connection", "content-length", "content-type", "expect", "host", "keep-alive",
		"proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
	}
	assert.Len(t, ownHeaders, len(own))
	for _, name := range own {
		assert.Contains(t, faultsOf(t, nil, "HEADERS="+name+": v")[0], "which the suite sets itself", name)
	}
	fields := []string{
		"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p", "reasoning_effort",
	}
	assert.Len(t, ownFields, len(fields))
	for _, name := range fields {
		faults := faultsOf(t, nil, `EXTRA_BODY={"a":1,"`+name+`":{}}`)
		require.Len(t, faults, 1)
		assert.Contains(t, faults[0], `no field "`+name+`"; `)
	}
	for name, variable := range ownFields {
		assert.True(t, variable == "" || known(variable), "the hint at %s names a variable", name)
	}
}

func TestCellFilesThatCannotBeRead(t *testing.T) {
	for _, row := range []struct {
		name, why string
		cells     fs.FS
		want      string
	}{
		{"no folder", "a build without cell files", nil, "this build has no cell files"},
		{"empty folder", "nothing to list", fstest.MapFS{}, "want a cell file in fixtures/cells; it has none"},
		{"folder of the name", "not a file", fstest.MapFS{"x.env/y": &fstest.MapFile{}}, "want a cell file that can be read"},
		{"error", "the cause is told", badFS{}, "want a cell file that can be read; disk on fire"},
	} {
		t.Run(row.name, func(t *testing.T) {
			faults := faultsOf(t, row.cells, "CELL=x")
			require.Len(t, faults, 1, row.why)
			assert.Contains(t, faults[0], row.want, row.why)
		})
	}
}

// ones gives the list 1,2,..,n.
func ones(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = itoa(i + 1)
	}
	return strings.Join(items, ",")
}
