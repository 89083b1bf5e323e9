package artifact

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/record"
	"anvil-capacity/internal/stats"
)

// Each row changes the evidence of one run of 20 requests; the text must follow
// it. says must stand in the caveat, silent must not.
func TestCaveatFollowsTheEvidence(t *testing.T) {
	t.Parallel()
	scout := func(requests, seed int) *Scout {
		return &Scout{Artifact: "s.json", Requests: requests, ContextSeed: seed}
	}
	warm := func(indexes ...int) func(*Run, *Native) {
		return func(run *Run, _ *Native) {
			for _, i := range indexes {
				run.Records[i].Timing.TTFOMS = new(10.0)
			}
		}
	}
	cached := func(tokens func(i int) *int) func(*Run, *Native) {
		return func(run *Run, _ *Native) {
			for i := range run.Records {
				run.Records[i].Tokens.Cached = tokens(i)
			}
		}
	}
	noCached := cached(func(int) *int { return nil })
	both := func(changes ...func(*Run, *Native)) func(*Run, *Native) {
		return func(run *Run, n *Native) {
			for _, change := range changes {
				change(run, n)
			}
		}
	}
	withScout := func(s *Scout) func(*Run, *Native) { return func(run *Run, _ *Native) { run.Scout = s } }
	shared := func(run *Run, _ *Native) { run.PromptCacheMode, run.SharedPrefixTokens = CacheShared, 4096 }
	// after changes what Build cannot say.
	after := func(change func(*Native)) func(*Run, *Native) {
		return func(run *Run, n *Native) {
			if n != nil {
				change(n)
			}
		}
	}

	tests := []struct {
		name, why string
		change    func(*Run, *Native)
		says      []string
		silent    []string
	}{
		{"plain", "unique, no scout, cached_tokens of 0", func(*Run, *Native) {},
			[]string{"unique within this cell", "No scout ran before it", "cached_tokens for 20 of 20 answers, 0 in each", "Engine cache counters were not returned", "no request stands out", "unique prompts and a cache that has not seen them"},
			[]string{"warm:", "possibly"}},
		{"same-seed scout", "its prompts were sent twice", both(noCached, withScout(scout(8, 0))),
			[]string{"scout of eight requests with the same canary seed (0)", "first eight requests: those were possibly warm", "Neither cached_tokens nor engine cache counters", "matched sequence"},
			[]string{"No scout", "another canary seed"}},
		{"scout of one", "the singular", withScout(scout(1, 0)), []string{"scout of one request with", "its first request: that was possibly warm", "leave the first request out"}, nil},
		{"scout of 13", "digits from 13 on", withScout(scout(13, 0)), []string{"scout of 13 requests", "first 13 requests"}, nil},
		{"scout as long as the cell", "nothing in the cell is fresh", withScout(scout(20, 0)), []string{"every request of the cell was possibly warm"}, nil},
		{"longer scout", "no more than the cell has", withScout(scout(50, 0)), []string{"scout of 50 requests", "every request of the cell was possibly warm", "leave the first 20 requests out"}, nil},
		{"other seed", "other prompts warm nothing", withScout(scout(8, 99)),
			[]string{"another canary seed (99, the cell's is 0)", "shares no prompt"}, []string{"possibly warm", "matched sequence"}},
		{"seed unknown", "nothing can be said of it", both(withScout(scout(8, 0)), after(func(n *Native) { n.ContextSeed = nil })),
			[]string{"the cell's own seed is not stated"}, []string{"possibly warm"}},
		{"shared", "hits by design", both(noCached, shared), []string{"begin with the same 4096 shared tokens", "must retain the shared prefix"}, []string{"unique within"}},
		{"shared after a scout", "the scout filled the cache with the prefix", both(shared, withScout(scout(8, 99))), []string{"may have put the shared prefix into the cache"}, []string{"shares no prompt"}},
		{"warm rows, no scout", "something else had sent them", both(noCached, warm(5, 9)),
			[]string{"requests 5 and 9 look warm: first output after 10 ms, against a median of 100 ms", "Unique prompts do not explain that", "same cache state"}, []string{"stands out"}},
		{"one warm row", "the singular", both(noCached, warm(5)), []string{"request 5 looks warm"}, nil},
		{"failures beside them", "failed requests are in no median", both(noCached, warm(6), func(run *Run, _ *Native) {
			for i := 8; i < 20; i++ {
				run.Records[i].Timing.TTFOMS = new(180.0)
				run.fail(i, record.Failure{Class: record.WordsFailed, Message: "3 words, want 2"}, true)
			}
		}), []string{"request 6 looks warm: first output after 10 ms, against a median of 100 ms"}, nil},
		{"warm rows of the scout", "explained", both(noCached, withScout(scout(8, 0)), warm(0, 4)),
			[]string{"requests 0 and 4 look warm"}, []string{"does not explain", "do not explain"}},
		{"warm rows beyond the scout", "not explained", both(noCached, withScout(scout(8, 0)), warm(0, 4, 8, 19)),
			[]string{"requests 0, 4, 8 and 19 look warm", "The scout does not explain requests 8 and 19."}, nil},
		{"cached tokens", "the server's own word", cached(func(i int) *int { return new(1000 * (i % 2)) }),
			[]string{"cached_tokens for 20 of 20 answers, above 0 in 10 (requests 1, 3, 5", "2.0 % of their prompt tokens", "same cache state"}, []string{"Neither"}},
		{"cached tokens of some", "absent is unknown and not 0", cached(func(i int) *int {
			if i < 15 {
				return nil
			}
			return new(500)
		}), []string{"for 5 of 20 answers, above 0 in 5 (requests 15, 16, 17, 18 and 19)", "2.0 %"}, nil},
		{"engine counters", "the engine's own word", both(noCached, after(func(n *Native) {
			n.Harness.Engine = &Engine{PrefixCacheQueries: new(500000.0), PrefixCacheHits: new(1234.0)}
		})), []string{"The server returned no cached_tokens.", "counters rose by 1234 hits in 500000 queries"}, []string{"share is not known"}},
		{"half of the engine counters", "a ratio needs both", both(noCached, after(func(n *Native) { n.Harness.Engine = &Engine{PrefixCacheHits: new(1.0)} })),
			[]string{"Neither cached_tokens nor engine cache counters"}, nil},
		{"foreign artifact", "it has no place for a scout", both(noCached, after(func(n *Native) { n.Harness, n.PromptCacheMode = nil, nil })),
			[]string{"does not say whether prompts are unique", "does not say what ran before", "must first establish"}, []string{"No scout"}},
		{"few rows", "no median to stand out from", func(run *Run, _ *Native) { run.Records, run.Requests = run.Records[:4], 4 },
			[]string{"Four requests are too few to show"}, []string{"stands out"}},
		{"no rows", "all failed", func(run *Run, _ *Native) {
			for i := range run.Records {
				run.fail(i, record.Failure{Class: record.RequestError, Detail: record.Connect, Message: "refused"}, false)
			}
		}, []string{"has no rows"}, []string{"stands out"}},
	}
	seen := map[string]string{}
	for _, tt := range tests {
		run := smallRun(20)
		tt.change(&run, nil)
		n := Build(run)
		tt.change(&run, &n)
		e := evidenceOf(&n)
		text := e.caveat()
		for _, words := range tt.says {
			assert.Contains(t, text, words, "%s: %s", tt.name, tt.why)
		}
		for _, words := range tt.silent {
			assert.NotContains(t, text, words, "%s: %s", tt.name, tt.why)
		}
		assert.NotContains(t, text, "  ", "%s: one space between sentences", tt.name)
		if twin, ok := seen[text]; ok {
			t.Errorf("%s and %s have the same caveat: %s", tt.name, twin, text)
		}
		seen[text] = tt.name
	}
	require.Equal(t, len(tests), len(seen), "different evidence, different text")
}

func TestListRequests(t *testing.T) {
	t.Parallel()
	many := make([]int, 15)
	for i := range many {
		many[i] = i
	}
	assert.Equal(t, "request 3", listRequests([]int{3}))
	assert.Equal(t, "requests 3 and 5", listRequests([]int{3, 5}))
	assert.Equal(t, "requests 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 11", listRequests(many[:listedRequests]))
	assert.Equal(t, "requests 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 1 more", listRequests(many[:listedRequests+1]))
}

func TestP99Interpretation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		n     int
		why   string
		says  []string
		label string
	}{
		{"none", 0, "nothing is no p99", []string{"N=0:", "no p99"}, stats.P99Descriptive},
		{"one", 1, "nearest rank of one is it", []string{"N=1:", "the largest of 1 "}, stats.P99Descriptive},
		{"99", 99, "ceil(0.99*99) = 99: still the largest", []string{"N=99:", "largest of 99", "Below 100 samples"}, stats.P99Descriptive},
		{"100", 100, "ceil(0.99*100) = 99: one above", []string{"N=100:", "number 99 of 100", "one sample lies above it"}, stats.P99TailEstimate},
		{"101", 101, "ceil(99.99) = 100: one above", []string{"number 100 of 101", "one sample lies above it"}, stats.P99TailEstimate},
		{"1000", 1000, "ceil(990) = 990: ten above", []string{"number 990 of 1000", "10 samples lie above it"}, stats.P99TailEstimate},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := smallRun(max(tt.n, 1))
			if tt.n == 0 {
				run.fail(0, record.Failure{Class: record.RequestError, Detail: record.Connect, Message: "refused"}, false)
			}
			n := Build(run)
			text := interpretP99(&n)
			for _, words := range tt.says {
				assert.Contains(t, text, words, tt.why)
			}
			assert.NotContains(t, text, "Fewer samples")
			assert.Equal(t, tt.label, n.MetricPopulation.P99Interpretation, "the label of the native artifact agrees")
		})
	}
	run := smallRun(10)
	for i := range 3 {
		run.Records[i].Tokens.Output = new(1)
	}
	n := Build(run)
	assert.Contains(t, interpretP99(&n), "Fewer samples stand behind decode_tok_s (7), mean_inter_token_latency_ms (7), mean_time_per_output_token (7), tpot (7).")
}
