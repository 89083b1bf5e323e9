package workload_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/workload"
)

// What a plan asks for and what the verdicts look for are two packages that do
// not import each other. Here they meet: an answer that obeys a prompt to the
// letter passes both verdicts, another request's fails, and prompts hold no
// marker that the verdicts take for another's.
func TestPlanAndVerdictsAgree(t *testing.T) {
	require.Equal(t, contract.MarkerPrefix, workload.MarkerPrefix)
	require.Equal(t, contract.Word, workload.Word)

	for _, seed := range []int{0, 7, 9223372036854775807} {
		for _, tokens := range []int{40, 400} {
			plan, err := workload.New(workload.Spec{
				Requests: 20, Parts: []workload.Part{{Tokens: tokens, Weight: 1}}, Seed: seed, Canaries: true, ResponseWords: 16,
			})
			require.NoError(t, err)
			for i := range plan.Len() {
				prompt := string(plan.AppendPrompt(nil, i))
				marker := plan.Request(i).Marker
				assert.Zero(t, contract.JudgeCanary(prompt, true, marker, plan.Owner).ForeignMarkerCount)

				ins, ok := workload.ParseInstructions(prompt)
				require.True(t, ok)
				answer := string(ins.AppendReply(nil, ""))
				assert.True(t, contract.JudgeCanary(answer, true, marker, plan.Owner).Passed)
				assert.True(t, contract.JudgeWords(answer, true, marker, 16, contract.Strict).Passed)

				other := (i + 1) % plan.Len()
				swapped := contract.JudgeCanary(answer, true, plan.Request(other).Marker, plan.Owner)
				assert.False(t, swapped.Passed)
				assert.Equal(t, []int{i}, swapped.LeakedFrom)
			}
		}
	}
}
