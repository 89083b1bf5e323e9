package sse

import (
	"bytes"
	"fmt"
)

// byteOrderMark may stand once, before the first line.
var byteOrderMark = []byte("\uFEFF")

// max is the limit in force, in bytes.
func (p *Parser) max() int {
	if p.limit == 0 {
		return MaxEventBytes
	}
	return p.limit
}

// find gives the index in in of the first c at or after pos, len(in) for none.
func (p *Parser) find(c byte) int {
	if i := bytes.IndexByte(p.in[p.pos:], c); i >= 0 {
		return p.pos + i
	}
	return len(p.in)
}

// line gives the next whole line without its line end: a part of the bytes fed,
// or of buf[own:] when its start came with an earlier feed. It gives false when
// the bytes end first, and has then kept all it needs of them, or when the line
// is too long.
func (p *Parser) line() ([]byte, bool) {
	end, next := p.lineEnd()
	if end < 0 {
		p.keep()
		return nil, false
	}
	line := p.in[p.pos:end]
	p.pos = next
	if len(p.buf) > p.own {
		if !p.hold(line) {
			return nil, false
		}
		line = p.buf[p.own:]
	}
	if !p.started {
		p.started = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	return line, p.fits(len(line))
}

// lineEnd finds where the line at pos ends and the next one begins; end is -1
// when that was not fed yet. Both positions are remembered, so that a feed is
// searched once however its lines end.
func (p *Parser) lineEnd() (end, next int) {
	if p.swallow && p.pos < len(p.in) {
		if p.in[p.pos] == '\n' {
			p.pos++
		}
		p.swallow = false
	}
	if p.lf < p.pos {
		p.lf = p.find('\n')
	}
	if p.cr < p.pos {
		p.cr = p.find('\r')
	}
	switch {
	case p.lf < p.cr:
		return p.lf, p.lf + 1
	case p.cr == len(p.in):
		return -1, -1
	}
	end, next = p.cr, p.cr+1
	// A CR ends its line at once: waiting for what follows would give the event
	// the arrival time of the next one (WIRE 4).
	if next == len(p.in) {
		p.swallow = true
	} else if p.in[next] == '\n' {
		next++
	}
	return end, next
}

// keep copies what the event under way needs of the bytes fed, and lets them go.
func (p *Parser) keep() {
	rest := p.in[p.pos:]
	p.adopt()
	if len(rest) > 0 && p.hold(rest) && !p.isMark() {
		p.fits(p.lineLen())
	}
	p.drop()
}

// drop lets the bytes fed go: all of them are read.
func (p *Parser) drop() {
	p.in, p.pos = nil, 0
	p.lf, p.cr = -1, -1
}

// isMark says that all of the body so far may be the start of a byte order mark.
func (p *Parser) isMark() bool {
	return !p.started && len(p.buf) < len(byteOrderMark) && bytes.HasPrefix(byteOrderMark, p.buf)
}

// lineLen is the length of the line under way, without a byte order mark.
func (p *Parser) lineLen() int {
	if !p.started && bytes.HasPrefix(p.buf, byteOrderMark) {
		return len(p.buf) - len(byteOrderMark)
	}
	return len(p.buf) - p.own
}

// hold appends b to the line under way, or fails and gives false when that is
// too long. On the first line it may let as many bytes too many pass as a mark
// has; the caller measures again without the mark.
func (p *Parser) hold(b []byte) bool {
	n := len(p.buf) - p.own + len(b)
	if !p.started {
		n -= len(byteOrderMark)
	}
	if !p.fits(n) {
		return false
	}
	p.buf = append(p.grown(p.buf, len(b)), b...)
	return true
}

// fits fails and gives false when a line of n bytes is more than the event under
// way may hold. Joining a data line adds less than the line has, so this is the
// only place where the limit is enforced.
func (p *Parser) fits(n int) bool {
	if p.dataLen()+len(p.typ)+n <= p.max() {
		return true
	}
	p.fail(fmt.Errorf("reading event %d of the stream: %w: want at most %d bytes before its end; a body without line ends is not an event stream",
		p.stats.Events+1, ErrTooLong, p.max()))
	return false
}

// grown gives b with room for n more bytes: twice the size each time, so that a
// long line costs no more than its length, and never past the limit.
func (p *Parser) grown(b []byte, n int) []byte {
	need := len(b) + n
	if need <= cap(b) {
		return b
	}
	size := max(need, startBytes, min(2*cap(b), p.max()+len(byteOrderMark)))
	return append(make([]byte, 0, size), b...)
}
