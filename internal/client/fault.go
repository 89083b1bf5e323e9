package client

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"anvil-capacity/internal/chunk"
	"anvil-capacity/internal/record"
)

// fault is why a request failed, before it is put into a message.
type fault struct {
	detail record.Detail
	text   string      // what happened, in the suite's words
	server serverError // what the server said about it, if anything
	err    error       // what Go said about it, if anything
	data   []byte      // the start of the event that is at fault, if one is
}

// serverError is an error in a server's own words.
type serverError struct {
	typ, code, text string
}

func serverErrorOf(e chunk.Error) serverError {
	se := serverError{typ: string(e.Type), code: string(e.Code), text: string(e.Message)}
	if se.text == "" {
		se.text = string(e.Raw)
	}
	return se
}

// String gives type, code and text, as far as the server gave them.
func (e serverError) String() string {
	label := e.typ
	if e.code != "" && e.code != e.typ {
		label = strings.TrimSpace(label + " " + e.code)
	}
	if label == "" || e.text == "" {
		return label + e.text
	}
	return label + ": " + e.text
}

// pageText describes a page.
func pageText(page []byte) string { return "an HTML page" + titled(page) }

// parseServerError reads the body of an error: JSON of any of the usual shapes,
// a page, or text.
func parseServerError(d *chunk.Decoder, body []byte) serverError {
	if e, ok := d.DecodeError(body); ok {
		return serverErrorOf(e)
	}
	if isHTML(body) {
		return serverError{text: pageText(body)}
	}
	return serverError{text: strings.TrimSpace(string(body))}
}

// titled gives the title of a page, for people to recognise it by.
func titled(page []byte) string {
	lower := bytes.ToLower(page)
	start := bytes.Index(lower, []byte("<title>"))
	if start < 0 {
		return ""
	}
	title, _, _ := bytes.Cut(page[start+len("<title>"):], []byte("<"))
	return " titled " + string(bytes.TrimSpace(title))
}

// gravity orders the faults that a stream can have at once: the one that says
// more about the cause is kept, and of two that say as much, the first.
func gravity(d record.Detail) int {
	switch d {
	case record.InBandError:
		return 4
	case record.EngineAbort:
		return 3
	case record.ContentFilter:
		return 2
	default:
		return 1
	}
}

// outweighs says that a fault of this kind would be kept. Asked first, a stream
// of nothing but faults costs no memory.
func (s *stream) outweighs(d record.Detail) bool {
	return s.fault == nil || gravity(d) > gravity(s.fault.detail)
}

// blame keeps a fault. The stream is still read to its end, or for EndLinger:
// how it ends is evidence, and an error that explains the fault may follow.
func (s *stream) blame(at time.Duration, f fault) {
	if s.fault == nil {
		s.dog.enter(awaitRest, at)
	}
	s.fault = &f
}

// malformed notes an event that does not decode.
func (s *stream) malformed(data []byte, err error, at time.Duration) {
	if !s.outweighs(record.MalformedEvent) {
		return
	}
	f := fault{
		detail: record.MalformedEvent,
		text:   fmt.Sprintf("event %d is not the JSON of a chunk", s.events),
		data:   bytes.Clone(data[:min(len(data), rawKept)]),
	}
	// The error's own text has an excerpt in which a secret can be cut in two.
	if why := (*chunk.MalformedError)(nil); errors.As(err, &why) {
		f.text += fmt.Sprintf(": got %s, want %s at byte %d", why.Got, why.Want, why.Offset)
		if why.Path != "" {
			f.text += " (" + why.Path + ")"
		}
	}
	s.blame(at, f)
}

// errorEvent reads an event that the server named error.
func (s *stream) errorEvent(data []byte, at time.Duration) {
	if !s.outweighs(record.InBandError) {
		return
	}
	s.blame(at, fault{
		detail: record.InBandError,
		text:   fmt.Sprintf("event %d is named error", s.events),
		server: parseServerError(&s.decoder, data[:min(len(data), HeadBytes)]),
	})
}

// inBandError reads an error object in an event.
func (s *stream) inBandError(e chunk.Error, at time.Duration) {
	if !s.outweighs(record.InBandError) {
		return
	}
	s.blame(at, fault{
		detail: record.InBandError,
		text:   fmt.Sprintf("event %d is an error", s.events),
		server: serverErrorOf(e),
	})
}
