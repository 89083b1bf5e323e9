package refserver

import (
	"net/http"
	"time"
)

// stream answers token by token. Each event is one write and one flush, at its
// planned time or, when that has passed, at once; [DONE] leaves together with
// the end of the body.
func (c *call) stream() {
	ev := newChunks(&c.s.opts, c.ex.RequestID, c.ex.Arrived.Unix())
	tokens := make([][]byte, len(c.answer.runs))
	for i, r := range c.answer.runs {
		tokens[i] = ev.token(r)
	}
	c.open(ev)
	c.awaitSlot()
	out := output{call: c}
	at := c.s.model.planned(c.job, 0, 0)
	i := 0
	for r := range c.answer.runs {
		for range c.answer.runs[r].n {
			out.await(at)
			if c.fx.cut != cutNone && i == c.fx.after {
				c.breakOff(&out, at)
				return
			}
			if c.fx.garbage && i == c.fx.garbageAt {
				out.event(garbageEvent)
			}
			out.token(tokens[r], at)
			if i++; i < c.job.Output {
				at = c.s.model.planned(c.job, i, at)
			}
		}
	}
	if c.fx.cut != cutNone {
		c.breakOff(&out, at)
		return
	}
	if c.fx.garbage && i <= c.fx.garbageAt {
		out.event(garbageEvent)
	}
	c.s.model.reach(at)
	c.close(&out, ev)
}

var garbageEvent = []byte("data: <<< this is not JSON >>>\n\n")

// open sends the response header and the role event.
func (c *call) open(ev chunks) {
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	c.ex.Status = http.StatusOK
	c.ex.HeadersAt = time.Now()
	c.w.WriteHeader(http.StatusOK)
	c.send(ev.role())
}

// send writes and flushes; a write that fails ends the call.
func (c *call) send(event []byte) {
	_, err := c.w.Write(event)
	if err == nil {
		err = c.flush()
	}
	if err != nil {
		c.gone()
	}
}

// close sends the finish event, usage where asked for, and [DONE]. The exchange
// is in the log before [DONE] leaves.
func (c *call) close(out *output, ev chunks) {
	withUsage := c.req.StreamOptions.IncludeUsage && !c.fx.noUsage
	out.event(ev.finish(c.answer.finish))
	if withUsage && !c.fx.lateUsage {
		out.event(ev.usage(c.usage()))
	}
	out.drain()
	c.end(OutcomeDone, func(e *Exchange) { e.DoneAt = time.Now() })
	_, _ = c.w.Write(doneEvent) // the handler's return flushes it with the end of the body
	if c.fx.linger > 0 {
		_ = c.flush()
		c.wait(c.s.clock() + c.fx.linger)
	}
	if withUsage && c.fx.lateUsage {
		_ = c.flush()
		_, _ = c.w.Write(ev.usage(c.usage()))
	}
}

// breakOff ends the stream as its fault says, at the instant that the next token
// is due.
func (c *call) breakOff(out *output, at time.Duration) {
	c.s.model.reach(at)
	out.drain()
	switch c.fx.cut {
	case cutStall:
		c.stall()
	case cutReset:
		c.end(OutcomeFault, nil)
		c.reset()
	case cutTruncate:
		c.end(OutcomeFault, nil)
	case cutError:
		c.end(OutcomeFault, nil)
		event := append([]byte("data: "), refuse(http.StatusInternalServerError, "", "fault_plan", "the fault plan says error").object()...)
		event = append(event, "\n\n"...)
		_, _ = c.w.Write(append(event, doneEvent...))
	}
}

// output is the way of a stream's events to the client: straight, or through the
// buffer of the fault of that name.
type output struct {
	*call
	held      []byte        // events not sent yet
	heldSince time.Duration // when the first of them came
	first     int           // of the tokens in held
	tokens    int           // tokens taken so far, held ones included
}

// await waits for an instant, and sends what is held when its time comes first.
func (o *output) await(at time.Duration) {
	if release := o.heldSince + o.fx.buffer; len(o.held) > 0 && release <= at {
		o.sleepUntil(release)
		o.drain()
	}
	o.sleepUntil(at)
}

// token sends the next token, planned for at.
func (o *output) token(event []byte, at time.Duration) {
	o.tokens++
	if o.fx.buffer > 0 {
		o.hold(event)
		return
	}
	now := time.Now()
	o.stamp(o.tokens-1, o.tokens, now)
	o.s.metrics.late.observe(now.Sub(o.s.epoch) - at)
	o.send(event)
}

// event sends something that is not a token.
func (o *output) event(event []byte) {
	if o.fx.buffer > 0 {
		o.hold(event)
		return
	}
	o.send(event)
}

// proxyBufferBytes is how much the buffer of the fault of that name holds before
// it sends, whatever the time, as proxies do.
const proxyBufferBytes = 64 << 10

func (o *output) hold(event []byte) {
	if len(o.held) == 0 {
		o.heldSince = o.s.clock()
	}
	if o.held = append(o.held, event...); len(o.held) >= proxyBufferBytes {
		o.drain()
	}
}

// drain sends what is held, in one write.
func (o *output) drain() {
	if len(o.held) == 0 {
		return
	}
	o.stamp(o.first, o.tokens, time.Now())
	o.first = o.tokens
	o.send(o.held)
	o.held = o.held[:0]
}

// stamp records that the tokens from..to-1 leave now.
func (o *output) stamp(from, to int, now time.Time) {
	if from == to {
		return
	}
	if from == 0 {
		o.ex.FirstOutputAt = now
		o.s.metrics.ttft.observe(now.Sub(o.ex.Arrived))
	}
	if from <= o.answer.reasoning && o.answer.reasoning < to {
		o.ex.FirstContentAt = now
	}
	o.ex.LastOutputAt = now
	o.ex.Sent = to
	o.s.metrics.generation.Add(int64(to - from))
	if o.s.opts.KeepEvents {
		for range to - from {
			o.ex.Writes = append(o.ex.Writes, now.Sub(o.ex.Joined))
		}
	}
}
