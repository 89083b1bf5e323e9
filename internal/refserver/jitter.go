package refserver

import (
	"hash/fnv"
	"math"
	"time"
)

// drawPrefill numbers the draw for a prefill; the step after token i draws
// number i.
const drawPrefill = math.MaxUint64

// identityOf gives the number that stands for a request in every draw. It
// depends on what was asked and not on when.
func identityOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // a hash never fails
	return h.Sum64()
}

// mix is the finaliser of splitmix64 (Steele, Lea, Flood 2014): every bit of x
// moves every bit of the result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// uniform draws a number in [0, 1) from a seed, an identity and a draw number.
func uniform(seed int, identity, draw uint64) float64 {
	return float64(mix(mix(mix(uint64(seed))^identity)+draw)>>11) / (1 << 53)
}

// jittered stretches d by the request's draw. The inner conversion keeps a
// compiler from fusing the multiplication with the addition, which would give
// other nanoseconds on other machines.
func (o *Options) jittered(d time.Duration, identity, draw uint64) time.Duration {
	if o.JitterFraction == 0 || d == 0 {
		return d
	}
	deviation := float64(o.JitterFraction * (2*uniform(o.Seed, identity, draw) - 1))
	return scaled(d, 1+deviation)
}

// maxDelay bounds every computed delay, so that sums of them stay far from the
// end of a time.Duration (292 years).
const maxDelay = 365 * 24 * time.Hour

// scaled is d times factor, to the nearest nanosecond, at most maxDelay.
func scaled(d time.Duration, factor float64) time.Duration {
	return delay(float64(d) * factor)
}

// delay is a number of nanoseconds as a duration, at most maxDelay.
func delay(ns float64) time.Duration {
	if ns >= float64(maxDelay) {
		return maxDelay
	}
	return time.Duration(math.Round(ns))
}
