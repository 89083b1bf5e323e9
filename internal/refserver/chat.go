package refserver

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// call is one chat request while its handler runs. It belongs to that handler.
type call struct {
	s     *Server
	w     http.ResponseWriter
	flush func() error
	ctx   context.Context
	timer *time.Timer // reused by every wait

	ex     Exchange
	req    *chatRequest
	fx     effects
	answer answer
	job    *job
}

// chat answers a chat completion request, from its entry to its log entry.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	if !s.enter() {
		w.Header().Set("Connection", "close")
		refuse(http.StatusServiceUnavailable, "", "", "the server is closing").write(w)
		return
	}
	defer s.exit()
	c := &call{s: s, w: w, flush: http.NewResponseController(w).Flush, ctx: r.Context()}
	c.ex.Arrived = arrived
	c.ex.Arrival = int(s.arrivals.Add(1) - 1)
	c.ex.RequestID = fmt.Sprintf("refserver-%06d", c.ex.Arrival)
	w.Header().Set("X-Request-Id", c.ex.RequestID)
	if refused := c.prepare(r); refused != nil {
		c.refuse(refused, OutcomeRefused)
		return
	}
	if c.holdBack() {
		c.answerAsPlanned()
	}
}

// prepare reads the request and works out its answer and its faults.
func (c *call) prepare(r *http.Request) *refusal {
	req, refused := c.s.readChat(c.w, r)
	if refused != nil {
		return refused
	}
	c.req = req
	prompt := req.prompt()
	tokens := CountTokens(prompt)
	limit, refused := c.s.room(req, tokens)
	if refused != nil {
		return refused
	}
	in := c.s.instructionsOf(prompt)
	c.ex.Marker, c.ex.Index = in.marker, c.ex.Arrival
	if i, ok := markerIndex(in.marker); ok {
		c.ex.Index = i
	}
	c.ex.Streamed = req.Stream
	c.fx = effectsOn(c.s.faults, c.s.opts.Seed, c.ex.Index)
	c.ex.Faults = c.fx.names
	reasoning := c.s.opts.ReasoningTokens
	if !req.wantsReasoning() {
		reasoning = 0
	}
	c.answer = compose(in, &c.fx, reasoning, limit)
	c.job = c.newJob(prompt, tokens)
	return nil
}

// newJob describes the request to the timetable. An answer that breaks off has
// its fault when the next token is due.
func (c *call) newJob(prompt string, promptTokens int) *job {
	identity := c.ex.Marker
	if identity == "" {
		identity = prompt
	}
	j := &job{Job: Job{
		Identity: identityOf(identity),
		Prompt:   promptTokens, Output: c.answer.total, Reasoning: c.answer.reasoning,
		Slow: c.fx.slow,
	}}
	if !c.req.Stream && (c.fx.cut == cutTruncate || c.fx.cut == cutError) {
		c.fx.cut = cutNone
	}
	if c.fx.cut != cutNone {
		j.Output = min(j.Output, c.fx.after+1)
		j.stalls = c.fx.cut == cutStall
	}
	if c.s.opts.PrefixCache {
		j.blocks = prefixBlocks(prompt)
	}
	return j
}

// holdBack plays the faults that come before the line. It says whether the
// request goes on.
func (c *call) holdBack() bool {
	if c.fx.headers > 0 {
		c.sleepUntil(c.s.clock() + c.fx.headers)
	}
	switch {
	case c.fx.resetBefore:
		c.end(OutcomeFault, nil)
		c.reset()
		return false
	case c.fx.status != 0:
		if c.fx.status == http.StatusTooManyRequests || c.fx.status == http.StatusServiceUnavailable {
			c.w.Header().Set("Retry-After", strconv.Itoa(faultRetryAfterSeconds))
		}
		c.refuse(refuse(c.fx.status, "", "fault_plan", "the fault plan says %d", c.fx.status), OutcomeFault)
		return false
	}
	return true
}

// faultRetryAfterSeconds is what a planned 429 or 503 asks for.
const faultRetryAfterSeconds = 1

// answerAsPlanned joins the line and answers.
func (c *call) answerAsPlanned() {
	s := c.s
	s.model.join(c.job, s.clock)
	defer s.model.leave(c.job, s.clock)
	c.ex.Joined = s.epoch.Add(c.job.Joined)
	s.metrics.prompt.Add(int64(c.job.Prompt))
	if c.req.Stream {
		c.stream()
		return
	}
	c.whole()
}

// whole answers in one piece, when the last token is due. Of the faults in the
// stream only reset-stream and stall apply to it.
func (c *call) whole() {
	c.awaitSlot()
	at := c.s.model.planned(c.job, 0, 0)
	for i := 0; ; i++ {
		c.sleepUntil(at)
		if i == c.job.Output-1 {
			break
		}
		at = c.s.model.planned(c.job, i+1, at)
	}
	c.s.model.reach(at)
	switch c.fx.cut {
	case cutStall:
		c.stall()
		return
	case cutReset:
		c.end(OutcomeFault, nil)
		c.reset()
		return
	}
	usage := ""
	if !c.fx.noUsage {
		usage = c.usage().object()
	}
	body := completion(&c.s.opts, c.ex.RequestID, c.ex.Arrived.Unix(), &c.answer, usage)
	c.w.Header().Set("Content-Type", "application/json")
	c.ex.Status = http.StatusOK
	c.ex.Sent = c.answer.total
	c.s.metrics.generation.Add(int64(c.answer.total))
	c.end(OutcomeDone, func(e *Exchange) { e.DoneAt = time.Now() })
	_, _ = c.w.Write(body) // a client that has left does not need it
}

func (c *call) usage() usage {
	return usage{prompt: c.job.Prompt, cached: c.job.Cached, output: c.answer.total, reasoning: c.answer.reasoning}
}

// awaitSlot waits in the line. It does not return without a slot.
func (c *call) awaitSlot() {
	select {
	case <-c.job.admitted:
	case <-c.ctx.Done():
		c.gone()
	case <-c.s.cutOff:
		c.gone()
	}
}

// sleepUntil waits for an instant since the epoch, and not at all for one that
// has passed. It does not return when client or server end the wait.
func (c *call) sleepUntil(at time.Duration) {
	if !c.wait(at) {
		c.gone()
	}
}

// wait is sleepUntil that says false instead.
func (c *call) wait(at time.Duration) bool {
	d := at - c.s.clock()
	if d <= 0 {
		return c.ctx.Err() == nil
	}
	if c.timer == nil {
		c.timer = time.NewTimer(d)
	} else {
		c.timer.Reset(d)
	}
	select {
	case <-c.timer.C:
		return true
	case <-c.ctx.Done():
	case <-c.s.cutOff:
	}
	c.timer.Stop()
	return false
}

// stall holds slot and connection until the client leaves or the server closes.
func (c *call) stall() {
	select {
	case <-c.ctx.Done():
	case <-c.s.closing:
	}
	c.end(OutcomeFault, nil)
	panic(http.ErrAbortHandler) // no clean end: the client must not take it for one
}

// gone ends a call whose client left, or which the server cut off. It does not
// return: it unwinds the handler as net/http provides for, and the connection
// is not ended cleanly.
func (c *call) gone() {
	outcome := OutcomeLeft
	if c.ctx.Err() == nil {
		outcome = OutcomeClosed
	}
	c.end(outcome, nil)
	panic(http.ErrAbortHandler)
}

// reset breaks the connection: a TCP reset on HTTP/1, RST_STREAM on HTTP/2.
func (c *call) reset() {
	conn, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil { // HTTP/2
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0) // without it the close is a FIN, which is a cut as well
	}
	_ = conn.Close() // that is the point
}

// refuse answers with an error object.
func (c *call) refuse(r *refusal, outcome Outcome) {
	c.ex.Status = r.status
	c.end(outcome, nil)
	r.write(c.w)
}

// end completes the exchange and puts it into the log; finish, where it is not
// nil, sets the last stamp.
func (c *call) end(outcome Outcome, finish func(*Exchange)) {
	c.ex.Outcome = outcome
	if c.job != nil && !c.ex.Joined.IsZero() {
		c.ex.Planned, c.ex.Job = c.s.model.outcome(c.job, c.s.opts.KeepEvents)
	}
	c.s.journal.add(c.ex, func(e *Exchange) {
		if finish != nil {
			finish(e)
		}
		e.EndedAt = time.Now()
		c.s.metrics.observe(e, c.answer.finish)
	})
}
