package refserver

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Job is what the timetable has to know about one request.
type Job struct {
	// Seq is the request's place in the order of joining, from 0.
	Seq int
	// Joined is when it joined the line, since the server's epoch.
	Joined time.Duration
	// Identity stands for the request in every draw of jitter.
	Identity uint64
	// Prompt and Cached are tokens; Cached is at most Prompt.
	Prompt, Cached int
	// Output counts all tokens of the answer, at least 1; the first Reasoning of
	// them are reasoning.
	Output, Reasoning int
	// Slow multiplies prefill and every token step. 0 is 1.
	Slow float64
}

// slowed applies Slow.
func (j *Job) slowed(d time.Duration) time.Duration {
	if j.Slow == 0 || j.Slow == 1 {
		return d
	}
	return scaled(d, j.Slow)
}

// Planned is the timetable of one request: durations from Joined, computed and
// not measured.
type Planned struct {
	// Started says that the first token came due. Everything else is 0 without it.
	Started bool
	// Queue is the wait for a slot, Prefill the time from there to the first token.
	Queue, Prefill time.Duration
	// TTFO is Queue + Prefill: the first token.
	TTFO time.Duration
	// TTFT is the first visible token, meaningful only where Output > Reasoning.
	TTFT time.Duration
	// E2E is the last token, and with it the end of the answer.
	E2E time.Duration
	// Tokens are the instants of all tokens, in order: Tokens[0] is TTFO. Nil
	// unless Options.KeepEvents asked for them.
	Tokens []time.Duration
}

// Schedule computes the timetable of jobs that all run to their end, without a
// server and without a clock. The jobs are in the order of joining; the result
// is in the same order and has Tokens. Job.Cached is taken as it stands.
//
// For n jobs that join at 0 with as many slots, equal prompts of p tokens and
// no jitter it is the closed form
//
//	token i leaves at p/PrefillTokS + i * (DecodeBase + (n-1)*DecodePerActive)
//
// as long as all n decode. Errors name the option or the job that is out of range.
func Schedule(o Options, jobs []Job) ([]Planned, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	o.PrefixCache = false // Cached stands in the jobs
	m := newModel(&o)
	all := make([]*job, len(jobs))
	for i, j := range jobs {
		if err := j.check(); err != nil {
			return nil, fmt.Errorf("scheduling job %d: %w", i, err)
		}
		if i > 0 && j.Joined < jobs[i-1].Joined {
			return nil, fmt.Errorf("scheduling job %d: it joined at %v, before job %d at %v; sort by Seq", i, j.Joined, i-1, jobs[i-1].Joined)
		}
		all[i] = &job{Job: j}
		m.join(all[i], func() time.Duration { return j.Joined })
	}
	m.reach(math.MaxInt64)
	plans := make([]Planned, len(all))
	for i, j := range all {
		plans[i] = j.plan(true)
	}
	return plans, nil
}

func (j *Job) check() error {
	switch {
	case j.Joined < 0:
		return fmt.Errorf("joined is %v, want at least 0", j.Joined)
	case j.Output < 1:
		return fmt.Errorf("output is %d tokens, want at least 1", j.Output)
	case j.Prompt < 0 || j.Cached < 0 || j.Cached > j.Prompt:
		return fmt.Errorf("prompt is %d tokens and %d of them cached, want 0 <= cached <= prompt", j.Prompt, j.Cached)
	case j.Slow < 0 || math.IsNaN(j.Slow):
		return fmt.Errorf("slow is %v, want a factor above 0", j.Slow)
	}
	return nil
}

// Replay computes again, from nothing but what the log says about each request
// (joining, tokens, identity), the timetable of the exchanges of one server that
// ran to their end. It returns the first difference as an error, and an error
// when there is nothing to compare. It is a check on the instrument: the model
// that ran live and the one that runs here must agree to the nanosecond.
func Replay(o Options, log []Exchange) error {
	log = slices.Clone(log)
	slices.SortFunc(log, func(a, b Exchange) int { return a.Job.Seq - b.Job.Seq })
	jobs := make([]Job, 0, len(log))
	for _, e := range log {
		if e.Outcome != OutcomeDone {
			return fmt.Errorf("replaying request %s: its outcome is %q, want %q", e.RequestID, e.Outcome, OutcomeDone)
		}
		jobs = append(jobs, e.Job)
	}
	if len(jobs) == 0 {
		return errors.New("replaying a log: it is empty")
	}
	plans, err := Schedule(o, jobs)
	if err != nil {
		return err
	}
	for i, p := range plans {
		if got := log[i].Planned; got.Queue != p.Queue || got.TTFO != p.TTFO || got.TTFT != p.TTFT || got.E2E != p.E2E {
			return fmt.Errorf("replaying request %s: queue, TTFO, TTFT, E2E were %v, %v, %v, %v live and are %v, %v, %v, %v here",
				log[i].RequestID, got.Queue, got.TTFO, got.TTFT, got.E2E, p.Queue, p.TTFO, p.TTFT, p.E2E)
		}
	}
	return nil
}
