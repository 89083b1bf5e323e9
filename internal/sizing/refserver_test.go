package sizing

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/client"
	"anvil-capacity/internal/refserver"
	"anvil-capacity/internal/workload"
)

// On real sockets, with the real client, against a server with a prefix cache:
// the asked size is what the server bills the cell, and none of it is cached.
func TestAgainstTheReferenceServer(t *testing.T) {
	for _, row := range []struct {
		name     string
		tokenize bool
		method   string
		shared   bool
	}{
		{"tokenize", true, artifact.SizedByTokenizer, false},
		{"usage", false, artifact.SizedByUsage, false},
		{"tokenize shared", true, artifact.SizedByTokenizer, true},
		{"usage shared", false, artifact.SizedByUsage, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			ref, err := refserver.New(refserver.Options{Model: "m", Tokenize: row.tokenize, PrefixCache: true, APIKey: "k", ReasoningTokens: 3})
			require.NoError(t, err)
			server := httptest.NewServer(ref.Handler())
			defer server.Close()
			c, err := client.New(client.Options{BaseURL: server.URL + "/v1", APIKey: "k", Concurrency: 4, Timeout: 10 * time.Second, StallTimeout: 10 * time.Second})
			require.NoError(t, err)
			defer c.Close()

			params := client.Params{Model: "m", MaxTokens: 64}
			s, err := New(Options{Server: c, BaseURL: server.URL + "/v1", Params: params, Concurrency: 4})
			require.NoError(t, err)
			cell := spec(6, 2048)
			if row.shared {
				cell.Shared, cell.SharedPrefixTokens = true, 1024
			}
			plan, sizing, err := s.Size(t.Context(), planOf(t, cell))
			require.NoError(t, err)
			assert.Equal(t, row.method, sizing.Method)
			assert.True(t, sizing.Checked)

			template, err := client.NewTemplate(params)
			require.NoError(t, err)
			for i := range plan.Len() {
				seen := c.Complete(t.Context(), template.Append(nil, plan.AppendPrompt(nil, i)))
				require.Nil(t, seen.Failure)
				assert.InEpsilon(t, 2048, *seen.Tokens.Prompt, Tolerance, "request %d", i)
				switch {
				case !row.shared || i == 0:
					assert.Zero(t, *seen.Tokens.Cached, "request %d: sizing has warmed nothing of the cell", i)
				default:
					assert.InDelta(t, 1024, *seen.Tokens.Cached, refserver.PrefixBlockTokens+1, "request %d: the shared prefix, in real tokens", i)
				}
			}
		})
	}
}

// A model whose context is as large as the prompts takes them all.
func TestFullContext(t *testing.T) {
	const context, answer = 4096, 64
	for _, tokenize := range []bool{true, false} {
		ref, err := refserver.New(refserver.Options{Model: "m", Tokenize: tokenize, MaxModelLen: context})
		require.NoError(t, err)
		server := httptest.NewServer(ref.Handler())
		defer server.Close()
		c, err := client.New(client.Options{BaseURL: server.URL + "/v1", Concurrency: 4})
		require.NoError(t, err)
		defer c.Close()
		most, err := workload.PromptCap(context, answer, 0)
		require.NoError(t, err)
		params := client.Params{Model: "m", MaxTokens: answer}
		s, err := New(Options{Server: c, BaseURL: server.URL + "/v1", Params: params, MaxPromptTokens: most, Concurrency: 4})
		require.NoError(t, err)
		cell := spec(4, context)
		cell.MaxPromptTokens = most
		plan, sizing, err := s.Size(t.Context(), planOf(t, cell))
		require.NoError(t, err)
		assert.Equal(t, most, sizing.Sizes[0].AskedTokens, "cut to what the model takes")
		template, err := client.NewTemplate(params)
		require.NoError(t, err)
		seen := c.Complete(t.Context(), template.Append(nil, plan.AppendPrompt(nil, 0)))
		require.Nil(t, seen.Failure, "prompt and answer fit")
		assert.LessOrEqual(t, *seen.Tokens.Prompt, most)
		assert.InEpsilon(t, most, *seen.Tokens.Prompt, Tolerance)
	}
}
