package load

import (
	"fmt"
	"runtime/debug"
	"time"

	"anvil-capacity/internal/record"
)

// PanicError is a panic of this suite while it handled one request. It ends the
// run: Result.Cause.
type PanicError struct {
	// RequestIndex is the request that was being handled, -1 for none.
	RequestIndex int
	// Text is what was panicked with, without secrets.
	Text string
	// Stack is that of the worker, as debug.Stack gives it.
	Stack string
}

// Error tells it in one line, without the stack.
func (e *PanicError) Error() string {
	where := ""
	if e.RequestIndex >= 0 {
		where = fmt.Sprintf(", while it handled request %d", e.RequestIndex)
	}
	return "a panic in the suite, a fault of its own" + where + ": " + e.Text
}

// newPanicError is called where the panic is recovered: the stack is still that
// of the fault.
func (r *run) newPanicError(index int, value any) *PanicError {
	return &PanicError{
		RequestIndex: index,
		Text:         r.Policy.redacted(fmt.Sprint(value)),
		Stack:        r.Policy.redacted(string(debug.Stack())),
	}
}

// body builds one request's body. A panic there is told as an error, since the
// worker must still reach the barrier where the others wait for it.
func (r *run) body(index int) (body []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = r.newPanicError(index, value)
			r.cancel(err)
		}
	}()
	return r.Body(index)
}

// rescue, deferred, turns a panic in the handling of a request into its
// RunnerError and the end of the run.
func (r *run) rescue(index int) {
	value := recover()
	if value == nil {
		return
	}
	fault := r.newPanicError(index, value)
	r.cancel(fault)
	r.cut()
	if r.kept(index) { // the record was made, and something after that broke
		return
	}
	message, clipped := record.Clip(fault.Error())
	now := time.Now()
	r.keep(&record.Record{
		RequestIndex: index, PlannedContextTokens: r.Plan.Request(index).ContextTokens,
		Failure: &record.Failure{Class: record.RunnerError, ErrorType: "panic", Message: message, MessageTruncated: clipped},
	}, now, now)
}

func (r *run) kept(index int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slots[index].filled
}
