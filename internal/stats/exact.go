package stats

import (
	"math"
	"math/big"
)

// How the published numbers are summed.
//
// The figures of fixtures/glm-c4-16word were made with exact rational
// arithmetic: the mean is the exact sum over n, the standard deviation the
// square root of the exact variance, and each of the two is rounded to a
// float64 once, at its end. What comes near and is not it, tried on the 18
// distributions there (TestSummationMatters repeats the count):
//
//   - adding float64s in order misses 4 means and 8 standard deviations;
//   - the textbook two passes with correctly rounded sums miss one deviation,
//     the scout's generation;
//   - the square root of a variance that was itself rounded misses 4;
//   - a correctly rounded sum that is then divided by n gives the same 18 means,
//     but it rounds twice: on random samples of 100 it differs in the last bit
//     about one time in six. One rounding is the better definition, and the
//     published deviations show that their maker used rationals.
//
// So the sums here are integers. Every float64 is m * 2^e with an integer m, a
// sample has a smallest e, and in units of 2^e all its values and their squares
// are whole numbers: they add up in a big.Int without any rounding, whatever
// their order, sign and size. Ten thousand latencies stay within about 150
// bits; values from 5e-324 to 1.8e308 in one sample still work, only slower.

// mantissaBits is the precision of a float64.
const mantissaBits = 53

// guardBits is how many leading bits of an exact result are kept before the one
// rounding. Any number above mantissaBits + 1 will do, for the last bit kept is
// sticky (see roundToOdd).
const guardBits = 64

// moments holds the exact sum and the exact sum of squares of n finite values:
// sum is in units of 2^exp, squares in units of 2^(2 exp).
type moments struct {
	n            int64
	exp          int
	sum, squares big.Int
}

// momentsOf adds up xs, which must be finite.
func momentsOf(xs []float64) *moments {
	m := &moments{n: int64(len(xs)), exp: smallestExponent(xs)}
	var term, square big.Int
	for _, x := range xs {
		if x == 0 {
			continue
		}
		mantissa, exp := decompose(x)
		term.SetInt64(mantissa)
		term.Lsh(&term, uint(exp-m.exp))
		m.sum.Add(&m.sum, &term)
		m.squares.Add(&m.squares, square.Mul(&term, &term))
	}
	return m
}

// decompose writes x as mantissa * 2^exp.
func decompose(x float64) (mantissa int64, exp int) {
	fraction, exp := math.Frexp(x)
	return int64(math.Ldexp(fraction, mantissaBits)), exp - mantissaBits
}

// smallestExponent is the unit in which all of xs are whole; 0 when all are 0.
func smallestExponent(xs []float64) int {
	smallest, found := 0, false
	for _, x := range xs {
		if x == 0 {
			continue
		}
		if _, exp := decompose(x); !found || exp < smallest {
			smallest, found = exp, true
		}
	}
	return smallest
}

// mean is the float64 nearest to the exact mean.
func (m *moments) mean() float64 {
	var magnitude big.Int
	mean := roundQuotient(magnitude.Abs(&m.sum), big.NewInt(m.n), m.exp)
	return math.Copysign(mean, float64(m.sum.Sign()))
}

// stddev is the float64 nearest to the exact sample standard deviation,
// sqrt((n * squares - sum^2) / (n * (n-1))); 0 for a single value, +Inf when it
// is above the largest float64. The difference cannot be negative, and nothing
// cancels in it, because it is exact.
func (m *moments) stddev() float64 {
	if m.n < 2 {
		return 0
	}
	var num, sumSquared big.Int
	num.Mul(&m.squares, big.NewInt(m.n))
	num.Sub(&num, sumSquared.Mul(&m.sum, &m.sum))
	den := big.NewInt(m.n)
	den.Mul(den, big.NewInt(m.n-1))
	return roundSqrtQuotient(&num, den, m.exp)
}

// roundQuotient is num / den * 2^exp, num >= 0, rounded once.
func roundQuotient(num, den *big.Int, exp int) float64 {
	shift := max(0, guardBits+den.BitLen()-num.BitLen()+1)
	var scaled, quotient, rest big.Int
	scaled.Lsh(num, uint(shift))
	quotient.QuoRem(&scaled, den, &rest)
	return roundToOdd(&quotient, rest.Sign() != 0, exp-shift)
}

// roundSqrtQuotient is sqrt(num / den) * 2^exp, num >= 0, rounded once.
func roundSqrtQuotient(num, den *big.Int, exp int) float64 {
	// Under the root a shift of 2s moves the result by s, and half of the bits are lost.
	shift := max(0, (2*guardBits+den.BitLen()-num.BitLen()+2)/2)
	var scaled, quotient, rest, root, square big.Int
	scaled.Lsh(num, uint(2*shift))
	quotient.QuoRem(&scaled, den, &rest)
	root.Sqrt(&quotient)
	inexact := rest.Sign() != 0 || square.Mul(&root, &root).Cmp(&quotient) != 0
	return roundToOdd(&root, inexact, exp-shift)
}

// roundToOdd is the float64 nearest to a * 2^exp plus something less than 2^exp
// when inexact. Setting the last bit of an inexact a says "and a little more":
// the rounding that follows then cannot mistake it for a tie, so that cutting
// at guardBits first and rounding afterwards is one rounding and not two.
func roundToOdd(a *big.Int, inexact bool, exp int) float64 {
	if inexact {
		a.SetBit(a, 0, 1)
	}
	var f big.Float
	f.SetInt(a) // keeps every bit
	f.SetMantExp(&f, exp)
	x, _ := f.Float64()
	return x
}
