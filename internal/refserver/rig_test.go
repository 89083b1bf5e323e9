package refserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/memnet"
)

// testInstructions is the language of prompts in these tests: the first line is
// "MARKER words=N", either part may be missing. It keeps the tests of the server
// apart from the wording of the suite's prompts.
func testInstructions(prompt string) (in instructions) {
	line, _, _ := strings.Cut(prompt, "\n")
	for f := range strings.FieldsSeq(line) {
		if n, ok := strings.CutPrefix(f, "words="); ok {
			in.words, _ = strconv.Atoi(n)
			in.hasWords = true
		} else if strings.HasPrefix(f, "ANVIL_REQ_") {
			in.marker = f
		}
	}
	return in
}

func marker(i int) string { return fmt.Sprintf("ANVIL_REQ_7_%05d", i) }

// prompt asks for words and is exactly tokens long.
func prompt(i, words, tokens int) string {
	p := fmt.Sprintf("%s words=%d\n", marker(i), words)
	return p + strings.Repeat("x", tokens*CharsPerToken-len(p))
}

// rig is a server in memory and a plain HTTP client for it.
type rig struct {
	*Server
	client *http.Client
}

// inBubble runs body in virtual time against a server with these options.
func inBubble(t *testing.T, o Options, body func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, o)
		body(t, r)
		r.client.CloseIdleConnections()
		require.NoError(t, r.Close())
		synctest.Wait()
	})
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	s, err := New(o)
	require.NoError(t, err)
	s.instructionsOf = testInstructions
	ln := memnet.Listen()
	require.NoError(t, s.Serve(ln))
	return &rig{s, &http.Client{Transport: &http.Transport{
		DialContext: ln.DialContext, MaxIdleConnsPerHost: 1 << 12, DisableCompression: true,
	}}}
}

// reply is what a plain client saw of one request.
type reply struct {
	status int
	header http.Header
	start  time.Time
	events []event
	body   string // of an answer that is no event stream
	err    error  // of the transport
}

// event is one data line and when it was read, since the start.
type event struct {
	at   time.Duration
	data string
}

type chunk struct {
	ID      string `json:"id"`
	Choices []struct {
		Delta struct {
			Content          string `json:"content"`
			ReasoningContent string `json:"reasoning_content"`
			Reasoning        string `json:"reasoning"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
		Prompt           struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		Completion struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (e event) chunk() (c chunk) {
	_ = json.Unmarshal([]byte(e.data), &c) // not JSON: an empty chunk
	return c
}

// text is the visible text of one event.
func (e event) text() string {
	if c := e.chunk(); len(c.Choices) > 0 {
		return c.Choices[0].Delta.Content
	}
	return ""
}

func (e event) reasoning() string {
	if c := e.chunk(); len(c.Choices) > 0 {
		return c.Choices[0].Delta.ReasoningContent + c.Choices[0].Delta.Reasoning
	}
	return ""
}

// outputs are the events with text of either kind.
func (r reply) outputs() (all []event) {
	for _, e := range r.events {
		if e.text()+e.reasoning() != "" {
			all = append(all, e)
		}
	}
	return all
}

func (r reply) text() string {
	var b strings.Builder
	for _, e := range r.events {
		b.WriteString(e.text())
	}
	return b.String()
}

// index is the place of the first event for which is says true, -1 for none.
func (r reply) index(is func(event) bool) int {
	for i, e := range r.events {
		if is(e) {
			return i
		}
	}
	return -1
}

func isDone(e event) bool   { return e.data == "[DONE]" }
func isUsage(e event) bool  { return e.chunk().Usage != nil }
func isError(e event) bool  { return e.chunk().Error != nil }
func isFinish(e event) bool { return finishOf(e) != "" }

func finishOf(e event) string {
	if c := e.chunk(); len(c.Choices) > 0 {
		return c.Choices[0].FinishReason
	}
	return ""
}

// body is the usual request around a prompt; more is merged over it.
func body(prompt string, more map[string]any) []byte {
	b := map[string]any{
		"model": DefaultModel, "stream": true, "stream_options": map[string]any{"include_usage": true},
		"messages": []map[string]any{{"role": "user", "content": prompt}},
	}
	for k, v := range more {
		if b[k] = v; v == nil {
			delete(b, k)
		}
	}
	raw, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	return raw
}

func (r *rig) ask(prompt string) reply { return r.send(context.Background(), body(prompt, nil)) }

// send posts a body and reads the answer to its end, stamping each data line.
func (r *rig) send(ctx context.Context, raw []byte) reply {
	out := reply{start: time.Now()}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL()+"/chat/completions", bytes.NewReader(raw))
	if err != nil {
		return reply{err: err}
	}
	res, err := r.client.Do(req)
	if err != nil {
		out.err = err
		return out
	}
	defer res.Body.Close()
	out.status, out.header = res.StatusCode, res.Header
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		all, err := io.ReadAll(res.Body)
		out.body, out.err = string(all), err
		return out
	}
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadString('\n')
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			out.events = append(out.events, event{time.Since(out.start), strings.TrimSuffix(data, "\n")})
		}
		if err != nil {
			if err != io.EOF {
				out.err = err
			}
			return out
		}
	}
}

func (r *rig) get(t *testing.T, path string) (int, string) {
	t.Helper()
	res, err := r.client.Get(r.Origin() + path)
	require.NoError(t, err)
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(all)
}

// byIndex keys a log by the index in the marker.
func byIndex(t *testing.T, log []Exchange) map[int]Exchange {
	t.Helper()
	all := make(map[int]Exchange, len(log))
	for _, e := range log {
		if _, twice := all[e.Index]; twice {
			t.Fatalf("index %d is in the log twice", e.Index)
		}
		all[e.Index] = e
	}
	return all
}
