package selfcheck

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"anvil-capacity/internal/artifact"
)

func TestFindings(t *testing.T) {
	spread := func(p99 float64) artifact.ErrorSpread { return artifact.ErrorSpread{Samples: 100, P99MS: &p99} }
	check := func(ttfo float64) *artifact.SelfCheck { return &artifact.SelfCheck{TTFO: spread(ttfo)} }
	for _, tt := range []struct {
		name     string
		check    *artifact.SelfCheck
		during   *artifact.ClientUsage
		medianMS float64
		want     string // "" wants nothing found
		why      string
	}{
		{"nothing_measured", nil, nil, 100, "", "what was not measured is not found fault with"},
		{"at_the_share", check(20), nil, 2000, "", "1 % of 2,000 ms is 20 ms, and the limit itself is allowed"},
		{"above_the_share", check(20.001), nil, 2000, "own error of TTFO is 20.001 ms, limit 20.000 ms", "one microsecond more"},
		{"at_the_floor", check(1), nil, 3, "", "1 % of 3 ms would be 0.03 ms, finer than any timer"},
		{"above_the_floor", check(1.001), nil, 3, "limit 1.000 ms", "the floor is a limit too"},
		{"first_wave_apart", &artifact.SelfCheck{TTFO: spread(50), Rest: &artifact.SelfCheckRest{TTFO: spread(1)}}, nil, 100, "", "the lock-step start is reported and not judged"},
		{"rest_too_large", &artifact.SelfCheck{TTFO: spread(1), Rest: &artifact.SelfCheckRest{TTFO: spread(50)}}, nil, 100, "TTFO", "what follows the first wave is"},
		{"cpu_at_the_limit", nil, &artifact.ClientUsage{CPUShare: 0.9, CPUs: 2}, 100, "", "90 % is allowed"},
		{"short_of_cpu", nil, &artifact.ClientUsage{CPUShare: 0.91, CPUs: 2}, 100, "91 % of its 2 processors", "it was itself the bottleneck"},
		{"scheduled_late", nil, &artifact.ClientUsage{SchedP99MS: new(1.5)}, 100, "scheduling latency", "1.5 ms against a limit of 1 ms"},
		{"scheduled_in_time", nil, &artifact.ClientUsage{SchedP99MS: new(1.5)}, 150, "", "1 % of 150 ms is 1.5 ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(Findings(tt.check, tt.during, Measured{TTFOMS: &tt.medianMS}), "\n")
			if tt.want == "" {
				assert.Empty(t, got, tt.why)
				return
			}
			assert.Contains(t, got, tt.want, tt.why)
		})
	}
}
