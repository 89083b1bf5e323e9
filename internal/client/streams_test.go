package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/record"
)

// expectation is the right reading of a stream of fixtures/streams.
type expectation struct {
	HTTPStatus       int               `json:"http_status"`
	ContentType      string            `json:"content_type"`
	Headers          map[string]string `json:"response_headers"`
	VisibleContent   string            `json:"visible_content"`
	ReasoningChunks  int               `json:"reasoning_chunks"`
	ContentChunks    int               `json:"content_chunks"`
	FinishReasons    []string          `json:"finish_reasons"`
	TerminalObserved bool              `json:"terminal_observed"`
	DoneObserved     bool              `json:"done_observed"`
	Outcome          string            `json:"outcome"`
	FailureClass     string            `json:"failure_class"`
	Note             string            `json:"note"`
	Usage            *struct {
		Prompt     *int `json:"prompt_tokens"`
		Completion *int `json:"completion_tokens"`
		Details    struct {
			Reasoning *int `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
}

// detail is the failure detail that PROTOCOL section 3 has for the class in an
// expect file: one is named otherwise there, and two are more precise here, as
// the notes of these files say.
func (e expectation) detail() record.Detail {
	switch {
	case e.FailureClass == "malformed_chunk":
		return record.MalformedEvent
	case strings.Contains(e.Note, "class detail reasoning_only"):
		return record.ReasoningOnly
	case strings.Contains(e.Note, "class detail tool_calls_only"):
		return record.ToolCallsOnly
	}
	return record.Detail(e.FailureClass)
}

// fixture is a stream with its right reading.
type fixture struct {
	name string
	body []byte
	want expectation
}

func fixtures(t testing.TB) []fixture {
	t.Helper()
	files, err := filepath.Glob("../../fixtures/streams/*.sse")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 35, "streams found")
	var all []fixture
	for _, file := range files {
		f := fixture{name: strings.TrimSuffix(filepath.Base(file), ".sse")}
		f.body, err = os.ReadFile(file)
		require.NoError(t, err)
		text, err := os.ReadFile(strings.TrimSuffix(file, ".sse") + ".expect.json")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &f.want))
		all = append(all, f)
	}
	return all
}

// head is the response header of the fixture, without its framing and end.
func (f fixture) head() string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d X\r\nContent-Type: %s\r\n", f.want.HTTPStatus, f.want.ContentType)
	for name, value := range f.want.Headers {
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	return b.String()
}

// check compares an observation with the right reading, but for times.
func (f fixture) check(t *testing.T, how string, obs Observation) {
	t.Helper()
	want, res := f.want, obs.Response
	say := fmt.Sprintf("%s, %s (%s)", f.name, how, want.Note)
	require.Equal(t, want.HTTPStatus, res.HTTPStatus, say)
	require.Equal(t, want.VisibleContent, obs.Text, say)
	require.Equal(t, want.ReasoningChunks, res.ReasoningChunks, say)
	require.Equal(t, want.ContentChunks, res.ContentChunks, say)
	require.Equal(t, want.FinishReasons, append([]string{}, res.FinishReasons...), say)
	require.Equal(t, want.TerminalObserved, res.TerminalObserved, say)
	require.Equal(t, want.DoneObserved, res.DoneObserved, say)
	var tokens record.Tokens
	if u := want.Usage; u != nil {
		tokens = record.Tokens{Prompt: u.Prompt, Output: u.Completion, Reasoning: u.Details.Reasoning}
	}
	require.Equal(t, tokens, obs.Tokens, say)
	require.Equal(t, want.ContentChunks > 0, obs.HasTTFT, say)
	require.Equal(t, want.ContentChunks+want.ReasoningChunks > 0, obs.HasTTFO, say)
	if want.Outcome == "ok" {
		require.Nil(t, obs.Failure, say)
		require.True(t, obs.HasE2E, say)
		require.LessOrEqual(t, obs.TTFO, obs.TTFT, say)
		require.LessOrEqual(t, obs.TTFT, obs.E2E, say)
		return
	}
	require.NotNil(t, obs.Failure, say)
	require.Equal(t, f.want.detail(), obs.Failure.Detail, "%s: %s", say, obs.Failure.Message)
	require.Equal(t, record.ClassOf(obs.Failure.Detail), obs.Failure.Class, say)
}

// framing is a way in which HTTP delimits a body.
type framing struct {
	name   string
	closes bool // the end of the body is the end of the connection
	step   int  // between the cuts tried
	wrap   func(f fixture, pieces [][]byte) []byte
}

// framings has them all. The reader is the same beneath each, so the body is cut
// at every byte in two of them, and at some in the others.
var framings = []framing{
	{"chunked", false, 1, func(f fixture, pieces [][]byte) []byte {
		return append([]byte(f.head()+"Transfer-Encoding: chunked\r\n\r\n"), chunked(pieces...)...)
	}},
	{"sized", false, 1, func(f fixture, pieces [][]byte) []byte {
		return append(fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n", f.head(), len(f.body)), f.body...)
	}},
	{"closed", true, 13, func(f fixture, pieces [][]byte) []byte {
		return append([]byte(f.head()+"Connection: close\r\n\r\n"), f.body...)
	}},
	{"HTTP/1.0", true, 13, func(f fixture, pieces [][]byte) []byte {
		head := strings.Replace(f.head(), "HTTP/1.1", "HTTP/1.0", 1)
		return append([]byte(head+"\r\n"), f.body...)
	}},
}

// TestStreams reads every stream through the whole client: in each framing, at
// the boundaries of its bytes cut in two reads, one byte a read, and at once. A
// result that depended on a cut would differ in one of them.
func TestStreams(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			// In virtual time no limit can pass because the machine is busy.
			synctest.Test(t, func(t *testing.T) {
				for _, framing := range framings {
					f.tryCuts(t, framing)
				}
			})
		})
	}
}

// tryCuts reads a fixture in one framing at many cuts. Where the body's end is
// known, the connection must serve them all.
func (f fixture) tryCuts(t *testing.T, framing framing) {
	c, s := scripted(t)
	tries := 0
	try := func(how string, pieces ...[]byte) {
		s.answer(framing.closes, pieces...)
		f.check(t, framing.name+", "+how, c.Complete(t.Context(), testBody))
		tries++
	}
	whole := framing.wrap(f, [][]byte{f.body})
	try("at once", whole)
	try("one byte a read", oneByOne(whole)...)
	step := framing.step
	if testing.Short() || underRace {
		step *= 17
	}
	start := bytes.Index(whole, f.body)
	for i := 0; i < len(f.body); i += step {
		try(fmt.Sprintf("cut at %d", i), whole[:start+i], whole[start+i:])
	}
	for i := 0; framing.name == "chunked" && i < len(f.body); i += 7 * step {
		try(fmt.Sprintf("chunks cut at %d", i), framing.wrap(f, [][]byte{f.body[:i], f.body[i:]}))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if framing.closes {
		assert.Equal(t, tries, s.dials, "%s: each response ended its connection", framing.name)
	} else {
		assert.Equal(t, 1, s.dials, "%s: every body was read to its end, and the connection used again", framing.name)
	}
}

// TestFixtureFlags names the oddities that fixtures have.
func TestFixtureFlags(t *testing.T) {
	want := map[string][]string{
		"11-done-without-newline":        {record.FlagUnterminatedFinalEvent},
		"12-finish-unterminated-no-done": {record.FlagUnterminatedFinalEvent},
		"16-done-but-finish-null":        {record.FlagMissingFinishReason},
		"22-usage-after-done":            {record.FlagDataAfterDone},
		"30-error-object-mid-stream":     {record.FlagMissingFinishReason},
		"36-non-json-data-line":          {record.FlagMissingFinishReason},
		"25-think-tags-in-content":       {record.FlagManyEventsPerRead},
		"53-gzip-encoded":                {record.FlagContentEncoded},
	}
	found := 0
	for _, f := range fixtures(t) {
		c, s := scripted(t)
		s.answer(true, framings[2].wrap(f, nil))
		obs := c.Complete(t.Context(), testBody)
		assert.Equal(t, want[f.name], obs.Response.Flags, f.name)
		if want[f.name] != nil {
			found++
		}
	}
	assert.Equal(t, len(want), found, "streams with flags")
}
