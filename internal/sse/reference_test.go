package sse_test

import (
	"bytes"
	"strings"

	"anvil-capacity/internal/sse"
)

// seen is an event with slices of its own.
type seen struct {
	Type         string
	Data         string
	Unterminated bool
}

// reading is all that a body gave.
type reading struct {
	Events  []seen
	Stats   sse.Stats
	TooLong bool
}

// reference reads a whole body as the standard's prose does, slowly: the other
// opinion for every property test here. It shares no code with the Parser.
func reference(body string, limit int) reading {
	var out reading
	out.Stats.Bytes = int64(len(body))
	if len(body) < 3 && strings.HasPrefix("\uFEFF", body) {
		return out // nothing, or what may be the start of a byte order mark
	}
	rest := strings.TrimPrefix(body, "\uFEFF")
	var data []string
	var typ string
	held := func() int { return len(strings.Join(data, "\n")) + len(typ) }
	for {
		line, after, ended := cutLine(rest)
		if held()+len(line) > limit {
			out.TooLong = true
			return out
		}
		if !ended {
			if strings.HasPrefix(line, "data:") {
				out.Stats.Fields++
				data = append(data, strings.TrimPrefix(line[len("data:"):], " "))
			}
			if joined := strings.Join(data, "\n"); joined != "" {
				out.Events = append(out.Events, seen{typ, joined, true})
				out.Stats.Events++
			}
			return out
		}
		rest = after
		if line == "" {
			if len(data) > 0 {
				out.Events = append(out.Events, seen{typ, strings.Join(data, "\n"), false})
				out.Stats.Events++
			}
			data, typ = nil, ""
			continue
		}
		if line[0] == ':' {
			out.Stats.Comments++
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			data = append(data, value)
		case "event":
			typ = value
		case "id", "retry":
		default:
			out.Stats.Unknown++
			continue
		}
		out.Stats.Fields++
	}
}

// cutLine gives the first line of s and what follows its LF, CR or CRLF; ended
// is false where s has no line end.
func cutLine(s string) (line, after string, ended bool) {
	i := strings.IndexAny(s, "\r\n")
	if i < 0 {
		return s, "", false
	}
	if strings.HasPrefix(s[i:], "\r\n") {
		return s[:i], s[i+2:], true
	}
	return s[:i], s[i+1:], true
}

// read runs a Parser over a body cut into pieces. Each piece is a buffer of its
// own that is overwritten once Next gave false, so that a Parser which still
// looks at it afterwards is found out.
func read(p *sse.Parser, pieces ...[]byte) (reading, error) {
	var out reading
	var ev sse.Event
	take := func() {
		for p.Next(&ev) {
			out.Events = append(out.Events, seen{string(ev.Type), string(ev.Data), ev.Unterminated})
		}
	}
	for _, piece := range pieces {
		b := bytes.Clone(piece)
		p.Feed(b)
		take()
		for i := range b {
			b[i] = '\n'
		}
	}
	p.Finish()
	take()
	out.Stats = p.Stats()
	out.TooLong = p.Err() != nil
	return out, p.Err()
}

// oneByOne cuts a body into single bytes (bytes.Split would keep characters whole).
func oneByOne(body []byte) [][]byte {
	pieces := make([][]byte, len(body))
	for i := range body {
		pieces[i] = body[i : i+1]
	}
	return pieces
}
