package stats_test

import (
	"fmt"

	"anvil-capacity/internal/stats"
)

// Three interleaved repeats an arm, of which only the throughput is known here.
func ExampleCompare() {
	arm := func(tokS ...float64) (a stats.Arm) {
		for _, x := range tokS {
			a.Runs = append(a.Runs, stats.Run{Whole: &x})
		}
		return a
	}
	c := stats.Compare(arm(21.8, 21.5, 22.0), arm(17.6, 18.1, 17.9), stats.Options{
		Statistic: stats.WholeRun,
		Direction: stats.HigherIsBetter,
		Margin:    new(0.05),
	})
	fmt.Printf("%s: %+.1f %% (%+.1f to %+.1f)\n", c.Verdict, 100**c.Change, 100**c.Low, 100**c.High)
	fmt.Println(c.Why)
	// Output:
	// worse: -17.9 % (-20.3 to -15.4)
	// runs are the unit (3 and 3), because requests of one run share its queue, batches and caches; Welch's t on the logarithms; worse by 15.4 % at least, beyond the margin of 5.0 %
}
