package refserver

import (
	"encoding/json"
	"net/http"
)

// tokenizeRequest is vLLM's: a prompt, or messages under the chat template. This
// server's template adds nothing.
type tokenizeRequest struct {
	chatRequest
	Prompt *string `json:"prompt"`
}

// tokenize counts tokens as vLLM's POST /tokenize does: the count is what usage
// says of the same messages. Nothing is generated and no cache is warmed.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var req tokenizeRequest
	body, refused := s.readBody(w, r)
	if refused == nil {
		refused = decodeJSON(body, &req)
	}
	if refused != nil {
		refused.write(w)
		return
	}
	var text string
	switch {
	case req.Model != "" && req.Model != s.opts.Model:
		s.unknownModel(req.Model).write(w)
		return
	case req.Prompt != nil:
		text = *req.Prompt
	case len(req.Messages) > 0:
		text = req.prompt()
	default:
		refuse(http.StatusBadRequest, "", "", "Either prompt or messages is required.").write(w)
		return
	}
	tokens := make([]int, CountTokens(text))
	for i := range tokens {
		tokens[i] = i // a tokenizer that only counts has no better names for them
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // a client that has left does not need it
		"count": len(tokens), "max_model_len": s.opts.MaxModelLen, "tokens": tokens, "token_strs": nil,
	})
}
