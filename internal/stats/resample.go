package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Block resampling of the requests of one run, in the order of their indexes.
//
// Requests that are close in the plan are close in time: they queue behind the
// same long prompt, sit in the same batch and meet the same state of the cache.
// A block keeps that together, and blocks of two waves of the closed loop or
// more are nearly independent of each other. The ring is closed, so every
// request is in as many blocks as any other (Politis and Romano 1992). Few
// blocks say little about their own variance: the caller takes Student's t with
// blocks-1 degrees of freedom, and divides by what the ring takes away,
// 1 - 1/blocks, as in batch means of steady-state simulation.

const (
	// minBlocks is how many blocks are wanted before they are made longer than one
	// wave; maxBlocks is from where on longer blocks are better than more of them.
	minBlocks = 5
	maxBlocks = 10
	// wavesPerBlock is how many waves of the closed loop a block holds where the
	// run is long enough.
	wavesPerBlock = 2
	// percentileDraws is how many times a percentile is resampled. The error of a
	// standard error from 300 draws is 4 %, well below that of ten blocks (24 %).
	percentileDraws = 300
)

// blockLength gives the length of a block and how many of them n requests make.
// Fewer than two waves make fewer than two blocks: nothing can be seen then.
func blockLength(n, concurrency int) (length, blocks int) {
	wave := max(concurrency, 1)
	wanted := max(wavesPerBlock*wave, int(math.Ceil(math.Sqrt(float64(n)))))
	blocks = min(n/wanted, maxBlocks)
	if blocks < minBlocks {
		blocks = min(minBlocks, n/wave)
	}
	if blocks < 1 {
		return n, 0
	}
	return n / blocks, blocks
}

// variance is that of the logarithm of the statistic.
func (s *sample) variance(length int) float64 {
	if s.percentile == 0 {
		return varianceOfMean(s.influence(), length)
	}
	r := newRanks(s.num)
	return varianceOf(drawLogs(s.len(), length, func(starts []int) float64 {
		return r.logPercentile(starts, length, s.percentile)
	}))
}

// pairedVariance is that of the difference of the logarithms, the same blocks
// being taken from both.
func pairedVariance(b, k *sample, length int) float64 {
	if b.percentile == 0 {
		zb, zk := b.influence(), k.influence()
		for i := range zk {
			zk[i] -= zb[i]
		}
		return varianceOfMean(zk, length)
	}
	rb, rk := newRanks(b.num), newRanks(k.num)
	return varianceOf(drawLogs(b.len(), length, func(starts []int) float64 {
		return rk.logPercentile(starts, length, b.percentile) - rb.logPercentile(starts, length, b.percentile)
	}))
}

// varianceOfMean is what infinitely many resamplings of blocks would give for
// the mean of z, in closed form; and not less than if the rows were independent,
// because a few blocks can agree by luck.
func varianceOfMean(z []float64, length int) float64 {
	n := len(z)
	mean := meanOf(z)
	sum, squares := 0.0, make([]float64, n)
	for i := range length {
		sum += z[i%n] - mean
	}
	for i := range n {
		squares[i] = sum * sum
		sum += z[(i+length)%n] - z[i]
	}
	blocks := sumOf(squares) / float64(n) / float64(length) / float64(n)
	return max(blocks, varianceOf(z)/float64(n))
}

// resamplingSeed makes the draws the same in every process.
const resamplingSeed = 0x5EED

// drawLogs resamples: each draw gets the starts of the blocks, the last of which
// is cut so that n rows are taken in all.
func drawLogs(n, length int, statistic func(starts []int) float64) []float64 {
	random := rand.New(rand.NewPCG(resamplingSeed, uint64(n)))
	starts := make([]int, (n+length-1)/length)
	logs := make([]float64, percentileDraws)
	for d := range logs {
		for i := range starts {
			starts[i] = random.IntN(n)
		}
		logs[d] = statistic(starts)
	}
	return logs
}

// ranks is a sample sorted once, so that a draw is counting and not sorting.
type ranks struct {
	// logs are the logarithms in ascending order; of[i] is where row i stands.
	logs  []float64
	of    []int
	count []int32
}

func newRanks(xs []float64) *ranks {
	n := len(xs)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case xs[i] < xs[j]:
			return -1
		case xs[i] > xs[j]:
			return 1
		}
		return 0
	})
	r := &ranks{logs: make([]float64, n), of: make([]int, n), count: make([]int32, n)}
	for rank, i := range order {
		r.logs[rank], r.of[i] = math.Log(xs[i]), rank
	}
	return r
}

// logPercentile is the nearest-rank percentile of the rows in the blocks.
func (r *ranks) logPercentile(starts []int, length, percentile int) float64 {
	n := len(r.of)
	clear(r.count)
	left := n
	for _, start := range starts {
		for range min(length, left) {
			r.count[r.of[start]]++
			if start++; start == n {
				start = 0
			}
		}
		left -= min(length, left)
	}
	return r.logs[rankAt(r.count, (percentile*n+99)/100)]
}

// rankAt is where the want-th smallest (from 1) of counted values stands,
// looked for from the nearer end.
func rankAt(count []int32, want int) int {
	n := len(count)
	if 2*want <= n {
		rank := 0
		for want -= int(count[rank]); want > 0; want -= int(count[rank]) {
			rank++
		}
		return rank
	}
	rank, above := n-1, n-want
	for above -= int(count[rank]); above >= 0; above -= int(count[rank]) {
		rank--
	}
	return rank
}
