package client

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"anvil-capacity/internal/chunk"
)

// fieldNames are the fields of an event stream.
var fieldNames = []string{"data", "event", "id", "retry"}

// notFramed says that a body with these first bytes is not an event stream: its
// first line that is not blank is neither a comment nor a field that event
// streams have. It says no while too few bytes are there to tell.
func notFramed(head []byte) bool {
	line := firstLine(head)
	if len(line) == 0 || line[0] == ':' {
		return false
	}
	name, _, whole := bytes.Cut(line, []byte(":"))
	if i := bytes.IndexAny(name, "\r\n"); i >= 0 {
		name, whole = name[:i], true
	}
	if whole {
		return !slices.Contains(fieldNames, string(name))
	}
	return !startsField(name)
}

// byteOrderMark may stand first in a body.
var byteOrderMark = []byte("\uFEFF")

// firstLine gives the head from its first line on that is not blank; nothing
// while that has not begun.
func firstLine(head []byte) []byte {
	if bytes.HasPrefix(byteOrderMark, head) {
		return nil // the mark, or what may become one: a read can end inside it
	}
	return bytes.TrimLeft(bytes.TrimPrefix(head, byteOrderMark), "\r\n")
}

// unlikeStream says that a body labelled as an event stream, which gave no
// event, never was one: its first line is not of the form "name: value". Such a
// line with an unknown name is an unknown field, and its stream merely ended.
func unlikeStream(head []byte) bool {
	line := bytes.TrimLeft(firstLine(head), " \t\r\n")
	if i := bytes.IndexAny(line, "\r\n"); i >= 0 {
		line = line[:i]
	}
	if len(line) == 0 {
		return false
	}
	if name, _, colon := bytes.Cut(line, []byte(":")); colon {
		return strings.ContainsFunc(string(name), notToken)
	}
	return !startsField(line)
}

// startsField says that a line is, or could go on to be, a field's name.
func startsField(line []byte) bool {
	return slices.ContainsFunc(fieldNames, func(field string) bool {
		return strings.HasPrefix(field, string(line))
	})
}

// isHTML says that a body is a page, by its head.
func isHTML(head []byte) bool {
	start := strings.ToLower(string(bytes.TrimSpace(firstLine(head))))
	return strings.HasPrefix(start, "<!doctype html") || strings.HasPrefix(start, "<html")
}

// stray finds a JSON object that stands in a body without event framing: a line
// that begins with a brace. No line of an event stream does, and an error that
// a server writes so would otherwise be an unknown field, ignored (WIRE 7).
type stray struct {
	found []byte // from the brace on, HeadBytes at most; nil for none
	mid   bool   // the last byte read did not end a line
}

// add looks at the bytes of one read.
func (s *stray) add(b []byte) {
	if len(b) == 0 {
		return
	}
	if s.found != nil {
		s.found = append(s.found, b[:min(len(b), HeadBytes-len(s.found))]...)
		return
	}
	if i := s.find(b); i >= 0 {
		s.found = append(make([]byte, 0, HeadBytes), b[i:min(len(b), i+HeadBytes)]...)
	}
	last := b[len(b)-1]
	s.mid = last != '\n' && last != '\r'
}

// find gives the index of the first brace that begins a line, -1 for none.
func (s *stray) find(b []byte) int {
	if b[0] == '{' && !s.mid {
		return 0
	}
	lf, cr := bytes.Index(b, []byte("\n{")), bytes.Index(b, []byte("\r{"))
	if lf < 0 || cr >= 0 && cr < lf {
		lf = cr
	}
	if lf < 0 {
		return -1
	}
	return lf + 1
}

// report gives the error that the object is, if it is one. What follows the
// object does not matter.
func (s *stray) report(d *chunk.Decoder) (serverError, bool) {
	if s.found == nil {
		return serverError{}, false
	}
	var object json.RawMessage
	if json.NewDecoder(bytes.NewReader(s.found)).Decode(&object) == nil {
		e, ok := d.DecodeError(object)
		return serverErrorOf(e), ok
	}
	// Cut in the middle, by the server or by the bound here.
	compact := bytes.Join(bytes.Fields(s.found[:min(len(s.found), 64)]), nil)
	return serverError{text: string(s.found)}, bytes.HasPrefix(compact, []byte(`{"error"`))
}
