package workload

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestApportion(t *testing.T) {
	rows := []struct {
		name    string
		n       int
		weights []int
		want    []int
		why     string
	}{
		{"one part", 7, []int{3}, []int{7}, "all there is"},
		{"exact", 8, []int{3, 1}, []int{6, 2}, "8 is a multiple of 4: every quota is whole"},
		{"largest remainder", 10, []int{1, 1, 2}, []int{3, 2, 5}, "quotas 2.5, 2.5, 5: the one left goes to the earlier of two equal remainders"},
		{"remainders decide", 10, []int{5, 3, 1}, []int{6, 3, 1}, "quotas 5.56, 3.33, 1.11: the one left goes to .56"},
		{"fewer than parts", 2, []int{1, 1, 1}, []int{1, 1, 0}, "quotas of 2/3: two of three, the earlier ones"},
		{"rare part", 4, []int{99, 1}, []int{4, 0}, "a share of 0.04 is none of 4"},
		{"largest numbers", MaxRequests, []int{MaxWeight, MaxWeight, 1}, []int{5000, 5000, 0}, "no overflow at the limits"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.want, apportion(row.n, partsOf(row.weights)), row.why)
		})
	}
}

func partsOf(weights []int) []Part {
	parts := make([]Part, len(weights))
	for k, w := range weights {
		parts[k] = Part{Tokens: 64 * (k + 1), Weight: w}
	}
	return parts
}

// Whatever the weights, the counts add up and each is within one of its exact
// share.
func TestApportionIsFair(t *testing.T) {
	r := random{state: 1}
	tried := 0
	for range 2000 {
		weights := make([]int, 1+r.below(12))
		total := 0
		for k := range weights {
			weights[k] = 1 + r.below(50)
			total += weights[k]
		}
		n := 1 + r.below(500)
		sum := 0
		for k, got := range apportion(n, partsOf(weights)) {
			sum += got
			share := n * weights[k] // in units of 1/total
			require.Less(t, got*total-share, total, "%d of %v", n, weights)
			require.Less(t, share-got*total, total, "%d of %v", n, weights)
		}
		require.Equal(t, n, sum, "%d of %v", n, weights)
		tried++
	}
	require.Equal(t, 2000, tried)
}

func TestShuffle(t *testing.T) {
	sorted := make([]int32, 1000)
	for k := range sorted {
		sorted[k] = int32(k)
	}
	a, b := slices.Clone(sorted), slices.Clone(sorted)
	shuffle(a, 1)
	shuffle(b, 2)
	assert.NotEqual(t, a, b, "another key, another order")
	moved := 0
	for k, v := range a {
		if int(v) != k {
			moved++
		}
	}
	assert.Greater(t, moved, 980, "one in a thousand stays where it was")
	slices.Sort(a)
	assert.Equal(t, sorted, a, "nothing is lost")
}

// Each of 4 elements comes to each of 4 places in a quarter of the shuffles:
// 10,000 each of 40,000, with a standard deviation of 87.
func TestShuffleIsEven(t *testing.T) {
	var seen [4][4]int
	for key := range 40_000 {
		sizes := []int32{0, 1, 2, 3}
		shuffle(sizes, mix(uint64(key)))
		for place, v := range sizes {
			seen[v][place]++
		}
	}
	for v := range seen {
		for place, n := range seen[v] {
			assert.InDelta(t, 10_000, n, 450, "element %d at %d", v, place)
		}
	}
}

// The first outputs of SplitMix64 with state 0, as its authors' C code and the
// JDK's SplittableRandom give them.
func TestRandomIsSplitMix64(t *testing.T) {
	var r random
	for _, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f, 0xf88bb8a8724c81ec} {
		assert.Equal(t, want, r.next())
	}
}
