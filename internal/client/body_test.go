package client

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBody(t *testing.T) {
	rows := []struct {
		name string
		p    Params
		want string
		why  string
	}{
		{
			name: "plain",
			p:    Params{Model: "m", Prompt: "hi", MaxTokens: 16},
			want: `{"messages":[{"content":"hi","role":"user"}],"model":"m","temperature":0,"stream_options":{"include_usage":true},"max_tokens":16,"stream":true}`,
			why:  "temperature 0 is sent, usage is asked for, nothing optional is there",
		},
		{
			name: "all options",
			p: Params{Model: "org/m", Prompt: "p", MaxTokens: 1, MaxTokensName: MaxCompletionTokens, Temperature: 0.7,
				TopP: new(0.95), ReasoningEffort: "low", ExtraBody: json.RawMessage(`{"ignore_eos": true, "n.x": 1.50}`)},
			want: `{"messages":[{"content":"p","role":"user"}],"model":"org/m","temperature":0.7,"top_p":0.95,"reasoning_effort":"low","stream_options":{"include_usage":true},"max_completion_tokens":1,"stream":true,"ignore_eos":true,"n.x":1.50}`,
			why:  "the other name of the limit alone, extras at the top level with their own digits",
		},
		{
			name: "no stream options",
			p:    Params{Model: "m", Prompt: "hi", MaxTokens: 16, OmitStreamOptions: true},
			want: `{"messages":[{"content":"hi","role":"user"}],"model":"m","temperature":0,"max_tokens":16,"stream":true}`,
			why:  "a server that refuses the option is measured without tokens",
		},
		{
			name: "thinking enabled",
			p:    Params{Model: "m", MaxTokens: 1, Thinking: ThinkingEnabled},
			want: `{"messages":[{"content":"","role":"user"}],"model":"m","temperature":0,"stream_options":{"include_usage":true},"max_tokens":1,"stream":true,"chat_template_kwargs":{"enable_thinking":true}}`,
			why:  "PROTOCOL section 2, thinking",
		},
		{
			name: "thinking joins the user's template options",
			p: Params{Model: "m", MaxTokens: 1, Thinking: ThinkingDisabled,
				ExtraBody: json.RawMessage(`{"top_k":1,"chat_template_kwargs":{"x":"<&>"}}`)},
			want: `{"messages":[{"content":"","role":"user"}],"model":"m","temperature":0,"stream_options":{"include_usage":true},"max_tokens":1,"stream":true,"top_k":1,"chat_template_kwargs":{"enable_thinking":false,"x":"<&>"}}`,
			why:  "two objects of one name would be read differently by different servers",
		},
		{
			name: "default thinking sends nothing, the user's template options stand",
			p: Params{Model: "m", MaxTokens: 1, Thinking: ThinkingDefault,
				ExtraBody: json.RawMessage(`{"chat_template_kwargs":{"enable_thinking":false}}`)},
			want: `{"messages":[{"content":"","role":"user"}],"model":"m","temperature":0,"stream_options":{"include_usage":true},"max_tokens":1,"stream":true,"chat_template_kwargs":{"enable_thinking":false}}`,
			why:  "nobody else names the switch",
		},
		{
			name: "characters",
			p:    Params{Model: "m", MaxTokens: 1, Prompt: "<a>&\"\\\n\r\t\x00\x1f\u2028é🦊\xff."},
			want: `{"messages":[{"content":"<a>&\"\\\n\r\t\u0000\u001f` + "\u2028é🦊\uFFFD." + `","role":"user"}],"model":"m","temperature":0,"stream_options":{"include_usage":true},"max_tokens":1,"stream":true}`,
			why:  "no HTML escapes, which would change the number of bytes that a server sees; bad UTF-8 is replaced",
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, err := Body(row.p)
			require.NoError(t, err, row.why)
			assert.JSONEq(t, row.want, string(got), row.why)
			if row.name == "characters" || row.name == "all options" {
				for _, exact := range []string{`\u003c`, `\u0026`, `1.5,`} {
					assert.NotContains(t, string(got), exact, row.why)
				}
				assert.NotContains(t, string(got), placeholder)
			}
			var back struct {
				Messages []struct{ Content string }
			}
			require.NoError(t, json.Unmarshal(got, &back))
			assert.Equal(t, strings.ToValidUTF8(row.p.Prompt, "\uFFFD"), back.Messages[0].Content, "the prompt arrives as it was")
		})
	}
}

func TestBodyRefuses(t *testing.T) {
	rows := []struct {
		name string
		p    Params
		says string
	}{
		{"no model", Params{MaxTokens: 1}, "no model"},
		{"no limit", Params{Model: "m"}, "max tokens 0, want at least 1"},
		{"odd limit name", Params{Model: "m", MaxTokens: 1, MaxTokensName: "n_predict"}, `"n_predict"`},
		{"odd thinking", Params{Model: "m", MaxTokens: 1, Thinking: "off"}, `thinking "off"`},
		{"thinking and effort", Params{Model: "m", MaxTokens: 1, Thinking: ThinkingEnabled, ReasoningEffort: "low"}, "give one of them"},
		{"extra is no object", Params{Model: "m", MaxTokens: 1, ExtraBody: json.RawMessage(`[1]`)}, "not a JSON object"},
		{"extra is no JSON", Params{Model: "m", MaxTokens: 1, ExtraBody: json.RawMessage(`{"a":`)}, "unexpected end"},
		{"extra has more than an object", Params{Model: "m", MaxTokens: 1, ExtraBody: json.RawMessage(`{} {}`)}, "after top-level value"},
		{"extra repeats the model", Params{Model: "m", MaxTokens: 1, ExtraBody: json.RawMessage(`{"model":"x"}`)}, `"model" is given twice`},
		{"extra turns streaming off", Params{Model: "m", MaxTokens: 1, ExtraBody: json.RawMessage(`{"stream":false}`)}, `"stream" is given twice`},
		{"extra repeats itself", Params{Model: "m", MaxTokens: 1, ExtraBody: json.RawMessage(`{"a":1,"a":2}`)}, `"a" is given twice`},
		{"thinking twice", Params{Model: "m", MaxTokens: 1, Thinking: ThinkingEnabled,
			ExtraBody: json.RawMessage(`{"chat_template_kwargs":{"enable_thinking":true}}`)}, `"enable_thinking" is given twice`},
		{"template options are no object", Params{Model: "m", MaxTokens: 1, Thinking: ThinkingEnabled,
			ExtraBody: json.RawMessage(`{"chat_template_kwargs":3}`)}, "reading chat_template_kwargs"},
		{"the placeholder in an option", Params{Model: placeholder, MaxTokens: 1}, "found 2 times"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, err := Body(row.p)
			require.ErrorContains(t, err, row.says)
			assert.ErrorContains(t, err, "building the request body: ", "says what was being done")
		})
	}
}

// TestStringEscapesAtEveryPlace puts what needs a look at each place among plain
// bytes, which are copied eight at a time, and reads it back.
func TestStringEscapesAtEveryPlace(t *testing.T) {
	for _, special := range []string{"\"", "\\", "\n", "\x00", "\x1f", "\x7f", "é", "🦊", "\xff", "\xf0\x9f", "[", "]", "!", "#"} {
		for place := range 20 {
			text := strings.Repeat("a", place) + special + strings.Repeat("b", 20-place)
			quoted := appendString(nil, []byte(text))
			var back string
			require.NoError(t, json.Unmarshal(quoted, &back), "%q", text)
			assert.Equal(t, string([]rune(text)), back, "each byte that is not UTF-8 becomes U+FFFD")
			assert.True(t, utf8.Valid(quoted), "%q", text)
		}
	}
}

func TestTemplateGivesTheSameBodies(t *testing.T) {
	p := Params{Model: "m", MaxTokens: 8, Thinking: ThinkingEnabled, ExtraBody: json.RawMessage(`{"seed":1}`)}
	template, err := NewTemplate(p)
	require.NoError(t, err)
	var dst []byte
	for _, prompt := range []string{"", "one", "two \"quoted\"\n"} {
		p.Prompt = prompt
		want, err := Body(p)
		require.NoError(t, err)
		dst = template.Append(dst[:0], []byte(prompt))
		assert.Equal(t, string(want), string(dst), "a template used again gives what Body gives")
	}
}

// BenchmarkBody is the cost of one body of a million nominal tokens; 3 MB of
// prompt should go at memory speed.
func BenchmarkBody(b *testing.B) {
	prompt := []byte(strings.Repeat("the quick brown fox, and so on.\n", 3<<20/32))
	template, err := NewTemplate(Params{Model: "m", MaxTokens: 1})
	require.NoError(b, err)
	dst := template.Append(nil, prompt)
	b.SetBytes(int64(len(prompt)))
	b.ReportAllocs()
	for b.Loop() {
		dst = template.Append(dst[:0], prompt)
	}
}
