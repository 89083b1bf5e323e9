package refserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// chatRequest is what the server reads of a chat completion request; it
// ignores every other key.
type chatRequest struct {
	Model               string    `json:"model"`
	Messages            []message `json:"messages"`
	Stream              bool      `json:"stream"`
	MaxTokens           *int      `json:"max_tokens"`
	MaxCompletionTokens *int      `json:"max_completion_tokens"`
	ReasoningEffort     string    `json:"reasoning_effort"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	ChatTemplateKwargs struct {
		EnableThinking *bool `json:"enable_thinking"`
	} `json:"chat_template_kwargs"`
}

type message struct {
	Content messageText `json:"content"`
}

// messageText is a message's content: a string, or the text of an array's text parts.
type messageText string

func (m *messageText) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '[' {
		var parts []struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(raw, &parts); err != nil {
			return err
		}
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(p.Text)
		}
		*m = messageText(b.String())
		return nil
	}
	return json.Unmarshal(raw, (*string)(m))
}

// prompt joins the texts of all messages.
func (r *chatRequest) prompt() string {
	if len(r.Messages) == 1 {
		return string(r.Messages[0].Content)
	}
	texts := make([]string, len(r.Messages))
	for i, m := range r.Messages {
		texts[i] = string(m.Content)
	}
	return strings.Join(texts, "\n")
}

// maxTokens is the asked limit of the answer, nil where none was asked.
func (r *chatRequest) maxTokens() *int {
	if r.MaxCompletionTokens != nil {
		return r.MaxCompletionTokens
	}
	return r.MaxTokens
}

func (r *chatRequest) wantsReasoning() bool {
	think := r.ChatTemplateKwargs.EnableThinking
	return (think == nil || *think) && r.ReasoningEffort != "none"
}

// refusal is an answer in place of a completion: an HTTP status and OpenAI's
// error object.
type refusal struct {
	status  int
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s", r.status, r.Message) }

// refuse makes a refusal; param and code are null where "".
func refuse(status int, param, code, format string, args ...any) *refusal {
	r := &refusal{status: status, Message: fmt.Sprintf(format, args...), Type: "invalid_request_error"}
	if status >= http.StatusInternalServerError {
		r.Type = "server_error"
	}
	if param != "" {
		r.Param = &param
	}
	if code != "" {
		r.Code = &code
	}
	return r
}

// object is the refusal as {"error": {...}}.
func (r *refusal) object() []byte {
	b, err := json.Marshal(map[string]*refusal{"error": r})
	if err != nil { // strings always marshal
		return []byte(`{"error":{"message":"refserver: internal error"}}`)
	}
	return b
}

func (r *refusal) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	_, _ = w.Write(append(r.object(), '\n')) // a client that has left does not need it
}

// readBody reads a request body whole.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.bodyLimit))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, refuse(http.StatusRequestEntityTooLarge, "", "", "the request body is larger than %d bytes", s.bodyLimit)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "", "", "reading the request body: %v", err)
	}
	return body, nil
}

func decodeJSON(body []byte, into any) *refusal {
	if err := json.Unmarshal(body, into); err != nil {
		return refuse(http.StatusBadRequest, "", "invalid_json", "We could not parse the JSON body of your request: %v", err)
	}
	return nil
}

func (s *Server) unknownModel(name string) *refusal {
	return refuse(http.StatusNotFound, "model", "model_not_found", "The model `%s` does not exist. This server has `%s`.", name, s.opts.Model)
}

// readChat reads and checks a request body.
func (s *Server) readChat(w http.ResponseWriter, r *http.Request) (*chatRequest, *refusal) {
	body, refused := s.readBody(w, r)
	if refused != nil {
		return nil, refused
	}
	var req chatRequest
	if refused := decodeJSON(body, &req); refused != nil {
		return nil, refused
	}
	if refused := s.rejectedParam(body); refused != nil {
		return nil, refused
	}
	if req.Model != s.opts.Model {
		return nil, s.unknownModel(req.Model)
	}
	if len(req.Messages) == 0 {
		return nil, refuse(http.StatusBadRequest, "messages", "", "Missing required parameter: 'messages'.")
	}
	if n := req.maxTokens(); n != nil && *n < 1 {
		return nil, refuse(http.StatusBadRequest, "max_tokens", "", "max_tokens must be at least 1, got %d.", *n)
	}
	return &req, nil
}

// rejectedParam refuses a body that has one of Options.RejectParams.
func (s *Server) rejectedParam(body []byte) *refusal {
	if len(s.opts.RejectParams) == 0 {
		return nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(body, &keys); err != nil {
		return refuse(http.StatusBadRequest, "", "invalid_json", "We could not parse the JSON body of your request: %v", err)
	}
	for _, name := range slices.Sorted(slices.Values(s.opts.RejectParams)) {
		if _, sent := keys[name]; !sent {
			continue
		}
		if name == "max_tokens" {
			return refuse(http.StatusBadRequest, name, "unsupported_parameter",
				"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
		}
		return refuse(http.StatusBadRequest, name, "unknown_parameter", "Unknown parameter: '%s'.", name)
	}
	return nil
}

// room gives the largest answer that fits behind a prompt, or refuses what does not.
func (s *Server) room(req *chatRequest, promptTokens int) (int, *refusal) {
	limit, asked := MaxOutputTokens, 1
	if n := req.maxTokens(); n != nil {
		limit, asked = min(limit, *n), *n
	}
	context := s.opts.MaxModelLen
	if context == 0 {
		return limit, nil
	}
	if promptTokens > context-asked { // asked may be as large as an int: no sum
		return 0, refuse(http.StatusBadRequest, "messages", "context_length_exceeded",
			"This model's maximum context length is %d tokens (max_model_len). However, you requested %d tokens in the messages and %d in the completion. Please reduce the length of the messages or completion.",
			context, promptTokens, asked)
	}
	return min(limit, context-promptTokens), nil
}
