package refserver

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseFaults(t *testing.T) {
	for _, row := range []struct {
		name, plan, why string
		want            string // in the error, "" for none
	}{
		{"empty", "", "no plan is a plan", ""},
		{"space and empty entries", " ; status@3 ;\n stall=2 @ 10% ", "plans are typed by hand", ""},
		{"every selector", "no-usage@1,5-9,12;late-usage@0.5%;linger@all", "", ""},
		{"no requests", "status=503", "a fault for all must be meant", "no requests named"},
		{"unknown", "stal=3@1", "a slip gets its word back", `unknown kind "stal"; did you mean "stall"?`},
		{"nothing near", "zzzzzzzz@1", "then the list", `want one of status, reset-before`},
		{"argument too many", "no-usage=3@1", "it would be dropped in silence", `no-usage takes no argument, got "3"`},
		{"argument not a number", "stall=x@1", "", `argument AFTER of stall: got "x", want 0..1000000`},
		{"argument empty", "stall=@1", "given and empty is not the default", `argument AFTER of stall: got ""`},
		{"count at its limit", "stall=1000000@1", "n", ""},
		{"count past its limit", "stall=1000001@1", "n+1", "want 0..1000000"},
		{"status below", "status=399@1", "3xx and less are not faults of this kind", "want 400..599"},
		{"status at its limit", "status=599@1", "n", ""},
		{"status above", "status=600@1", "n+1", "want 400..599"},
		{"offset 0", "foreign-canary=0@1", "its own marker is not foreign", "which is the request's own marker"},
		{"duration without unit", "slow-headers=5@1", "5 of what", "a duration with its unit"},
		{"duration 0", "buffer=0s@1", "would do nothing", "more than 0"},
		{"duration past its limit", "buffer=24h0m0.000000001s@1", "n+1", "at most 24h0m0s"},
		{"factor 0", "slow=0@1", "infinitely fast is not slow", "more than 0"},
		{"factor NaN", "slow=NaN@1", "", "more than 0"},
		{"factor past its limit", "slow=1000.1@1", "", "at most 1000"},
		{"share 0", "status@0%", "no request at all", "more than 0%"},
		{"share 101", "status@101%", "", "at most 100%"},
		{"range backwards", "status@5-3", "", `requests "5-3"`},
		{"index negative", "status@-3", "", `requests "-3"`},
		{"index past its limit", "status@100000000", "n+1", `requests "100000000"`},
		{"every fault at once", "stal@1;status=1@2", "all in one message", "unknown kind"},
		{"every fault at once, second", "stal@1;status=1@2", "all in one message", "want 400..599"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := ParseFaults(row.plan)
			if row.want == "" {
				require.NoError(t, err, row.why)
				return
			}
			require.ErrorContains(t, err, row.want, row.why)
		})
	}
}

func TestParsedFaultSpeaksForItself(t *testing.T) {
	faults, err := ParseFaults("status@3; stall=2@10%")
	require.NoError(t, err)
	require.Len(t, faults, 2)
	assert.Equal(t, "status@3", faults[0].String())
	assert.Equal(t, "stall=2@10%", faults[1].String())
}

// Each row of the table parses with its default and does something.
func TestTableOfFaults(t *testing.T) {
	seen := 0
	for _, k := range FaultKinds() {
		faults, err := ParseFaults(k.Name + "@all")
		require.NoError(t, err)
		require.Len(t, faults, 1)
		e := effectsOn(faults, 0, 4)
		e.names = nil
		assert.NotEqual(t, effects{}, e, "%s does nothing", k.Name)
		assert.Equal(t, k.Arg == "", k.Default == "", "%s: an argument has a default", k.Name)
		assert.Contains(t, FaultHelp(), "  "+k.Name)
		assert.Contains(t, FaultHelp(), k.Meaning)
		seen++
	}
	assert.Greater(t, seen, 15)
}

func TestSelectors(t *testing.T) {
	covered := func(plan string, seed, n int) (all []int) {
		faults, err := ParseFaults(plan)
		require.NoError(t, err)
		for i := range n {
			if e := effectsOn(faults, seed, i); len(e.names) > 0 {
				all = append(all, i)
			}
		}
		return all
	}
	assert.Equal(t, []int{3}, covered("status@3", 0, 20))
	assert.Equal(t, []int{1, 5, 6, 7}, covered("status@1,5-7", 0, 20))
	assert.Len(t, covered("status@all", 0, 20), 20)
	assert.Equal(t, []int{6, 7}, covered("swap@7", 0, 20), "a swap has two sides")

	const n = 100_000
	a, again, other := covered("status@10%", 1, n), covered("status@10%", 1, n), covered("status@10%", 2, n)
	assert.Equal(t, a, again)
	assert.NotEqual(t, a, other)
	sd := math.Sqrt(n * 0.1 * 0.9)
	assert.InDelta(t, n*0.1, len(a), 5*sd, "five standard deviations of a binomial")

	faults, err := ParseFaults("status@10%;stall@10%")
	require.NoError(t, err)
	both := 0
	for i := range n {
		if len(effectsOn(faults, 1, i).names) == 2 {
			both++
		}
	}
	assert.InDelta(t, n*0.01, both, 5*math.Sqrt(n*0.01*0.99), "two shares of a plan are independent")
}

// faultOptions: prefill of 100 ms for the prompts below, then a token each 10 ms:
// 2 reasoning, the marker, 4 words. Token k leaves at 100 + 10k ms, the answer
// ends at 160 ms.
func faultOptions(plan string) Options {
	return Options{PrefillTokS: 1000, DecodeBase: 10 * time.Millisecond, ReasoningTokens: 2, KeepEvents: true, Faults: plan, Seed: 5}
}

const faultAnswerTokens = 7

func at(k int) time.Duration { return time.Duration(100+10*k) * time.Millisecond }

// One row a fault: what a plain client sees of request 2 out of 0..3, and that
// the others are as always.
func TestEachFault(t *testing.T) {
	own := marker(2) + " code code code code"
	times := func(t *testing.T, got reply, n int) {
		t.Helper()
		out := got.outputs()
		require.Len(t, out, n)
		for k, e := range out {
			assert.Equal(t, at(k), e.at, "token %d", k)
		}
	}
	whole := func(t *testing.T, got reply, text string) {
		t.Helper()
		require.NoError(t, got.err)
		assert.Equal(t, 200, got.status)
		assert.Equal(t, text, got.text())
		assert.True(t, isDone(got.events[len(got.events)-1]))
		assert.NotEqual(t, -1, got.index(isFinish))
		assert.NotEqual(t, -1, got.index(isUsage))
	}
	for _, row := range []struct {
		fault   string
		outcome Outcome
		check   func(t *testing.T, got reply, e Exchange)
	}{
		{"status=418", OutcomeFault, func(t *testing.T, got reply, e Exchange) {
			require.NoError(t, got.err)
			assert.Equal(t, 418, got.status)
			assert.Equal(t, 418, e.Status)
			assert.Contains(t, got.body, `{"error":{"message":"the fault plan says 418"`)
			assert.Empty(t, got.header.Get("Retry-After"))
			assert.True(t, e.Joined.IsZero(), "no slot")
		}},
		{"status=429", OutcomeFault, func(t *testing.T, got reply, e Exchange) {
			assert.Equal(t, 429, got.status)
			assert.Equal(t, "1", got.header.Get("Retry-After"))
		}},
		{"reset-before", OutcomeFault, func(t *testing.T, got reply, e Exchange) {
			require.Error(t, got.err)
			assert.Zero(t, got.status)
			assert.Zero(t, e.Status)
		}},
		{"reset-stream=3", OutcomeFault, func(t *testing.T, got reply, e Exchange) {
			require.ErrorContains(t, got.err, "connection reset")
			assert.Equal(t, 200, got.status)
			assert.Equal(t, 3, e.Sent)
			assert.LessOrEqual(t, len(got.outputs()), 3, "a reset may throw away what was not read")
		}},
		{"reset-stream=0", OutcomeFault, func(t *testing.T, got reply, e Exchange) {
			require.Error(t, got.err)
			assert.Equal(t, 200, got.status, "the header was out")
			assert.Empty(t, got.outputs())
		}},
		{"truncate=3", OutcomeFault, func(t *testing.T, got reply, e Exchange) {
			require.NoError(t, got.err, "a clean end is the point")
			times(t, got, 3)
			assert.Equal(t, -1, got.index(isDone))
			assert.Equal(t, -1, got.index(isFinish))
			assert.Equal(t, 3, e.Sent)
			assert.Equal(t, 4, e.Job.Output, "the timetable goes up to the token that did not leave")
			assert.Equal(t, at(3), e.Planned.E2E)
		}},
		{"truncate=1000", OutcomeFault, func(t *testing.T, got reply, e Exchange) {
			require.NoError(t, got.err)
			times(t, got, faultAnswerTokens)
			assert.Equal(t, own, got.text(), "past the end: the whole text")
			assert.Equal(t, -1, got.index(isDone))
			assert.Equal(t, -1, got.index(isFinish))
		}},
		{"error=3", OutcomeFault, func(t *testing.T, got reply, e Exchange) {
			require.NoError(t, got.err)
			times(t, got, 3)
			i := got.index(isError)
			require.Equal(t, len(got.events)-2, i)
			assert.Equal(t, at(3), got.events[i].at, "in place of token 3")
			assert.True(t, isDone(got.events[i+1]))
			assert.Equal(t, -1, got.index(isFinish))
		}},
		{"garbage=3", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, own)
			times(t, got, faultAnswerTokens)
			i := got.index(func(e event) bool { return strings.Contains(e.data, "not JSON") })
			assert.Equal(t, at(3), got.events[i].at)
			assert.Equal(t, " code", got.events[i+1].text(), "role, two of reasoning, marker, garbage, word")
		}},
		{"garbage=7", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, own)
			assert.Contains(t, got.events[got.index(isFinish)-1].data, "not JSON", "after exactly all")
		}},
		{"garbage=1000", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, own)
			assert.Contains(t, got.events[got.index(isFinish)-1].data, "not JSON", "past the end: before the finish event")
		}},
		{"wrong-canary", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, "WRONG_CANARY code code code code")
			assert.Equal(t, marker(2), e.Marker, "the log keeps the asked one")
		}},
		{"foreign-canary=1", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, marker(3)+" code code code code")
		}},
		{"foreign-canary=-5", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, marker(7)+" code code code code")
		}},
		{"merge", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, own+" "+marker(3)+" code code code code")
		}},
		{"repeat", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, own+" "+own)
		}},
		{"extra-words=2", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, own+" extra extra")
			times(t, got, faultAnswerTokens+2)
		}},
		{"missing-words=3", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, marker(2)+" code")
		}},
		{"missing-words=9", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, marker(2))
		}},
		{"no-usage", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			assert.Equal(t, -1, got.index(isUsage))
			assert.Equal(t, own, got.text())
			assert.NotEqual(t, -1, got.index(isDone))
		}},
		{"late-usage", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			assert.Equal(t, len(got.events)-2, got.index(isDone))
			assert.Equal(t, len(got.events)-1, got.index(isUsage))
		}},
		{"slow-headers=70ms", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, own)
			assert.Equal(t, e.Arrived.Add(70*time.Millisecond), e.HeadersAt)
			assert.Equal(t, e.HeadersAt, e.Joined)
			assert.Equal(t, 70*time.Millisecond+at(0), got.outputs()[0].at)
		}},
		{"buffer=25ms", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, own)
			// Tokens at 100, 110, 120 go at 125; 130, 140, 150 at 155; 160 with the end.
			want := []time.Duration{125, 125, 125, 155, 155, 155, 160}
			for k, o := range got.outputs() {
				assert.Equal(t, want[k]*time.Millisecond, o.at, "token %d", k)
				assert.Equal(t, o.at, e.Writes[k], "the stamp is when it left")
			}
			assert.Equal(t, e.Joined.Add(125*time.Millisecond), e.FirstOutputAt)
			assert.Equal(t, e.Joined.Add(125*time.Millisecond), e.FirstContentAt)
			assert.Equal(t, at(0), e.Planned.TTFO, "the plan is without the proxy")
		}},
		{"buffer=20ms", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			// A release at the very instant of a token goes before it.
			want := []time.Duration{120, 120, 140, 140, 160, 160, 160}
			for k, o := range got.outputs() {
				assert.Equal(t, want[k]*time.Millisecond, o.at, "token %d", k)
			}
		}},
		{"linger=2s", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, own)
			assert.Equal(t, at(6), got.events[got.index(isDone)].at)
			assert.Equal(t, e.Joined.Add(at(6)), e.DoneAt)
		}},
		{"slow=3", OutcomeDone, func(t *testing.T, got reply, e Exchange) {
			whole(t, got, own)
			assert.Equal(t, 3*at(0), got.outputs()[0].at)
			assert.Equal(t, 3*at(6), got.events[got.index(isDone)].at)
		}},
	} {
		t.Run(row.fault, func(t *testing.T) {
			inBubble(t, faultOptions(row.fault+"@2"), func(t *testing.T, r *rig) {
				for i := range 4 {
					got := r.ask(prompt(i, 4, 100))
					log := byIndex(t, r.Log())
					require.Contains(t, log, i)
					if i == 2 {
						assert.Equal(t, row.outcome, log[i].Outcome)
						assert.Equal(t, []string{row.fault + "@2"}, log[i].Faults)
						row.check(t, got, log[i])
						continue
					}
					assert.Empty(t, log[i].Faults)
					whole(t, got, marker(i)+" code code code code")
					times(t, got, faultAnswerTokens)
				}
			})
		})
	}
}

func TestSwapExchangesTwoAnswers(t *testing.T) {
	inBubble(t, faultOptions("swap@2"), func(t *testing.T, r *rig) {
		for i, want := range []int{0, 1, 3, 2, 4} {
			assert.Equal(t, marker(want)+" code", r.ask(prompt(i, 1, 100)).text())
		}
	})
}

func TestStall(t *testing.T) {
	t.Run("until the client leaves", func(t *testing.T) {
		o := faultOptions("stall=3@0")
		o.Slots = 1
		inBubble(t, o, func(t *testing.T, r *rig) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			second := make(chan reply)
			go func() {
				time.Sleep(time.Second)
				second <- r.ask(prompt(1, 4, 100))
			}()
			got := r.send(ctx, body(prompt(0, 4, 100), nil))
			require.ErrorIs(t, got.err, context.DeadlineExceeded)
			assert.Len(t, got.outputs(), 3)
			assert.Equal(t, time.Minute-time.Second+at(0), (<-second).outputs()[0].at, "it held its slot to the end")
			e := byIndex(t, r.Log())[0]
			assert.Equal(t, OutcomeFault, e.Outcome)
			assert.Equal(t, e.Arrived.Add(time.Minute), e.EndedAt)
		})
	})
	t.Run("until the server closes", func(t *testing.T) {
		inBubble(t, faultOptions("stall=3@0"), func(t *testing.T, r *rig) {
			got := make(chan reply)
			go func() { got <- r.ask(prompt(0, 4, 100)) }()
			time.Sleep(time.Hour)
			began := time.Now()
			require.NoError(t, r.Close())
			assert.Less(t, time.Since(began), CloseGrace, "a stall is let go at once")
			answer := <-got
			require.Error(t, answer.err, "not a clean end")
			assert.Len(t, answer.outputs(), 3)
			assert.Equal(t, OutcomeFault, r.Log()[0].Outcome)
		})
	})
	t.Run("counts in the batch", func(t *testing.T) {
		o := faultOptions("stall=0@0")
		o.DecodePerActive = time.Millisecond
		inBubble(t, o, func(t *testing.T, r *rig) {
			stalled := make(chan reply)
			go func() { stalled <- r.ask(prompt(0, 4, 100)) }()
			time.Sleep(time.Second)
			out := r.ask(prompt(1, 4, 100)).outputs()
			assert.Equal(t, 11*time.Millisecond, out[1].at-out[0].at)
			require.NoError(t, r.Close())
			<-stalled
		})
	})
}

// A proxy's buffer is finite: 4 tokens a millisecond fill it long before its time.
func TestBufferSendsWhenFull(t *testing.T) {
	o := Options{DecodeBase: 250 * time.Microsecond, Faults: "buffer=10s@all", KeepEvents: true}
	inBubble(t, o, func(t *testing.T, r *rig) {
		got := r.ask(prompt(0, 1000, 20))
		require.NoError(t, got.err)
		e := r.Log()[0]
		size := 0
		first := e.Writes[0]
		for k, out := range got.outputs() {
			if e.Writes[k] != first {
				break
			}
			size += len("data: " + out.data + "\n\n")
		}
		assert.Less(t, first, e.Planned.E2E)
		assert.GreaterOrEqual(t, size, proxyBufferBytes)
		assert.Less(t, size, proxyBufferBytes+300, "at most one event more")
	})
}

func TestPlainPromptsCountByArrival(t *testing.T) {
	inBubble(t, faultOptions("status=500@1"), func(t *testing.T, r *rig) {
		assert.Equal(t, 200, r.ask("hello").status)
		assert.Equal(t, 500, r.ask("hello").status)
		assert.Equal(t, 200, r.ask("hello").status)
	})
}

func TestFaultsOfAnAnswerInOnePiece(t *testing.T) {
	ask := func(t *testing.T, r *rig) reply {
		return r.send(t.Context(), body(prompt(0, 4, 100), map[string]any{"stream": false}))
	}
	for _, row := range []struct {
		fault, why string
		check      func(t *testing.T, got reply)
	}{
		{"status=500", "before the answer is before the answer", func(t *testing.T, got reply) { assert.Equal(t, 500, got.status) }},
		{"reset-stream=2", "at the time of token 2", func(t *testing.T, got reply) { assert.Error(t, got.err) }},
		{"truncate=2", "a whole answer has no such end", func(t *testing.T, got reply) {
			assert.Contains(t, got.body, marker(0)+" code code code code")
			assert.Equal(t, at(faultAnswerTokens-1), time.Since(got.start), "and takes its whole time")
		}},
		{"wrong-canary", "text is text", func(t *testing.T, got reply) { assert.Contains(t, got.body, wrongCanary) }},
		{"no-usage", "", func(t *testing.T, got reply) { assert.NotContains(t, got.body, "usage") }},
	} {
		t.Run(row.fault, func(t *testing.T) {
			inBubble(t, faultOptions(row.fault+"@all"), func(t *testing.T, r *rig) { row.check(t, ask(t, r)) })
		})
	}
}

func TestNearest(t *testing.T) {
	for _, row := range []struct{ got, want string }{
		{"stall", "stall"}, {"reset_before", "reset-before"}, {"wrongcanary", "wrong-canary"}, {"buffr", "buffer"}, {"xyzzy", ""}, {"", ""},
	} {
		names := make([]string, 0, len(faultKinds))
		for _, k := range faultKinds {
			names = append(names, k.Name)
		}
		assert.Equal(t, row.want, nearest(row.got, names), row.got)
	}
}
