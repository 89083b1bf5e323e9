package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
)

// one reads the only native artifact of a run.
func one(t *testing.T, r result) artifact.Native {
	t.Helper()
	var native []string
	for _, path := range r.files(t, "*.json") {
		if n, err := artifact.ReadNative(path); err == nil {
			_ = n
			native = append(native, path)
		}
	}
	require.Len(t, native, 1, "native artifacts in %s\n%s", r.dir, r.output)
	n, err := artifact.ReadNative(native[0])
	require.NoError(t, err)
	return n
}

func TestThresholds(t *testing.T) {
	ref := refTarget(t, fast())
	got := runSuite(t, small(ref.URL, "THRESHOLDS=ttft_p50_ms<=60000, ttft_p50_ms>=0, throughput_tok_s>=1e12, prefix_cache_hit_avg>=0.5")...)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "--- PASS: TestCapacity/c2-ctx256-w4/threshold/ttft_p50_ms (")
	assert.Contains(t, got.output, "--- PASS: TestCapacity/c2-ctx256-w4/threshold/ttft_p50_ms-at_least (", "a second limit has a name of its own")
	assert.Contains(t, got.output, "--- FAIL: TestCapacity/c2-ctx256-w4/threshold/throughput_tok_s (")
	assert.Contains(t, got.output, "under by")
	n := one(t, got)
	assert.True(t, n.Eligible(), "a missed threshold is no fault of the measurement")
}

func TestStrictWordsOnAModelThatCannotCount(t *testing.T) {
	o := fast()
	o.Faults = "extra-words=2@1"
	ref := refTarget(t, o)
	got := runSuite(t, small(ref.URL, "CONTROLLED_OUTPUT=strict")...)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "CAPACITY_CONTROLLED_OUTPUT=observe")
	n := one(t, got)
	require.Len(t, n.Failures, 1)
	assert.Equal(t, 1, n.Failures[0].RequestIndex)
	assert.Equal(t, "controlled_output_failed", n.Failures[0].FailureClass)
	v, known := n.Metrics.Get("throughput_tok_s")
	assert.True(t, known)
	assert.Nil(t, v, "no throughput with a failed request")
}

// TestFailureRateAllowed passes the service and keeps the rest honest.
func TestFailureRateAllowed(t *testing.T) {
	o := fast()
	o.Faults = "status=503@2"
	ref := refTarget(t, o)
	got := runSuite(t, small(ref.URL, "MAX_FAILURE_RATE=25%")...)
	require.Zero(t, got.exit, got.output)
	n := one(t, got)
	assert.Equal(t, 1, n.Failed)
	v, _ := n.Metrics.Get("throughput_tok_s")
	assert.Nil(t, v, "an allowed failure does not bring a throughput")
	assert.False(t, *n.PerformanceEligible)
}

// TestForeignCanary fails under every canary policy, and says whose answer it was.
func TestForeignCanary(t *testing.T) {
	for _, policy := range []string{"strict", "observe"} {
		t.Run(policy, func(t *testing.T) {
			o := fast()
			o.Faults = "foreign-canary=1@0"
			ref := refTarget(t, o)
			got := runSuite(t, small(ref.URL, "CANARIES="+policy)...)
			assert.NotZero(t, got.exit)
			assert.Contains(t, got.output, "--- FAIL: TestCapacity/c2-ctx256-w4/leak")
			assert.Contains(t, got.output, "the answer to request 0 carries the marker of request 1")
			n := one(t, got)
			require.Len(t, n.Harness.Leaks, 1)
			assert.Equal(t, artifact.Leak{RequestIndex: 0, FromRequestIndex: 1}, n.Harness.Leaks[0])
			assert.Equal(t, "request_canary_failed", n.Failures[0].FailureClass)
		})
	}
}

// TestWrongCanaryIsObserved fails nothing under observe, and the artifact says
// what was seen where it cannot be taken for a verdict.
func TestWrongCanaryIsObserved(t *testing.T) {
	o := fast()
	o.Faults = "wrong-canary@0"
	ref := refTarget(t, o)
	got := runSuite(t, small(ref.URL, "CANARIES=observe")...)
	require.Zero(t, got.exit, got.output)
	n := one(t, got)
	assert.False(t, *n.RequestCanaries)
	require.Len(t, n.RequestTimings, 4)
	for i, row := range n.RequestTimings {
		assert.Nil(t, row.RequestCanary)
		require.NotNil(t, row.CanaryObservation)
		assert.Equal(t, i != 0, row.CanaryObservation.MarkerAtStart, "request %d", i)
	}
}

// TestScout runs before the cell, with evidence of its own and a link to it.
func TestScout(t *testing.T) {
	ref := refTarget(t, fast())
	got := runSuite(t, small(ref.URL, "SCOUT_REQUESTS=2", "RUN=pair")...)
	require.Zero(t, got.exit, got.output)
	scout, err := artifact.ReadNative(got.dir + "/artifacts/pair-scout.json")
	require.NoError(t, err)
	final, err := artifact.ReadNative(got.dir + "/artifacts/pair.json")
	require.NoError(t, err)
	assert.Equal(t, 2, scout.Requests)
	assert.NotEqual(t, *scout.ContextSeed, *final.ContextSeed, "a scout has a seed of its own by default")
	require.NotNil(t, final.Harness.Scout)
	assert.Equal(t, "pair-scout.json", final.Harness.Scout.Artifact)
	assert.Len(t, final.Harness.Scout.SHA256, 64)
}
