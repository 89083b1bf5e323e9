package refserver

import (
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStreamLooksLikeAServers(t *testing.T) {
	inBubble(t, Options{Model: "m", ReasoningTokens: 1}, func(t *testing.T, r *rig) {
		got := r.send(t.Context(), body(prompt(3, 2, 20), map[string]any{"model": "m"}))
		require.NoError(t, got.err)
		assert.Equal(t, "text/event-stream; charset=utf-8", got.header.Get("Content-Type"))
		assert.Equal(t, "refserver-000000", got.header.Get("X-Request-Id"))
		const head = `{"id":"chatcmpl-refserver-000000","object":"chat.completion.chunk","created":946684800,"model":"m",`
		token := func(delta string) string {
			return head + `"choices":[{"index":0,"delta":{` + delta + `},"logprobs":null,"finish_reason":null}]}`
		}
		want := []string{
			token(`"role":"assistant","content":""`),
			token(`"reasoning_content":" hmm"`),
			token(`"content":"` + marker(3) + `"`),
			token(`"content":" code"`),
			token(`"content":" code"`),
			head + `"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}`,
			head + `"choices":[],"usage":{"prompt_tokens":20,"total_tokens":24,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":1}}}`,
			"[DONE]",
		}
		require.Len(t, got.events, len(want))
		for i := range want {
			assert.Equal(t, want[i], got.events[i].data)
		}
	})
}

func TestWholeCompletion(t *testing.T) {
	o := Options{PrefillTokS: 1000, DecodeBase: 10 * time.Millisecond, ReasoningTokens: 2}
	inBubble(t, o, func(t *testing.T, r *rig) {
		got := r.send(t.Context(), body(prompt(3, 2, 100), map[string]any{"stream": false, "stream_options": nil}))
		require.NoError(t, got.err)
		assert.Equal(t, 140*time.Millisecond, time.Since(got.start), "100 ms of prefill and four steps for five tokens")
		assert.JSONEq(t, `{"id":"chatcmpl-refserver-000000","object":"chat.completion","created":946684800,"model":"refserver",
			"choices":[{"index":0,"message":{"role":"assistant","content":"`+marker(3)+` code code","reasoning_content":" hmm hmm"},"logprobs":null,"finish_reason":"stop"}],
			"usage":{"prompt_tokens":100,"total_tokens":105,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":2}}}`, got.body)
		e := r.Log()[0]
		assert.Equal(t, OutcomeDone, e.Outcome)
		assert.Equal(t, e.End(), e.DoneAt)
		assert.False(t, e.Streamed)
	})
}

func TestAnswerFollowsThePrompt(t *testing.T) {
	long := strings.Repeat("filler ", 50)
	for _, row := range []struct {
		name, prompt, why string
		more              map[string]any
		text, finish      string
		tokens, reasoning int
	}{
		{"marker and words", marker(1) + " words=3\n" + long, "the common request", nil, marker(1) + " code code code", "stop", 6, 2},
		{"words alone", "words=2\n", "canaries off", nil, "code code", "stop", 4, 2},
		{"marker alone", marker(1) + "\n", "no words asked", nil, marker(1) + " ok", "stop", 4, 2},
		{"no words wanted", marker(1) + " words=0\n", "zero is a number", nil, marker(1), "stop", 3, 2},
		{"nothing wanted", "words=0\n", "an answer is never empty", nil, "ok", "stop", 3, 2},
		{"plain", "hello", "", nil, "ok", "stop", 3, 2},
		{"max_tokens one above", marker(1) + " words=3\n", "n+1", map[string]any{"max_tokens": 7}, marker(1) + " code code code", "stop", 6, 2},
		{"max_tokens exact", marker(1) + " words=3\n", "n", map[string]any{"max_tokens": 6}, marker(1) + " code code code", "stop", 6, 2},
		{"max_tokens one below", marker(1) + " words=3\n", "n-1", map[string]any{"max_tokens": 5}, marker(1) + " code code", "length", 5, 2},
		{"reasoning eats the budget", marker(1) + " words=3\n", "", map[string]any{"max_tokens": 2}, "", "length", 2, 2},
		{"reasoning cut", marker(1) + " words=3\n", "", map[string]any{"max_tokens": 1}, "", "length", 1, 1},
		{"the other name", marker(1) + " words=3\n", "", map[string]any{"max_completion_tokens": 3}, marker(1), "length", 3, 2},
		{"both names", marker(1) + " words=3\n", "the newer one counts", map[string]any{"max_tokens": 1, "max_completion_tokens": 3}, marker(1), "length", 3, 2},
		{"thinking disabled", marker(1) + " words=1\n", "vLLM's switch", map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}}, marker(1) + " code", "stop", 2, 0},
		{"thinking enabled", marker(1) + " words=1\n", "", map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": true}}, marker(1) + " code", "stop", 4, 2},
		{"no effort", marker(1) + " words=1\n", "", map[string]any{"reasoning_effort": "none"}, marker(1) + " code", "stop", 2, 0},
		{"some effort", marker(1) + " words=1\n", "", map[string]any{"reasoning_effort": "low"}, marker(1) + " code", "stop", 4, 2},
		{"unknown keys", marker(1) + " words=1\n", "ignored unless rejected", map[string]any{"top_k": 3, "n": nil}, marker(1) + " code", "stop", 4, 2},
		{"content in parts", "", "arrays of text parts", map[string]any{"messages": []any{map[string]any{"role": "user",
			"content": []any{map[string]any{"type": "text", "text": marker(1)}, map[string]any{"type": "text", "text": " words=1"}}}}}, marker(1) + " code", "stop", 4, 2},
		{"several messages", "", "joined in order", map[string]any{"messages": []any{
			map[string]any{"role": "user", "content": marker(1) + " words=1"}, map[string]any{"role": "user", "content": "x"}}}, marker(1) + " code", "stop", 4, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, Options{ReasoningTokens: 2}, func(t *testing.T, r *rig) {
				got := r.send(t.Context(), body(row.prompt, row.more))
				require.NoError(t, got.err)
				require.Equal(t, 200, got.status, got.body)
				assert.Equal(t, row.text, got.text(), row.why)
				assert.Equal(t, row.finish, finishOf(got.events[got.index(isFinish)]), row.why)
				assert.Len(t, got.outputs(), row.tokens, "one event, one token")
				u := got.events[got.index(isUsage)].chunk().Usage
				assert.Equal(t, row.tokens, u.CompletionTokens)
				assert.Equal(t, row.reasoning, u.Completion.Reasoning)
				assert.Equal(t, u.PromptTokens+u.CompletionTokens, u.TotalTokens)
				assert.Equal(t, row.text == "", r.Log()[0].FirstContentAt.IsZero(), "no content, no stamp")
			})
		})
	}
}

func TestUsageOnlyWhenAsked(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		got := r.send(t.Context(), body("hi", map[string]any{"stream_options": nil}))
		assert.Equal(t, -1, got.index(isUsage))
		assert.NotEqual(t, -1, got.index(isDone))
	})
}

func TestReasoningUnderTheOtherName(t *testing.T) {
	inBubble(t, Options{ReasoningTokens: 1, ReasoningKey: "reasoning"}, func(t *testing.T, r *rig) {
		got := r.ask("hi")
		assert.Contains(t, got.events[1].data, `"delta":{"reasoning":" hmm"}`)
	})
}

func TestCountTokens(t *testing.T) {
	for _, row := range []struct {
		text, why string
		want      int
	}{
		{"", "nothing", 0}, {"abc", "n-1", 1}, {"abcd", "n", 1}, {"abcde", "n+1", 2}, {"éééé", "characters, not bytes", 1},
	} {
		assert.Equal(t, row.want, CountTokens(row.text), row.why)
	}
}

func TestRefusals(t *testing.T) {
	o := Options{Model: "served", MaxModelLen: 100, RejectParams: []string{"stream_options", "max_tokens"}}
	base := func(more map[string]any) []byte {
		m := map[string]any{"model": "served", "stream_options": nil}
		for k, v := range more {
			m[k] = v
		}
		return body(strings.Repeat("x", 80*CharsPerToken), m)
	}
	for _, row := range []struct {
		name, why string
		raw       []byte
		status    int
		want      string
		code      string
	}{
		{"as it should be", "the rows differ from this in one thing", base(nil), 200, "", ""},
		{"not JSON", "", []byte(`{"model":`), 400, "could not parse the JSON body", "invalid_json"},
		{"empty", "", nil, 400, "could not parse the JSON body", "invalid_json"},
		{"wrong type", "", []byte(`{"model":"served","messages":3}`), 400, "could not parse the JSON body", "invalid_json"},
		{"content of wrong type", "", []byte(`{"model":"served","messages":[{"content":[3]}]}`), 400, "could not parse", "invalid_json"},
		{"other model", "", base(map[string]any{"model": "other"}), 404, "The model `other` does not exist", "model_not_found"},
		{"no messages", "", base(map[string]any{"messages": []any{}}), 400, "Missing required parameter: 'messages'", ""},
		{"max_tokens 0", "nothing to say", base(map[string]any{"max_completion_tokens": 0}), 400, "max_tokens must be at least 1", ""},
		{"context exact", "n", base(map[string]any{"max_completion_tokens": 20}), 200, "", ""},
		{"context one above", "n+1", base(map[string]any{"max_completion_tokens": 21}), 400, "maximum context length is 100 tokens (max_model_len). However, you requested 80 tokens in the messages and 21 in the completion", "context_length_exceeded"},
		{"prompt alone too long", "one token has to fit", base(map[string]any{"messages": []any{map[string]any{"content": strings.Repeat("x", 397)}}}), 400, "maximum context length", "context_length_exceeded"},
		{"asked for all there is", "no overflow", base(map[string]any{"max_completion_tokens": math.MaxInt}), 400, "maximum context length", "context_length_exceeded"},
		{"max_tokens rejected", "a hint at the other name", base(map[string]any{"max_tokens": 5}), 400, "Use 'max_completion_tokens' instead", "unsupported_parameter"},
		{"stream_options rejected", "", base(map[string]any{"stream_options": map[string]any{"include_usage": true}}), 400, "Unknown parameter: 'stream_options'", "unknown_parameter"},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, o, func(t *testing.T, r *rig) {
				got := r.send(t.Context(), row.raw)
				require.NoError(t, got.err)
				require.Equal(t, row.status, got.status, got.body)
				e := r.Log()[0]
				assert.Equal(t, row.status, e.Status)
				if row.status == 200 {
					return
				}
				assert.Equal(t, OutcomeRefused, e.Outcome)
				var refused struct{ Error map[string]any }
				require.NoError(t, json.Unmarshal([]byte(got.body), &refused))
				assert.Contains(t, refused.Error["message"], row.want, row.why)
				if row.code != "" {
					assert.Equal(t, row.code, refused.Error["code"])
				}
			})
		})
	}
}

func TestAnswerFillsTheContext(t *testing.T) {
	inBubble(t, Options{MaxModelLen: 30}, func(t *testing.T, r *rig) {
		got := r.ask(prompt(1, 100, 20))
		assert.Len(t, got.outputs(), 10, "no max_tokens: up to the context's end")
		assert.Equal(t, "length", finishOf(got.events[got.index(isFinish)]))
	})
}

func TestBodyLimit(t *testing.T) {
	raw := body("hi", nil)
	for _, row := range []struct {
		name   string
		limit  int
		status int
	}{{"n-1", len(raw) + 1, 200}, {"n", len(raw), 200}, {"n+1", len(raw) - 1, 413}} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, r *rig) {
				assert.EqualValues(t, MaxBodyBytes, r.bodyLimit)
				r.bodyLimit = int64(row.limit)
				assert.Equal(t, row.status, r.send(t.Context(), raw).status)
			})
		})
	}
}

func TestKey(t *testing.T) {
	inBubble(t, Options{APIKey: "sk-secret"}, func(t *testing.T, r *rig) {
		for _, row := range []struct {
			name, method, path, auth string
			want                     int
		}{
			{"right", "GET", "/v1/models", "Bearer sk-secret", 200},
			{"none", "GET", "/v1/models", "", 401},
			{"wrong", "GET", "/v1/models", "Bearer sk-secreT", 401},
			{"longer", "GET", "/v1/models", "Bearer sk-secret2", 401},
			{"no scheme", "GET", "/v1/models", "sk-secret", 401},
			{"chat", "POST", "/v1/chat/completions", "", 401},
			{"health is open", "GET", "/health", "", 200},
			{"metrics are open", "GET", "/metrics", "", 200},
		} {
			req, err := http.NewRequest(row.method, r.Origin()+row.path, nil)
			require.NoError(t, err)
			if row.auth != "" {
				req.Header.Set("Authorization", row.auth)
			}
			res, err := r.client.Do(req)
			require.NoError(t, err)
			assert.Equal(t, row.want, res.StatusCode, row.name)
			require.NoError(t, res.Body.Close())
		}
	})
}

func TestModels(t *testing.T) {
	for _, row := range []struct {
		o    Options
		want string
	}{
		{Options{}, `{"id":"refserver","object":"model","created":946684800,"owned_by":"refserver"}`},
		{Options{Model: "m", MaxModelLen: 4096}, `{"id":"m","object":"model","created":946684800,"owned_by":"refserver","max_model_len":4096}`},
	} {
		inBubble(t, row.o, func(t *testing.T, r *rig) {
			status, got := r.get(t, "/v1/models")
			assert.Equal(t, 200, status)
			assert.JSONEq(t, `{"object":"list","data":[`+row.want+`]}`, got)
		})
	}
}

func TestOtherPaths(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		status, _ := r.get(t, "/health")
		assert.Equal(t, 200, status)
		status, got := r.get(t, "/chat/completions")
		assert.Equal(t, 404, status)
		assert.Contains(t, got, "the API is under /v1")
	})
}

func TestMetrics(t *testing.T) {
	o := Options{Slots: 1, PrefillTokS: 1000, DecodeBase: 20 * time.Millisecond, ReasoningTokens: 1, Faults: "truncate=2@2"}
	inBubble(t, o, func(t *testing.T, r *rig) {
		value := func(page, sample string) float64 {
			t.Helper()
			m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(sample) + ` (\S+)$`).FindStringSubmatch(page)
			require.NotNil(t, m, sample)
			v, err := strconv.ParseFloat(m[1], 64)
			require.NoError(t, err)
			return v
		}
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() { r.ask(prompt(i, 3, 100)) })
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		_, during := r.get(t, "/metrics")
		assert.Equal(t, 1.0, value(during, `refserver:num_requests_running{model_name="refserver"}`))
		assert.Equal(t, 2.0, value(during, `refserver:num_requests_waiting{model_name="refserver"}`))
		wg.Wait()
		_, after := r.get(t, "/metrics")
		for sample, want := range map[string]float64{
			`refserver:num_requests_running{model_name="refserver"}`:                           0,
			`refserver:num_requests_waiting{model_name="refserver"}`:                           0,
			`refserver:prompt_tokens_total{model_name="refserver"}`:                            300,
			`refserver:generation_tokens_total{model_name="refserver"}`:                        12, // 5 + 5 + 2
			`refserver:request_success_total{model_name="refserver",finished_reason="stop"}`:   2,
			`refserver:request_success_total{model_name="refserver",finished_reason="length"}`: 0,
			`refserver:request_success_total{model_name="refserver",finished_reason="abort"}`:  1,
			// TTFO is 100 ms, then (100 + 80 - 1) + 100, then 2 * 180 - 2 + 100.
			`refserver:time_to_first_token_seconds_count{model_name="refserver"}`:                       3,
			`refserver:time_to_first_token_seconds_bucket{model_name="refserver",le="0.08"}`:            0,
			`refserver:time_to_first_token_seconds_bucket{model_name="refserver",le="0.1"}`:             1,
			`refserver:time_to_first_token_seconds_bucket{model_name="refserver",le="0.25"}`:            1,
			`refserver:time_to_first_token_seconds_bucket{model_name="refserver",le="0.5"}`:             3,
			`refserver:time_to_first_token_seconds_bucket{model_name="refserver",le="+Inf"}`:            3,
			`refserver:time_to_first_token_seconds_sum{model_name="refserver"}`:                         0.1 + 0.279 + 0.458,
			`refserver:request_time_per_output_token_seconds_bucket{model_name="refserver",le="0.01"}`:  0,
			`refserver:request_time_per_output_token_seconds_bucket{model_name="refserver",le="0.025"}`: 2,
			`refserver:e2e_request_latency_seconds_count{model_name="refserver"}`:                       2,
			`refserver:event_lateness_seconds_bucket{model_name="refserver",le="1e-05"}`:                12,
			`refserver:event_lateness_seconds_sum{model_name="refserver"}`:                              0,
			`refserver:prefix_cache_queries_total{model_name="refserver"}`:                              0,
		} {
			assert.InDelta(t, want, value(after, sample), 1e-9, sample)
		}
		for line := range strings.Lines(after) {
			assert.Regexp(t, `^(# (HELP|TYPE) refserver:[a-z_0-9]+ .+|refserver:[a-z_0-9]+\{model_name="refserver"(,[a-z_]+="[^"]+")?\} \S+)\n$`, line)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	for _, row := range []struct {
		name string
		o    Options
		want string
	}{
		{"zero", Options{}, ""},
		{"embedded", EmbeddedOptions(), ""},
		{"slots at limit", Options{Slots: MaxSlots}, ""},
		{"slots above", Options{Slots: MaxSlots + 1}, `option "Slots" is 65537, want 0..65536`},
		{"reasoning above", Options{ReasoningTokens: MaxReasoningTokens + 1}, `option "ReasoningTokens"`},
		{"model length above", Options{MaxModelLen: MaxModelLenLimit + 1}, `option "MaxModelLen"`},
		{"step at limit", Options{DecodeBase: MaxStep, DecodePerActive: MaxStep}, ""},
		{"step above", Options{DecodeBase: MaxStep + 1}, `option "DecodeBase"`},
		{"step below", Options{DecodePerActive: -1}, `option "DecodePerActive" is -1ns`},
		{"rate NaN", Options{PrefillTokS: math.NaN()}, `option "PrefillTokS" is NaN`},
		{"rate above", Options{PrefillTokS: 2 * MaxPrefillTokS}, `option "PrefillTokS"`},
		{"jitter 1", Options{JitterFraction: 1}, `option "JitterFraction" is 1`},
		{"jitter NaN", Options{JitterFraction: math.NaN()}, `option "JitterFraction" is NaN`},
		{"key of reasoning", Options{ReasoningKey: "thoughts"}, `want "reasoning_content" or "reasoning"`},
		{"fault plan", Options{Faults: "stal@1"}, `did you mean "stall"`},
		{"two at once", Options{Slots: -1, Faults: "stal@1"}, `option "Slots" is -1`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := New(row.o)
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestEmbeddedOptionsAdmitEveryCell(t *testing.T) {
	// PROTOCOL section 2: at most 1,048,576 nominal tokens of three characters and
	// 65,536 of answer, with a margin of 1,024.
	o := EmbeddedOptions()
	assert.LessOrEqual(t, 1_048_576+65_536+1024, o.MaxModelLen)
	assert.LessOrEqual(t, 1_048_576*3, MaxBodyBytes)
}

func TestLogIsBounded(t *testing.T) {
	inBubble(t, Options{LogLimit: 3}, func(t *testing.T, r *rig) {
		for i := range 5 {
			r.ask(prompt(i, 1, 20))
		}
		indexes := func(log []Exchange) (all []int) {
			for _, e := range log {
				all = append(all, e.Index)
			}
			return all
		}
		assert.Equal(t, []int{2, 3, 4}, indexes(r.Log()), "oldest first")
		assert.Equal(t, 2, r.Dropped())
		assert.Equal(t, []int{2, 3, 4}, indexes(r.DrainLog()))
		assert.Empty(t, r.Log())
		r.ask(prompt(9, 1, 20))
		assert.Equal(t, []int{9}, indexes(r.Log()))
	})
	inBubble(t, Options{LogLimit: -1}, func(t *testing.T, r *rig) {
		r.ask("hi")
		assert.Empty(t, r.Log())
		assert.Equal(t, 1, r.Dropped())
	})
}
