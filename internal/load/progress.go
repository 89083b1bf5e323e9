package load

import (
	"fmt"
	"strings"
	"time"

	"anvil-capacity/internal/record"
)

// Progress is the state of a run at one moment.
type Progress struct {
	Planned, Done, Failed, InFlight int
	// OutputTokens counts completed requests' tokens; 0 where the server sends no usage.
	OutputTokens int
	Elapsed      time.Duration
	Final        bool
}

// OutputTokS is output tokens of finished requests per second so far: a sign of
// life, lower than the throughput while long requests are in flight.
func (p Progress) OutputTokS() float64 {
	if p.Elapsed <= 0 {
		return 0
	}
	return float64(p.OutputTokens) / p.Elapsed.Seconds()
}

// ETA guesses the time to the end from the pace so far; ok is false before the
// first request has ended.
func (p Progress) ETA() (left time.Duration, ok bool) {
	if p.Done == 0 {
		return 0, false
	}
	return time.Duration(float64(p.Elapsed) / float64(p.Done) * float64(p.Planned-p.Done)), true
}

// String is one line, such as "48/100 done, 0 failed, 4 in flight, 21.8 tok/s, ETA 5m12s".
func (p Progress) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d done, %d failed, %d in flight", p.Done, p.Planned, p.Failed, p.InFlight)
	if p.OutputTokens > 0 {
		fmt.Fprintf(&b, ", %.1f tok/s", p.OutputTokS())
	}
	switch left, ok := p.ETA(); {
	case p.Final:
		fmt.Fprintf(&b, ", %s", p.Elapsed.Round(10*time.Millisecond))
	case ok:
		fmt.Fprintf(&b, ", ETA %s", left.Round(time.Second))
	}
	return b.String()
}

// totals is what progress is made from.
type totals struct {
	done, failed, outputTokens int
}

func (t *totals) add(rec *record.Record) {
	t.done++
	if rec.Failure != nil {
		t.failed++
		return
	}
	if rec.Tokens.Output != nil {
		t.outputTokens += *rec.Tokens.Output
	}
}

// startProgress begins the beat; the returned function ends it with one final
// report and waits for it.
func (r *run) startProgress() (stop func()) {
	if r.OnProgress == nil {
		return func() {}
	}
	every := r.ProgressEvery
	if every <= 0 {
		every = DefaultProgressEvery
	}
	began := time.Now()
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		beat := time.NewTicker(every)
		defer beat.Stop()
		for {
			select {
			case <-beat.C:
				r.OnProgress(r.progress(time.Since(began), false))
			case <-quit:
				r.OnProgress(r.progress(time.Since(began), true))
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}

func (r *run) progress(elapsed time.Duration, final bool) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Progress{
		Planned: r.Plan.Len(), Done: r.totals.done, Failed: r.totals.failed,
		InFlight: int(r.inFlight.Load()), OutputTokens: r.totals.outputTokens,
		Elapsed: elapsed, Final: final,
	}
}
