package config

import (
	"fmt"
	"io"
	"log/slog"
)

// redacted stands wherever a secret would be printed.
const redacted = "[redacted]"

// Secret is a text that prints as "[redacted]" under every fmt verb, in JSON
// and other text encodings, and in slog; an empty one prints as "". Only Reveal
// gives it away.
//
// Three things see the string itself: fmt in an unexported field (it cannot call
// methods there), encoding/json in the key of a map, and reflection. So a Secret
// belongs in exported fields, not in keys, and a value that holds one does not
// belong in an assertion that prints differences.
type Secret string

// Reveal gives the secret in clear, for the one place that sends it.
func (s Secret) Reveal() string { return string(s) }

// String gives "[redacted]", or "" for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// Format writes String for every verb and flag: %x and %q would otherwise spell
// the text out.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText gives String, for encoders other than JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON gives String as a JSON string.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// LogValue gives String, for slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
