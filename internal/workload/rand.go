package workload

import "math/bits"

// random is SplitMix64 (Steele, Lea, Flood 2014): a counter and a bijective
// mix. It is written out here, and not taken from math/rand, because a plan
// must be the same on every machine and under every Go version; its output is
// pinned by the golden test. The zero value is a valid generator.
type random struct{ state uint64 }

const goldenGamma = 0x9e3779b97f4a7c15

// mix is SplitMix64's output function. It is a bijection: different inputs
// never give the same output.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *random) next() uint64 {
	r.state += goldenGamma
	return mix(r.state)
}

// below gives a number in [0, n), n > 0. The multiply-shift is off from
// uniform by less than n in 2^64, which no plan can show.
func (r *random) below(n int) int {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int(hi)
}

// The purposes that one seed serves. Each has its own sequence, so that a
// change of one (another mix of contexts) leaves the others as they were.
const (
	forShuffle = iota + 1
	forFiller
	forSharedPrefix
	forTag
	forSamplePrefix
)

// derive gives the key of one purpose of a seed.
func derive(seed, purpose int) uint64 {
	return mix(mix(uint64(seed)+goldenGamma) + uint64(purpose)*goldenGamma)
}
