package config

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// s3cr3t stands for a key; its hexadecimal form must not show either.
const s3cr3t = "sk-s3cr3t"

// spellings are the ways in which s3cr3t could come out.
var spellings = []string{"s3cr3t", fmt.Sprintf("%x", s3cr3t), fmt.Sprintf("%X", s3cr3t), fmt.Sprint([]byte(s3cr3t))}

func assertHidden(t *testing.T, text string) {
	t.Helper()
	assert.Contains(t, text, "[redacted]")
	for _, s := range spellings {
		assert.NotContains(t, text, s)
	}
}

func TestSecretPrintsRedacted(t *testing.T) {
	secret := Secret(s3cr3t)
	inside := struct {
		Key  Secret
		Keys map[Secret]Secret
		In   []Header
	}{secret, map[Secret]Secret{secret: secret}, []Header{{"X", secret}}}
	looked := 0
	for _, flag := range []string{"", "+", "#", "-", " ", "0", "40", ".3", "+40.3"} {
		for _, verb := range "vTtbcdoOqxXUeEfFgGsp" {
			format := "%" + flag + string(verb)
			if verb == 'T' || verb == 'p' {
				continue // the type's name, and a pointer: the text is in neither
			}
			assertHidden(t, fmt.Sprintf(format, secret))
			assertHidden(t, fmt.Sprintf(format, inside))
			assertHidden(t, fmt.Sprintf(format, &inside))
			looked++
		}
	}
	assert.Greater(t, looked, 100)
	assertHidden(t, fmt.Sprint(secret))
	assertHidden(t, secret.String())
	assertHidden(t, secret.GoString())
	assertHidden(t, fmt.Errorf("with %w and %s", assert.AnError, secret).Error())
}

func TestSecretEncodesRedacted(t *testing.T) {
	secret := Secret(s3cr3t)
	asJSON, err := json.Marshal(map[string]any{"k": []any{secret, &secret, Header{"X", secret}}})
	require.NoError(t, err)
	assertHidden(t, string(asJSON))
	assert.JSONEq(t, `{"k":["[redacted]","[redacted]",{"Name":"X","Value":"[redacted]"}]}`, string(asJSON))
	asXML, err := xml.Marshal(Header{"X", secret})
	require.NoError(t, err)
	assertHidden(t, string(asXML))
	text, err := secret.MarshalText()
	require.NoError(t, err)
	assertHidden(t, string(text))
	for _, handler := range []func(*bytes.Buffer) slog.Handler{
		func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var log bytes.Buffer
		slog.New(handler(&log)).Info("m", "key", secret, "header", Header{"X", secret}, "all", slog.AnyValue(Settings{APIKey: secret}))
		assertHidden(t, log.String())
	}
}

func TestSecretEmptyAndReveal(t *testing.T) {
	assert.Equal(t, "", fmt.Sprintf("%v%s%x%q", Secret(""), Secret(""), Secret(""), Secret("")), "nothing is not redacted: it tells that no key was given")
	asJSON, err := json.Marshal(Secret(""))
	require.NoError(t, err)
	assert.Equal(t, `""`, string(asJSON))
	assert.Equal(t, s3cr3t, Secret(s3cr3t).Reveal())
}

// Everything that a run may print or write is made from Settings and Cells.
func TestSettingsPrintRedacted(t *testing.T) {
	for _, pairs := range [][]string{
		{"API_KEY=" + s3cr3t},
		{"API_KEY_FILE=" + writeFile(t, s3cr3t+"\n")},
		{"HEADERS=Authorization: " + s3cr3t},
	} {
		s := mustLoad(t, nil, pairs...)
		for _, v := range []any{s, &s, s.Cells(), s.Headers} {
			for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
				for _, spelling := range spellings {
					assert.NotContains(t, fmt.Sprintf(format, v), spelling, format)
				}
			}
			asJSON, err := json.Marshal(v)
			require.NoError(t, err)
			for _, spelling := range spellings {
				assert.NotContains(t, string(asJSON), spelling)
			}
		}
	}
}
