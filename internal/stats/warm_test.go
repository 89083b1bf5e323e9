package stats

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"anvil-capacity/internal/record"
)

// withTTFO makes one record a value, in index order.
func withTTFO(ms ...float64) []record.Record {
	records := answers(len(ms))
	for i := range records {
		records[i].Timing.TTFOMS = new(ms[i])
	}
	return records
}

func TestWarmRows(t *testing.T) {
	missing := withTTFO(100, 1000, 1000, 1000, 1000, 1000)
	missing[0].Timing.TTFOMS = nil
	broken := withTTFO(math.NaN(), 1000, 1000, 1000, 1000, 1000)
	fellOver := withTTFO(100, 1000, 1000, 1000, 1000, 1000)
	fellOver[0].Failure = &record.Failure{Class: record.StreamInvalid, Detail: record.EmptyOutput}
	mixed := withTTFO(100, 100, 100, 100, 100, 1000, 1000, 1000, 1000, 50, 1000, 1000)
	for i := 5; i < len(mixed); i++ {
		mixed[i].PlannedContextTokens = 8192
	}
	tests := []struct {
		name        string
		records     []record.Record
		concurrency int
		want        []int
		why         string
	}{
		{"none", nil, 1, nil, "nothing ran"},
		{"even", withTTFO(100, 110, 105, 98, 102), 1, nil, "all alike"},
		{"one", withTTFO(100, 1000, 1010, 990, 1005), 1, []int{0}, "ten times faster, and with concurrency 1 nothing queues"},
		{"in the middle", withTTFO(1000, 1010, 100, 990, 1005), 1, []int{2}, "warmth is not always first"},
		{"too few rows, 4", withTTFO(100, 1000, 1010, 990), 1, nil, "four rows do not say what is usual"},
		{"enough rows, 5", withTTFO(100, 1000, 1010, 990, 1000), 1, []int{0}, "five do"},
		{"just under the speed-up", withTTFO(250.01, 1000, 1000, 1000, 1000), 1, nil, "a hair less than 4 times faster"},
		{"at the speed-up", withTTFO(250, 1000, 1000, 1000, 1000), 1, []int{0}, "4 times faster"},
		{"just under the break", withTTFO(250, 499.99, 1000, 1000, 1000), 1, nil, "no clean break behind 250"},
		{"at the break", withTTFO(250, 500, 1000, 1000, 1000), 1, []int{0}, "twice as long to the next"},
		{"break among the warm", withTTFO(10, 200, 1000, 1000, 1000), 1, []int{0, 1}, "200 is warm too: the last break counts"},
		{"a queue's ramp", withTTFO(300, 390, 510, 660, 860, 1120, 1450, 1900, 2450), 9, nil,
			"a burst that queues for prefill: spread, but without a break"},
		{"slots", withTTFO(100, 100, 1000, 1000, 1000, 1000, 1000, 1000), 4, nil,
			"two slots at concurrency 4: the first two never wait, all others do"},
		{"slots and warmth", withTTFO(100, 100, 1000, 1000, 100, 1000, 1000, 1000, 1000), 4, []int{0, 1, 4},
			"request 4 met a busy server and was fast all the same"},
		{"concurrency unknown", withTTFO(100, 100, 1000, 1000, 1000, 1000), 0, []int{0, 1}, "the ramp is not known, so nothing excuses them"},
		{"mostly warm", withTTFO(100, 100, 100, 100, 1000, 1000), 1, nil, "the median is warm: not seen, as documented"},
		{"no first output", missing, 1, nil, "what was not measured is not fast"},
		{"broken clock", broken, 1, nil, "NaN is not fast"},
		{"zero", withTTFO(0, 1000, 1000, 1000, 1000, 1000), 1, nil, "no output takes no time: not a reading"},
		{"failed", fellOver, 1, nil, "a failed request is in no distribution"},
		{"mixed contexts", mixed, 1, []int{9}, "short prompts are fast and not warm: each size has its own median"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := WarmRows(tt.records, tt.concurrency)
			assert.Equal(t, tt.want, append([]int(nil), got...), tt.why)
		})
	}
}
