package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
)

func TestPrompts(t *testing.T) {
	sizing := &artifact.ContextSizing{
		Source: "/tokenize", Counts: 9, Completions: 2,
		Sizes:        []artifact.SizedContext{{AskedTokens: 256, EachRequest: true, Samples: 4, CharactersMin: 716, CharactersMax: 839, MeasuredTokens: 255.5, ErrorShare: -0.5 / 256}},
		SharedPrefix: &artifact.SizedPrefix{AskedTokens: 128, Characters: 500, EstimatedTokens: 128.4},
	}
	split := &artifact.CacheSplit{Basis: artifact.SplitByCachedTokens, Cold: artifact.CacheSide{N: 2, TTFTP50MS: new(80.04)}, Warm: artifact.CacheSide{N: 0}}
	for _, row := range []struct {
		name    string
		harness *artifact.Harness
		want    string
	}{
		{"nominal and unique", &artifact.Harness{}, ""},
		{"another implementation's", nil, ""},
		{"both", &artifact.Harness{ContextSizing: sizing, CacheSplit: split}, `prompts sized in the model's own tokens by /tokenize (9 counted, 2 requests for it)
256 tokens asked: 716 to 839 characters, 255.5 tokens measured (-0.20 %), each of 4 prompts by itself
shared prefix of 128 tokens asked: 500 characters, about 128 tokens
shared prefix: 2 cold requests with TTFT p50 80.0 ms, 0 warm ones with - (by cached_tokens)
`},
	} {
		t.Run(row.name, func(t *testing.T) {
			var b strings.Builder
			require.NoError(t, Prompts(&b, row.harness))
			assert.Equal(t, row.want, b.String())
		})
	}
}
