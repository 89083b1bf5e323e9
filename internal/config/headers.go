package config

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"
)

// ownHeaders are set by the suite or by HTTP itself; another value would change
// what is measured or break the framing.
var ownHeaders = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Connection": true, "Content-Length": true,
	"Content-Type": true, "Expect": true, "Host": true, "Keep-Alive": true,
	"Proxy-Connection": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// headers parses `Name: value` items, separated by | or by line ends. Messages
// name an item by its place only: with its colon in the wrong spot even a name
// can be part of a secret.
func headers(field func(*Settings) *[]Header) kind {
	return kind{"`Name: value` items with | or a line end between them", func(v *value, s *Settings) {
		places := map[string]int{}
		for i, text := range headerItems(v.text) {
			name, content, colon := strings.Cut(text, ":")
			h := Header{Name: textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)), Value: Secret(strings.TrimSpace(content))}
			want := wantOfHeader(h, colon)
			if want == "" && places[h.Name] > 0 {
				want = fmt.Sprintf("each name once, and item %d has the same", places[h.Name])
			}
			if want != "" {
				v.report(fmt.Sprintf("%s (item %d)", redacted, i+1), want, "")
				continue
			}
			places[h.Name] = i + 1
			*field(s) = append(*field(s), h)
		}
		if len(v.faults) == 0 && len(*field(s)) == 0 {
			v.wrong("", "")
		}
	}}
}

// headerItems splits at | and at line ends, and drops blank items.
func headerItems(text string) []string {
	items := strings.FieldsFunc(text, func(r rune) bool { return r == '|' || r == '\n' })
	return slices.DeleteFunc(items, func(item string) bool { return strings.TrimSpace(item) == "" })
}

// wantOfHeader gives what h should have been, "" where it is right.
func wantOfHeader(h Header, colon bool) string {
	switch {
	case !colon:
		return "`Name: value`"
	case !isHeaderName(h.Name):
		return "a header name before the first colon"
	case ownHeaders[h.Name]:
		// The name is one of a fixed list, so it gives nothing away.
		return "a header other than " + h.Name + ", which the suite sets itself"
	case h.Value == "":
		return "a value after the colon"
	case strings.IndexFunc(h.Value.Reveal(), isControl) >= 0:
		return "a value without control characters"
	}
	return ""
}

// isHeaderName says that name is a token of RFC 9110, section 5.6.2.
func isHeaderName(name string) bool {
	return name != "" && isMadeOf(name, "!#$%&'*+-.^_`|~")
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
