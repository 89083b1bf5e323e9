package client

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"anvil-capacity/internal/config"
)

// secrets are texts that must not come out in any message: keys and header
// values, each in every form in which a server is likely to repeat it. The
// longest stand first, so that no secret leaves the rest of one that contains it.
type secrets []string

// secretLeast is the length, in bytes, of the shortest key or header value that
// is hidden. Shorter ones keep no secret, and hiding a placeholder such as "1"
// or "token" would garble every message.
const secretLeast = 6

// secretPartLeast is the length of the shortest part of a cut secret that is
// hidden.
const secretPartLeast = 4

func secretsOf(o Options) secrets {
	var s secrets
	s.add(o.APIKey.Reveal())
	for _, h := range o.Headers {
		s.addHeader(h.Value.Reveal())
	}
	slices.SortFunc(s, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(s)
}

// addHeader adds a header's value and the parts of it that are secrets of their
// own: of "Bearer KEY" the key, of "Basic ..." the user and password in clear.
func (s *secrets) addHeader(value string) {
	s.add(value)
	scheme, credentials, ok := strings.Cut(value, " ")
	if !ok {
		return
	}
	s.add(credentials)
	if pair, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "Basic") {
		_, password, _ := strings.Cut(string(pair), ":")
		s.add(string(pair))
		s.add(password)
	}
}

// add adds a secret in its forms: as it is, as Go quotes it, as JSON has it
// (also with the slash escaped, as PHP does), and as it stands in a URL.
func (s *secrets) add(secret string) {
	if len(secret) < secretLeast {
		return
	}
	quoted := fmt.Sprintf("%q", secret)
	inJSON, _ := json.Marshal(secret) // a string always encodes
	*s = append(*s, secret, unquoted(quoted), unquoted(string(inJSON)),
		strings.ReplaceAll(unquoted(string(inJSON)), "/", `\/`),
		url.PathEscape(secret), url.QueryEscape(secret))
}

func unquoted(text string) string { return text[1 : len(text)-1] }

// hidden stands for a secret in a message.
var hidden = config.Secret("secret").String()

// Redactor gives the function that puts "[redacted]" for every key and header
// value of o in a text from a server. It is safe for concurrent use.
func Redactor(o Options) func(text string) string { return secretsOf(o).hide }

// hide replaces every secret.
func (s secrets) hide(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return text
}

// in says that a text holds a secret.
func (s secrets) in(text string) bool {
	return slices.ContainsFunc(s, func(secret string) bool { return strings.Contains(text, secret) })
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

// hideInside hides a text that is, all of it, a piece of a longer secret.
func (s secrets) hideInside(text string) string {
	inside := func(secret string) bool { return strings.Contains(secret, text) }
	if len(text) >= secretPartLeast && slices.ContainsFunc(s, inside) {
		return hidden
	}
	return text
}
