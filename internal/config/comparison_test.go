package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestComparisonFaults holds the settings of a comparison to one clear fault each.
func TestComparisonFaults(t *testing.T) {
	earlier := writeFile(t, "{}")
	for _, tt := range []struct {
		name, why string
		set       []string
		want      []string
	}{
		{"margin without a metric", "5% of what", []string{"BASELINE=" + earlier, "MAX_REGRESSION=5%"}, []string{"CAPACITY_MAX_REGRESSION", "METRIC=PERCENT", "ttft=5%"}},
		{"margin without a percent sign", "0.05 and 5 would both be believed", []string{"BASELINE=" + earlier, "MAX_REGRESSION=ttft=5"}, []string{"with its % sign", "ttft=5%"}},
		{"margin of all", "a rate that may fall by 100 % gates nothing", []string{"BASELINE=" + earlier, "MAX_REGRESSION=throughput=100%"}, []string{"below 100%"}},
		{"margin twice", "which of them", []string{"BASELINE=" + earlier, "MAX_REGRESSION=ttft=5%,ttft=6%"}, []string{"each metric once"}},
		{"margins and no baseline", "nothing would be compared", []string{"MAX_REGRESSION=ttft=5%"}, []string{"CAPACITY_MAX_REGRESSION", "CAPACITY_BASELINE"}},
		{"allowance and no baseline", "likewise", []string{"BASELINE_ALLOW=thinking"}, []string{"CAPACITY_BASELINE_ALLOW", "CAPACITY_BASELINE"}},
		{"allowance with a typo", "it would allow nothing", []string{"BASELINE=" + earlier, "BASELINE_ALLOW=thinkin"}, []string{"thinkin", "did you mean thinking"}},
		{"baseline that is not there", "found before the first request", []string{"BASELINE=/nonexistent/a.json"}, []string{"CAPACITY_BASELINE", "/nonexistent/a.json"}},
		{"baseline twice", "a run is no repeat of itself", []string{"BASELINE=" + earlier + "," + earlier}, []string{"each file once"}},
		{"confidence of a coin", "50% is no confidence", []string{"CONFIDENCE=50%"}, []string{"CAPACITY_CONFIDENCE", "above 50%"}},
		{"confidence of certainty", "no sample gives it", []string{"CONFIDENCE=100%"}, []string{"99.99%"}},
		{"bound without a confidence", "@ and nothing", []string{"THRESHOLDS=ttft_p95_ms<=2000@"}, []string{"a confidence after @"}},
		{"metrics with / in a password", "the rest of it would be a path that is kept", []string{"METRICS_URL=http://user/hunter2@h/metrics"}, []string{"CAPACITY_METRICS_URL", "http://localhost:8000/metrics"}},
		{"metrics with a password", "it must not be repeated", []string{"METRICS_URL=http://user:hunter2@h/metrics"}, []string{"CAPACITY_METRICS_URL", "http://localhost:8000/metrics"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(environment(tt.set), nil)
			if !assert.Error(t, err, tt.why) {
				return
			}
			for _, want := range tt.want {
				assert.Contains(t, err.Error(), want, tt.why)
			}
			assert.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func TestThresholdBound(t *testing.T) {
	s := mustLoad(t, nil, "THRESHOLDS=ttft_p95_ms<=2000@95%, e2e_p50_ms<5")
	assert.Equal(t, []Threshold{
		{"ttft_p95_ms", "<=", 2000, "ttft_p95_ms<=2000@95%", 0.95},
		{"e2e_p50_ms", "<", 5, "e2e_p50_ms<5", 0},
	}, s.Thresholds)
}
