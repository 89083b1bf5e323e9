package stats

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/record"
)

func TestPopulation(t *testing.T) {
	records := append(answers(3), failed(3))
	records[0].Tokens.Output = nil
	got := Population(records, 5)
	assert.Equal(t, 4, got.AttemptedRequests, "the fifth was planned and never sent")
	assert.Equal(t, 3, got.SuccessfulRequests)
	assert.Equal(t, 3, got.PerformanceEligibleRequests)
	assert.Equal(t, 1, got.ExcludedRequests)
	assert.False(t, got.AggregateThroughputEligible)
	assert.Equal(t, 3, got.P99SamplesByMetric["ttft"])
	assert.Equal(t, 2, got.P99SamplesByMetric["tpot"], "one has no usage")
	assert.Len(t, got.P99SamplesByMetric, len(Names()))
	assert.Len(t, got.P99InterpretationByMetric, len(Names()))
}

// TestPopulationKeys: the keys of PROTOCOL section 5, no more and no fewer.
func TestPopulationKeys(t *testing.T) {
	data, err := json.Marshal(Population(answers(1), 1))
	require.NoError(t, err)
	var object map[string]any
	require.NoError(t, json.Unmarshal(data, &object))
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	assert.ElementsMatch(t, []string{
		"attempted_requests", "successful_requests", "performance_eligible_requests", "excluded_requests",
		"aggregate_throughput_eligible", "p99_minimum_recommended_samples", "p99_interpretation",
		"p99_samples_by_metric", "p99_interpretation_by_metric", "failure_policy",
	}, keys)
}

func TestPopulationThroughputEligible(t *testing.T) {
	noUsage := answers(4)
	noUsage[3].Tokens.Output = nil
	for _, tt := range []struct {
		name    string
		records []record.Record
		planned int
		want    bool
		why     string
	}{
		{"whole", answers(4), 4, true, "all completed, all from usage"},
		{"no usage", noUsage, 4, false, "one count is not from usage"},
		{"missing", answers(3), 4, false, "one was not sent"},
		{"nothing", nil, 0, false, "0 of 0 is not all"},
	} {
		assert.Equal(t, tt.want, Population(tt.records, tt.planned).AggregateThroughputEligible, "%s: %s", tt.name, tt.why)
		folded := Fold(tt.records, tt.planned, 2000)
		assert.Equal(t, tt.want, *folded.ThroughputPerformanceEligible, "%s: Fold must agree", tt.name)
	}
}

func TestP99Interpretation(t *testing.T) {
	for _, tt := range []struct {
		samples int
		want    string
		why     string
	}{
		{0, "descriptive-nearest-rank-only", "nothing to say of a tail"},
		{99, "descriptive-nearest-rank-only", "the p99 of 99 is the maximum"},
		{100, "tail-estimate", "with fewer than 100 it is only descriptive"},
		{101, "tail-estimate", "above"},
	} {
		assert.Equal(t, tt.want, P99Interpretation(tt.samples), "%d: %s", tt.samples, tt.why)
	}
	records := answers(100)
	records[7].Tokens = record.Tokens{}
	p := Population(records, 100)
	assert.Equal(t, P99TailEstimate, p.P99Interpretation, "100 eligible requests")
	assert.Equal(t, P99TailEstimate, p.P99InterpretationByMetric["e2e"])
	assert.Equal(t, P99Descriptive, p.P99InterpretationByMetric["tpot"], "99 of them have a TPOT")
}

func TestPerformanceEligible(t *testing.T) {
	for _, tt := range []struct {
		name    string
		records []record.Record
		planned int
		want    bool
		why     string
	}{
		{"all", answers(3), 3, true, "each completed once"},
		{"any order", []record.Record{answer(2), answer(0), answer(1)}, 3, true, "records end in any order"},
		{"failed", append(answers(2), failed(2)), 3, false, "one failed"},
		{"failed beside all", append(answers(3), failed(3)), 3, false, "more than planned"},
		{"twice", append(answers(2), answer(1)), 3, false, "index 2 is missing"},
		{"none of none", nil, 0, false, "nothing was planned"},
		{"negative plan", nil, -1, false, "nothing was planned"},
	} {
		assert.Equal(t, tt.want, PerformanceEligible(tt.records, tt.planned), "%s: %s", tt.name, tt.why)
	}
}
