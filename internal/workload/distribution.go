package workload

import (
	"cmp"
	"slices"
)

// apportion shares n requests out to parts by weight, with the method of the
// largest remainder: each part has its whole quota, and what is left goes one
// by one to the largest remainders, the earlier part first where two are
// equal. The counts add up to n and none is off its exact share by one or
// more. The arithmetic is in whole numbers, so it is the same on every machine.
func apportion(n int, parts []Part) []int {
	total := int64(0)
	for _, p := range parts {
		total += int64(p.Weight)
	}
	counts := make([]int, len(parts))
	order := make([]int, len(parts))
	remainder := make([]int64, len(parts))
	left := n
	for k, p := range parts {
		share := int64(n) * int64(p.Weight)
		counts[k] = int(share / total)
		remainder[k] = share % total
		order[k] = k
		left -= counts[k]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(remainder[b], remainder[a]) })
	for _, k := range order[:left] {
		counts[k]++
	}
	return counts
}

// shuffle puts the requests of all parts in an order that the key decides
// (Fisher and Yates).
func shuffle(sizes []int32, key uint64) {
	r := random{state: key}
	for k := len(sizes) - 1; k > 0; k-- {
		j := r.below(k + 1)
		sizes[k], sizes[j] = sizes[j], sizes[k]
	}
}
