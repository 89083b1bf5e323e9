package workload

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fixed is a spec of n requests of one size.
func fixed(n, tokens int) Spec {
	return Spec{Requests: n, Parts: []Part{{Tokens: tokens, Weight: 1}}, ResponseWords: 16, Canaries: true}
}

func planOf(t testing.TB, s Spec) *Plan {
	t.Helper()
	p, err := New(s)
	require.NoError(t, err)
	return p
}

func TestNewLimits(t *testing.T) {
	rows := []struct {
		name   string
		change func(*Spec)
		want   string // a part of the error; "" for none
	}{
		{"as it is", func(*Spec) {}, ""},
		{"no requests", func(s *Spec) { s.Requests = 0 }, "CAPACITY_REQUESTS is 0, want 1 to 10000"},
		{"one request", func(s *Spec) { s.Requests = 1 }, ""},
		{"most requests", func(s *Spec) { s.Requests = MaxRequests }, ""},
		{"too many requests", func(s *Spec) { s.Requests = MaxRequests + 1 }, "CAPACITY_REQUESTS is 10001"},
		{"no size", func(s *Spec) { s.Parts = nil }, "CAPACITY_CONTEXT_TOKENS names no size"},
		{"too small", func(s *Spec) { s.Parts[0].Tokens = MinContextTokens - 1 }, "CAPACITY_CONTEXT_TOKENS is 31, want 32 to 1048576"},
		{"smallest", func(s *Spec) { s.Parts[0].Tokens = MinContextTokens }, ""},
		{"largest", func(s *Spec) { s.Parts[0].Tokens = MaxContextTokens }, ""},
		{"too large", func(s *Spec) { s.Parts[0].Tokens = MaxContextTokens + 1 }, "CAPACITY_CONTEXT_TOKENS is 1048577"},
		{"no weight", func(s *Spec) { s.Parts[0].Weight = 0 }, "the weight of 256 in CAPACITY_CONTEXT_TOKENS is 0, want 1 to 1000000"},
		{"heaviest", func(s *Spec) { s.Parts[0].Weight = MaxWeight }, ""},
		{"too heavy", func(s *Spec) { s.Parts[0].Weight = MaxWeight + 1 }, "the weight of 256"},
		{"negative seed", func(s *Spec) { s.Seed = -1 }, "CAPACITY_CONTEXT_SEED is -1"},
		{"negative words", func(s *Spec) { s.ResponseWords = -1 }, "CAPACITY_RESPONSE_WORDS is -1, want 0 to 65536"},
		{"most words", func(s *Spec) { s.ResponseWords = MaxResponseWords }, ""},
		{"too many words", func(s *Spec) { s.ResponseWords = MaxResponseWords + 1 }, "CAPACITY_RESPONSE_WORDS is 65537"},
		{"shared without prefix", func(s *Spec) { s.Shared = true }, "CAPACITY_SHARED_PREFIX_TOKENS with CAPACITY_PROMPT_CACHE=shared is 0"},
		{"prefix without shared", func(s *Spec) { s.SharedPrefixTokens = 5 }, "CAPACITY_SHARED_PREFIX_TOKENS is 5, want 0 with CAPACITY_PROMPT_CACHE=unique"},
		{"negative cap", func(s *Spec) { s.MaxPromptTokens = -1 }, "the cap on prompts is -1 tokens"},
		{"cap below the least prompt", func(s *Spec) { s.MaxPromptTokens = MinContextTokens - 1 }, "the cap on prompts is 31 tokens"},
		{"cap at the least prompt", func(s *Spec) { s.MaxPromptTokens = MinContextTokens }, ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := fixed(3, 256)
			row.change(&s)
			_, err := New(s)
			if row.want == "" {
				assert.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.want)
			assert.ErrorContains(t, err, "planning the workload: ")
		})
	}
}

func TestNewListsEveryFault(t *testing.T) {
	_, err := New(Spec{Requests: -1, Seed: -2, ResponseWords: -3, Parts: []Part{{Tokens: 1, Weight: -4}}})
	for _, want := range []string{"CAPACITY_REQUESTS is -1", "CAPACITY_CONTEXT_SEED is -2", "CAPACITY_RESPONSE_WORDS is -3", "CAPACITY_CONTEXT_TOKENS is 1", "is -4"} {
		assert.ErrorContains(t, err, want)
	}
}

// The least sizes are worked out from the longest text that a prompt must have:
// opening, compact task, shared prefix.
func TestNewNeedsRoomForTheTask(t *testing.T) {
	rows := []struct {
		name  string
		spec  Spec
		least int
		want  string
		why   string
	}{
		{"seed of 14 digits, 5 digits of words", Spec{Seed: 12345678901234, ResponseWords: 65536, Canaries: true}, 32,
			"", "31 characters of opening and 65 of task are 96, or 32 tokens"},
		{"seed of 15 digits", Spec{Seed: 123456789012345, ResponseWords: 65536, Canaries: true}, 33,
			"CAPACITY_CONTEXT_TOKENS is 32, want 33 at least", "two characters more, for the seed stands there twice"},
		{"longest seed", Spec{Seed: 9223372036854775807, ResponseWords: 16, Canaries: true}, 35,
			"CAPACITY_CONTEXT_TOKENS is 34, want 35 at least", "36 characters of opening, 67 of task"},
		{"shared prefix", Spec{ResponseWords: 16, Canaries: true, Shared: true, SharedPrefixTokens: 100}, 123,
			"CAPACITY_CONTEXT_TOKENS is 122, want 123 at least", "100 tokens of prefix, then 18 + 49 characters"},
		{"no markers", Spec{ResponseWords: 16, Shared: true, SharedPrefixTokens: 100}, 116,
			"CAPACITY_CONTEXT_TOKENS is 115, want 116 at least", "100 tokens of prefix, then 17 + 31 characters"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := row.spec
			s.Requests = 2
			for _, tokens := range []int{row.least - 1, row.least, row.least + 1} {
				s.Parts = []Part{{Tokens: tokens, Weight: 1}}
				p, err := New(s)
				if tokens < row.least {
					require.ErrorContains(t, err, row.want, row.why)
					continue
				}
				require.NoError(t, err, row.why)
				assert.Len(t, p.AppendPrompt(nil, 1), CharsPerToken*tokens)
			}
		})
	}
}

func TestNewSaysWhenTheCapLeavesNoRoom(t *testing.T) {
	s := fixed(2, 4096)
	s.Shared, s.SharedPrefixTokens, s.MaxPromptTokens = true, 1000, 1010
	_, err := New(s)
	require.ErrorContains(t, err, "a prompt of CAPACITY_CONTEXT_TOKENS=4096 is cut to 1010 tokens by the model's context, want 1023 at least")
}

func TestPromptCap(t *testing.T) {
	rows := []struct {
		name                           string
		maxModelLen, maxTokens, margin int
		want                           int
		wantErr                        string
		why                            string
	}{
		{"published run", 32768, 1024, 1024, 30720, "", "a published run of this protocol asked for 32,768 and sent 30,720"},
		{"unknown context", 0, 2048, 1024, 0, "", "0 is not known, and caps nothing"},
		{"least", 3104, 2048, 1024, 32, "", "room for the least prompt"},
		{"one less", 3103, 2048, 1024, 0, "leaves 31, want 32 at least", "not even the least prompt fits"},
		{"answer larger than the model", 2048, 4096, 1024, 0, "leaves -3072", "CAPACITY_MAX_TOKENS is the cause, and named"},
		{"negative", -1, 0, 0, 0, "context of -1 tokens", "no context is negative"},
		{"negative margin", 4096, 16, -1, 0, "and -1 of margin", "a margin never makes room"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, err := PromptCap(row.maxModelLen, row.maxTokens, row.margin)
			assert.Equal(t, row.want, got, row.why)
			if row.wantErr == "" {
				assert.NoError(t, err, row.why)
				return
			}
			assert.ErrorContains(t, err, row.wantErr, row.why)
		})
	}
}

func TestPlanIsCutToTheCap(t *testing.T) {
	s := fixed(12, 32768)
	s.MaxPromptTokens = 30720
	p := planOf(t, s)
	assert.Equal(t, map[int]int{30720: 12}, p.ContextDistribution(), "as the published run records it")
	assert.Equal(t, []Cut{{AskedTokens: 32768, ContextTokens: 30720, Requests: 12}}, p.Cuts())
	assert.Equal(t, 30720, p.Request(11).ContextTokens)
	assert.Len(t, p.AppendPrompt(nil, 11), 3*30720)

	for _, tokens := range []int{30719, 30720} {
		s.Parts[0].Tokens = tokens
		assert.Nil(t, planOf(t, s).Cuts(), "a prompt at the cap is not cut")
	}
	s.Parts = []Part{{Tokens: 20000, Weight: 1}, {Tokens: 40000, Weight: 1}, {Tokens: 50000, Weight: 2}}
	p = planOf(t, s)
	assert.Equal(t, map[int]int{20000: 3, 30720: 9}, p.ContextDistribution(), "sizes that are cut alike count together")
	assert.Equal(t, []Cut{{40000, 30720, 3}, {50000, 30720, 6}}, p.Cuts())
}

func TestContextDistributionIsExact(t *testing.T) {
	parts := []Part{{Tokens: 8192, Weight: 3}, {Tokens: 32768, Weight: 1}, {Tokens: 8192, Weight: 1}}
	for _, seed := range []int{0, 1, 12345} {
		p := planOf(t, Spec{Requests: 100, Parts: parts, Seed: seed})
		want := map[int]int{8192: 80, 32768: 20}
		assert.Equal(t, want, p.ContextDistribution(), "equal sizes count together")
		got := map[int]int{}
		for i := range p.Len() {
			got[p.Request(i).ContextTokens]++
		}
		assert.Equal(t, want, got, "the requests are what the distribution says")
		p.ContextDistribution()[8192] = 0
		assert.Equal(t, want, p.ContextDistribution(), "the map is the caller's")
	}
}

func TestContextOrderIsTheSeeds(t *testing.T) {
	order := func(seed int) (sizes []int) {
		p := planOf(t, Spec{Requests: 50, Parts: partsOf([]int{1, 1}), Seed: seed})
		for i := range p.Len() {
			sizes = append(sizes, p.Request(i).ContextTokens)
		}
		return sizes
	}
	assert.Equal(t, order(5), order(5))
	assert.NotEqual(t, order(5), order(6))
}

func TestMissing(t *testing.T) {
	s := Spec{Requests: 8, Parts: partsOf([]int{99, 1})}
	assert.Equal(t, []int{128}, planOf(t, s).Missing(), "1 % of 8 requests is none: said, not hidden")
	s.Requests = 100
	assert.Nil(t, planOf(t, s).Missing())
}

func TestRequest(t *testing.T) {
	s := fixed(12, 256)
	s.Seed = 42
	assert.Equal(t, Request{Index: 11, ContextTokens: 256, Marker: "ANVIL_REQ_42_00011"}, planOf(t, s).Request(11))
	s.Canaries = false
	assert.Equal(t, Request{Index: 11, ContextTokens: 256}, planOf(t, s).Request(11), "no canary, no marker")
}

func TestMarker(t *testing.T) {
	assert.Equal(t, "ANVIL_REQ_0_00000", Marker(0, 0))
	assert.Equal(t, "ANVIL_REQ_7_09999", Marker(7, 9999))
	assert.Equal(t, "ANVIL_REQ_9223372036854775807_12345", Marker(9223372036854775807, 12345))
}

func TestOwner(t *testing.T) {
	s := fixed(300, 256)
	s.Seed = 42
	p := planOf(t, s)
	for i := range p.Len() {
		got, ok := p.Owner(p.Request(i).Marker)
		require.True(t, ok)
		require.Equal(t, i, got)
	}
	rows := []struct{ marker, why string }{
		{"ANVIL_REQ_42_00300", "one past the last request"},
		{"ANVIL_REQ_43_00003", "another seed"},
		{"ANVIL_REQ_4_00003", "a seed that begins alike"},
		{"ANVIL_REQ_042_00003", "not how a marker is written"},
		{"ANVIL_REQ_42_000003", "six digits"},
		{"ANVIL_REQ_42_0003", "four digits"},
		{"ANVIL_REQ_42_0000:", "no digit ('0' + 10)"},
		{"ANVIL_REQ_42_0000/", "no digit ('0' - 1)"},
		{"anvil_req_42_00003", "other letters"},
		{"", "nothing"},
	}
	for _, row := range rows {
		_, ok := p.Owner(row.marker)
		assert.False(t, ok, "%q: %s", row.marker, row.why)
	}
	s.Canaries = false
	_, ok := planOf(t, s).Owner("ANVIL_REQ_42_00003")
	assert.False(t, ok, "a plan without markers owns none")
}

// A plan holds no prompts: 10,000 of a million tokens would be 30 GB.
func TestPlanIsSmall(t *testing.T) {
	pool() // shared by all plans
	s := fixed(MaxRequests, MaxContextTokens)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := planOf(t, s)
	runtime.ReadMemStats(&after)
	bytes := after.TotalAlloc - before.TotalAlloc
	assert.Less(t, bytes, uint64(64<<10), "bytes allocated for %s requests", strconv.Itoa(p.Len()))
	assert.Less(t, len(pool().text), 512<<10)
}
