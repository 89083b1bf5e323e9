package gate

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"anvil-capacity/internal/record"
)

func TestService(t *testing.T) {
	tests := []struct {
		name                       string
		planned, completed, failed int
		max                        float64
		status                     Status
		message                    string
		why                        string
	}{
		{"all", 100, 100, 0, 0, Pass, "of 100 planned requests 100 completed and 0 failed (0.0 %)", "nothing to hold against it"},
		{"one failed", 100, 99, 1, 0, Fail,
			"of 100 planned requests 99 completed and 1 failed (1.0 %): none may fail (CAPACITY_MAX_FAILURE_RATE is 0)", "none is the default"},
		{"at the rate", 100, 95, 5, 0.05, Pass,
			"of 100 planned requests 95 completed and 5 failed (5.0 %): at most 5.0 % may fail (CAPACITY_MAX_FAILURE_RATE); there is no throughput, for not all completed",
			"5/100 and 0.05 are the same float64"},
		{"above the rate", 100, 94, 6, 0.05, Fail,
			"of 100 planned requests 94 completed and 6 failed (6.0 %): at most 5.0 % may fail (CAPACITY_MAX_FAILURE_RATE)", "one too many"},
		{"rare", 10000, 9999, 1, 0.00005, Fail,
			"of 10000 planned requests 9999 completed and 1 failed (0.01 %): at most 0.005 % may fail (CAPACITY_MAX_FAILURE_RATE)", "small rates do not read as 0"},
		{"missing", 100, 95, 2, 1, Fail,
			"of 100 planned requests 95 completed and 2 failed (2.0 %): 3 never ended, and a missing request is no answer",
			"no rate excuses a request that was not made"},
		{"missing, none failed", 100, 99, 0, 1, Fail,
			"of 100 planned requests 99 completed and 0 failed (0.0 %): 1 never ended, and a missing request is no answer", "likewise"},
		{"none completed", 4, 0, 4, 1, Fail,
			"of 4 planned requests 0 completed and 4 failed (100.0 %): no request completed", "even when all may fail, nothing was shown"},
		{"nothing planned", 0, 0, 0, 1, Fail, "no request was planned, so nothing was served", "0 of 0 is no success"},
		{"too many", 3, 3, 1, 1, Fail,
			"of 3 planned requests 3 completed and 1 failed (33.3 %): the counts contradict each other", "a fault of the caller is not a pass"},
		{"negative", 3, 4, -1, 1, Fail,
			"of 3 planned requests 4 completed and -1 failed (-33.3 %): the counts contradict each other", "likewise"},
		{"rate NaN", 3, 3, 0, math.NaN(), Fail,
			"of 3 planned requests 3 completed and 0 failed (0.0 %): the allowed rate NaN is not within 0 and 1", "NaN never passes"},
		{"rate negative", 3, 3, 0, -0.1, Fail,
			"of 3 planned requests 3 completed and 0 failed (0.0 %): the allowed rate -0.1 is not within 0 and 1", "no rate"},
		{"rate above 1", 3, 3, 0, 5, Fail,
			"of 3 planned requests 3 completed and 0 failed (0.0 %): the allowed rate 5 is not within 0 and 1", "5 was meant as a percentage"},
		{"rate 1", 3, 1, 2, 1, Pass,
			"of 3 planned requests 1 completed and 2 failed (66.7 %): at most 100.0 % may fail (CAPACITY_MAX_FAILURE_RATE); there is no throughput, for not all completed",
			"the edge of the range"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := Service(tt.planned, tt.completed, tt.failed, tt.max)
			assert.Equal(t, tt.status, v.Status, tt.why)
			assert.Equal(t, tt.message, v.Message, tt.why)
			assert.Equal(t, ServiceName, v.Threshold.Metric)
			if tt.planned > 0 {
				assert.Equal(t, float64(tt.failed)/float64(tt.planned), *v.Got)
			} else {
				assert.Nil(t, v.Got)
			}
		})
	}
}

func TestBreakDown(t *testing.T) {
	b := BreakDown([]record.Failure{
		{Class: record.CanaryFailed, Message: "marker at 17"},
		{Class: record.RequestError, Detail: record.TotalTimeout, Message: "first"},
		{Class: record.StreamInvalid, Detail: record.EmptyOutput},
		{Class: record.RequestError, Detail: record.TotalTimeout, Message: "second"},
		{Class: record.RequestError, Detail: record.Connect},
	})
	assert.Equal(t, "2 request_error (total_timeout), 1 request_canary_failed, 1 request_error (connect), 1 stream_validation_failed (empty_output)", b.String(),
		"the most frequent first, then by name")
	assert.Equal(t, "first", b[0].Example, "the first of its kind")
	assert.Contains(t, b[0].Meaning, "CAPACITY_TIMEOUT")
	assert.Equal(t, "", b[1].Meaning, "a class without details")
	total := 0
	for _, c := range b {
		total += c.Count
	}
	assert.Equal(t, 5, total)
	assert.Empty(t, BreakDown(nil))
	assert.Equal(t, "", BreakDown(nil).String())
}
