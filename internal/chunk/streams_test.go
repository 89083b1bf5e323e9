package chunk_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/chunk"
	"anvil-capacity/internal/sse"
)

const streamsDir = "../../fixtures/streams"

// minStreams guards against a glob that matches nothing.
const minStreams = 35

// expectation is the part of an expect file that this package can answer for.
type expectation struct {
	HTTPStatus       int               `json:"http_status"`
	ResponseHeaders  map[string]string `json:"response_headers"`
	VisibleContent   string            `json:"visible_content"`
	ReasoningChunks  int               `json:"reasoning_chunks"`
	ContentChunks    int               `json:"content_chunks"`
	Usage            map[string]any    `json:"usage"`
	FinishReasons    []string          `json:"finish_reasons"`
	TerminalObserved bool              `json:"terminal_observed"`
	DoneObserved     bool              `json:"done_observed"`
	FailureClass     string            `json:"failure_class"`
}

// TestStreams reads each stream of fixtures/streams to the end of its answer and
// wants what its expect file says.
func TestStreams(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(streamsDir, "*.sse"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(names), minStreams, "streams in %s", streamsDir)
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".sse"), func(t *testing.T) {
			var want expectation
			data, err := os.ReadFile(strings.TrimSuffix(name, ".sse") + ".expect.json")
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(data, &want))
			body, err := os.ReadFile(name)
			require.NoError(t, err)
			if want.ResponseHeaders["Content-Encoding"] == "gzip" {
				r, err := gzip.NewReader(bytes.NewReader(body))
				require.NoError(t, err)
				body, err = io.ReadAll(r)
				require.NoError(t, err)
			}
			want.ResponseHeaders = nil
			for _, size := range []int{1, 7, 100, len(body) + 1} {
				assert.Equal(t, want, consume(t, body, size, want.HTTPStatus), "in reads of %d bytes", size)
			}
		})
	}
}

// consume reads a body as a client would, in reads of that size.
func consume(t *testing.T, body []byte, size, status int) expectation {
	out := expectation{HTTPStatus: status, FinishReasons: []string{}}
	var p sse.Parser
	var d chunk.Decoder
	var ev sse.Event
	take := func() {
		for p.Next(&ev) {
			if !out.DoneObserved {
				out.add(t, &d, ev)
			}
		}
	}
	for len(body) > 0 {
		n := min(size, len(body))
		p.Feed(body[:n])
		take()
		body = body[n:]
	}
	p.Finish()
	take()
	require.NoError(t, p.Err())
	out.TerminalObserved = out.DoneObserved || len(out.FinishReasons) > 0
	out.judge(p.Stats())
	return out
}

func (out *expectation) add(t *testing.T, d *chunk.Decoder, ev sse.Event) {
	var c chunk.Chunk
	if err := d.Decode(ev.Data, &c); err != nil {
		require.False(t, ev.Unterminated, "no stream ends in a partial event")
		out.FailureClass = "malformed_chunk"
		return
	}
	compare(t, new(chunk.Decoder), ev.Data)
	out.DoneObserved = c.Done
	out.VisibleContent += string(c.Content)
	if len(c.Content) > 0 {
		out.ContentChunks++
	}
	if len(c.Reasoning) > 0 {
		out.ReasoningChunks++
	}
	if c.FinishReason != nil {
		out.FinishReasons = append(out.FinishReasons, string(c.FinishReason))
	}
	if c.HasUsage {
		out.Usage = usageMap(c.Usage)
	}
	if c.HasError {
		out.FailureClass = "in_band_error"
	}
}

// judge gives the failure class as far as this package's tests can tell it.
func (out *expectation) judge(stats sse.Stats) {
	switch {
	case out.FailureClass != "":
	case out.HTTPStatus == 429:
		out.FailureClass = "rate_limited"
	case stats.Bytes > 0 && stats.Events+stats.Fields+stats.Comments == 0:
		out.FailureClass = "not_event_stream"
	case !out.TerminalObserved:
		out.FailureClass = "truncated_stream"
	case len(out.FinishReasons) > 0 && out.FinishReasons[0] == "content_filter":
		out.FailureClass = "content_filter"
	case out.ContentChunks == 0:
		out.FailureClass = "empty_output"
	}
}

// usageMap gives usage as JSON would.
func usageMap(u chunk.Usage) map[string]any {
	out := map[string]any{}
	put := func(m map[string]any, name string, n chunk.Count) {
		if n.Known {
			m[name] = float64(n.N)
		}
	}
	put(out, "prompt_tokens", u.PromptTokens)
	put(out, "completion_tokens", u.CompletionTokens)
	put(out, "total_tokens", u.TotalTokens)
	if u.CachedTokens.Known {
		out["prompt_tokens_details"] = map[string]any{"cached_tokens": float64(u.CachedTokens.N)}
	}
	if u.ReasoningTokens.Known {
		out["completion_tokens_details"] = map[string]any{"reasoning_tokens": float64(u.ReasoningTokens.N)}
	}
	return out
}
