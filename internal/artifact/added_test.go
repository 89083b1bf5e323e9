package artifact

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/stats"
)

// An artifact of another implementation, or of an older suite, has no key that
// this suite added to the metrics; a wrong one is a contradiction all the same.
func TestAddedMetricsMayBeMissing(t *testing.T) {
	rows := []struct {
		name   string
		change func(metrics map[string]any)
		valid  bool
	}{
		{"as written", func(map[string]any) {}, true},
		{"without the added key", func(m map[string]any) { delete(m, "prefix_cache_hit_rate") }, true},
		{"with a wrong one", func(m map[string]any) { m["prefix_cache_hit_rate"] = 0.5 }, false},
		{"without one of the protocol", func(m map[string]any) { delete(m, "prefix_cache_hit_avg") }, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			n := Build(smallRun(3))
			written, err := json.Marshal(n.Metrics)
			require.NoError(t, err)
			var metrics map[string]any
			require.NoError(t, json.Unmarshal(written, &metrics))
			require.Contains(t, metrics, "prefix_cache_hit_rate")
			row.change(metrics)
			changed, err := json.Marshal(metrics)
			require.NoError(t, err)
			n.Metrics = new(stats.Metrics)
			require.NoError(t, json.Unmarshal(changed, n.Metrics))
			err = n.Validate()
			if row.valid {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, "metrics.prefix_cache_hit")
		})
	}
}
