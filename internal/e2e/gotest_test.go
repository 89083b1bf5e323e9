package e2e

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goTest runs go test in package mode at the module's root, where its cache
// works, with evidence in a folder of the test's own.
func goTest(t *testing.T, vars ...string) result {
	t.Helper()
	cmd := exec.Command("go", "test", "-run", "^TestCapacity$", ".")
	cmd.Dir = moduleRoot
	cmd.Env = environment(append(vars, "ARTIFACT_DIR="+t.TempDir()))
	return finish(t, cmd, moduleRoot)
}

// TestNeverServedFromTheTestCache runs the same command twice: the second must
// reach the server again, for a cached pass says nothing about it.
func TestNeverServedFromTheTestCache(t *testing.T) {
	ref := refTarget(t, fast())
	for run := int64(1); run <= 2; run++ {
		got := goTest(t, small(ref.URL)...)
		require.Zero(t, got.exit, got.output)
		assert.NotContains(t, got.output, "(cached)")
		assert.Equal(t, run*(4+1), ref.completions.Load(), "four requests and the preflight's in run %d", run)
	}
}

// TestDeadlineTooNear stops before anything is sent, and says what to do.
func TestDeadlineTooNear(t *testing.T) {
	ref := refTarget(t, fast())
	cmd := exec.Command(binary, "-test.run=^TestCapacity$", "-test.timeout=5s")
	cmd.Dir = suiteDir(t)
	cmd.Env = environment(small(ref.URL))
	got := finish(t, cmd, cmd.Dir)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "-timeout 0")
	assert.Zero(t, ref.requests.Load())
}
