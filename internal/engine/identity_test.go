package engine

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// answers serves texts by path and counts what is asked.
type answers struct {
	texts map[string]string
	asked atomic.Int32
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked.Add(1)
	text, ok := a.texts[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = io.WriteString(w, text)
}

func TestIdentity(t *testing.T) {
	props := fixture(t, "llamacpp-props.json")
	for _, row := range []struct {
		name  string
		texts map[string]string
		hint  string
		want  Identity
		asked int32
		why   string
	}{
		{"vLLM", map[string]string{"/version": fixture(t, "vllm-version.json")}, "vllm",
			Identity{Engine: new(VLLM), Version: new("0.30.0"), Details: map[string]string{}, From: "/version"}, 1, "the hint says whose version it is"},
		{"a version alone", map[string]string{"/version": `{"version": "1.3.0"}`}, "",
			Identity{Version: new("1.3.0"), Details: map[string]string{}, From: "/version"}, 5, "vLLM's and trtllm-serve's are alike"},
		{"trtllm-serve", map[string]string{"/version": `{"version": "1.3.0"}`}, TensorRT,
			Identity{Engine: new(TensorRT), Version: new("1.3.0"), Details: map[string]string{}, From: "/version"}, 1, ""},
		{"llama.cpp", map[string]string{"/props": props}, "llamacpp", Identity{Engine: new(LlamaCPP), Version: new("b0-unknown"), From: "/props", Details: map[string]string{
			"total_slots": "2", "n_ctx": "4096", "model_alias": "smollm2-135m-instruct", "model_ftype": "Q4_1",
			"chat_template_sha256": "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",
		}}, 1, "owned_by is spelled without the dot"},
		{"llama.cpp without a hint", map[string]string{"/props": `{"build_info": "b1-a", "total_slots": 4}`}, "",
			Identity{Engine: new(LlamaCPP), Version: new("b1-a"), From: "/props", Details: map[string]string{"total_slots": "4"}}, 1, "its shape says whose it is"},
		{"SGLang", map[string]string{"/server_info": fixture(t, "sglang-server-info.json")}, "sglang", Identity{Engine: new(SGLang), Version: new("0.5.21"), From: "/server_info", Details: map[string]string{
			"served_model_name": "glm", "context_length": "131072", "tp_size": "4", "dp_size": "1", "pp_size": "1", "dtype": "auto", "kv_cache_dtype": "fp8_e4m3",
			"page_size": "1", "mem_fraction_static": "0.86", "max_running_requests": "256", "max_total_num_tokens": "424000", "chunked_prefill_size": "8192",
			"disable_radix_cache": "false", "attention_backend": "fa3",
		}}, 1, "listed members alone: its keys are among the others"},
		{"an older SGLang", map[string]string{"/get_server_info": `{"model_path": "m", "version": "0.4.1"}`}, SGLang,
			Identity{Engine: new(SGLang), Version: new("0.4.1"), From: "/get_server_info", Details: map[string]string{}}, 2, ""},
		{"TGI", map[string]string{"/info": fixture(t, "tgi-info.json")}, "", Identity{Engine: new(TGI), Version: new("3.3.7"), From: "/info", Details: map[string]string{
			"model_id": "meta-llama/Llama-3.1-8B-Instruct", "model_sha": "0e9e39f249a16976918f6564b8830bc894c89659", "sha": "db931fcf",
			"max_concurrent_requests": "128", "max_input_tokens": "8191", "max_total_tokens": "8192",
		}}, 4, "null members are not kept"},
		{"another /info", map[string]string{"/info": `{"name": "my gateway"}`}, "", Identity{Details: map[string]string{}}, 5, "someone else's path"},
		{"HTML", map[string]string{"/version": "<html>", "/props": "<html>"}, "", Identity{Details: map[string]string{}}, 5, ""},
		{"a list", map[string]string{"/version": "[1]"}, "", Identity{Details: map[string]string{}}, 5, ""},
		{"a version that is no text", map[string]string{"/version": `{"version": {"major": 1}}`}, "", Identity{Details: map[string]string{}}, 5, ""},
		{"nothing, of a known engine", nil, "vllm", Identity{Engine: new(VLLM), Details: map[string]string{}}, 1, "what is known already is kept"},
		{"the embedded endpoint", nil, "refserver", Identity{Engine: new(RefServer), Details: map[string]string{}}, 0, "it has no such path"},
		{"an owner that is no engine", map[string]string{"/version": `{"version": "2"}`}, "my-company", Identity{Version: new("2"), Details: map[string]string{}, From: "/version"}, 5, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := &answers{texts: row.texts}
			s := serve(t, a.ServeHTTP)
			got := newReader(t, Options{BaseURL: s.URL + "/v1"}).Identify(t.Context(), row.hint)
			assert.Equal(t, &row.want, got, row.why)
			assert.Equal(t, row.asked, a.asked.Load())
			assert.NotContains(t, fmt.Sprint(got.Details), "secret")
		})
	}
}

func TestIdentityIsBounded(t *testing.T) {
	padded := func(n int) string {
		head := `{"version": "1", "pad": "`
		return head + strings.Repeat("x", n-len(head)-2) + `"}`
	}
	for _, row := range []struct {
		bytes int
		want  *string
	}{{IdentityBytes - 1, new("1")}, {IdentityBytes, new("1")}, {IdentityBytes + 1, nil}} {
		s := serve(t, (&answers{texts: map[string]string{"/version": padded(row.bytes)}}).ServeHTTP)
		assert.Equal(t, row.want, newReader(t, Options{BaseURL: s.URL + "/v1"}).Identify(t.Context(), VLLM).Version, "%d bytes", row.bytes)
	}
	for _, row := range []struct{ chars, want int }{{detailChars - 1, detailChars - 1}, {detailChars, detailChars}, {detailChars + 1, detailChars}} {
		s := serve(t, (&answers{texts: map[string]string{"/version": `{"version": "` + strings.Repeat("é", row.chars) + `"}`}}).ServeHTTP)
		got := newReader(t, Options{BaseURL: s.URL + "/v1"}).Identify(t.Context(), VLLM)
		assert.Equal(t, strings.Repeat("é", row.want), *got.Version)
	}
}

func TestIdentityOfASilentServer(t *testing.T) {
	inBubble(t, slowly(time.Hour, ""), func(t *testing.T, o Options) {
		began := time.Now()
		r := newReader(t, o)
		assert.Equal(t, &Identity{Details: map[string]string{}}, r.Identify(t.Context(), ""))
		assert.Equal(t, 5*IdentityTimeout, time.Since(began), "five questions")
		r.Close()
	})
	assert.Nil(t, newReader(t, Options{URL: "http://host/metrics"}).Identify(t.Context(), ""), "no base URL to ask beside")
}

func TestIdentitySendsTheKeyToTheBaseURL(t *testing.T) {
	var got atomic.Value
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, `{"version": "1"}`)
	})
	newReader(t, Options{BaseURL: s.URL + "/v1", URL: "http://elsewhere/metrics", APIKey: "sk-key"}).Identify(t.Context(), VLLM)
	assert.Equal(t, "Bearer sk-key", got.Load())
}
