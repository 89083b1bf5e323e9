package client

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/config"
	"anvil-capacity/internal/record"
)

func TestPost(t *testing.T) {
	c, s := scripted(t, func(o *Options) {
		o.APIKey = "secret-key"
		o.Headers = []config.Header{{Name: "X-Tenant", Value: "t1"}}
	})
	s.answer(true, response("200 OK", "application/json", "", []byte(`{"count":3}`)))
	reply, err := c.Post(t.Context(), "http://scripted.test/tokenize", []byte(`{"prompt":"a"}`))
	require.NoError(t, err)
	assert.Equal(t, `{"count":3}`, string(reply))
	require.Len(t, s.got, 1)
	got := s.got[0]
	assert.Equal(t, "POST /tokenize", got.Method+" "+got.URL.String())
	assert.Equal(t, "scripted.test", got.Host)
	assert.Equal(t, `{"prompt":"a"}`, string(s.bodies[0]))
	for name, want := range map[string]string{
		"Authorization": "Bearer secret-key", "X-Tenant": "t1", "Content-Type": "application/json",
		"Accept": "application/json", "Accept-Encoding": "identity",
	} {
		assert.Equal(t, want, got.Header.Get(name), name)
	}

	s.answer(true, response("200 OK", "text/event-stream", "", nil))
	c.Complete(t.Context(), []byte(`{}`))
	assert.Equal(t, "/v1/chat/completions", s.got[1].URL.String(), "the next completion goes where completions go")
	assert.Equal(t, "text/event-stream", s.got[1].Header.Get("Accept"))
}

// The key is for one host.
func TestPostStaysOnItsHost(t *testing.T) {
	c, s := scripted(t, func(o *Options) { o.APIKey = "secret-key" })
	for _, row := range []struct{ target, want string }{
		{"http://other.test/tokenize", `posting to "other.test": it is not on the host of the base URL`},
		{"https://scripted.test/tokenize", "not on the host"},
		{"http://scripted.test:81/tokenize", "not on the host"},
		{"http://u:p@scripted.test/tokenize", "userinfo"},
		{"/tokenize", "not http:// or https:// and a host"},
	} {
		_, err := c.Post(t.Context(), row.target, nil)
		assert.ErrorContains(t, err, row.want, row.target)
	}
	assert.Zero(t, s.dials)
}

func TestPostFails(t *testing.T) {
	c, s := scripted(t)
	post := func(ctx context.Context) error {
		_, err := c.Post(ctx, "http://scripted.test/tokenize", []byte(`{}`))
		return err
	}
	s.answer(true, response("404 Not Found", "application/json", "", []byte(`{"detail":"Not Found"}`)))
	err := post(t.Context())
	assert.True(t, IsNotFound(err), "%v", err)
	s.answer(true, response("302 Found", "", "Location: http://other.test/tokenize\r\n", nil))
	var status *StatusError
	require.ErrorAs(t, post(t.Context()), &status, "a redirect is not followed")
	assert.Equal(t, http.StatusFound, status.Status)

	s.answer(true, response("200 OK", "application/json", "Content-Length: 100\r\n", []byte(`{"count":`)))
	var transport *TransportError
	require.ErrorAs(t, post(t.Context()), &transport)
	assert.Contains(t, transport.Error(), "in the middle of the reply of /tokenize")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorAs(t, post(ended), &transport)
	assert.Equal(t, record.Canceled, transport.Detail)
}

func TestPostLimit(t *testing.T) {
	for _, row := range []struct {
		bytes int
		ok    bool
	}{{ReplyBytes - 1, true}, {ReplyBytes, true}, {ReplyBytes + 1, false}} {
		c, s := scripted(t)
		s.answer(true, response("200 OK", "application/json", "", bytes.Repeat([]byte("x"), row.bytes)))
		reply, err := c.Post(t.Context(), "http://scripted.test/tokenize", nil)
		if row.ok {
			require.NoError(t, err)
			require.Len(t, reply, row.bytes)
			continue
		}
		require.ErrorContains(t, err, "more than 33554432 bytes")
		require.True(t, strings.HasPrefix(err.Error(), "reading the reply of /tokenize"))
	}
}
