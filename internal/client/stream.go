package client

import (
	"errors"
	"io"
	"time"

	"anvil-capacity/internal/chunk"
	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/sse"
)

// socketBytes is how much one system call takes from the socket at most, and
// readBytes one read of the body. Twice net/http's default halves the calls that a
// backlog costs; more would not pay for what 1,000 streams hold.
const (
	socketBytes = 8 << 10
	readBytes   = 4 << 10
)

// reader holds the memory that reading a stream needs. It goes from request to
// request through the client's pool. It is one piece, with what each event touches
// first: between two events of a stream those of a thousand others have pushed it
// out of the caches, and each line and page costs.
type reader struct {
	stream  stream // the one that is read, or was last
	parser  sse.Parser
	decoder chunk.Decoder
	text    contract.Capture
	gaps    record.GapHistogram
	buf     [readBytes]byte
}

func newReader(eventLimit int) *reader {
	return &reader{parser: *sse.NewParser(eventLimit)}
}

// begin makes the reader ready for the response of x, and gives its stream.
func (r *reader) begin(x *exchange) *stream {
	r.parser.Reset()
	r.text.Reset()
	r.gaps.Reset()
	r.stream = stream{reader: r, dog: &x.dog, t0: x.t0}
	return &r.stream
}

// stream is what one response body says, read by read.
type stream struct {
	*reader
	dog *watchdog
	t0  time.Time
	// held is how much of the buffer has bytes that raw has not seen yet.
	held int
	// labelled says that the response calls itself an event stream. Another
	// body is read as one too, as long as its first line is a line of one.
	labelled bool
	// keepArrivals fills arrivals, the times of all output events.
	keepArrivals bool

	// behind is how much of the time went from a large read to one that found more
	// waiting; lastRead and large describe the read before.
	large            bool
	behind, lastRead time.Duration

	bytes  int64
	reads  int
	events int
	// outputs counts output events; shared those of them that came in a read
	// with another one; eventReads and crowdedReads the reads that completed one
	// event or more, and two or more.
	outputs, shared, eventReads, crowdedReads int

	contentChunks, reasoningChunks, toolCallChunks int
	done, firstOutput, secondOutput, lastOutput    mark
	firstText, finished, ended                     mark
	lost                                           stray // JSON without event framing

	arrivals []time.Duration
	raw      rawEnds
	// safe takes the secrets out of what the server says; it must see a text
	// before that is cut.
	safe func(text string) string

	finishReasons []string
	usage         chunk.Usage
	hasUsage      bool
	timings       []byte
	otherChoices  bool
	unterminated  bool
	afterDone     bool
	unknownAtDone int // sse.Stats.Unknown at [DONE]

	fault *fault // the gravest so far
}

// mark is a time since t0, once it is set.
type mark struct {
	at  time.Duration
	set bool
}

func (m *mark) to(at time.Duration) { m.at, m.set = at, true }

// unless sets the mark if it is not set.
func (m *mark) unless(at time.Duration) {
	if !m.set {
		m.to(at)
	}
}

// read reads the body to its end and returns the error of the last read:
// io.EOF at a clean end, nil when [DONE] came before it.
func (s *stream) read(body io.Reader) error {
	defer s.note()
	for {
		room := s.room()
		n, err := body.Read(room)
		at := time.Since(s.t0) // before anything is done with what was read
		if n > 0 {
			s.held += n
			if !s.labelled && s.isNotFramed() {
				return s.readHead(body, room[:n], err, at)
			}
			s.take(room[:n], at)
		}
		if err == io.EOF && !s.done.set {
			s.parser.Finish()
			s.next(at)
			s.ended.to(at)
		}
		switch {
		case s.done.set:
			return s.drain(body, err)
		case s.parser.Err() != nil:
			return s.parser.Err()
		case err != nil:
			return err
		}
	}
}

// room is where the next read goes: behind the bytes of those before, as long as
// there is some, so that what raw keeps of them is copied once for many.
func (s *stream) room() []byte {
	if readBytes-s.held < readBytes/2 {
		s.note()
	}
	return s.buf[s.held:]
}

// note shows raw the bytes that it has not seen, whose place is then free.
func (s *stream) note() {
	s.raw.add(s.buf[:s.held])
	s.held = 0
}

// isNotFramed says that the body is no event stream, by its head so far.
func (s *stream) isNotFramed() bool {
	s.note()
	return notFramed(s.raw.first())
}

// A read of largeRead bytes or more left others waiting, or nearly did; one that
// took less than waited to come back had not to wait for the server.
const (
	largeRead = readBytes * 3 / 4
	waited    = time.Millisecond
)

// take reads the events that the bytes of one read complete. They all arrived
// when it returned.
func (s *stream) take(b []byte, at time.Duration) {
	s.reads++
	s.bytes += int64(len(b))
	if gap := at - s.lastRead; s.large && gap < waited {
		s.behind += gap
	}
	s.large, s.lastRead = len(b) >= largeRead, at
	unknown := s.parser.Stats().Unknown
	s.parser.Feed(b)
	s.next(at)
	if s.lost.found == nil && s.parser.Stats().Unknown == unknown && s.parser.Between() {
		s.lost.mid = false
		return // every line was one of an event stream: no need to look for others
	}
	s.findStray(b, unknown)
}

// findStray looks for JSON without event framing in the bytes of one read; unknown
// is how many lines the parser did not know before it.
func (s *stream) findStray(b []byte, unknown int) {
	had := s.lost.found != nil
	s.lost.add(b)
	if s.done.set && !had && s.unknownAtDone == unknown {
		s.lost.found = nil // it stands after [DONE], where nothing counts
	}
}

// next handles the events that are complete.
func (s *stream) next(at time.Duration) {
	events, outputs := s.events, s.outputs
	var ev sse.Event
	for s.parser.Next(&ev) {
		if s.done.set {
			s.afterDone = true
			continue
		}
		s.event(&ev, at)
	}
	switch s.events - events {
	case 0:
		return
	case 1:
	default:
		s.crowdedReads++
	}
	s.eventReads++
	n := s.outputs - outputs
	if n > 0 {
		s.dog.last.Store(int64(at))
	}
	if n > 1 {
		s.shared += n
	}
}

// event reads one event.
func (s *stream) event(ev *sse.Event, at time.Duration) {
	if string(ev.Type) == "error" {
		s.events++
		s.errorEvent(ev.Data, at)
		return
	}
	if text, reasoning, ok := s.decoder.Text(ev.Data); ok {
		// Nearly every event of an answer says one text and nothing else.
		s.events++
		s.unterminated = s.unterminated || ev.Unterminated
		switch {
		case len(text) == 0:
		case reasoning:
			s.output(nil, true, at)
		default:
			s.output(text, false, at)
		}
		return
	}
	var c chunk.Chunk
	err := s.decoder.Decode(ev.Data, &c)
	if ev.Unterminated {
		if err != nil { // cut in the middle: it never arrived (WIRE 6)
			return
		}
		s.unterminated = true
	}
	s.events++
	switch {
	case err != nil:
		s.malformed(ev.Data, err, at)
	case c.Done:
		s.done.to(at)
		s.unknownAtDone = s.parser.Stats().Unknown
	case c.Heartbeat:
	default:
		s.chunk(&c, at)
	}
}

// chunk reads the parts of one chunk; none hides another (WIRE 15).
func (s *stream) chunk(c *chunk.Chunk, at time.Duration) {
	if len(c.Content) > 0 || len(c.Reasoning) > 0 {
		s.output(c.Content, len(c.Reasoning) > 0, at)
	}
	if len(c.FinishReason) > 0 {
		s.finish(c.FinishReason, at)
	}
	if c.HasUsage {
		s.usage, s.hasUsage = c.Usage, true
	}
	if c.ToolCalls {
		s.toolCallChunks++
	}
	if c.OtherChoices {
		s.otherChoices = true
	}
	if c.Timings != nil && len(c.Timings) <= timingsBytes {
		s.timings = append(s.timings[:0], c.Timings...)
	}
	if c.HasError {
		s.inBandError(c.Error, at)
	}
}

// timingsBytes bounds Observation.Timings.
const timingsBytes = 4 << 10

// ArrivalsMost bounds Observation.Arrivals: 8 MiB of a stream that never ends.
const ArrivalsMost = 1 << 20

// output counts generated text: what is visible of it, nil for none, and whether
// there is reasoning.
func (s *stream) output(visible []byte, reasoning bool, at time.Duration) {
	s.outputs++
	if s.firstOutput.set {
		s.gaps.Add(at - s.lastOutput.at)
		s.secondOutput.unless(at)
	}
	s.firstOutput.unless(at)
	s.lastOutput.to(at)
	if s.keepArrivals && len(s.arrivals) < ArrivalsMost {
		s.arrivals = append(s.arrivals, at)
	}
	if reasoning {
		s.reasoningChunks++
	}
	if len(visible) > 0 {
		s.firstText.unless(at)
		s.contentChunks++
		s.text.Add(visible)
	}
}

// finishReasonsMost and finishReasonBytes bound what is kept of finish reasons.
const (
	finishReasonsMost = 16
	finishReasonBytes = 64
)

// finish notes a finish reason. It may come again and again; the last one is
// the finish event, and reading goes on, since usage may follow.
func (s *stream) finish(reason []byte, at time.Duration) {
	if len(s.finishReasons) < finishReasonsMost {
		s.finishReasons = append(s.finishReasons, string(reason[:min(len(reason), finishReasonBytes)]))
	}
	s.dog.last.Store(int64(at))
	if !s.finished.set && s.fault == nil {
		s.dog.enter(awaitEnd, at)
	}
	s.finished.to(at)
	if detail := faultOfFinish(reason); detail != "" && s.outweighs(detail) {
		s.blame(at, fault{detail: detail, text: "the answer was ended with finish_reason " + string(reason)})
	}
}

// faultOfFinish gives the fault that a finish reason is, "" for none (WIRE 10).
func faultOfFinish(reason []byte) record.Detail {
	switch string(reason) {
	case "error", "abort":
		return record.EngineAbort
	case "content_filter":
		return record.ContentFilter
	}
	return ""
}

// drain reads what follows [DONE], so that the connection can be used again,
// for a short time and few bytes: then it is let go, whatever the server does.
// err is the error of the read that brought [DONE].
func (s *stream) drain(body io.Reader, err error) error {
	s.note()
	if err == nil {
		s.dog.enter(awaitDrain, s.done.at)
	}
	for left := DrainBytes + 1; err == nil && left > 0; { // one more shows that it ends in time
		var n int
		n, err = body.Read(s.buf[:min(left, readBytes)])
		left -= n
		s.bytes += int64(n)
		s.parser.Feed(s.buf[:n])
		s.next(s.done.at)
	}
	if err == io.EOF {
		s.parser.Finish()
		s.next(s.done.at)
	}
	return nil
}

// errNotFramed says that the body is not an event stream.
var errNotFramed = errors.New("the body is not an event stream")

// readHead reads on, for a while and to a bound, what is not an event stream:
// its head says what it is. b and err are what the last read gave.
func (s *stream) readHead(body io.Reader, b []byte, err error, at time.Duration) error {
	if err == nil {
		s.dog.enter(awaitHead, at)
	}
	for {
		s.bytes += int64(len(b))
		s.lost.add(b)
		if err != nil || s.bytes >= HeadBytes {
			return errNotFramed
		}
		var n int
		n, err = body.Read(s.buf[:])
		b = s.buf[:n]
		s.raw.add(b)
	}
}

// e2e gives the end of the answer: [DONE], or without it the finish event, or
// the clean end of the body (PROTOCOL section 1). Text that follows the finish
// event moves the end: an answer does not end before its text.
func (s *stream) e2e() mark {
	switch {
	case s.done.set:
		return s.done
	case s.finished.set && s.lastOutput.at > s.finished.at:
		return s.lastOutput
	case s.finished.set:
		return s.finished
	}
	return s.ended
}

// complete says that the answer was ended by the server.
func (s *stream) complete() bool { return s.done.set || s.finished.set }
