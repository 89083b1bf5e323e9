package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/config"
	"anvil-capacity/internal/refserver"
)

// The keys of these tests. They hold what JSON, URLs and Go escape, and no piece
// of them stands anywhere else.
const (
	apiKey    = `zQ7/vR2+mX9&kL4"wT6<jH8>bN3~pF5`
	headerKey = `Yd1/Gs6+Pc0&Vf8"Ba2<Ue5>Ok7~Tn9`
)

// pieceBytes is the length of a piece of a key that counts as a leak.
const pieceBytes = 8

// formsOf are the ways in which a key could come out.
func formsOf(key string) []string {
	inJSON, _ := json.Marshal(key)
	quoted := fmt.Sprintf("%q", key)
	return []string{
		key, string(inJSON[1 : len(inJSON)-1]), quoted[1 : len(quoted)-1], url.PathEscape(key), url.QueryEscape(key),
		base64.StdEncoding.EncodeToString([]byte(key)), base64.URLEncoding.EncodeToString([]byte(key)),
	}
}

// assertHidden looks for every piece of the keys in every form.
func assertHidden(t *testing.T, where, text string, keys ...string) {
	t.Helper()
	for _, key := range keys {
		for _, form := range formsOf(key) {
			for i := 0; i+pieceBytes <= len(form); i++ {
				if at := strings.Index(text, form[i:i+pieceBytes]); at >= 0 {
					t.Errorf("%s holds %q, a piece of a key: ...%q...", where, form[i:i+pieceBytes], text[max(0, at-150):min(len(text), at+150)])
					return
				}
			}
		}
	}
}

// assertNoKeys looks into the output of a run and all the files of its folder. It
// says how often a key was hidden, as proof that one was met.
func assertNoKeys(t *testing.T, got result, keys ...string) (hidden int) {
	t.Helper()
	assertHidden(t, "the output", got.output, keys...)
	hidden = strings.Count(got.output, "[redacted]")
	files := 0
	require.NoError(t, filepath.WalkDir(got.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		assertHidden(t, path, string(text), keys...)
		hidden += strings.Count(string(text), "[redacted]")
		files++
		return err
	}))
	t.Logf("looked into the output and %d files: %d keys were hidden", files, hidden)
	return hidden
}

// keysOf are the keys that a request carries.
func keysOf(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + " and " + r.Header.Get("X-Api-Key")
}

// echo is a server that repeats the keys of a request in one way.
type echo struct {
	name   string
	answer func(w http.ResponseWriter, r *http.Request, keys string)
	why    string
}

func event(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "data: "+format+"\n\n", args...)
}

func content(w io.Writer, text string) {
	quoted, _ := json.Marshal(text)
	event(w, `{"choices":[{"index":0,"delta":{"content":%s}}]}`, quoted)
}

func sendEvents(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") }

// inJSON is a text as a JSON string without its quotes.
func inJSON(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted[1 : len(quoted)-1])
}

var echoes = []echo{
	{"error_object", func(w http.ResponseWriter, _ *http.Request, keys string) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s","type":"%[1]s","code":"%[1]s"}}`, inJSON(keys))
	}, "OpenAI's own 401 does, in part"},
	{"error_text", func(w http.ResponseWriter, _ *http.Request, keys string) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "upstream failed for %s\n", keys)
	}, "a gateway's log line"},
	{"error_with_escaped_slashes", func(w http.ResponseWriter, _ *http.Request, keys string) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"error":{"message":"%s"}}`, strings.ReplaceAll(inJSON(keys), "/", `\/`))
	}, "PHP escapes them"},
	{"error_in_a_url", func(w http.ResponseWriter, _ *http.Request, keys string) {
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprintf(w, "no route to http://upstream/v1?key=%s and /%s/x", url.QueryEscape(keys), url.PathEscape(keys))
	}, "percent-encoded, and as good as in clear"},
	{"many_times", func(w http.ResponseWriter, _ *http.Request, keys string) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, strings.Repeat(keys+" ", 1000))
	}, "every limit of a message cuts a key somewhere"},
	{"page", func(w http.ResponseWriter, _ *http.Request, keys string) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<!doctype html><title>Hello %s</title>%[1]s", keys)
	}, "titles are quoted"},
	{"content_type", func(w http.ResponseWriter, _ *http.Request, keys string) {
		w.Header().Set("Content-Type", "text/plain; charset="+strings.Repeat("x", 40)+keys)
		fmt.Fprint(w, "hello")
	}, "quoted, and cut in the middle of the key"},
	{"retry_after", func(w http.ResponseWriter, _ *http.Request, keys string) {
		w.Header().Set("Retry-After", keys)
		w.WriteHeader(http.StatusTooManyRequests)
	}, "a header that is kept"},
	{"redirect", func(w http.ResponseWriter, _ *http.Request, keys string) {
		w.Header().Set("Location", "http://127.0.0.1:1/"+url.PathEscape(keys)+"/?key="+url.QueryEscape(keys))
		w.WriteHeader(http.StatusTemporaryRedirect)
	}, "told, and not followed"},
	{"in_band_error", func(w http.ResponseWriter, _ *http.Request, keys string) {
		sendEvents(w)
		content(w, "hello")
		event(w, `{"error":{"message":"bad key %s","code":"%[1]s"}}`, inJSON(keys))
	}, "inside a 200"},
	{"malformed_event", func(w http.ResponseWriter, _ *http.Request, keys string) {
		sendEvents(w)
		event(w, `{"key": %s`, keys)
	}, "the event is quoted"},
	{"wrong_type", func(w http.ResponseWriter, _ *http.Request, keys string) {
		sendEvents(w)
		event(w, `{"choices":"%s"}`, inJSON(keys))
	}, "an excerpt is quoted"},
	{"answer", func(w http.ResponseWriter, _ *http.Request, keys string) {
		sendEvents(w)
		content(w, "Your keys are "+keys)
		event(w, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":5}}`)
		fmt.Fprint(w, "data: [DONE]\n\n")
	}, "a model that was told its headers; the canary check quotes it"},
	{"answer_in_pieces", func(w http.ResponseWriter, _ *http.Request, keys string) {
		sendEvents(w)
		for len(keys) > 0 {
			n := min(len(keys), 20)
			content(w, keys[:n])
			keys = keys[n:]
		}
	}, "each piece alone looks harmless, and the stream is cut, so its bytes are shown"},
	{"finish_reason", func(w http.ResponseWriter, _ *http.Request, keys string) {
		sendEvents(w)
		event(w, `{"choices":[{"index":0,"delta":{},"finish_reason":"%s"}]}`, strings.Repeat("x", 20)+inJSON(keys))
		fmt.Fprint(w, "data: [DONE]\n\n")
	}, "kept, and cut at 64 bytes"},
	{"broken_http", func(w http.ResponseWriter, _ *http.Request, keys string) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			fmt.Fprintf(conn, "%s\r\n\r\n", strings.ReplaceAll(keys, " ", "_"))
			_ = conn.Close()
		}
	}, "Go's own error quotes the line"},
	{"broken_header", func(w http.ResponseWriter, _ *http.Request, keys string) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", keys)
			_ = conn.Close()
		}
	}, "and the header"},
	{"cut_off", func(w http.ResponseWriter, _ *http.Request, keys string) {
		w.Header().Set("Content-Length", "100000")
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, strings.Repeat("x", 70)+keys[:20])
	}, "the body ends in the middle of a key"},
}

// TestEchoedKeys: whatever a server repeats of a request's keys, nothing that the
// suite writes holds a piece of them.
func TestEchoedKeys(t *testing.T) {
	for _, e := range echoes {
		for _, preflight := range []string{"on", "off"} {
			t.Run(e.name+"_preflight_"+preflight, func(t *testing.T) {
				t.Parallel()
				var met atomic.Int64
				server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodGet {
						fmt.Fprint(w, `{"data":[{"id":"tiny"}]}`)
						return
					}
					if keysOf(r) == apiKey+" and "+headerKey {
						met.Add(1)
					}
					e.answer(w, r, keysOf(r))
				}))
				got := runSuite(t, small(server.URL, "MODEL=tiny", "PREFLIGHT="+preflight, "API_KEY="+apiKey, "HEADERS=X-Api-Key: "+headerKey)...)
				assert.NotZero(t, got.exit, got.output)
				require.NotZero(t, met.Load(), "the server had the keys")
				hidden := assertNoKeys(t, got, apiKey, headerKey)
				if e.name != "answer_in_pieces" { // whose bytes are not shown at all
					assert.NotZero(t, hidden, "%s\n%s", e.why, got.output)
				}
			})
		}
	}
}

// TestEchoedKeysInAPass: a run that passes has its evidence as well.
func TestEchoedKeysInAPass(t *testing.T) {
	t.Parallel()
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"data":[{"id":"tiny"}]}`)
			return
		}
		w.Header().Set("X-Request-Id", "for "+keysOf(r))
		sendEvents(w)
		content(w, string(markerIn.Find(body))+" code code code code")
		event(w, `{"id":"%s","choices":[{"index":0,"delta":{},"finish_reason":"%[1]s"}],"usage":{"prompt_tokens":9,"completion_tokens":5}}`, inJSON(keysOf(r)))
		fmt.Fprintf(w, ": %s\n\ndata: [DONE]\n\n", keysOf(r))
	}))
	got := runSuite(t, small(server.URL, "API_KEY="+apiKey, "HEADERS=X-Api-Key: "+headerKey)...)
	require.Zero(t, got.exit, got.output)
	assert.NotZero(t, assertNoKeys(t, got, apiKey, headerKey))
	n := one(t, got)
	assert.Equal(t, "for [redacted] and [redacted]", n.RequestTimings[0].Response.RequestID)
	assert.Equal(t, server.URL, n.BaseURL)
}

// TestWaysToGiveAKey: each of them is hidden in the same way.
func TestWaysToGiveAKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(apiKey+"\n"), 0o600))
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + apiKey))
	for _, tt := range []struct {
		name, way string
		want      string // the Authorization that the server gets
	}{
		{"api_key", "API_KEY=" + apiKey, "Bearer " + apiKey},
		{"api_key_file", "API_KEY_FILE=" + file, "Bearer " + apiKey},
		{"authorization", "HEADERS=Authorization: Bearer " + apiKey, "Bearer " + apiKey},
		{"another_scheme", "HEADERS=Authorization: Token " + apiKey, "Token " + apiKey},
		{"basic", "HEADERS=Authorization: Basic " + basic, "Basic " + basic},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var met atomic.Int64
			server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				authorization := r.Header.Get("Authorization")
				if authorization == tt.want {
					met.Add(1)
				}
				_, credentials, _ := strings.Cut(authorization, " ")
				clear, _ := base64.StdEncoding.DecodeString(credentials)
				_, password, _ := strings.Cut(string(clear), ":")
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprintf(w, "no such key: %s, %s, %s, %s", authorization, credentials, clear, password)
			}))
			got := runSuite(t, small(server.URL, tt.way)...)
			assert.NotZero(t, got.exit)
			require.NotZero(t, met.Load(), "the server had the key")
			assert.NotZero(t, assertNoKeys(t, got, apiKey, basic))
		})
	}
}

// TestKeysInTheWrongPlace are refused, and not repeated.
func TestKeysInTheWrongPlace(t *testing.T) {
	dir := suiteDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fixtures", "cells", "mine.env"), []byte("API_KEY="+apiKey+"\n"), 0o644))
	const host = "127.0.0.1:1"
	for _, tt := range []struct{ name, setting string }{
		{"user_in_the_base_url", "BASE_URL=http://" + url.QueryEscape(apiKey) + "@" + host + "/v1"},
		{"password_in_the_base_url", "BASE_URL=http://user:" + url.QueryEscape(apiKey) + "@" + host + "/v1"},
		{"password_that_does_not_parse", "BASE_URL=http://user:" + apiKey + "@" + host + "/v1"},
		{"query_of_the_base_url", "BASE_URL=http://" + host + "/v1?key=" + apiKey},
		{"fragment_of_the_base_url", "BASE_URL=http://" + host + "/v1#" + apiKey},
		{"bearer_in_the_key", "API_KEY=Bearer " + apiKey},
		{"the_key_for_its_file", "API_KEY_FILE=" + apiKey},
		{"a_header_without_a_name", "HEADERS=" + apiKey},
		{"a_header_with_its_parts_turned", "HEADERS=" + apiKey + ": X-Api-Key"},
		{"a_header_of_the_suite", "HEADERS=Content-Type: " + apiKey},
		{"a_misspelt_name", "APIKEY=" + apiKey},
		{"a_cell_file", "CELL=mine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := finish(t, suiteCommand(t, dir, tt.setting), dir)
			assert.NotZero(t, got.exit)
			assert.Contains(t, got.output, "CAPACITY_")
			assertHidden(t, "the output", got.output, apiKey)
		})
	}
}

// TestModelNamedLikeTheKey: a model's name stands in every artifact, so one that
// repeats a key is not taken from the server's list.
func TestModelNamedLikeTheKey(t *testing.T) {
	t.Parallel()
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"data":[{"id":"%s"}]}`, inJSON(keysOf(r)))
	}))
	for _, more := range [][]string{nil, {"MODEL=tiny"}} {
		got := runSuite(t, small(server.URL, append(more, "API_KEY="+apiKey)...)...)
		assert.NotZero(t, got.exit)
		assert.Contains(t, got.output, "CAPACITY_MODEL")
		assert.NotZero(t, assertNoKeys(t, got, apiKey))
	}
}

// startKeyedHeld starts a cell with keys on a server that repeats them in the
// error bodies of the first requests and holds the later ones.
func startKeyedHeld(t *testing.T) *process {
	t.Helper()
	var mu sync.Mutex
	failed, inFlight := 0, 0
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"data":[{"id":"tiny"}]}`)
			return
		}
		mu.Lock()
		fail := failed < heldFrom
		if fail {
			failed++
		} else {
			inFlight++
		}
		mu.Unlock()
		if fail {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, "no room for %s", keysOf(r))
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see the client leave
		<-r.Context().Done()
	}))
	dir := suiteDir(t)
	p := start(t, suiteCommand(t, dir, heldCell(server.URL, "MODEL=tiny", "PREFLIGHT=off", "API_KEY="+apiKey, "HEADERS=X-Api-Key: "+headerKey)...), dir)
	await(t, "requests in flight", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return inFlight == heldConcurrency && journalRows(dir, "held-c4-ctx256-w4") == heldFrom
	})
	return p
}

// TestKeysInAnEndedRun looks into what is left of runs that do not come to their
// end: the partial artifact, the journal, and the dump of all stacks.
func TestKeysInAnEndedRun(t *testing.T) {
	for _, tt := range []struct {
		name   string
		signal syscall.Signal
		left   string // a file
		says   string
	}{
		{"interrupted", syscall.SIGINT, "held-c4-ctx256-w4.partial.json", "interrupted by interrupt"},
		{"killed", syscall.SIGKILL, "held-c4-ctx256-w4.journal", ""},
		{"stack_dump", syscall.SIGQUIT, "held-c4-ctx256-w4.journal", "goroutine "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := startKeyedHeld(t)
			p.signal(t, tt.signal)
			got := p.wait(t)
			assert.NotZero(t, got.exit)
			assert.Contains(t, got.output, tt.says)
			assert.Len(t, got.files(t, tt.left), 1)
			assert.GreaterOrEqual(t, assertNoKeys(t, got, apiKey, headerKey), 2*heldFrom, "two keys in each row")
		})
	}
}

// TestSecondHost: the key is for the one host that it was given for.
func TestSecondHost(t *testing.T) {
	second := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"tiny"}]}`)
	}))
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, preflight := range []string{"on", "off"} {
			t.Run(fmt.Sprintf("redirect_%d_preflight_%s", status, preflight), func(t *testing.T) {
				first := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, second.URL+strings.TrimPrefix(r.URL.Path, "/v1"), status)
				}))
				got := runSuite(t, small(first.URL, "MODEL=tiny", "PREFLIGHT="+preflight, "API_KEY="+apiKey)...)
				assert.NotZero(t, got.exit)
				assert.Contains(t, got.output, fmt.Sprint(status))
				assert.Contains(t, got.output, second.URL, "where it points is told")
				assert.NotZero(t, first.requests.Load())
				assertNoKeys(t, got, apiKey)
			})
		}
	}
	assert.Zero(t, second.requests.Load())
}

// TestProxyVariables would send everything, and the key with it, elsewhere. Go
// never uses a proxy for a loopback address, so the target has another name.
func TestProxyVariables(t *testing.T) {
	t.Parallel()
	proxy := serve(t, http.NotFoundHandler())
	ref := refTarget(t, fast())
	_, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(ref.URL, "http://"), "/v1"))
	require.NoError(t, err)
	dir := suiteDir(t)
	cmd := suiteCommand(t, dir, small("http://0.0.0.0:"+port+"/v1", "API_KEY="+apiKey)...)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		cmd.Env = append(cmd.Env, name+"="+strings.TrimSuffix(proxy.URL, "/v1"))
	}
	cmd.Env = append(cmd.Env, "NO_PROXY=", "no_proxy=")
	got := finish(t, cmd, dir)
	assert.Zero(t, got.exit, got.output)
	assert.NotZero(t, ref.completions.Load())
	assert.Zero(t, proxy.requests.Load())
	assertNoKeys(t, got, apiKey)
}

// refHandler is a reference server that something else listens for.
func refHandler(t *testing.T) http.Handler {
	t.Helper()
	server, err := refserver.New(fast())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	return server.Handler()
}

// openaiVariables are all that openai-go reads when it is asked to: they must
// pick no target, lend no key and add no header.
func openaiVariables(second string) map[string]string {
	return map[string]string{
		"OPENAI_BASE_URL":       second,
		"OPENAI_API_KEY":        "openai-canary-1-0123456789",
		"OPENAI_ADMIN_KEY":      "openai-canary-2-0123456789",
		"OPENAI_ORG_ID":         "openai-canary-3-0123456789",
		"OPENAI_PROJECT_ID":     "openai-canary-4-0123456789",
		"OPENAI_WEBHOOK_SECRET": "openai-canary-5-0123456789",
		"OPENAI_CUSTOM_HEADERS": "X-Canary: openai-canary-6-0123456789",
	}
}

func TestOpenAIVariables(t *testing.T) {
	for _, live := range []bool{true, false} {
		t.Run(map[bool]string{true: "live", false: "embedded"}[live], func(t *testing.T) {
			t.Parallel()
			second := serve(t, http.NotFoundHandler())
			var mu sync.Mutex
			var seen bytes.Buffer
			ref := refHandler(t)
			first := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				fmt.Fprintf(&seen, "%s %s\n%v\n%s\n", r.Method, r.URL, r.Header, body)
				mu.Unlock()
				r.Body = io.NopCloser(bytes.NewReader(body))
				ref.ServeHTTP(w, r)
			}))
			dir := suiteDir(t)
			vars := []string{"REQUESTS=4", "CONCURRENCY=2", "CONTEXT_TOKENS=256", "RESPONSE_WORDS=4", "MAX_TOKENS=64", "SELF_CHECK=off"}
			if live {
				vars = append(vars, "BASE_URL="+first.URL)
			}
			cmd := suiteCommand(t, dir, vars...)
			for name, text := range openaiVariables(second.URL) {
				cmd.Env = append(cmd.Env, name+"="+text)
			}
			got := finish(t, cmd, dir)
			require.Zero(t, got.exit, got.output)
			assert.Zero(t, second.requests.Load())
			assert.NotContains(t, got.output, "openai-canary")
			assertNoKeys(t, got, "openai-canary")
			mu.Lock()
			defer mu.Unlock()
			assert.Equal(t, live, seen.Len() > 0)
			assert.NotContains(t, seen.String(), "openai-canary")
			assert.NotContains(t, seen.String(), "Authorization", "no key was given for this host")
		})
	}
}

// TestTLS verifies the server's certificate: with the system's authorities, or
// those of CAPACITY_CA_FILE in their place. There is no way to switch it off: a
// server whose authority is not known to the system is named by its own file, as
// loudly as a switch and without one.
func TestTLS(t *testing.T) {
	ca, caFile := newAuthority(t)
	for _, tt := range []struct {
		name   string
		host   string // of the certificate
		vars   []string
		says   string // "" for a pass
		reason string
	}{
		{"private_ca", "127.0.0.1", []string{"CA_FILE=" + caFile}, "", ""},
		{"unknown_authority", "127.0.0.1", nil, "certificate signed by unknown authority", "the system does not know it"},
		{"another_name", "other.example", []string{"CA_FILE=" + caFile}, "certificate", "a right certificate of the wrong host"},
	} {
		for _, preflight := range []string{"on", "off"} {
			t.Run(tt.name+"_preflight_"+preflight, func(t *testing.T) {
				t.Parallel()
				server := ca.serve(t, tt.host)
				got := runSuite(t, small(server.URL, append(tt.vars, "MODEL=tiny", "PREFLIGHT="+preflight, "API_KEY="+apiKey)...)...)
				if tt.says == "" {
					assert.Zero(t, got.exit, got.output)
					assert.NotZero(t, server.completions.Load())
					return
				}
				assert.NotZero(t, got.exit, tt.reason)
				assert.Contains(t, got.output, tt.says)
				assert.Contains(t, got.output, "in the TLS handshake")
				assert.Zero(t, server.requests.Load(), "a server that is not verified gets nothing")
				assertNoKeys(t, got, apiKey)
				if preflight == "off" {
					n := one(t, got)
					require.Len(t, n.Failures, 4)
					assert.Equal(t, "tls", *n.Failures[0].FailureDetail)
				}
			})
		}
	}
	for _, v := range config.Variables() {
		for _, word := range []string{"INSECURE", "VERIFY", "SKIP"} {
			assert.NotContains(t, v.Name, word, "a switch-off would have to be tested for how loud it is")
		}
	}
}

// authority is a private certificate authority.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) (ca authority, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a private authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	return authority{cert, key}, file
}

// serve starts a reference server behind a certificate for a host.
func (ca authority) serve(t *testing.T, host string) *target {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	require.NoError(t, err)
	ref, tg := refHandler(t), &target{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tg.requests.Add(1)
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			tg.completions.Add(1)
		}
		ref.ServeHTTP(w, r)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail are the point
	server.StartTLS()
	t.Cleanup(server.Close)
	tg.URL = server.URL + "/v1"
	return tg
}
