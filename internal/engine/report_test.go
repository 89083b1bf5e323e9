package engine

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/record"
)

// answered is a completed request of n prompt and m output tokens.
func answered(n, m int) record.Record {
	return record.Record{
		ResponseReceived: true, Response: record.Response{TerminalObserved: true},
		Tokens: record.Tokens{Prompt: &n, Output: &m},
		Timing: record.Timing{TTFOMS: new(200.0), TTFTMS: new(200.0), E2EMS: new(200 + 20*float64(m-1))},
	}
}

func answeredMany(count, n, m int) []record.Record {
	var all []record.Record
	for range count {
		all = append(all, answered(n, m))
	}
	return all
}

func failed() record.Record {
	return record.Record{Failure: &record.Failure{}}
}

func TestClientOf(t *testing.T) {
	wrong := answered(10, 5) // a canary that failed: an answer all the same, and in the engine's counts
	wrong.Failure = &record.Failure{}
	cut := answered(10, 5) // it broke after its usage
	cut.Failure, cut.Response.TerminalObserved = &record.Failure{}, false
	cached := answered(100, 2)
	cached.Tokens.Cached = new(64)
	c := ClientOf([]record.Record{answered(100, 11), wrong, cut, failed(), cached})
	assert.Equal(t, 5, c.Attempted)
	assert.Equal(t, 3, c.Requests)
	assert.Equal(t, new(220.0), c.PromptTokens)
	assert.Equal(t, new(23.0), c.GenerationTokens)
	assert.Equal(t, new(64.0), c.CachedTokens)
	assert.Equal(t, [3]int{1, 1, 4}, [3]int{c.WithoutPrompt, c.WithoutGeneration, c.WithoutCached})
	assert.Equal(t, 2, c.TTFO.Samples, "completed requests alone")
	assert.Equal(t, new(20.0), c.TPOT.Mean)
	none := ClientOf([]record.Record{failed()})
	assert.Nil(t, none.PromptTokens, "no usage is not 0 tokens")
	assert.Zero(t, ClientOf(nil))
}

func TestCountsAreCompared(t *testing.T) {
	hundred := ClientOf(answeredMany(100, 100, 10)) // 10,000 prompt tokens, 1,000 generated
	for _, row := range []struct {
		name    string
		client  Client
		server  map[Role]float64
		what    Role
		verdict Verdict
		says    []string // of the finding
		why     string
	}{
		{"equal", hundred, map[Role]float64{PromptTokens: 10000}, PromptTokens, Agree, nil, ""},
		{"1 % more", hundred, map[Role]float64{PromptTokens: 10100}, PromptTokens, Agree, nil, "the limit itself is within it"},
		{"a token over 1 %", hundred, map[Role]float64{PromptTokens: 10101}, PromptTokens, Differ, []string{"10101 prompt tokens", "1.0 % more", "10000", "other traffic"}, ""},
		{"1 % fewer", hundred, map[Role]float64{PromptTokens: 9900}, PromptTokens, Agree, nil, ""},
		{"a token under 1 %", hundred, map[Role]float64{PromptTokens: 9899}, PromptTokens, Differ, []string{"1.0 % fewer", "one of several servers"}, ""},
		{"twice as many", hundred, map[Role]float64{GenerationTokens: 2000}, GenerationTokens, Differ, []string{"2000 generation tokens", "100.0 % more"}, ""},
		{"not exposed", hundred, map[Role]float64{}, PromptTokens, CannotTell, nil, "nil is no difference"},
		{"no usage", ClientOf([]record.Record{failed(), failed()}), map[Role]float64{PromptTokens: 100}, PromptTokens, CannotTell, nil, ""},
		{"some without usage, engine above", ClientOf(append(answeredMany(99, 100, 10), failed())), map[Role]float64{PromptTokens: 10000}, PromptTokens, CannotTell, nil, "the missing one's may be what is above"},
		{"some without usage, engine below", ClientOf(append(answeredMany(99, 100, 10), failed())), map[Role]float64{PromptTokens: 5000}, PromptTokens, Differ, []string{"1 of 100 requests have no usage"}, "that the missing one does not explain"},
		{"some without usage, equal", ClientOf(append(answeredMany(99, 100, 10), failed())), map[Role]float64{PromptTokens: 9900}, PromptTokens, Agree, nil, ""},
		{"requests", hundred, map[Role]float64{Requests: 100}, Requests, Agree, nil, ""},
		{"one request more", hundred, map[Role]float64{Requests: 101}, Requests, Agree, nil, "1 % of 100"},
		{"two requests more", hundred, map[Role]float64{Requests: 102}, Requests, Differ, []string{"102 requests", "2.0 % more"}, ""},
		{"an open request that was counted", ClientOf(append(answeredMany(50, 1, 1), failed(), failed())), map[Role]float64{Requests: 52}, Requests, CannotTell, nil, "50 to 52 are all possible"},
		{"more than were sent", ClientOf(append(answeredMany(50, 1, 1), failed(), failed())), map[Role]float64{Requests: 60}, Requests, Differ, []string{"60 requests", "2 of 52"}, ""},
		{"nothing on the client's side", ClientOf(nil), map[Role]float64{Requests: 5}, Requests, Differ, []string{"where the client has none"}, ""},
		{"nothing on either side", ClientOf(nil), map[Role]float64{Requests: 0}, Requests, Agree, nil, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got Comparison
			for _, c := range compare(Delta{Values: row.server}, row.client) {
				if c.What == row.what {
					got = c
				}
			}
			assert.Equal(t, row.verdict, got.Verdict, row.why)
			text := strings.Join(mismatches([]Comparison{got}), "\n")
			assert.Equal(t, row.says == nil, text == "", text)
			for _, part := range row.says {
				assert.Contains(t, text, part)
			}
		})
	}
}

func TestComputedTokensAreComparedWithComputedOnes(t *testing.T) {
	withCached := func(cached *int) []record.Record {
		all := answeredMany(10, 100, 10)
		for i := range all {
			all[i].Tokens.Cached = cached
		}
		return all
	}
	engine := Delta{ComputedOnly: true, Values: map[Role]float64{PromptTokens: 400}}
	got := compare(engine, ClientOf(withCached(new(60))))[1]
	assert.Equal(t, Agree, got.Verdict, "1000 less 600 from the cache")
	assert.Equal(t, new(400.0), got.Client)
	got = compare(engine, ClientOf(withCached(nil)))[1]
	assert.Equal(t, CannotTell, got.Verdict)
	assert.Contains(t, got.Note, "not every answer says")
	some := withCached(new(60))
	some[3].Tokens.Cached = nil
	assert.Equal(t, CannotTell, compare(engine, ClientOf(some))[1].Verdict, "of one it is not known")
}

// session is one of two pages that were read a minute apart.
func session(t *testing.T, before, after string) Session {
	t.Helper()
	a, b := snapshot(t, before, "glm"), snapshot(t, after, "glm")
	b.At = a.At.Add(time.Minute)
	return Session{URL: "http://host/metrics", Before: a, After: b, Reads: 60, Gauges: map[Role]Series{
		Running: {60, 3.5, 0, 4}, KVCacheUse: {60, 0.25, 0.1, 0.75},
	}}
}

// pageOf is a page of 100 answers of 100 prompt and 10 output tokens, twice over.
func pageOf(requests, prompt, generated, hits string, ttftSum string) string {
	return "# TYPE vllm:time_to_first_token_seconds histogram\n" + vllmPage(
		`request_success_total{finished_reason="stop"} `+requests, "prompt_tokens_total "+prompt, "generation_tokens_total "+generated,
		"prefix_cache_queries_total "+prompt, "prefix_cache_hits_total "+hits, "num_preemptions_total 3",
		`time_to_first_token_seconds_bucket{le="0.25"} `+requests, `time_to_first_token_seconds_bucket{le="+Inf"} `+requests,
		"time_to_first_token_seconds_sum "+ttftSum, "time_to_first_token_seconds_count "+requests,
	)
}

func TestReportOfACleanCell(t *testing.T) {
	s := session(t, pageOf("10", "5000", "50", "100", "100"), pageOf("110", "15000", "1050", "2600", "118"))
	r := NewReport(s, &Identity{Engine: new(VLLM), Version: new("0.30.0"), Details: map[string]string{}}, ClientOf(answeredMany(100, 100, 10)))
	assert.Empty(t, r.Findings)
	assert.Nil(t, r.Unavailable)
	assert.Equal(t, new(VLLM), r.Engine)
	assert.Equal(t, Counters{Requests: new(100.0), PromptTokens: new(10000.0), GenerationTokens: new(1000.0), Preemptions: new(0.0)}, r.Counters)
	assert.Equal(t, PrefixCache{Queries: new(10000.0), Hits: new(2500.0), HitRate: new(0.25), Unit: new("tokens")}, r.PrefixCache)
	rate, why := r.HitRate()
	assert.Equal(t, new(0.25), rate)
	assert.Empty(t, why)
	assert.Equal(t, Gauges{Running: &GaugeSummary{60, 3.5, 0, 4}, KVCacheUse: &GaugeSummary{60, 0.25, 0.1, 0.75}}, r.Gauges)
	assert.InDelta(t, 180, *r.TTFT.MeanMS, 1e-9, "18 s in 100 requests")
	assert.Equal(t, BoundsMS{new(0.0), new(250.0)}, r.TTFT.P50)
	assert.Nil(t, r.TPOT)
	assert.Equal(t, epoch.UnixNano(), *r.BeforeUnixNS)
	assert.Equal(t, epoch.Add(time.Minute).UnixNano(), *r.AfterUnixNS)
	require.Len(t, r.Latencies, 2)
	assert.InDelta(t, 20, *r.Latencies[0].MeanGapMS, 1e-9, "200 ms at the client, 180 at the engine")
	assert.Equal(t, BoundsMS{new(200.0), new(200.0)}, r.Latencies[0].Client.P90)
	assert.Nil(t, r.Latencies[1].Server)
	assert.Nil(t, r.Latencies[1].MeanGapMS)
	for _, c := range r.Comparisons {
		assert.Equal(t, Agree, c.Verdict, c.What)
	}
}

func TestFindings(t *testing.T) {
	clean := pageOf("10", "5000", "50", "100", "100")
	after := pageOf("110", "15000", "1050", "2600", "118")
	hundred := ClientOf(answeredMany(100, 100, 10))
	for _, row := range []struct {
		name   string
		change func(s *Session)
		after  string
		client Client
		says   [][]string // one list a finding
	}{
		{"other traffic", nil, pageOf("210", "25000", "2050", "2600", "118"), hundred,
			[][]string{{"200 requests, 100.0 % more than the client's 100, and 20000 prompt tokens", "2000 generation tokens", "other traffic"}}},
		{"more of one and fewer of another", nil, pageOf("110", "16000", "850", "2600", "118"), hundred,
			[][]string{{"11000 prompt tokens", "other traffic"}, {"800 generation tokens, 20.0 % fewer", "one of several servers"}}},
		{"an engine slower than what the client saw", nil, pageOf("110", "15000", "1050", "2600", "150"), hundred,
			[][]string{{"mean time to first token", "500.0 ms", "200.0 ms", "in as many requests"}}},
		{"an engine slower, with others' requests in it", nil, pageOf("120", "15000", "1050", "2600", "200"), hundred,
			[][]string{{"110 requests"}}},
		{"preemptions", nil, strings.Replace(after, "num_preemptions_total 3", "num_preemptions_total 7", 1), hundred,
			[][]string{{"preempted 4 requests", "KV cache"}}},
		{"more hits than queries", nil, pageOf("110", "15000", "1050", "90000", "118"), hundred,
			[][]string{{"89900 prefix-cache hits in 10000 queries"}}},
		{"a restart", nil, strings.Replace(after, "prompt_tokens_total 15000", "prompt_tokens_total 3", 1), hundred,
			[][]string{{"went back", "(prompt_tokens)", "not used"}}},
		{"another process", func(s *Session) { s.Before.started, s.After.started = 1, 2 }, after, hundred,
			[][]string{{"another process", "generation_tokens"}}},
		{"readings that failed", func(s *Session) { s.ReadErrors, s.LastReadError = 3, "it answers 503" }, after, hundred,
			[][]string{{"3 of 63 readings", "503"}}},
		{"bad lines", nil, after + "vllm:num_requests_running x\n", hundred,
			[][]string{{"1 lines or series", "vllm:num_requests_running"}}},
		{"no reading after", func(s *Session) {
			s.After, s.Unavailable = nil, &Unavailable{Kind: TooSlow, Reason: "it was not read within 5s"}
		}, after, hundred, [][]string{{"http://host/metrics", "not read within 5s"}}},
		{"none at the default address", func(s *Session) {
			s.Before, s.After, s.Unavailable = nil, nil, &Unavailable{Kind: NotFound, Reason: "404", Implied: true}
		}, after, hundred, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := session(t, clean, row.after)
			if row.change != nil {
				row.change(&s)
			}
			r := NewReport(s, nil, row.client)
			require.Len(t, r.Findings, len(row.says), "%q", r.Findings)
			for i, parts := range row.says {
				for _, part := range parts {
					assert.Contains(t, r.Findings[i], part)
				}
			}
		})
	}
}

func TestAnEngineAsFastAsTheClientIsNoFinding(t *testing.T) {
	for sum, want := range map[string]int{"120": 0, "120.19": 0, "120.21": 1} { // mean 200, 201.9 and 202.1 ms; the client's is 200
		r := NewReport(session(t, pageOf("10", "5000", "50", "100", "100"), pageOf("110", "15000", "1050", "2600", sum)), nil, ClientOf(answeredMany(100, 100, 10)))
		assert.Len(t, r.Findings, want, "%s: %q", sum, r.Findings)
	}
}

func TestWhyThereIsNoHitRate(t *testing.T) {
	queries := func(before, after string) Session {
		return session(t, "vllm:num_requests_running 0\n"+before, "vllm:num_requests_running 0\n"+after)
	}
	both := func(q, h string) string {
		return vllmPage("prefix_cache_queries_total "+q, "prefix_cache_hits_total "+h)
	}
	for _, row := range []struct {
		s    Session
		says string
	}{
		{Session{Unavailable: &Unavailable{Kind: NotFound, Reason: "it answers 404"}}, "not read: it answers 404"},
		{queries("", ""), "does not expose"},
		{queries(vllmPage("prefix_cache_queries_total 1"), vllmPage("prefix_cache_queries_total 9")), "does not expose"},
		{queries(both("5", "1"), both("5", "1")), "may be off"},
		{queries(both("5", "4"), both("9", "1")), "went back"},
		{queries(both("5", "1"), both("6", "9")), "8 prefix-cache hits in 1 queries"},
	} {
		rate, why := NewReport(row.s, nil, Client{}).HitRate()
		assert.Nil(t, rate)
		assert.Contains(t, why, row.says)
	}
}

func TestPaceIsComparedWithWhatThereIs(t *testing.T) {
	h := Histogram{Count: 10, Sum: 0.5}
	client := ClientOf(answeredMany(10, 10, 10))
	pace := compareLatencies(Delta{Histograms: map[Role]Histogram{ITL: h}}, client)[1]
	assert.Equal(t, ITL, pace.What)
	assert.Contains(t, pace.Note, "one value a token")
	assert.Equal(t, new(-30.0), pace.MeanGapMS, "20 ms at the client, 50 at the engine")
	pace = compareLatencies(Delta{Histograms: map[Role]Histogram{ITL: h, TPOT: h}}, client)[1]
	assert.Equal(t, TPOT, pace.What)
	assert.Empty(t, pace.Note)
	pace = compareLatencies(Delta{Engine: TGI, Histograms: map[Role]Histogram{TPOT: h}}, client)[1]
	assert.Contains(t, pace.Note, "whole inference time")
	pace = compareLatencies(Delta{Histograms: map[Role]Histogram{TPOT: {}}}, client)[1]
	assert.Nil(t, pace.Server, "a histogram without values has nothing to say")
}

// The JSON is read again by reports and by an older or newer suite.
func TestReportInJSON(t *testing.T) {
	s := session(t, fixture(t, "vllm-0.30.prom"), fixture(t, "vllm-0.30.prom"))
	for name, r := range map[string]Report{
		"full":  NewReport(s, &Identity{Details: map[string]string{}}, ClientOf(answeredMany(3, 10, 10))),
		"empty": NewReport(Session{Unavailable: &Unavailable{Kind: NotConfigured, Reason: "no address is set"}}, nil, Client{}),
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(r)
			require.NoError(t, err)
			var again Report
			require.NoError(t, json.Unmarshal(text, &again))
			assert.Equal(t, r, again)
			for _, key := range []string{"resets", "names", "comparisons", "latencies", "findings"} {
				assert.NotContains(t, string(text), `"`+key+`":null`, "an empty list is a list")
			}
		})
	}
	text, err := json.Marshal(NewReport(Session{Unavailable: &Unavailable{Kind: NotConfigured, Reason: "no address is set"}}, nil, Client{}))
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"url": "", "key_sent": false, "unavailable": {"kind": "not_configured", "reason": "no address is set", "fine": true},
		"identity": null, "engine": null, "before_unix_ns": null, "after_unix_ns": null, "reads": 0, "read_errors": 0, "last_read_error": null,
		"counters": {"requests": null, "prompt_tokens": null, "generation_tokens": null, "preemptions": null, "prompt_tokens_computed_only": false},
		"prefix_cache": {"queries": null, "hits": null, "hit_rate": null, "unit": null},
		"gauges": {"requests_running": null, "requests_waiting": null, "kv_cache_use": null},
		"time_to_first_token": null, "time_per_output_token": null, "inter_token_latency": null,
		"resets": [], "names": {}, "skipped_lines": 0, "first_skipped": null, "comparisons": [], "latencies": [], "findings": []
	}`, string(text), "what is not known is null, and no number")
}
