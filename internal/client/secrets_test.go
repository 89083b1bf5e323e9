package client

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"anvil-capacity/internal/config"
)

func TestSecretsAreHiddenInEveryForm(t *testing.T) {
	t.Parallel()
	const key = `ab/cd+ef&gh"ij<kl`
	basic := base64.StdEncoding.EncodeToString([]byte("user:pass-word-1"))
	redact := Redactor(Options{APIKey: key, Headers: []config.Header{
		{Name: "Authorization", Value: config.Secret("Basic " + basic)},
		{Name: "X-Token", Value: "token-abc"}, {Name: "X-Longer", Value: "token-abc-and-more"},
	}})
	for _, tt := range []struct{ name, text, want, why string }{
		{"plain", "<" + key + ">", "<[redacted]>", ""},
		{"quoted by Go", `"ab/cd+ef&gh\"ij<kl"`, `"[redacted]"`, "%q"},
		{"in JSON", `ab/cd+ef\u0026gh\"ij\u003ckl`, "[redacted]", "as encoding/json has it"},
		{"slashes escaped", `ab\/cd+ef\u0026gh\"ij\u003ckl`, "[redacted]", "as PHP has it"},
		{"in a path", `/ab%2Fcd+ef&gh%22ij%3Ckl/`, `/[redacted]/`, ""},
		{"in a query", `?k=ab%2Fcd%2Bef%26gh%22ij%3Ckl`, `?k=[redacted]`, ""},
		{"credentials alone", basic, "[redacted]", "a server may repeat them without the scheme"},
		{"password in clear", "bad password pass-word-1", "bad password [redacted]", "Basic is no cipher"},
		{"the longer of two", "token-abc-and-more", "[redacted]", "hidden by the shorter one its end would show"},
		{"the shorter of two", "token-abc-and", "[redacted]-and", ""},
		{"nothing", "token-ab", "token-ab", "a piece alone is no hit here; texts that are cut are looked at apart"},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			assert.Equal(t, tt.want, redact(tt.text), tt.why)
		})
	}
}

// TestShortSecrets: hiding a placeholder would garble every message.
func TestShortSecrets(t *testing.T) {
	t.Parallel()
	for key, hides := range map[string]bool{strings.Repeat("k", secretLeast-1): false, strings.Repeat("k", secretLeast): true, strings.Repeat("k", secretLeast+1): true, "": false} {
		assert.Equal(t, hides, Redactor(Options{APIKey: config.Secret(key)})("<"+key+">") != "<"+key+">", "%d bytes", len(key))
	}
}

// TestPiecesOfALongKey: what is kept of a body may lie wholly inside a key.
func TestPiecesOfALongKey(t *testing.T) {
	t.Parallel()
	key := "eyJ" + strings.Repeat("0123456789abcdef", 40)
	s := secretsOf(Options{APIKey: config.Secret(key)})
	assert.Equal(t, "[redacted]", s.hideInside(key[100:356]))
	assert.Equal(t, "x[redacted]", s.hideEnd("x"+key[:200]))
	assert.Equal(t, "[redacted]x", s.hideStart(key[200:]+"x"))
	assert.Equal(t, "abc", s.hideInside("abc"), "three characters are no secret")
}
