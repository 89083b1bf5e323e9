// Package load drives a plan against a client and makes one Record of every
// request: a closed loop, where at most Concurrency requests are in flight and
// the next starts when one ends (PROTOCOL section 2).
package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"anvil-capacity/internal/client"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/workload"
)

// Completer makes one request and reports what it saw, whatever happened; it
// never retries. It must be safe for concurrent use. *client.Client is one.
type Completer interface {
	Complete(ctx context.Context, body []byte) client.Observation
}

// Options is what Run needs. Plan, Client, Body and a positive Concurrency are
// required.
type Options struct {
	Plan   *workload.Plan
	Client Completer
	// Body builds the request body of one planned request. It is called by the
	// worker that will send it, before the request's clock starts, so that at
	// most one body a worker exists. An error becomes that request's RunnerError.
	Body func(index int) ([]byte, error)
	// Concurrency is how many requests are in flight at most; more than the
	// plan holds is the same as all of it.
	Concurrency int
	Policy      Policy

	// OnRecord sees every record as it finishes, one at a time, in order of
	// completion; nil is none. It delays the worker that calls it and nobody's clock.
	OnRecord func(record.Record)
	// OnArrivals sees the times of all output events of a request, where the client
	// keeps them (client.Observation), before OnRecord sees its record; nil is
	// none. It must be safe for concurrent use.
	OnArrivals func(index int, arrivals []time.Duration, truncated bool)
	// OnProgress sees the state of the run every ProgressEvery (0: 5 s) and
	// once at the end; nil is none.
	OnProgress    func(Progress)
	ProgressEvery time.Duration
}

// Result is a finished run.
type Result struct {
	// Records has one entry a started request, in request order.
	Records []record.Record
	// Planned is how many the plan holds: more than len(Records) when the run
	// was cut short.
	Planned int
	// StartedAt and FinishedAt are the wall clock at the first request's start
	// and the last one's end; both zero when nothing was started.
	StartedAt, FinishedAt time.Time
	// Wall is FinishedAt - StartedAt by the monotonic clock.
	Wall time.Duration
	// Cause is why the run was cut short, nil when every request was started
	// and none was canceled.
	Cause error
}

// Complete says that every planned request was run to an end of its own.
func (r Result) Complete() bool { return r.Cause == nil && len(r.Records) == r.Planned }

// DefaultProgressEvery is the beat of OnProgress.
const DefaultProgressEvery = 5 * time.Second

// Run sends every request of the plan and waits for the last to end. A request
// that fails stops no other. When ctx ends, requests in flight are canceled
// (their records say so) and no further one starts. A panic in a worker ends the
// run in the same way, with a *PanicError as its cause: a suite that is broken
// should send nothing more, and what it has measured is kept.
func Run(ctx context.Context, o Options) (Result, error) {
	if err := o.check(); err != nil {
		return Result{}, err
	}
	r := newRun(ctx, o)
	defer r.cancel(nil)
	stopProgress := r.startProgress()
	var workers sync.WaitGroup
	for range r.workers {
		workers.Go(r.work)
	}
	workers.Wait()
	stopProgress()
	return r.result(), nil
}

func (o Options) check() error {
	switch {
	case o.Plan == nil || o.Client == nil || o.Body == nil:
		return errors.New("running a plan: Plan, Client and Body are required")
	case o.Concurrency < 1:
		return fmt.Errorf("running a plan: concurrency %d, want at least 1", o.Concurrency)
	}
	return nil
}

// run is the state that workers share.
type run struct {
	Options
	ctx     context.Context // o's, until a worker panics
	cancel  context.CancelCauseFunc
	workers int

	next     atomic.Int64 // the next index to hand out
	ready    sync.WaitGroup
	inFlight atomic.Int64

	mu      sync.Mutex // guards all below
	slots   []slot
	totals  totals
	firstT0 time.Time
	lastEnd time.Time
	cause   error
}

// slot holds the record of one planned request, once there is one.
type slot struct {
	record record.Record
	start  time.Time
	filled bool
}

func newRun(ctx context.Context, o Options) *run {
	r := &run{Options: o, workers: min(o.Concurrency, o.Plan.Len())}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.slots = make([]slot, o.Plan.Len())
	r.ready.Add(r.workers)
	return r
}

// work is one worker: it builds a body, sends it, judges the answer, and takes
// the next request until there is none. The first body of every worker exists
// before the first clock starts, so that the first wave leaves together.
func (r *run) work() {
	first := true
	var freed time.Time // when this worker's slot became free
	for {
		index := int(r.next.Add(1)) - 1
		if index >= r.Plan.Len() {
			return
		}
		body, err := r.body(index)
		if first {
			r.ready.Done()
			r.ready.Wait()
			first = false
		}
		if r.ctx.Err() != nil {
			r.cut()
			return
		}
		freed = r.one(index, body, err, freed)
	}
}

// one runs a single request to its record. freed is when its slot became free,
// zero for a worker's first; it returns when the slot is free again.
func (r *run) one(index int, body []byte, bodyErr error, freed time.Time) time.Time {
	defer r.rescue(index)
	seen := r.complete(body, bodyErr)
	rec := r.Policy.judge(r.Plan, index, seen)
	rec.FirstWave = freed.IsZero()
	if !rec.FirstWave {
		rec.DispatchLagMS = new(record.MS(seen.Start.Sub(freed)))
	}
	end := endOf(seen)
	if r.OnArrivals != nil {
		r.OnArrivals(index, seen.Arrivals, seen.ArrivalsTruncated)
	}
	r.keep(rec, seen.Start, end)
	return end
}

// complete makes one request; without a body it could not be made.
func (r *run) complete(body []byte, bodyErr error) *client.Observation {
	if bodyErr != nil {
		now := time.Now()
		return &client.Observation{Start: now, End: now, Failure: &record.Failure{
			Class: record.RunnerError, ErrorType: fmt.Sprintf("%T", bodyErr), Message: bodyErr.Error(),
		}}
	}
	r.inFlight.Add(1)
	defer r.inFlight.Add(-1)
	seen := r.Client.Complete(r.ctx, body)
	return &seen
}

// keep puts the record of a request where it belongs.
func (r *run) keep(rec *record.Record, start, end time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec.Failure != nil && rec.Failure.Detail == record.Canceled && r.ctx.Err() != nil {
		r.cause = context.Cause(r.ctx)
	}
	if r.firstT0.IsZero() || start.Before(r.firstT0) {
		r.firstT0 = start
	}
	if end.After(r.lastEnd) {
		r.lastEnd = end
	}
	r.totals.add(rec)
	r.slots[rec.RequestIndex] = slot{record: *rec, start: start, filled: true}
	if r.OnRecord != nil {
		r.OnRecord(*rec)
	}
}

// endOf is when a request was over for its user: the end of the answer, or of
// the attempt; never the time a connection lingers after [DONE].
func endOf(seen *client.Observation) time.Time {
	if seen.Failure == nil && seen.HasE2E {
		return seen.Start.Add(seen.E2E)
	}
	return seen.End
}

// cut notes that a planned request was not started.
func (r *run) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cause = context.Cause(r.ctx)
}

// result puts the records in request order on one clock.
func (r *run) result() Result {
	res := Result{Planned: r.Plan.Len(), Cause: r.cause, StartedAt: r.firstT0, FinishedAt: r.lastEnd}
	res.Wall = r.lastEnd.Sub(r.firstT0)
	res.Records = make([]record.Record, 0, len(r.slots))
	for _, s := range r.slots {
		if !s.filled {
			continue
		}
		s.record.StartMS = record.MS(s.start.Sub(r.firstT0))
		res.Records = append(res.Records, s.record)
	}
	return res
}
