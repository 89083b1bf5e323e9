package suite

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/config"
)

func settings(t *testing.T, vars ...string) config.Settings {
	t.Helper()
	env := make([]string, len(vars))
	for i, v := range vars {
		env[i] = "CAPACITY_" + v
	}
	s, err := config.Load(env, nil)
	require.NoError(t, err)
	return s
}

func TestTurns(t *testing.T) {
	for _, tt := range []struct {
		name string
		vars []string
		want string
		why  string
	}{
		{"one_run", nil, "c4:r1", "one cell, one run"},
		{"sequential", []string{"CONCURRENCY=1,2", "REPEATS=2"}, "c1:r1 c1:r2 c2:r1 c2:r2", "cell after cell"},
		{"interleaved", []string{"CONCURRENCY=1,2", "REPEATS=3", "ORDER=interleaved"}, "c1:r1 c2:r1 c2:r2 c1:r2 c1:r3 c2:r3", "there and back: a drift falls on both cells alike"},
		{"aa", []string{"REPEATS=3", "AA=on"}, "c4:a1 c4:b1 c4:b2 c4:a2 c4:a3 c4:b3", "both arms in turn"},
		{"aa_interleaved", []string{"CONCURRENCY=1,2", "AA=on", "ORDER=interleaved"}, "c1:a1 c2:a1 c2:b1 c1:b1", "arms and cells in turn"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, turn := range turns(settings(t, tt.vars...)) {
				cell, _, _ := strings.Cut(turn.Cell.Name, "-")
				got = append(got, cell+":"+turn.Name())
			}
			assert.Equal(t, tt.want, strings.Join(got, " "), tt.why)
		})
	}
}

// TestSeedsAreDistinct wants no prompt of a session sent twice, unless the user
// asked for the scout's seed.
func TestSeedsAreDistinct(t *testing.T) {
	for _, seed := range []string{"0", "2147483647"} {
		all := turns(settings(t, "REPEATS=20", "AA=on", "CONTEXT_SEED="+seed))
		require.Len(t, all, 40)
		seen := map[int]string{}
		for _, turn := range all {
			for what, s := range map[string]int{turn.Name(): turn.Seed, turn.Name() + "-scout": turn.ScoutSeed()} {
				assert.Empty(t, seen[s], "seed %d of %s", s, what)
				seen[s] = what
				assert.GreaterOrEqual(t, s, 0)
				assert.Less(t, s, 1<<31)
			}
		}
	}
}

func TestFirstRunHasTheCellsSeed(t *testing.T) {
	assert.Equal(t, 7, turns(settings(t, "REPEATS=3", "CONTEXT_SEED=7"))[0].Seed)
}
