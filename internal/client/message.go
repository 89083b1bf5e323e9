package client

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"anvil-capacity/internal/config"
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
	if s != nil && s.bytes > 0 {
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
	text := c.secrets.hideEnd(c.secrets.hide(string(kept)))
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

// secrets are texts that must not come out in any message.
type secrets []string

// secretLeast is the length, in bytes, of the shortest key or header value that
// is hidden. Shorter ones keep no secret, and hiding a placeholder such as "1"
// or "token" would garble every message.
const secretLeast = 6

// secretPartLeast is the length of the shortest part of a cut secret that is
// hidden.
const secretPartLeast = 4

func secretsOf(o Options) secrets {
	values := []string{o.APIKey.Reveal()}
	for _, h := range o.Headers {
		values = append(values, h.Value.Reveal())
		// "Bearer KEY": a server may repeat the key alone.
		if _, key, ok := strings.Cut(h.Value.Reveal(), " "); ok {
			values = append(values, key)
		}
	}
	return slices.DeleteFunc(values, func(value string) bool { return len(value) < secretLeast })
}

// hidden stands for a secret in a message.
var hidden = config.Secret("secret").String()

// hide replaces every secret, also as Go or JSON would quote it.
func (s secrets) hide(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, hidden)
		quoted := fmt.Sprintf("%q", secret)
		text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], hidden)
	}
	return text
}

// hideEnd replaces the start of a secret that the end of text cuts off.
func (s secrets) hideEnd(text string) string {
	for _, secret := range s {
		for n := len(secret) - 1; n >= secretPartLeast; n-- {
			if strings.HasSuffix(text, secret[:n]) {
				return text[:len(text)-n] + hidden
			}
		}
	}
	return text
}

// hideStart replaces the end of a secret that the start of text cuts off.
func (s secrets) hideStart(text string) string {
	for _, secret := range s {
		for n := len(secret) - 1; n >= secretPartLeast; n-- {
			if strings.HasPrefix(text, secret[len(secret)-n:]) {
				return hidden + text[n:]
			}
		}
	}
	return text
}
