package chunk

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// held is the memory that d keeps, in bytes.
func held(d *Decoder) int {
	return cap(d.scratch) + cap(d.visible) + cap(d.thought) + cap(d.last.around)
}

func event(members string) []byte {
	return []byte(`{"id":"x","choices":[{"index":0,"delta":{` + members + `}}]}`)
}

// TestTooDeepNamesTheLimit keeps the message and the constant together.
func TestTooDeepNamesTheLimit(t *testing.T) {
	assert.Contains(t, tooDeep, fmt.Sprint(MaxDepth))
	assert.Contains(t, countWanted, fmt.Sprint(MaxCount))
}

func TestMemoryAfterLargeEvents(t *testing.T) {
	var d Decoder
	var c Chunk
	for _, n := range []int{1 << 10, 64 << 10, 1 << 20} {
		text := strings.Repeat(`\n`, n)
		for _, members := range []string{
			`"content":"` + text + `"`,
			`"content":[{"type":"text","text":"` + text + `"},{"type":"thinking","thinking":"` + text + `"}]`,
		} {
			require.NoError(t, d.Decode(event(members), &c))
			require.Len(t, c.Content, n)
			require.NoError(t, d.Decode([]byte(`{}`), &c))
			assert.LessOrEqual(t, held(&d), 3*keepBytes+2*patternBytes, "after texts of %d bytes", n)
		}
	}
}

func TestMemoryOfRepeats(t *testing.T) {
	var d Decoder
	var c Chunk
	for range 10_000 {
		require.NoError(t, d.Decode(event(`"content":"\n"`), &c))
	}
	assert.LessOrEqual(t, held(&d), 200, "10,000 decoded texts leave the memory of one")
}

func TestKeepBytes(t *testing.T) {
	for n := keepBytes - 1; n <= keepBytes+1; n++ {
		kept := cap(emptied(make([]byte, 0, n)))
		if n <= keepBytes {
			assert.Equal(t, n, kept)
		} else {
			assert.Zero(t, kept)
		}
	}
}

func TestPatternBytes(t *testing.T) {
	for n := patternBytes - 1; n <= patternBytes+1; n++ {
		data := event(`"content":"text"`)
		pad := n - (len(data) - len("text")) - len(`"pad":"",`)
		data = []byte(strings.Replace(string(data), `"id"`, `"pad":"`+strings.Repeat("x", pad)+`","id"`, 1))
		require.Len(t, data, n+len("text"), "an event with %d bytes around its text", n)
		var d Decoder
		var c Chunk
		require.NoError(t, d.Decode(data, &c))
		assert.Equal(t, n <= patternBytes, d.last.start > 0, "%d bytes around the text", n)
	}
}

// TestRepeatIsTaken says which events are read by comparison; TestRepeat says
// that it changes no result.
func TestRepeatIsTaken(t *testing.T) {
	for _, row := range []struct {
		first, second string
		want          bool
		why           string
	}{
		{`"content":"a"`, `"content":" the"`, true, "the steady state"},
		{`"content":"a"`, `"content":"\n"`, true, "an escape in the text"},
		{`"content":"a"`, `"content":"é"`, true, "not ASCII"},
		{`"content":"a"`, `"content":""`, true, "an empty text is a text"},
		{`"content":""`, `"content":"a"`, true, "and the other way round"},
		{`"reasoning_content":"a"`, `"reasoning_content":"b"`, true, "reasoning"},
		{`"reasoning":"a","content":""`, `"reasoning":"b","content":""`, true, "reasoning under its other name"},
		{`"reasoning":"a","reasoning_content":"a"`, `"reasoning":"b","reasoning_content":"b"`, false, "two strings change"},
		{`"content":"a"`, `"content":"\x"`, false, "a fault is for the full reading"},
		{`"content":"a"`, `"content":"a","content":"b"`, false, "more than the text changed"},
		{`"content":"a"`, `"reasoning":"a"`, false, "another member"},
	} {
		var d Decoder
		var c Chunk
		require.NoError(t, d.Decode(event(row.first), &c))
		_, _, ok := d.Text(event(row.second))
		assert.Equal(t, row.want, ok, "%s after %s: %s", row.second, row.first, row.why)
	}
}

func TestNoAllocation(t *testing.T) {
	for _, row := range []struct{ name, data string }{
		{"content", string(event(`"content":" the"`))},
		{"escapes", string(event(`"content":"\n \u00e9"`))},
		{"escaped names", string(event(`"\u0063ontent":"a"`))},
		{"parts", string(event(`"content":[{"type":"thinking","thinking":"a"},{"type":"text","text":"b"}]`))},
		{"usage", `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13,"prompt_tokens_details":{"cached_tokens":1}}}`},
		{"error", `{"error":{"message":"m\n","code":500}}`},
		{"timings", `{"choices":[],"timings":{"prompt_ms":1.5}}`},
		{"done", `[DONE]`},
		{"heartbeat", `null`},
	} {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			var d Decoder
			var c Chunk
			data := []byte(row.data)
			decode := func() {
				d.last = pattern{around: d.last.around[:0]} // the full reading, each time
				if err := d.Decode(data, &c); err != nil {
					t.Fatal(err)
				}
			}
			decode()
			assert.Zero(t, testing.AllocsPerRun(100, decode), "the full reading")
			assert.Zero(t, testing.AllocsPerRun(100, func() {
				if err := d.Decode(data, &c); err != nil {
					t.Fatal(err)
				}
			}), "again and again")
		})
	}
}
