// Package sse cuts a body into the events of a WHATWG event stream. It is fed
// the bytes of each read and gives the events that those bytes complete; it
// does no I/O and reads no clock, so the caller stamps arrivals where they
// happen, at the read.
//
// What it gives never depends on where the reads were cut: one byte at a time
// is the same as the whole body at once. Nothing is copied for an event that
// lies inside one read with a single data line, which is the steady state of a
// chat completion stream.
//
// It follows the standard whole
// (https://html.spec.whatwg.org/multipage/server-sent-events.html) but for
// three things, each what a measuring client needs:
//   - the end of the body gives a last event that lacks its blank line, flagged
//     [Event.Unterminated], where the standard drops it (WIRE 6);
//   - id and retry are counted and have no effect, since nothing reconnects;
//   - bytes stay bytes: UTF-8 is decoded after framing, by who reads the data.
//
// A block with a data line gives an event even when that line is empty; this is
// the standard's rule, and such an event is a heartbeat (WIRE 5). A block
// without a data line gives none.
package sse

import (
	"bytes"
	"errors"
	"fmt"
)

// MaxEventBytes is the default limit of a Parser, in bytes. The longest lines
// known from real servers (an image or a whole document in one event) are a few
// MiB; at this limit 256 hostile streams can hold 2 GiB, so a client with many
// streams may want less.
const MaxEventBytes = 8 << 20

const (
	// startBytes is the first size of the buffer that holds a cut event.
	startBytes = 1 << 10
	// keepBytes is the largest buffer kept from one event to the next; larger
	// ones are let go as soon as their event was read.
	keepBytes = 16 << 10
)

// ErrTooLong says that one event needs more memory than the limit: its line
// under way, its joined data and its type together. Parser.Err wraps it with
// the limit and the number of the event.
var ErrTooLong = errors.New("line or event too long")

// ErrOutOfTurn says that Feed was called while events of the bytes before were
// still to be read, or after Finish. It is a fault of the caller; going on
// would lose events.
var ErrOutOfTurn = errors.New("bytes fed out of turn")

// Event is one event of a stream. Its slices belong to the Parser, or to the
// bytes that were fed, and are valid until the next call of Next, Feed or
// Reset.
type Event struct {
	// Type is the value of the last event field of the block, as it was sent;
	// nil when there was none or an empty one, which the standard reads as
	// "message".
	Type []byte
	// Data is the values of the data fields, joined by LF. Never nil in an event
	// that Next gave; empty in a heartbeat.
	Data []byte
	// Unterminated says that the body ended before the blank line of this event,
	// or before the end of its last data line. Whether the data is whole is for
	// its reader to say: what does not decode was cut and does not count.
	Unterminated bool
}

// Stats counts what a Parser has read since it was made or reset. A field line
// or comment counts when its line ends.
type Stats struct {
	// Bytes counts all bytes fed.
	Bytes int64
	// Events counts the events that Next gave, heartbeats and an unterminated
	// last one included.
	Events int
	// Comments counts lines that begin with a colon.
	Comments int
	// Fields counts lines whose field is data, event, id or retry.
	Fields int
	// Unknown counts other lines that are not blank. A body with Unknown lines
	// and no Fields and no Comments is not an event stream.
	Unknown int
}

// Parser is an incremental parser of one event stream. Hand it the bytes of a
// read with Feed, then call Next until it gives false; at a clean end of the
// body call Finish and then Next once more. The zero Parser is ready to use and
// has the limit MaxEventBytes. Not safe for concurrent use.
//
// Memory: at most the larger of the limit and 1 KiB (and while the buffer
// grows, the buffer before it), and at most 16 KiB between two events. A stream
// whose reads hold whole events makes no buffer at all.
type Parser struct {
	limit int // in bytes; 0 = MaxEventBytes

	in  []byte // the bytes fed; the caller's, dropped when Next gives false
	pos int    // in[:pos] is read
	lf  int    // index in in of the first LF at or after pos, len(in) for none; stale when < pos
	cr  int    // the same for CR

	// The event under way. Its joined data is alias (a part of in) or buf[:own];
	// at least one of them is empty. buf[own:] is the line under way, cut by the
	// end of an earlier feed; it is empty while alias is not.
	hasData bool
	alias   []byte
	buf     []byte
	own     int
	typ     []byte

	between  bool // nothing is under way or held, and no LF is to be swallowed: the fast path is open
	given    bool // the event under way was given by Next: clear it first
	started  bool // the first line is over: no byte order mark any more
	swallow  bool // the last line ended with a CR at the end of a feed: a LF that follows belongs to it
	finished bool // the body has ended
	err      error
	stats    Stats
}

// NewParser makes a Parser that holds at most limit bytes for one event: its
// line under way, its joined data and its type together. A line of exactly
// limit bytes without its line end passes. 0 means MaxEventBytes; a negative
// limit is taken as 0.
func NewParser(limit int) *Parser {
	return &Parser{limit: max(limit, 0)}
}

// Reset makes p ready for another body. It keeps the limit, and the buffer where
// that is small.
func (p *Parser) Reset() {
	p.release()
	*p = Parser{limit: p.limit, buf: p.buf, typ: p.typ}
}

// Err says why Next gave false: nil when more bytes are needed or the body was
// read to its end, else an error that wraps ErrTooLong or ErrOutOfTurn. It is
// sticky until Reset.
func (p *Parser) Err() error { return p.err }

// Stats gives the counts so far.
func (p *Parser) Stats() Stats { return p.stats }

// Between says that the last byte fed ended an event or its line, by an LF, and
// that nothing is under way. It says so only once Next gave false, and no sooner
// than the first line is over.
func (p *Parser) Between() bool { return p.between }

// Feed hands over the bytes of one read. b stays the caller's; it must not
// change until Next gave false, which must come before the next Feed. After an
// error the bytes are counted and dropped.
func (p *Parser) Feed(b []byte) {
	p.stats.Bytes += int64(len(b))
	switch {
	case p.err != nil:
	case p.finished || p.pos < len(p.in):
		p.fail(fmt.Errorf("feeding %d bytes: %w: call Next until it gives false first, and nothing after Finish", len(b), ErrOutOfTurn))
	default:
		p.in, p.pos, p.lf, p.cr = b, 0, -1, -1
	}
}

// Finish says that the body ended cleanly. Next then gives the events still to
// be read and, last, an event that lacks its blank line if it has data that is
// not empty. The last line counts without its line end when it begins with
// "data:"; any other unended line is dropped, since nobody can tell whether it
// is whole. After a broken connection do not call Finish.
func (p *Parser) Finish() { p.finished = true }

// Next gives the next event that the bytes fed complete, in ev, or false: then
// see Err, and feed more bytes.
func (p *Parser) Next(ev *Event) bool {
	if p.between {
		if p.pos == len(p.in) && !p.finished {
			p.drop()
			return false
		}
		if p.whole(ev) {
			return true
		}
	}
	return p.next(ev)
}

// whole is the fast path: an event of one data line ended by two LFs, all of it
// in this feed. It reads nothing when it gives false.
func (p *Parser) whole(ev *Event) bool {
	rest := p.in[p.pos:]
	if len(rest) < len("data:\n\n") || string(rest[:len("data:")]) != "data:" {
		return false
	}
	end := bytes.IndexByte(rest, '\n')
	if end < 0 || end+1 >= len(rest) || rest[end+1] != '\n' || end > p.max() {
		return false
	}
	if p.cr < p.pos {
		p.cr = p.find('\r')
	}
	if p.cr < p.pos+end {
		return false
	}
	ev.Type = nil
	ev.Data = afterSpace(rest[len("data:"):end:end]) // no room to append over what follows
	ev.Unterminated = false
	p.pos += end + 2
	p.stats.Fields++
	p.stats.Events++
	return true
}

// next is the whole rule, line by line.
func (p *Parser) next(ev *Event) bool {
	if p.given {
		p.release()
		p.between = p.started && !p.swallow
		if p.between && p.whole(ev) {
			return true
		}
	}
	for p.err == nil {
		line, ok := p.line()
		if !ok {
			break
		}
		if len(line) > 0 {
			p.field(line)
		} else if p.dispatch(ev, false) {
			return true
		}
		p.buf = p.buf[:p.own]
	}
	if p.err != nil {
		return false
	}
	p.between = p.started && !p.swallow && !p.hasData && len(p.buf) == 0 && len(p.typ) == 0
	return p.finished && p.flush(ev)
}

// field reads one line that is not blank.
func (p *Parser) field(line []byte) {
	if line[0] == ':' {
		p.stats.Comments++
		return
	}
	name, value := line, []byte(nil)
	if i := bytes.IndexByte(line, ':'); i >= 0 {
		name, value = line[:i], afterSpace(line[i+1:])
	}
	switch string(name) {
	case "data":
		p.stats.Fields++
		p.addData(value)
	case "event":
		p.stats.Fields++
		p.typ = append(p.typ[:0], value...)
	case "id", "retry":
		p.stats.Fields++
	default:
		p.stats.Unknown++
	}
}

// afterSpace drops the one space that may stand after the colon of a field.
func afterSpace(value []byte) []byte {
	if len(value) > 0 && value[0] == ' ' {
		return value[1:]
	}
	return value
}

// addData joins the value of a data line to the event under way. The value may
// lie in buf[own:]: it moves down, over the name of its field, which is longer
// than the LF that joins it.
func (p *Parser) addData(value []byte) {
	inFeed := len(p.buf) == p.own
	switch {
	case p.hasData:
		p.adopt()
		p.buf = p.grown(p.buf[:p.own], 1+len(value))
		p.buf = append(p.buf, '\n')
		p.buf = append(p.buf, value...)
		p.own = len(p.buf)
	case inFeed:
		p.alias = value
	default:
		p.buf = append(p.buf[:0], value...)
		p.own = len(p.buf)
	}
	p.hasData = true
}

// adopt copies data that is a part of the bytes fed to the buffer.
func (p *Parser) adopt() {
	if len(p.alias) == 0 {
		return
	}
	p.buf = append(p.grown(p.buf[:0], len(p.alias)), p.alias...)
	p.own = len(p.buf)
	p.alias = nil
}

// dataLen is the size of the joined data of the event under way.
func (p *Parser) dataLen() int { return len(p.alias) + p.own }

// dispatch gives the event under way if it has a data line; else it drops its
// type, as the standard says.
func (p *Parser) dispatch(ev *Event, unterminated bool) bool {
	if !p.hasData {
		p.typ = p.typ[:0]
		return false
	}
	ev.Data = p.alias[:len(p.alias):len(p.alias)]
	if p.own > 0 || ev.Data == nil {
		ev.Data = p.buf[:p.own:p.own]
	}
	if ev.Data == nil {
		ev.Data = []byte{} // a first event of only "data", before any buffer was made
	}
	ev.Type = nil
	if len(p.typ) > 0 {
		ev.Type = p.typ
	}
	ev.Unterminated = unterminated
	p.stats.Events++
	p.given = true
	p.between = false
	return true
}

// flush gives, once, the event that the end of the body left without its blank
// line.
func (p *Parser) flush(ev *Event) bool {
	line := p.buf[p.own:]
	if !p.started {
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	if bytes.HasPrefix(line, []byte("data:")) {
		p.field(line)
	}
	p.buf = p.buf[:p.own]
	if p.dataLen() == 0 {
		p.release()
		return false
	}
	return p.dispatch(ev, true)
}

// release forgets the event under way, and its memory where that is large.
func (p *Parser) release() {
	p.given = false
	p.hasData = false
	p.alias = nil
	p.own = 0
	p.buf = emptied(p.buf)
	p.typ = emptied(p.typ)
}

func emptied(b []byte) []byte {
	if cap(b) > keepBytes {
		return nil
	}
	return b[:0]
}

// fail ends the parse and lets all memory go.
func (p *Parser) fail(err error) {
	p.release()
	p.err = err
	p.in, p.pos = nil, 0
	p.buf, p.typ = nil, nil
	p.between = false
}
