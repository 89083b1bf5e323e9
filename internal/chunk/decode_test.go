package chunk_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/chunk"
)

func TestDecode(t *testing.T) {
	require.NotEmpty(t, rows)
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			var d chunk.Decoder
			assert.Equal(t, row.want, decode(&d, []byte(row.data)), row.why)
			assert.Equal(t, row.want.Verdict, reference([]byte(row.data)).Verdict, "the reference must agree")
			compare(t, &d, []byte(row.data))
		})
	}
}

// TestDecodeAfterAnother runs each row through a Decoder that has decoded
// another, for all pairs: nothing may be left behind.
func TestDecodeAfterAnother(t *testing.T) {
	fresh := make([]reading, len(rows))
	for i, row := range rows {
		fresh[i] = decode(new(chunk.Decoder), []byte(row.data))
	}
	for _, before := range rows {
		for i, row := range rows {
			var d chunk.Decoder
			decode(&d, []byte(before.data))
			require.Equal(t, fresh[i], decode(&d, []byte(row.data)), "%q after %q", row.data, before.data)
		}
	}
}

// TestEveryCutIsMalformed: no beginning of a chunk passes for one.
func TestEveryCutIsMalformed(t *testing.T) {
	cuts := 0
	for _, row := range rows {
		if row.want.Verdict != fine || !strings.HasPrefix(row.data, "{") {
			continue
		}
		for i := 1; i < len(row.data); i++ {
			assert.Equal(t, notJSON, decode(new(chunk.Decoder), []byte(row.data[:i])).Verdict, "%q", row.data[:i])
			cuts++
		}
	}
	require.Greater(t, cuts, 2000)
}

// TestEveryByteReplaced puts each of a few bytes that matter at each place of
// some events, and wants what encoding/json says.
func TestEveryByteReplaced(t *testing.T) {
	tried := 0
	var d chunk.Decoder
	for _, row := range rows {
		for i := range row.data {
			for _, c := range []byte("\"\\{}[]:,n0-.e \n\x00\x1f\x80\xff") {
				data := []byte(row.data)
				data[i] = c
				compare(t, &d, data)
				tried++
			}
		}
	}
	require.Greater(t, tried, 50_000)
}

// TestRepeat changes the text of an event, and only that, which is read by
// comparison with the event before, and wants what a full reading gives.
func TestRepeat(t *testing.T) {
	texts := []string{"", "a", " the", "0123456", "01234567", "012345678", "a longer text than one word of eight bytes",
		`\n`, `\"`, `a\u00e9b`, `\ud83e\udd8a`, `\ud83e`, "é", "你好", "\xff", "\xe4\xbd", "\x7f",
		`"`, `\`, `a"b`, `","content":"b`, `"},"x":{"k":"`, "\n", "\x1f", `\x`, `\u12`, "a\x00b"}
	around := []string{
		delta(`"content":"@"`),
		delta(`"role":"assistant","content":"@"`),
		delta(`"content":"@","reasoning_content":null`),
		delta(`"reasoning_content":"@"`),
		delta(`"reasoning_content":"@","content":""`),
		delta(`"reasoning":"@","content":null`),
		delta(`"reasoning":"@","reasoning_content":""`),
		delta(`"reasoning":"@","reasoning_content":"@"`),
		delta(`"reasoning":"@","content":"@"`),
		delta(`"reasoning":"r","content":"@"`),
		delta(`"reasoning":"@","content":"c"`),
		delta(`"reasoning":"","reasoning_content":"@"`),
		delta(`"reasoning":"r","reasoning_content":"@"`),
		delta(`"content":"a","content":"@"`),
		delta(`"content":"@","content":"a"`),
		delta(`"content":"@","content":null`),
		delta(`"content":[{"type":"text","text":"@"}]`),
		delta(`"reasoning":"@","content":[{"type":"thinking","thinking":"t"}]`),
		`{"choices":[{"delta":{"content":"@"},"index":1}]}`,
		`{"choices":[{"delta":{"content":"@"}},{"index":1}]}`,
		`{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"@"}}]}`,
		`{"choices":[{"delta":{"content":"@"}},{"delta":{"content":"a"}}]}`,
		`{"choices":[{"delta":{"content":"@"}}],"choices":null}`,
		`{"choices":[{"delta":{"content":"@"},"delta":{}}]}`,
		`{"choices":[{"delta":{"content":"@"},"finish_reason":"stop"}]}`,
		`{"choices":[{"delta":{"content":"@"}}],"usage":{"total_tokens":1}}`,
		`{"choices":[{"delta":{"content":"@"}}],"error":"@"}`,
		`{"choices":[{"delta":{"content":"@"}}],"error":"m"}`,
		`{"choices":[{"delta":{"content":"@"}}],"timings":{}}`,
		`{"choices":[{"delta":{"content":"@","tool_calls":[1]}}]}`,
		`{"id":"@","choices":[{"delta":{"content":"a"}}]}`,
	}
	for _, a := range around {
		var d chunk.Decoder
		for _, first := range texts {
			for _, second := range texts {
				compare(t, &d, []byte(strings.ReplaceAll(a, "@", first)))
				compare(t, &d, []byte(strings.ReplaceAll(a, "@", second)))
			}
		}
	}
}

func TestMalformedError(t *testing.T) {
	for _, row := range []struct{ name, data, want, why string }{
		{"text", "error: synthetic engine died", `decoding chunk: JSON at byte 0: got "e", want a value (near "error: synthetic engine died")`, "the text is the operator's clue"},
		{"cut", `{"choices":[`, `decoding chunk: JSON at byte 12: got the end of the data, want a value (near "{\"choices\":[")`, "cut short"},
		{"colon", `{"a" 1}`, `decoding chunk: JSON at byte 5: got "1", want a colon (near "{\"a\" 1}")`, "got and want"},
		{"escape", `{"a":"\x"}`, `decoding chunk: JSON at byte 7: got "x", want one of "\/bfnrtu after a backslash (near "{\"a\":\"\\x\"}")`, "got and want"},
		{"hex", `{"a":"\u12x4"}`, `decoding chunk: JSON at byte 10: got "x", want four hex digits (near "{\"a\":\"\\u12x4\"}")`, "got and want"},
		{"open string", `{"a":"b`, `decoding chunk: JSON at byte 7: got the end of the data, want a closing quote, and control characters as escapes (near "{\"a\":\"b")`, "got and want"},
		{"more", `{} x`, `decoding chunk: JSON at byte 3: got "x", want nothing more after the object (near "{} x")`, "got and want"},
		{"content", delta(`"content":1`), `decoding chunk: choices[].delta.content at byte 42: got a number, want a string, an array of parts or null (near ":[{\"index\":0,\"delta\":{\"content\":1}}]}")`, "the member is named"},
		{"cached", usage(`"prompt_tokens_details":{"cached_tokens":true}`), `decoding chunk: usage.prompt_tokens_details.cached_tokens at byte 64: got a boolean, want a whole number from 0 to 9007199254740992 or null (near "okens_details\":{\"cached_tokens\":true}}}")`, "the member is named"},
		{"chunk", `[{}]`, `decoding chunk: the event at byte 0: got an array, want an object (near "[{}]")`, "the whole is named"},
		{"first of two", `{"choices":1,"usage":"x"}`, `decoding chunk: choices at byte 11: got a number, want an array or null (near "{\"choices\":1,\"usage\":\"x\"}")`, "the first fault"},
	} {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			var c chunk.Chunk
			c.Content = []byte("left over")
			err := new(chunk.Decoder).Decode([]byte(row.data), &c)
			assert.EqualError(t, err, row.want, row.why)
			assert.Equal(t, chunk.Chunk{}, c, "nothing of a malformed event is given")
			var bad *chunk.MalformedError
			assert.True(t, errors.As(err, &bad))
		})
	}
}

func TestMaxDepth(t *testing.T) {
	for _, row := range []struct {
		name string
		data func(n int) string // n arrays and objects inside each other
		why  string
	}{
		{"arrays", func(n int) string {
			return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`
		}, "the chunk itself is the first"},
		{"objects", func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }, "objects count like arrays"},
		{"inside a delta", func(n int) string {
			return delta(`"x":` + strings.Repeat("[", n-4) + strings.Repeat("]", n-4))
		}, "chunk, choices, choice and delta are four"},
		{"inside a content part", func(n int) string {
			return delta(`"content":[{"x":` + strings.Repeat("[", n-6) + strings.Repeat("]", n-6) + "}]")
		}, "content and part are two more"},
		{"inside thinking", func(n int) string {
			return delta(`"content":[{"thinking":[{"x":` + strings.Repeat("[", n-8) + strings.Repeat("]", n-8) + "}]}]")
		}, "thinking and its element are two more"},
		{"inside usage", func(n int) string { return usage(`"x":` + strings.Repeat("[", n-2) + strings.Repeat("]", n-2)) }, "usage is the second"},
		{"inside usage details", func(n int) string {
			return usage(`"prompt_tokens_details":{"x":` + strings.Repeat("[", n-3) + strings.Repeat("]", n-3) + "}")
		}, "its details are the third"},
		{"inside an error", func(n int) string {
			return `{"error":{"message":` + strings.Repeat("[", n-2) + strings.Repeat("]", n-2) + "}}"
		}, "the error is the second"},
		{"a wrong type", func(n int) string {
			return `{"choices":[{"delta":` + strings.Repeat("[", n-3) + strings.Repeat("]", n-3) + "}]}"
		}, "it is read to its end"},
	} {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			for n := chunk.MaxDepth - 1; n <= chunk.MaxDepth+1; n++ {
				got := compare(t, new(chunk.Decoder), []byte(row.data(n)))
				assert.Equal(t, n > chunk.MaxDepth, got.Verdict == deep, "%d deep: %s", n, row.why)
			}
		})
	}
	assert.Equal(t, deep, decode(new(chunk.Decoder), bytes.Repeat([]byte("["), 10<<20)).Verdict, "10 million deep: the stack is not at stake")
}

func TestMaxCount(t *testing.T) {
	for n := chunk.MaxCount - 1; n <= chunk.MaxCount+1; n++ {
		var c chunk.Chunk
		err := new(chunk.Decoder).Decode([]byte(usage(`"total_tokens":`+strconv.Itoa(n))), &c)
		if n > chunk.MaxCount {
			assert.ErrorContains(t, err, "usage.total_tokens", "a float64 reader would see another number")
			continue
		}
		assert.NoError(t, err)
		assert.Equal(t, known(n), c.Usage.TotalTokens)
	}
}

func TestRawErrorBytes(t *testing.T) {
	for n := chunk.RawErrorBytes - 1; n <= chunk.RawErrorBytes+1; n++ {
		value := `"` + strings.Repeat("x", n-2) + `"`
		var c chunk.Chunk
		require.NoError(t, new(chunk.Decoder).Decode([]byte(`{"error":`+value+`}`), &c))
		assert.Equal(t, value[:min(n, chunk.RawErrorBytes)], string(c.Error.Raw))
		assert.Len(t, c.Error.Message, n-2, "the message is whole")
	}
}

func TestExcerptBytes(t *testing.T) {
	for n := chunk.ExcerptBytes - 1; n <= chunk.ExcerptBytes+1; n++ {
		data := strings.Repeat("x", n)
		var bad *chunk.MalformedError
		require.ErrorAs(t, new(chunk.Decoder).Decode([]byte(data), new(chunk.Chunk)), &bad)
		assert.Equal(t, data[:min(n, chunk.ExcerptBytes)], bad.Excerpt)
	}
}

func TestDecodeError(t *testing.T) {
	for _, row := range []struct {
		name, data string
		want       []string // message, type, code; nil where it is no error
		why        string
	}{
		{"nested", `{"error":{"message":"m","type":"t","code":429}}`, []string{"m", "t", "429"}, "OpenAI, vLLM"},
		{"string member", `{"error":"m","error_type":"x"}`, []string{"m", "", ""}, "TGI"},
		{"flat", `{"object":"error","message":"m","type":"t","code":400}`, []string{"m", "t", "400"}, "older vLLM"},
		{"flat without object", `{"code":500,"message":"m"}`, []string{"m", "", "500"}, "llama.cpp's event: error"},
		{"detail", `{"detail":"Not Found"}`, []string{"Not Found", "", ""}, "FastAPI"},
		{"string", `"m"`, []string{"m", "", ""}, "a JSON string"},
		{"escapes", ` {"error":{"message":"a\nb"}} `, []string{"a\nb", "", ""}, "decoded"},
		{"error null", `{"error":null,"message":"m"}`, []string{"m", "", ""}, "the message is all there is"},
		{"no message", `{"a":1}`, nil, "nothing to say"},
		{"detail list", `{"detail":[{"msg":"m"}]}`, nil, "the caller has the text"},
		{"empty", "", nil, "nothing to say"},
		{"null", "null", nil, "nothing to say"},
		{"empty string", `""`, nil, "nothing to say"},
		{"html", "<html>", nil, "not JSON"},
		{"cut", `{"error":{"message":"m"`, nil, "not JSON"},
		{"more", `{"error":"m"}x`, nil, "not JSON"},
	} {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			e, ok := new(chunk.Decoder).DecodeError([]byte(row.data))
			require.Equal(t, row.want != nil, ok, row.why)
			if !ok {
				assert.Equal(t, chunk.Error{}, e)
				return
			}
			assert.Equal(t, row.want, []string{string(e.Message), string(e.Type), string(e.Code)}, row.why)
			assert.Contains(t, row.data, string(e.Raw))
			assert.NotEmpty(t, e.Raw)
		})
	}
}

func TestIsDone(t *testing.T) {
	for data, want := range map[string]bool{
		"[DONE]": true, " [DONE]": true, "[DONE]\r\n": true, "\t[DONE] ": true,
		"": false, "[DONE": false, "[DONE]]": false, "[ DONE ]": false, "[done]": false, "\"[DONE]\"": false, "DONE": false,
	} {
		assert.Equal(t, want, chunk.IsDone([]byte(data)), "%q", data)
	}
}

func TestCountPtr(t *testing.T) {
	assert.Nil(t, chunk.Count{}.Ptr(), "unknown is nil, not 0")
	assert.Equal(t, 0, *known(0).Ptr())
	assert.Equal(t, 7, *known(7).Ptr())
}

// TestReferenceSeesAll guards the guard: the reference must fail where it is
// given another event.
func TestReferenceSeesAll(t *testing.T) {
	seen := map[reading]bool{}
	for _, row := range rows {
		seen[reference([]byte(row.data))] = true
	}
	assert.Greater(t, len(seen), 40, "distinct readings of the rows")
	assert.True(t, json.Valid([]byte(delta(`"content":"a"`))))
}
