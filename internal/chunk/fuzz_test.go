package chunk_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/chunk"
	"anvil-capacity/internal/sse"
)

// FuzzDecode wants, of any data, what encoding/json reads: the same verdict on
// the syntax and the same values; and of a Decoder that has read other events
// before, the same as of a new one. other is decoded after data, and stands as
// the text in a copy of it.
func FuzzDecode(f *testing.F) {
	for i, row := range rows {
		f.Add([]byte(row.data), []byte(rows[(i+1)%len(rows)].data))
		f.Add([]byte(delta(`"content":"a"`)), []byte(row.data))
	}
	for _, text := range []string{"", " the", `\n`, `\ud83e\udd8a`, "é", "\xff", `"`, `\`, `a","content":"b`} {
		f.Add([]byte(delta(`"content":"a"`)), []byte(text))
		f.Add([]byte(delta(`"reasoning":"a","content":""`)), []byte(text))
	}
	seeds := 0
	for _, data := range streamEvents(f) {
		f.Add(data, []byte("text"))
		seeds++
	}
	require.Greater(f, seeds, 200, "events of the streams")
	f.Fuzz(func(t *testing.T, data, other []byte) {
		var d chunk.Decoder
		compare(t, &d, data)
		for _, next := range [][]byte{withText(data, other), other, data, withText(data, other), data} {
			compare(t, &d, next)
		}
	})
}

// withText gives data with other in place of its text.
func withText(data, other []byte) []byte {
	var c chunk.Chunk
	if new(chunk.Decoder).Decode(data, &c) != nil {
		return other
	}
	text := c.Content
	if len(text) == 0 {
		text = c.Reasoning
	}
	at := bytes.LastIndex(data, text)
	if len(text) == 0 || at < 0 {
		return other
	}
	return bytes.Join([][]byte{data[:at], data[at+len(text):]}, other)
}

// streamEvents gives the data of all events of fixtures/streams.
func streamEvents(tb testing.TB) (out [][]byte) {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join(streamsDir, "*.sse"))
	require.NoError(tb, err)
	require.GreaterOrEqual(tb, len(names), minStreams, "streams in %s", streamsDir)
	for _, name := range names {
		body, err := os.ReadFile(name)
		require.NoError(tb, err)
		var p sse.Parser
		var ev sse.Event
		p.Feed(body)
		for p.Next(&ev) {
			out = append(out, bytes.Clone(ev.Data))
		}
	}
	return out
}
