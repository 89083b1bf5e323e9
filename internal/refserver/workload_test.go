package refserver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/workload"
)

// The suite's own prompts are obeyed, word for word.
func TestPromptsOfThePlanAreObeyed(t *testing.T) {
	part := []workload.Part{{Tokens: 512, Weight: 1}}
	small := []workload.Part{{Tokens: 32, Weight: 1}}
	for _, row := range []struct {
		name string
		spec workload.Spec
	}{
		{"marker and words", workload.Spec{Requests: 3, Parts: part, Seed: 7, Canaries: true, ResponseWords: 16}},
		{"marker", workload.Spec{Requests: 3, Parts: part, Seed: 7, Canaries: true}},
		{"words", workload.Spec{Requests: 3, Parts: part, Seed: 7, ResponseWords: 300}},
		{"neither", workload.Spec{Requests: 3, Parts: part, Seed: 7}},
		{"compact", workload.Spec{Requests: 3, Parts: small, Seed: 7, Canaries: true, ResponseWords: 4}},
	} {
		t.Run(row.name, func(t *testing.T) {
			plan, err := workload.New(row.spec)
			require.NoError(t, err)
			inBubble(t, Options{}, func(t *testing.T, r *rig) {
				r.instructionsOf = readInstructions
				for i := range plan.Len() {
					p := string(plan.AppendPrompt(nil, i))
					in, ok := workload.ParseInstructions(p)
					require.True(t, ok)
					assert.Equal(t, string(in.AppendReply(nil, plainAnswer)), r.ask(p).text())
					e := r.Log()[i]
					assert.Equal(t, plan.Request(i).Marker, e.Marker)
					assert.Equal(t, i, e.Index)
				}
			})
		})
	}
}

func TestOtherMarkersAreTheWorkloads(t *testing.T) {
	for _, index := range []int{0, 9, 99_999} {
		assert.Equal(t, workload.Marker(7, index), otherMarker(workload.Marker(7, 3), func(int) int { return index }))
	}
	i, ok := markerIndex(workload.Marker(123, 45))
	assert.True(t, ok)
	assert.Equal(t, 45, i)
	for _, bad := range []string{"", "x", "ANVIL_REQ_7_", "ANVIL_REQ_7_x", "ANVIL_REQ_7_99999999999"} {
		_, ok := markerIndex(bad)
		assert.False(t, ok, bad)
		assert.Equal(t, bad, otherMarker(bad, pairOf), "stays as it is")
	}
}
