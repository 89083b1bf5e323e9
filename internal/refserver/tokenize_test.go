package refserver

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func postTokenize(t *testing.T, o Options, body string) (status int, reply string) {
	t.Helper()
	s, err := New(o)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/tokenize", strings.NewReader(body)))
	raw, err := io.ReadAll(w.Result().Body)
	require.NoError(t, err)
	return w.Code, string(raw)
}

func TestTokenize(t *testing.T) {
	on := Options{Model: "m", MaxModelLen: 4096, Tokenize: true, APIKey: "k"}
	rows := []struct {
		name, body string
		status     int
		want, why  string
	}{
		{"prompt", `{"model":"m","prompt":"123456789"}`, 200, `{"count":3,"max_model_len":4096,"tokens":[0,1,2],"token_strs":null}`, "nine characters of four a token"},
		{"messages", `{"model":"m","messages":[{"role":"user","content":"1234"}]}`, 200, `{"count":1,"max_model_len":4096,"tokens":[0],"token_strs":null}`, "what usage counts"},
		{"no model", `{"prompt":"1"}`, 200, `{"count":1,"max_model_len":4096,"tokens":[0],"token_strs":null}`, "vLLM has one by default"},
		{"empty prompt", `{"model":"m","prompt":""}`, 200, `{"count":0,"max_model_len":4096,"tokens":[],"token_strs":null}`, "none"},
		{"other model", `{"model":"n","prompt":"1"}`, 404, "model_not_found", ""},
		{"neither", `{"model":"m"}`, 400, "Either prompt or messages is required.", ""},
		{"broken", `{"model":`, 400, "invalid_json", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			status, got := postTokenize(t, on, row.body)
			assert.Equal(t, row.status, status, row.why)
			if row.status == http.StatusOK {
				assert.JSONEq(t, row.want, got, row.why)
				return
			}
			assert.Contains(t, got, row.want)
		})
	}
	status, _ := postTokenize(t, Options{Model: "m"}, `{"model":"m","prompt":"1"}`)
	assert.Equal(t, http.StatusNotFound, status, "off by default")
}
