package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Limits of the questions that [Reader.Identify] asks.
const (
	// IdentityBytes is the longest answer, in bytes, that is read: llama.cpp's
	// holds its chat template, SGLang's all its arguments.
	IdentityBytes = 1 << 20
	// IdentityTimeout bounds each question.
	IdentityTimeout = 2 * time.Second
	// detailChars bounds each text that is kept.
	detailChars = 200
)

// Identity is what a server says it is. Nil and absent are not known.
type Identity struct {
	// Engine is one of [Engines], nil when the answer fits several.
	Engine *string `json:"engine"`
	// Version is the engine's, as it writes it.
	Version *string `json:"version"`
	// Details are settings that bear on a measurement, such as the number of
	// slots, by the engine's own names; only listed ones are kept, because
	// SGLang's answer holds its API key. Never nil.
	Details map[string]string `json:"details"`
	// From is the path that gave the answer, "" when none did.
	From string `json:"from"`
}

// question is a path that some engine answers.
type question struct {
	engine string // "" is not told by the answer's shape
	path   string
	read   func(answer) (Identity, bool)
}

// fits says whether an engine answers the question.
func (q question) fits(engine string) bool {
	return q.engine == engine || q.engine == "" && (engine == VLLM || engine == TensorRT)
}

// answer is a JSON object.
type answer map[string]json.RawMessage

var questions = []question{
	{LlamaCPP, "/props", readProps},
	{SGLang, "/server_info", readServerInfo},
	{SGLang, "/get_server_info", readServerInfo}, // older
	{TGI, "/info", readInfo},
	{"", "/version", readVersion}, // vLLM and trtllm-serve, alike
}

// Identify asks the server what it is, at the paths beside the base URL that
// engines have for that. hint is what is known of it already: an engine's name,
// or owned_by of its models; "" asks everything. A server that says nothing is
// no error: nothing is known of it then. nil without a base URL.
func (r *Reader) Identify(ctx context.Context, hint string) *Identity {
	if r.base == nil {
		return nil
	}
	engine := engineOf(hint)
	nothing := &Identity{Engine: text(engine), Details: map[string]string{}}
	if engine == RefServer {
		return nothing // it has no such path
	}
	for _, q := range questions {
		if engine != "" && !q.fits(engine) {
			continue
		}
		id, ok := r.ask(ctx, q)
		if !ok {
			continue
		}
		if id.Engine == nil {
			id.Engine = text(engine)
		}
		return id
	}
	return nothing
}

// engineOf reads a hint.
func engineOf(hint string) string {
	switch h := strings.ToLower(hint); {
	case h == "llamacpp":
		return LlamaCPP
	case h == "tensorrt_llm", h == "trtllm":
		return TensorRT
	case slices.Contains(Engines(), h):
		return h
	}
	return ""
}

// ask asks one question; false is no answer that is one.
func (r *Reader) ask(ctx context.Context, q question) (*Identity, bool) {
	at, err := url.Parse(beside(r.options.BaseURL, q.path))
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, min(IdentityTimeout, r.timeout()))
	defer cancel()
	res, err := r.client.Do(r.request(ctx, at, "application/json"))
	if err != nil {
		return nil, false
	}
	defer func() { _ = res.Body.Close() }() // what was read is read
	if res.StatusCode != http.StatusOK {
		return nil, false
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, IdentityBytes+1))
	if err != nil || len(body) > IdentityBytes {
		return nil, false
	}
	var a answer
	if json.Unmarshal(bytes.TrimSpace(body), &a) != nil {
		return nil, false
	}
	id, ok := q.read(a)
	if !ok {
		return nil, false
	}
	id.From = q.path
	return &id, true
}

// text is a string, number or boolean of the answer, shortened; "" for none.
func (a answer) text(key string) string {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(a[key]))
	decoder.UseNumber() // 131072 is not 1.31072e+05
	if decoder.Decode(&v) != nil {
		return ""
	}
	switch v := v.(type) {
	case string:
		return shortened(v)
	case json.Number:
		return shortened(v.String())
	case bool:
		if v {
			return "true"
		}
		return "false"
	}
	return ""
}

func shortened(s string) string {
	runes := []rune(strings.ToValidUTF8(s, "\ufffd"))
	if len(runes) > detailChars {
		return string(runes[:detailChars])
	}
	return string(runes)
}

// object is a member that is an object itself, nil when it is not.
func (a answer) object(key string) answer {
	var inner answer
	if json.Unmarshal(a[key], &inner) != nil {
		return nil
	}
	return inner
}

// details keeps the listed members that the answer has.
func (a answer) details(keys ...string) map[string]string {
	kept := make(map[string]string)
	for _, key := range keys {
		if v := a.text(key); v != "" {
			kept[key] = v
		}
	}
	return kept
}

// readProps reads llama.cpp's /props. The chat template is pages long and
// decides what a prompt costs, so its hash is kept.
func readProps(a answer) (Identity, bool) {
	if a["build_info"] == nil && a["total_slots"] == nil {
		return Identity{}, false
	}
	details := a.details("total_slots", "model_alias", "model_ftype")
	if n := a.object("default_generation_settings").text("n_ctx"); n != "" {
		details["n_ctx"] = n
	}
	var template string
	if json.Unmarshal(a["chat_template"], &template) == nil && template != "" {
		hash := sha256.Sum256([]byte(template))
		details["chat_template_sha256"] = hex.EncodeToString(hash[:])
	}
	return Identity{Engine: text(LlamaCPP), Version: text(a.text("build_info")), Details: details}, true
}

// readServerInfo reads SGLang's arguments. api_key and admin_api_key are among
// them, so only listed ones are kept.
func readServerInfo(a answer) (Identity, bool) {
	if a["model_path"] == nil && a["tp_size"] == nil {
		return Identity{}, false
	}
	return Identity{Engine: text(SGLang), Version: text(a.text("version")), Details: a.details(
		"served_model_name", "context_length", "tp_size", "dp_size", "pp_size", "ep_size", "dtype", "quantization", "kv_cache_dtype", "page_size",
		"mem_fraction_static", "max_running_requests", "max_total_num_tokens", "chunked_prefill_size", "max_prefill_tokens",
		"schedule_policy", "disable_radix_cache", "disable_cuda_graph", "attention_backend", "speculative_algorithm",
	)}, true
}

// readInfo reads TGI's /info.
func readInfo(a answer) (Identity, bool) {
	if !strings.HasPrefix(a.text("router"), "text-generation") && a["max_total_tokens"] == nil {
		return Identity{}, false
	}
	return Identity{Engine: text(TGI), Version: text(a.text("version")), Details: a.details(
		"model_id", "model_sha", "sha", "docker_label", "max_concurrent_requests", "max_input_tokens", "max_total_tokens",
	)}, true
}

// readVersion reads the /version of vLLM and trtllm-serve.
func readVersion(a answer) (Identity, bool) {
	v := a.text("version")
	return Identity{Version: text(v), Details: map[string]string{}}, v != ""
}
