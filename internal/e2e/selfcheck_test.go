package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSelfCheckBeforeALiveCell measures the suite's own error against its own
// endpoint before a live cell, and sends nothing of it to the server. Whether
// the error is small enough is for the machine to say, and not asserted.
func TestSelfCheckBeforeALiveCell(t *testing.T) {
	o := fast()
	o.DecodeBase = 5 * time.Millisecond
	ref := refTarget(t, o)
	got := runSuite(t, small(ref.URL, "SELF_CHECK=on")...)
	assert.Equal(t, int64(4+1), ref.completions.Load(), "four requests and the preflight's\n%s", got.output)
	n := one(t, got)
	require.NotNil(t, n.Harness.SelfCheck, got.output)
	c := n.Harness.SelfCheck
	assert.Equal(t, 2, c.Concurrency)
	assert.Greater(t, c.Requests, 4, "more than the cell itself has")
	for name, spread := range map[string]*float64{"TTFO": c.TTFO.P99MS, "TTFT": c.TTFT.P99MS, "E2E": c.E2E.P99MS, "TPOT": c.TPOT.P99MS} {
		require.NotNil(t, spread, name)
		assert.Greater(t, *spread, 0.0, "an error of nothing was not measured: %s", name)
	}
	require.NotNil(t, n.Harness.Client)
	assert.Greater(t, n.Harness.Client.CPUSeconds, 0.0)
	assert.Contains(t, got.output, "own error, ms")
}
