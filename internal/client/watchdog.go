package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// The limits that end a request, as causes of its context.
var (
	errNoHeader = errors.New("no response header in time")
	errStalled  = errors.New("no output in time")
	errTotal    = errors.New("the request took too long")
	errLinger   = errors.New("the stream did not end in time")
	errDrain    = errors.New("the connection was not released in time")
	errHead     = errors.New("the body did not end in time")
)

// phase is what a request is waiting for; it decides which limits hold.
type phase int

const (
	awaitHeader phase = iota // t0 to the response header
	awaitOutput              // to the end of the answer
	awaitEnd                 // after a finish_reason, until [DONE] or the end
	awaitRest                // after a fault, until the end
	awaitDrain               // after [DONE]
	awaitHead                // the body of an error
)

// watchdog ends a request that keeps nobody's time. One timer is armed for the
// earliest limit of the moment; when it fires too early, because output came
// since, it is armed again for what is left. So an event costs one atomic store
// and no timer, and in virtual time a limit still fires to the nanosecond.
type watchdog struct {
	total, stall, header time.Duration // 0: no limit
	cancel               context.CancelCauseFunc

	// last is when the last output event arrived, and from awaitEnd on also the
	// last one with a finish_reason: nanoseconds since t0.
	last atomic.Int64

	mu    sync.Mutex // guards all below
	t0    time.Time
	timer *time.Timer
	phase phase
	since time.Duration // since t0: when awaitRest and later phases began
}

// start begins the limits at t0.
func (w *watchdog) start(t0 time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t0 = t0
	if at, _, ok := w.deadline(); ok {
		w.timer = time.AfterFunc(at, w.fire)
	}
}

// stop ends all limits.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	w.cancel = func(error) {} // a fire that waits for the lock must change nothing
}

// enter begins a phase at a time since t0.
func (w *watchdog) enter(p phase, at time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase, w.since = p, at
	until, _, ok := w.deadline()
	if !ok || p == awaitOutput { // its limits are no earlier than those in force
		return
	}
	left := until - time.Since(w.t0)
	if w.timer == nil {
		w.timer = time.AfterFunc(left, w.fire)
		return
	}
	w.timer.Reset(left)
}

// fire runs when the timer does: the limit has come, or has moved.
func (w *watchdog) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, cause, ok := w.deadline()
	if !ok {
		return
	}
	if left := at - time.Since(w.t0); left > 0 {
		w.timer.Reset(left)
		return
	}
	w.cancel(cause)
}

// deadline gives the earliest limit of the phase, as a time since t0.
func (w *watchdog) deadline() (at time.Duration, cause error, ok bool) {
	limit := func(begin, length time.Duration, why error) {
		if length > 0 && (!ok || begin+length < at) {
			at, cause, ok = begin+length, why, true
		}
	}
	last := time.Duration(w.last.Load())
	switch w.phase {
	case awaitHeader:
		limit(0, w.header, errNoHeader)
		limit(0, w.stall, errNoHeader)
	case awaitOutput:
		limit(last, w.stall, errStalled)
	case awaitEnd:
		limit(max(last, w.since), EndLinger, errLinger)
	case awaitRest:
		limit(w.since, EndLinger, errLinger)
	case awaitDrain:
		limit(w.since, DrainTimeout, errDrain)
		return at, cause, ok
	case awaitHead:
		limit(w.since, HeadTimeout, errHead)
	}
	limit(0, w.total, errTotal)
	return at, cause, ok
}
