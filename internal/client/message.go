package client

import (
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"anvil-capacity/internal/record"
)

// serverTextChars bounds a server's own words in a message, so that the facts
// after them are not cut away.
const serverTextChars = 1024

// failure puts a fault and the facts of its exchange into one message.
func (c *Client) failure(f *fault, x *exchange, s *stream, took time.Duration) *record.Failure {
	var b strings.Builder
	b.WriteString(c.safe(f.text))
	if said := c.safe(f.server.String()); said != "" {
		b.WriteString(": " + cut(said, serverTextChars))
	}
	if f.err != nil {
		b.WriteString(": " + cut(c.safe(f.err.Error()), serverTextChars))
	}
	if f.data != nil {
		b.WriteString(": " + c.quote(f.data, true))
	}
	for _, fact := range c.facts(x, s, took) {
		b.WriteString("; " + fact)
	}
	out := record.NewFailure(f.detail, b.String())
	out.ErrorType = cut(c.safe(f.server.typ), errorTypeChars)
	if out.ErrorType == "" && f.err != nil {
		out.ErrorType = fmt.Sprintf("%T", root(f.err))
	}
	return out
}

// errorTypeChars bounds Failure.ErrorType.
const errorTypeChars = 80

// root is the innermost error of a chain: the type that says most.
func root(err error) error {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok || inner.Unwrap() == nil {
			return err
		}
		err = inner.Unwrap()
	}
}

// facts says what was seen on the wire.
func (c *Client) facts(x *exchange, s *stream, took time.Duration) []string {
	var facts []string
	add := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	if x.res != nil {
		if code := x.res.StatusCode; code >= 200 && code <= 299 { // else the text has it
			add("status %d", code)
		}
		if id := c.requestID(x.res.Header); id != "" {
			add("request id %s", id)
		}
	}
	if s != nil {
		add("%s and %s received", count(s.bytes, "byte"), count(int64(s.events), "event"))
	}
	if x.gotConn.Load() && x.reused.Load() {
		add("on a reused connection")
	}
	add("after %s", took.Round(time.Microsecond))
	switch {
	case s == nil || s.bytes == 0:
	case s.reader != nil && c.secrets.in(s.text.Text()):
		// In pieces, as a stream gives it, a secret looks like any other text.
		facts = append(facts, "its bytes are not shown: the answer repeats a secret of this run")
	default:
		add("first bytes %s", c.quote(s.raw.first(), true))
		if s.bytes > rawShown {
			add("last bytes %s", c.quote(s.raw.last(), false))
		}
	}
	return facts
}

// count puts a number before its noun.
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// quote shows the first or the last bytes of what was kept of a body, without
// secrets.
func (c *Client) quote(kept []byte, first bool) string {
	text := c.secrets.hideInside(c.secrets.hideEnd(c.secrets.hide(string(kept))))
	if first {
		text = text[:min(len(text), rawShown)]
	} else {
		text = c.secrets.hideStart(text)
		text = text[max(0, len(text)-rawShown):]
	}
	return fmt.Sprintf("%q", text)
}

// safe makes text from a server or from Go fit for a message: no secrets, no
// control characters, valid UTF-8.
func (c *Client) safe(text string) string {
	return clean(c.secrets.hideEnd(c.secrets.hide(text)))
}

// clean replaces what would break a log line, a terminal or XML.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' || r == 0xFFFE || r == 0xFFFF {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// cut bounds text to so many characters, with a mark where it was longer.
func cut(text string, chars int) string {
	if utf8.RuneCountInString(text) <= chars {
		return text
	}
	return string([]rune(text)[:chars]) + "..."
}

// requestIDHeaders are the names under which servers and gateways number their
// requests, the most telling first.
var requestIDHeaders = []string{"X-Request-Id", "Request-Id", "X-Ms-Request-Id", "Apim-Request-Id", "X-Amzn-Requestid", "X-Amzn-Trace-Id", "X-Correlation-Id", "Cf-Ray"}

// requestIDChars bounds Response.RequestID.
const requestIDChars = 128

func (c *Client) requestID(h http.Header) string {
	for _, name := range requestIDHeaders {
		if id := h.Get(name); id != "" {
			return cut(c.safe(id), requestIDChars)
		}
	}
	return ""
}
