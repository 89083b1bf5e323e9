package suite

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Why a run was ended from outside. The text goes into the partial artifact.
type Interrupted struct{ Reason string }

func (e *Interrupted) Error() string { return e.Reason }

// deadlineGrace is what Watch leaves of go test's -timeout for ending the
// requests in flight and writing the evidence: when the deadline fires, go test
// kills the process without any clean-up.
const deadlineGrace = 10 * time.Second

// parentPoll is how often Watch looks whether go test is still there. A killed
// parent tells nobody, and an orphan would go on sending load.
const parentPoll = 200 * time.Millisecond

// Watch gives a context that ends, with an *Interrupted as its cause, at an
// interrupt, SIGTERM or a terminal that was closed, when go test or what runs it
// is gone, and shortly before deadline (go test's -timeout; zero is none). A
// deadline that is already too near is an error: nothing should be sent. stop
// ends the watching.
//
// A second interrupt changes nothing: writing the evidence takes a moment, and
// what is in flight is already being canceled. Nor does a later one, up to the
// end of the process: stop leaves the signals of an interrupted run caught, so
// that its results are told.
func Watch(parent context.Context, deadline time.Time) (ctx context.Context, stop func(), err error) {
	ctx, cancel := context.WithCancelCause(parent)
	var left <-chan time.Time
	if !deadline.IsZero() {
		remaining := time.Until(deadline) - deadlineGrace
		if remaining <= 0 {
			cancel(nil)
			return nil, nil, fmt.Errorf("starting the run: go test ends it in %s, and %s of that is kept for writing the evidence; run with -timeout 0",
				time.Until(deadline).Round(time.Second), deadlineGrace)
		}
		timer := time.NewTimer(remaining)
		left = timer.C
	}
	// With go test gone, the first line written to its pipe would kill the
	// process before the evidence is on disk.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup asks to outlive the terminal
		signal.Notify(signals, syscall.SIGHUP)
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if reason := waitReason(signals, left, quit); reason != "" {
			cancel(&Interrupted{reason})
		}
	}()
	stop = func() {
		if ctx.Err() == nil {
			signal.Stop(signals)
		}
		close(quit)
		<-done
		cancel(nil)
	}
	return ctx, stop, nil
}

// waitReason blocks until there is a reason to end the run, or "" at quit.
func waitReason(signals <-chan os.Signal, deadline <-chan time.Time, quit <-chan struct{}) string {
	poll := time.NewTicker(parentPoll)
	defer poll.Stop()
	parents := findParents()
	for {
		select {
		case s := <-signals:
			return fmt.Sprintf("interrupted by %s", s)
		case <-deadline:
			return fmt.Sprintf("the -timeout of go test was %s away: run with -timeout 0", deadlineGrace)
		case <-poll.C:
			if gone := parents.gone(); gone != "" {
				return fmt.Sprintf("the process that ran this one (%s) is gone", gone)
			}
		case <-quit:
			return ""
		}
	}
}
