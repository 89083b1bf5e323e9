package refserver

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// closedLoop sends requests 0..n-1, at most concurrency at a time.
func closedLoop(r *rig, n, concurrency int, promptOf func(i int) string) []reply {
	replies := make([]reply, n)
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	for range concurrency {
		wg.Go(func() {
			for i := range next {
				replies[i] = r.ask(promptOf(i))
			}
		})
	}
	wg.Wait()
	return replies
}

// assertExact compares everything that a plain client measured with what was
// planned, and returns how many times it compared.
func assertExact(t *testing.T, e Exchange, got reply) (compared int) {
	t.Helper()
	require.NoError(t, got.err)
	require.Equal(t, OutcomeDone, e.Outcome)
	require.Equal(t, e.Arrived, got.start, "the network in memory takes no time")
	require.Equal(t, e.Arrived, e.Joined)
	out := got.outputs()
	require.Len(t, out, e.Job.Output, "one event, one token")
	require.Len(t, e.Planned.Tokens, e.Job.Output)
	for k, p := range e.Planned.Tokens {
		if out[k].at != p {
			t.Fatalf("request %d, token %d: measured %v, planned %v", e.Index, k, out[k].at, p)
		}
	}
	done := got.events[got.index(isDone)].at
	if done != e.Planned.E2E || out[0].at != e.Planned.TTFO || out[e.Job.Reasoning].at != e.Planned.TTFT {
		t.Fatalf("request %d: measured TTFO %v TTFT %v E2E %v, planned %+v", e.Index, out[0].at, out[e.Job.Reasoning].at, done, e.Planned)
	}
	require.Equal(t, e.End(), e.DoneAt)
	require.Equal(t, e.PrefillDone(), e.FirstOutputAt)
	require.Equal(t, e.Joined.Add(e.Planned.TTFT), e.FirstContentAt)
	for _, late := range e.Lateness() {
		require.Zero(t, late)
	}
	return len(out) + 3
}

// The cell of the published run, with its figures: four at a time, 24,576 of
// our tokens of prompt, 16 words. All four keep step, so the closed form of
// Schedule holds for every request of the cell.
func TestConstantBatchIsTheClosedForm(t *testing.T) {
	o := Options{Slots: 4, PrefillTokS: 1234, DecodeBase: 132387561 * time.Nanosecond,
		DecodePerActive: 7654321 * time.Nanosecond, ReasoningTokens: 5, KeepEvents: true}
	const n, words, promptTokens = 4 * (25 / shrink), 16, 24_576
	inBubble(t, o, func(t *testing.T, r *rig) {
		began := time.Now()
		replies := closedLoop(r, n, 4, func(i int) string { return prompt(i, words, promptTokens) })
		wall := time.Since(began)
		log := byIndex(t, r.Log())
		require.Len(t, log, n)

		prefill := 19915721232 * time.Nanosecond // 24576/1234 s = 19.91572123176... s
		step := o.DecodeBase + 3*o.DecodePerActive
		const tokens = 5 + 1 + words // reasoning, marker, words
		for i, got := range replies {
			assertExact(t, log[i], got)
			out := got.outputs()
			assert.Equal(t, prefill, out[0].at)
			assert.Equal(t, prefill+5*step, out[5].at)
			assert.Equal(t, prefill+(tokens-1)*step, got.events[got.index(isDone)].at)
		}
		assert.Equal(t, n/4*(prefill+(tokens-1)*step), wall, "waves of four")
		require.NoError(t, Replay(o, r.Log()))
	})
}

// A cell with everything at once: queueing, a batch that changes at every token,
// prompts and answers of many sizes, jitter.
func TestChangingBatchIsExact(t *testing.T) {
	const n = 10_000 / shrink
	o := Options{Slots: 100, PrefillTokS: 9_999, DecodeBase: 20 * time.Millisecond, DecodePerActive: 333_333 * time.Nanosecond,
		ReasoningTokens: 3, JitterFraction: 0.3, Seed: 11, KeepEvents: true}
	inBubble(t, o, func(t *testing.T, r *rig) {
		replies := closedLoop(r, n, 256, func(i int) string { return prompt(i, 1+i%13, 20+i%97) })
		log := byIndex(t, r.Log())
		require.Len(t, log, n)
		compared, queued, steps := 0, 0, map[time.Duration]bool{}
		for i, got := range replies {
			e := log[i]
			compared += assertExact(t, e, got)
			if e.Planned.Queue > 0 {
				queued++
			}
			steps[e.Planned.Tokens[1]-e.Planned.Tokens[0]] = true
		}
		assert.Greater(t, compared, n*10)
		assert.Greater(t, queued, n/2, "100 slots for 256")
		assert.Greater(t, len(steps), n/10, "the step depends on the batch")
		require.NoError(t, Replay(o, r.Log()))
	})
}

// reference is a second implementation of the timetable, as slow and simple as
// the package comment: at each moment look at everybody.
func reference(o Options, jobs []Job) []Planned {
	type state struct {
		admitted, next time.Duration
		tokens         []time.Duration
		in, out        bool
	}
	st := make([]state, len(jobs))
	decoding := func() (n int) {
		for i := range st {
			if len(st[i].tokens) > 0 && !st[i].out {
				n++
			}
		}
		return n
	}
	admit := func(now time.Duration, joined int) {
		for i := range joined {
			held := 0
			for k := range st {
				if st[k].in && !st[k].out {
					held++
				}
			}
			if !st[i].in && (o.Slots == 0 || held < o.Slots) {
				st[i].in, st[i].admitted, st[i].next = true, now, now+o.prefill(&jobs[i])
			}
		}
	}
	joined := 0
	for {
		now, any := time.Duration(0), false
		for i := range st {
			if st[i].in && !st[i].out && (!any || st[i].next < now) {
				now, any = st[i].next, true
			}
		}
		if joined < len(jobs) && (!any || jobs[joined].Joined < now) {
			joined++
			admit(jobs[joined-1].Joined, joined)
			continue
		}
		if !any {
			break
		}
		var stay []int
		for i := range st {
			if st[i].in && !st[i].out && st[i].next == now {
				st[i].tokens = append(st[i].tokens, now)
				if st[i].out = len(st[i].tokens) == jobs[i].Output; !st[i].out {
					stay = append(stay, i)
				}
			}
		}
		admit(now, joined)
		for _, i := range stay {
			d := o.DecodeBase + time.Duration(decoding()-1)*o.DecodePerActive
			st[i].next = now + jobs[i].slowed(o.jittered(d, jobs[i].Identity, uint64(len(st[i].tokens))))
		}
	}
	plans := make([]Planned, len(jobs))
	for i, s := range st {
		p := Planned{Started: true, Queue: s.admitted - jobs[i].Joined, TTFO: s.tokens[0] - jobs[i].Joined}
		p.Prefill = p.TTFO - p.Queue
		for _, at := range s.tokens {
			p.Tokens = append(p.Tokens, at-jobs[i].Joined)
		}
		p.E2E = p.Tokens[len(p.Tokens)-1]
		if jobs[i].Reasoning < len(p.Tokens) {
			p.TTFT = p.Tokens[jobs[i].Reasoning]
		}
		plans[i] = p
	}
	return plans
}

func TestScheduleEqualsTheReference(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		o := Options{Slots: rnd.IntN(6), PrefillTokS: []float64{0, 100, 1000}[rnd.IntN(3)],
			DecodeBase: time.Duration(rnd.IntN(3)) * time.Millisecond, DecodePerActive: time.Duration(rnd.IntN(2)) * 100 * time.Microsecond,
			JitterFraction: []float64{0, 0.5}[rnd.IntN(2)], Seed: int(seed)}
		jobs := make([]Job, 1+rnd.IntN(30))
		joined := time.Duration(0)
		for i := range jobs {
			joined += time.Duration(rnd.IntN(3)) * 5 * time.Millisecond
			jobs[i] = Job{Seq: i, Joined: joined, Identity: rnd.Uint64(), Prompt: rnd.IntN(50), Output: 1 + rnd.IntN(12), Reasoning: rnd.IntN(4), Slow: float64(rnd.IntN(3))}
		}
		got, err := Schedule(o, jobs)
		require.NoError(t, err)
		require.Equal(t, reference(o, jobs), got, "seed %d", seed)
	}
}

func TestScheduleRefusesBadInput(t *testing.T) {
	ok := Job{Output: 1}
	for _, row := range []struct {
		name, why string
		o         Options
		jobs      []Job
		want      string
	}{
		{"option", "options are checked as in New", Options{Slots: -1}, []Job{ok}, `option "Slots" is -1`},
		{"no output", "a request without a token has no timetable", Options{}, []Job{{}}, "output is 0 tokens"},
		{"order", "the order of joining is the order of admission", Options{}, []Job{{Output: 1, Joined: 2}, {Output: 1, Joined: 1}}, "before job 0"},
		{"cached", "more cached than there is", Options{}, []Job{{Output: 1, Cached: 1}}, "0 <= cached <= prompt"},
		{"slow", "time does not run backwards", Options{}, []Job{{Output: 1, Slow: -1}}, "factor above 0"},
		{"joined", "before the epoch", Options{}, []Job{{Output: 1, Joined: -1}}, "joined is -1ns"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := Schedule(row.o, row.jobs)
			require.ErrorContains(t, err, row.want, row.why)
		})
	}
}

func TestAdmissionIsInTheOrderOfJoining(t *testing.T) {
	o := Options{Slots: 2, PrefillTokS: 1000, DecodeBase: 10 * time.Millisecond}
	inBubble(t, o, func(t *testing.T, r *rig) {
		var wg sync.WaitGroup
		const n = 40
		for i := range n {
			wg.Go(func() { r.ask(prompt(i, 3+i%5, 100-i)) })
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		wg.Wait()
		log := byIndex(t, r.Log())
		require.Len(t, log, n)
		for i := 1; i < n; i++ {
			assert.Equal(t, i, log[i].Job.Seq)
			assert.False(t, log[i].Admitted().Before(log[i-1].Admitted()), "request %d overtook %d", i, i-1)
		}
		assert.Positive(t, log[n-1].Planned.Queue)
	})
}

// Two requests, the second of which joins the batch while the first decodes.
func TestDecodeSlowsWithTheBatch(t *testing.T) {
	const ms = time.Millisecond
	o := Options{PrefillTokS: 1000, DecodeBase: 10 * ms, DecodePerActive: 5 * ms, KeepEvents: true}
	plans, err := Schedule(o, []Job{
		{Prompt: 20, Output: 6},                  // alone from 20 ms on
		{Joined: 15 * ms, Prompt: 20, Output: 2}, // joins the batch at 35 ms
	})
	require.NoError(t, err)
	// Request 0: 20, 30, then at 30 still alone: 40, at 40 two decode: 55. Request
	// 1: 35, two decode: 50, its last. So at 55 request 0 is alone again: 65, 75.
	assert.Equal(t, []time.Duration{20 * ms, 30 * ms, 40 * ms, 55 * ms, 65 * ms, 75 * ms}, plans[0].Tokens)
	assert.Equal(t, []time.Duration{20 * ms, 35 * ms}, plans[1].Tokens)
}

func TestJitter(t *testing.T) {
	run := func(seed int, reversed bool) map[int]Exchange {
		var log map[int]Exchange
		o := Options{PrefillTokS: 1000, DecodeBase: 10 * time.Millisecond, JitterFraction: 0.2, Seed: seed, KeepEvents: true}
		inBubble(t, o, func(t *testing.T, r *rig) {
			for i := range 20 {
				if reversed {
					i = 19 - i
				}
				r.ask(prompt(i, 8, 100))
			}
			log = byIndex(t, r.Log())
		})
		return log
	}
	a, same, reversed, other := run(1, false), run(1, false), run(1, true), run(2, false)
	steps := map[time.Duration]bool{}
	shortest, longest := time.Hour, time.Duration(0)
	for i := range 20 {
		assert.Equal(t, a[i].Planned, same[i].Planned, "the seed decides")
		assert.Equal(t, a[i].Planned, reversed[i].Planned, "the order of arrival does not")
		assert.NotEqual(t, a[i].Planned, other[i].Planned)
		tokens := a[i].Planned.Tokens
		assert.InDelta(t, 100, a[i].Planned.Prefill.Milliseconds(), 20)
		for k := 1; k < len(tokens); k++ {
			step := tokens[k] - tokens[k-1]
			steps[step] = true
			shortest, longest = min(shortest, step), max(longest, step)
			assert.GreaterOrEqual(t, step, 8*time.Millisecond)
			assert.Less(t, step, 12*time.Millisecond)
		}
	}
	assert.Greater(t, len(steps), 150, "160 draws")
	assert.Less(t, shortest, 8200*time.Microsecond, "the whole range is used")
	assert.Greater(t, longest, 11800*time.Microsecond, "the whole range is used")
}

// A prompt without a marker is told from another by its text.
func TestJitterOfPlainPrompts(t *testing.T) {
	o := Options{PrefillTokS: 1000, JitterFraction: 0.2}
	inBubble(t, o, func(t *testing.T, r *rig) {
		for _, p := range []string{"one of them", "the other 1", "one of them"} {
			r.ask(p)
		}
		log := r.Log()
		assert.NotEqual(t, log[0].Planned.Prefill, log[1].Planned.Prefill)
		assert.Equal(t, log[0].Planned.Prefill, log[2].Planned.Prefill)
	})
}

func TestPrefixCache(t *testing.T) {
	shared := prompt(0, 2, 1000)
	ask := func(r *rig, p string) (usage int, plan Planned) {
		got := r.ask(p)
		log := r.Log()
		return got.events[got.index(isUsage)].chunk().Usage.Prompt.Cached, log[len(log)-1].Planned
	}
	o := Options{PrefillTokS: 1000}
	t.Run("off", func(t *testing.T) {
		inBubble(t, o, func(t *testing.T, r *rig) {
			for range 2 {
				cached, plan := ask(r, shared)
				assert.Zero(t, cached)
				assert.Equal(t, time.Second, plan.Prefill)
			}
		})
	})
	o.PrefixCache = true
	t.Run("on", func(t *testing.T) {
		inBubble(t, o, func(t *testing.T, r *rig) {
			cached, plan := ask(r, shared)
			assert.Zero(t, cached, "cold")
			assert.Equal(t, time.Second, plan.Prefill)

			cached, plan = ask(r, shared)
			assert.Equal(t, 992, cached, "62 full blocks of 16")
			assert.Equal(t, 8*time.Millisecond, plan.Prefill)

			cached, _ = ask(r, shared[:960*CharsPerToken])
			assert.Equal(t, 959, cached, "all but the last token of a prompt of full blocks")

			cached, _ = ask(r, "y"+shared)
			assert.Zero(t, cached, "something of its own in front")

			cached, _ = ask(r, shared[:100*CharsPerToken]+"y")
			assert.Equal(t, 96, cached, "the blocks before the difference")

			_, metrics := r.get(t, "/metrics")
			assert.Contains(t, metrics, `refserver:prefix_cache_queries_total{model_name="refserver"} 4062`) // 1000 + 1000 + 960 + 1001 (4,001 characters) + 101 (401)
		})
	})
	t.Run("bounded", func(t *testing.T) {
		o := o
		o.PrefixCacheTokens = 500
		inBubble(t, o, func(t *testing.T, r *rig) {
			ask(r, shared)
			cached, _ := ask(r, shared)
			assert.Equal(t, 496, cached, "the front of the chain is what stays")
		})
	})
}

func TestClientThatLeavesFreesItsSlot(t *testing.T) {
	o := Options{Slots: 1, PrefillTokS: 1000, DecodeBase: 100 * time.Millisecond, KeepEvents: true}
	inBubble(t, o, func(t *testing.T, r *rig) {
		began := time.Now()
		var wg sync.WaitGroup
		ask := func(i int, patience time.Duration) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				r.send(ctx, body(prompt(i, 50, 100), nil))
			})
			time.Sleep(time.Millisecond)
		}
		ask(0, 555*time.Millisecond) // leaves while it decodes
		ask(1, 200*time.Millisecond) // leaves the line
		ask(2, time.Hour)            // served when 0 has left
		wg.Wait()
		log := byIndex(t, r.Log())
		require.Len(t, log, 3)
		assert.Equal(t, OutcomeLeft, log[0].Outcome)
		assert.Equal(t, 5, log[0].Sent, "100 ms of prefill, then one each 100 ms, until 555 ms")
		assert.Equal(t, OutcomeLeft, log[1].Outcome)
		assert.False(t, log[1].Planned.Started)
		assert.True(t, log[1].Admitted().IsZero())
		assert.Equal(t, OutcomeDone, log[2].Outcome)
		assert.Equal(t, began.Add(555*time.Millisecond), log[2].Admitted())
	})
}

func TestClientThatLeavesIsNotInTheBatch(t *testing.T) {
	const ms = time.Millisecond
	o := Options{PrefillTokS: 1000, DecodeBase: 10 * ms, DecodePerActive: 5 * ms, KeepEvents: true}
	inBubble(t, o, func(t *testing.T, r *rig) {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 140*ms)
			defer cancel()
			r.send(ctx, body(prompt(0, 50, 100), nil))
		}()
		r.ask(prompt(1, 5, 100))
		// Both decode from 100 ms on, with 15 ms a token, until 140 ms.
		assert.Equal(t, []time.Duration{100 * ms, 115 * ms, 130 * ms, 145 * ms, 155 * ms, 165 * ms}, byIndex(t, r.Log())[1].Planned.Tokens)
	})
}

func TestReplayFindsADifference(t *testing.T) {
	o := Options{Slots: 1, PrefillTokS: 1000, DecodeBase: time.Millisecond}
	inBubble(t, o, func(t *testing.T, r *rig) {
		r.ask(prompt(0, 3, 50))
		r.ask(prompt(1, 3, 50))
		log := r.Log()
		require.NoError(t, Replay(o, log))
		for _, field := range []func(*Planned) *time.Duration{
			func(p *Planned) *time.Duration { return &p.Queue }, func(p *Planned) *time.Duration { return &p.TTFO },
			func(p *Planned) *time.Duration { return &p.TTFT }, func(p *Planned) *time.Duration { return &p.E2E },
		} {
			*field(&log[1].Planned)++
			require.ErrorContains(t, Replay(o, log), "replaying request refserver-000001")
			*field(&log[1].Planned)--
		}
		log[1].Outcome = OutcomeLeft
		require.ErrorContains(t, Replay(o, log), `its outcome is "left", want "done"`)
		require.ErrorContains(t, Replay(o, nil), "it is empty")
	})
}
