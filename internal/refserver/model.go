package refserver

import (
	"container/heap"
	"sync"
	"time"
)

// model works out the timetable. It is a simulation of discrete events that
// moves only when told how late it is: at a join, at a departure, and when a
// handler asks for its next token. It never runs ahead of the clock, since a
// request may still join before the next event, and so the timetable depends on
// who joined when and on nothing else.
//
// All instants are durations since the server's epoch. Safe for concurrent use.
type model struct {
	opts *Options

	mu       sync.Mutex // guards everything below and every job
	now      time.Duration
	joined   int
	running  int      // jobs that hold a slot
	decoding int      // jobs between first and last token
	waiting  []*job   // in the order of joining
	due      upcoming // jobs that hold a slot, by their next token's instant
	batch    []*job   // scratch of instant
	cache    *prefixCache
	counts   cacheCounts
}

// cacheCounts are in tokens, like vLLM's.
type cacheCounts struct{ queries, hits int64 }

type jobState uint8

const (
	jobWaiting jobState = iota
	jobRunning
	jobGone
)

// job is one request in the model. Its fields belong to the model's lock,
// except those of Job, which are set before it joins (Cached: at admission).
type job struct {
	Job
	blocks []uint64
	// stalls keeps the slot and the place in the batch after the last token,
	// until leave.
	stalls bool

	state      jobState
	admittedAt time.Duration
	next       time.Duration   // when the next token leaves
	times      []time.Duration // when each token so far left
	place      int             // in model.due, -1 outside
	// admitted is closed when the job gets its slot.
	admitted chan struct{}
}

func newModel(opts *Options) *model {
	m := &model{opts: opts}
	if opts.PrefixCache {
		m.cache = newPrefixCache(opts.PrefixCacheTokens)
	}
	return m
}

// join puts j at the end of the line at the instant that now gives. The clock
// is read under the lock, so joins are in the order of their instants.
func (m *model) join(j *job, now func() time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j.Joined = now()
	m.advance(j.Joined)
	j.Seq = m.joined
	m.joined++
	j.place = -1
	j.admitted = make(chan struct{})
	m.waiting = append(m.waiting, j)
	m.admit(j.Joined)
}

// planned gives the instant of token i of an admitted job. For i > 0 the caller
// has reached the instant of token i-1, and says it.
func (m *model) planned(j *job, i int, reached time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i > 0 {
		m.advance(reached)
	}
	if i < len(j.times) {
		return j.times[i]
	}
	return j.next
}

// reach tells the model that the instant has come: what ends then, ends.
func (m *model) reach(instant time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(instant)
}

// leave takes j out at the instant that now gives, wherever it stands. It is
// nothing for a job that has departed by itself.
func (m *model) leave(j *job, now func() time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j.state == jobGone {
		return
	}
	at := now()
	m.advance(at)
	switch j.state {
	case jobWaiting:
		for i, w := range m.waiting {
			if w == j {
				m.waiting = append(m.waiting[:i], m.waiting[i+1:]...)
				break
			}
		}
		j.state = jobGone
	case jobRunning:
		if j.place >= 0 {
			heap.Remove(&m.due, j.place)
		}
		if len(j.times) > 0 {
			m.decoding--
		}
		m.release(j)
		m.admit(at)
	}
}

// load says how many requests hold a slot and how many wait, at the instant
// that now gives.
func (m *model) load(now func() time.Duration) (running, waiting int, counts cacheCounts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now())
	return m.running, len(m.waiting), m.counts
}

// advance works through every instant up to t. The lock is held.
func (m *model) advance(t time.Duration) {
	for len(m.due) > 0 && m.due[0].next <= t {
		m.instant(m.due[0].next)
	}
	m.now = max(m.now, t)
}

// instant works through the tokens that leave at t. First all that changes the
// batch (first tokens enter it, last tokens leave it), then the freed slots,
// and last the next token of those that stay: so requests in step see the same
// batch, whatever their order here.
func (m *model) instant(t time.Duration) {
	stay := m.batch[:0]
	for len(m.due) > 0 && m.due[0].next == t {
		j := heap.Pop(&m.due).(*job)
		if len(j.times) == 0 {
			m.decoding++
			m.cache.remember(j.blocks)
		}
		j.times = append(j.times, t)
		switch {
		case len(j.times) < j.Output:
			stay = append(stay, j)
		case !j.stalls:
			m.decoding--
			m.release(j)
		}
	}
	m.admit(t)
	for _, j := range stay {
		j.next = t + m.step(j)
		heap.Push(&m.due, j)
	}
	clear(stay)
	m.batch = stay
}

// step is the time from the token that j has just sent to its next one.
func (m *model) step(j *job) time.Duration {
	d := m.opts.DecodeBase + time.Duration(m.decoding-1)*m.opts.DecodePerActive
	d = m.opts.jittered(d, j.Identity, uint64(len(j.times)))
	return j.slowed(d)
}

// release frees the slot of a job that holds one.
func (m *model) release(j *job) {
	j.state = jobGone
	m.running--
}

// admit gives free slots to the head of the line.
func (m *model) admit(t time.Duration) {
	n := 0
	for n < len(m.waiting) && (m.opts.Slots == 0 || m.running < m.opts.Slots) {
		j := m.waiting[n]
		m.waiting[n] = nil
		n++
		m.running++
		j.state = jobRunning
		j.admittedAt = t
		if m.cache != nil {
			j.Cached = m.cache.cached(j.blocks, j.Prompt)
			m.counts.queries += int64(j.Prompt)
			m.counts.hits += int64(j.Cached)
		}
		j.next = t + m.opts.prefill(&j.Job)
		heap.Push(&m.due, j)
		close(j.admitted)
	}
	m.waiting = m.waiting[n:]
}

// prefill is the time from admission to the first token.
func (o *Options) prefill(j *Job) time.Duration {
	if o.PrefillTokS == 0 {
		return 0
	}
	d := delay(float64(j.Prompt-j.Cached) / o.PrefillTokS * float64(time.Second))
	return j.slowed(o.jittered(d, j.Identity, drawPrefill))
}

// outcome gives the timetable of j, from its joining and as far as it came, and
// what it was computed from. keep asks for every token's instant.
func (m *model) outcome(j *job, keep bool) (Planned, Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return j.plan(keep), j.Job
}

func (j *job) plan(keep bool) Planned {
	var p Planned
	if len(j.times) == 0 {
		return p
	}
	p.Started = true
	p.Queue = j.admittedAt - j.Joined
	p.TTFO = j.times[0] - j.Joined
	p.Prefill = p.TTFO - p.Queue
	p.E2E = j.times[len(j.times)-1] - j.Joined
	if j.Reasoning < len(j.times) {
		p.TTFT = j.times[j.Reasoning] - j.Joined
	}
	if keep {
		p.Tokens = make([]time.Duration, len(j.times))
		for i, t := range j.times {
			p.Tokens[i] = t - j.Joined
		}
	}
	return p
}

// upcoming is a heap of jobs by their next token, and by joining within an instant.
type upcoming []*job

func (u upcoming) Len() int { return len(u) }
func (u upcoming) Less(a, b int) bool {
	if u[a].next != u[b].next {
		return u[a].next < u[b].next
	}
	return u[a].Seq < u[b].Seq
}
func (u upcoming) Swap(a, b int) {
	u[a], u[b] = u[b], u[a]
	u[a].place, u[b].place = a, b
}
func (u *upcoming) Push(x any) {
	j := x.(*job)
	j.place = len(*u)
	*u = append(*u, j)
}
func (u *upcoming) Pop() any {
	last := len(*u) - 1
	j := (*u)[last]
	(*u)[last] = nil
	*u = (*u)[:last]
	j.place = -1
	return j
}
