package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/refserver"
)

// Exit statuses that scripts/gate promises.
const (
	gatePass        = 0
	gateHarness     = 10
	gateCorrectness = 11
	gateService     = 12
)

// gaterun is what scripts/gate builds and becomes, built once.
var gaterun = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(filepath.Dir(binary), "gaterun")
	build := exec.Command("go", "build", "-o", path, "./scripts/gaterun")
	build.Dir = moduleRoot
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the gate: %w\n%s", err, out)
	}
	return path, nil
})

// gateCommand is the gate with its JUnit file and the evidence in dir.
func gateCommand(t *testing.T, dir string, vars ...string) *exec.Cmd {
	t.Helper()
	gate, err := gaterun()
	require.NoError(t, err)
	cmd := exec.Command(gate, "-junit", filepath.Join(dir, "junit.xml"))
	cmd.Dir = moduleRoot
	cmd.Env = environment(append(vars, "ARTIFACT_DIR="+filepath.Join(dir, "artifacts")))
	return cmd
}

// scriptCommand is gateCommand by way of scripts/gate, from another folder.
func scriptCommand(t *testing.T, dir string, vars ...string) *exec.Cmd {
	t.Helper()
	cmd := gateCommand(t, dir, vars...)
	script, err := filepath.Abs(filepath.Join(moduleRoot, "scripts", "gate"))
	require.NoError(t, err)
	cmd.Path, cmd.Args[0], cmd.Dir = script, script, dir
	return cmd
}

// runGate runs the suite through scripts/gate to its end, as a user does.
func runGate(t *testing.T, vars ...string) (result, junitFile) {
	t.Helper()
	dir := t.TempDir()
	got := start(t, scriptCommand(t, dir, vars...), dir).wait(t)
	return got, readJUnit(t, filepath.Join(dir, "junit.xml"))
}

// TestGateExitStatus: the status names what failed, and the JUnit file agrees.
// Which checks belong to which status is tested in scripts/gaterun; here the
// suite's own names must be the ones that are meant there.
func TestGateExitStatus(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, faults string
		vars         []string
		exit         int
		failed       []string // the leaves that the JUnit file has as failed
		verdict      string
	}{
		{"pass", "", []string{"THRESHOLDS=ttft_p50_ms<=3600000"}, gatePass, nil, "gate: PASS"},
		{"all_that_a_server_can_get_wrong", "swap@0", []string{"THRESHOLDS=ttft_p50_ms<=0", "API_KEY=" + apiKey, "HEADERS=X-Api-Key: " + headerKey}, gateCorrectness,
			[]string{"/canaries", "/leak", "/service", "/threshold/ttft_p50_ms"}, "gate: FAIL: correctness (2), service (1), limit (2), exit status 11"},
		{"harness", "", []string{"MODEL=other"}, gateHarness, []string{"/preflight"}, "gate: FAIL: harness"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := fast()
			o.Faults = tt.faults
			server, err := refserver.New(o)
			require.NoError(t, err)
			ref := serve(t, failing(server.Handler(), "_00002", tt.faults != ""))
			got, junit := runGate(t, small(ref.URL, tt.vars...)...)
			assert.Equal(t, tt.exit, got.exit, got.output)
			assert.Contains(t, got.output, tt.verdict)
			hidden := assertNoKeys(t, got, apiKey, headerKey) // the JUnit file is in the folder
			assert.Equal(t, tt.faults != "", hidden > 0)
			failed, all := junit.failed()
			assert.NotZero(t, all)
			assert.Equal(t, tt.exit != gatePass, len(failed) > 0, "JUnit and exit status agree: %v", failed)
			for _, leaf := range tt.failed {
				assert.Contains(t, failed, "/c2-ctx256-w4"+leaf)
			}
			if tt.exit == gateCorrectness {
				checkLeakInJUnit(t, junit)
			}
		})
	}
}

// failing answers the request with a marker with a failure that repeats its keys.
func failing(inner http.Handler, marker string, on bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if on && bytes.Contains(body, []byte(marker)) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, "no room for %s", keysOf(r))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		inner.ServeHTTP(w, r)
	})
}

// checkLeakInJUnit: the file alone tells what happened, to people who never see
// the artifact.
func checkLeakInJUnit(t *testing.T, junit junitFile) {
	t.Helper()
	leak := junit.find(t, "TestCapacity/c2-ctx256-w4/leak")
	require.NotNil(t, leak.Failure)
	assert.Contains(t, leak.Failure.Output, "the answer to request 0 carries the marker of request 1 and not its own")
	assert.Contains(t, leak.Failure.Output, "the answer to request 1 carries the marker of request 0 and not its own")
	assert.Contains(t, leak.Properties, property{"cross_request_leaks", "2"})
	assert.Nil(t, junit.find(t, "TestCapacity/c2-ctx256-w4/words").Failure, "the words are right, in the wrong place")
}

// TestGateOnASuiteThatGoesWrong: what go test says of a suite that does not come
// to its end must not pass, nor be taken for a finding about the server.
func TestGateOnASuiteThatGoesWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		exit int
		why  string
	}{
		{"fail_behind_unfinished_line", gateService, "the result stands on the line that the test did not end"},
		{"pass_behind_unfinished_line", gatePass, "and so does a pass"},
		{"panic", gateHarness, "go test blames the test that ran"},
		{"panic_elsewhere", gateHarness, "no test can be blamed"},
		{"exit_0", gateHarness, "a status of 0 from the test process"},
		{"exit_1_behind_unfinished_line", gateHarness, "no result at all"},
		{"killed", gateHarness, "the kernel does that when memory is short"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := gateCommand(t, dir)
			cmd.Args = append(cmd.Args, "-package", "./internal/e2e/testdata/gatecase")
			cmd.Env = append(cmd.Env, "GATE_CASE="+tt.name)
			got := start(t, cmd, dir).wait(t)
			assert.Equal(t, tt.exit, got.exit, "%s\n%s", tt.why, got.output)
			failed, _ := readJUnit(t, filepath.Join(dir, "junit.xml")).failed()
			assert.Equal(t, tt.exit != gatePass, len(failed) > 0, "JUnit and exit status agree: %v", failed)
		})
	}
}

// TestGateWithoutATest runs nothing, which is never a pass, whatever an earlier
// run left behind.
func TestGateWithoutATest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"no_such_test", []string{"-run", "NoSuchTest", "-package", "./internal/e2e/testdata/gatecase"}},
		{"no_such_package", []string{"-package", "./no/such/package"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			junit := filepath.Join(dir, "junit.xml")
			const old = `<testsuites><testsuite><testcase name="TestCapacity/old"></testcase></testsuite></testsuites>`
			require.NoError(t, os.WriteFile(junit, []byte(old), 0o644))
			cmd := gateCommand(t, dir)
			cmd.Args = append(cmd.Args, tt.args...)
			got := start(t, cmd, dir).wait(t)
			assert.Equal(t, gateHarness, got.exit, got.output)
			if text, err := os.ReadFile(junit); err == nil {
				assert.NotContains(t, string(text), "TestCapacity/old")
			}
		})
	}
}

// startHeldGate starts a held cell under scripts/gate.
func startHeldGate(t *testing.T) (*process, *holding) {
	t.Helper()
	h := newHolding(t, heldFrom)
	dir := t.TempDir()
	p := start(t, gateCommand(t, dir, heldCell(h.URL)...), dir)
	awaitHeld(t, h, dir)
	return p, h
}

// TestGateInterrupted: the tests end with the gate, in whatever way it is told
// to, and leave their evidence, a JUnit file and a verdict.
func TestGateInterrupted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		signals []syscall.Signal
	}{
		{"ctrl-c_twice", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}},
		{"sigterm", []syscall.Signal{syscall.SIGTERM}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, h := startHeldGate(t)
			since := p.signal(t, tt.signals[0])
			for _, s := range tt.signals[1:] {
				await(t, "the first signal to be passed on", func() bool { return h.inFlight() == 0 })
				p.signal(t, s)
			}
			got := p.wait(t)
			assert.Equal(t, gateHarness, got.exit, got.output)
			assert.Contains(t, got.output, "gate: FAIL")
			held("interrupted by interrupt").check(t, h, got, since)
			failed, _ := readJUnit(t, filepath.Join(p.dir, "junit.xml")).failed()
			assert.Contains(t, failed, "/c4-ctx256-w4/evidence")
			assert.Contains(t, failed, "/c8-ctx256-w4", "the cell that was not started")
		})
	}
}

// TestGateKilled: kill -9 of the gate leaves two processes between it and the
// suite alive, which must see it all the same.
func TestGateKilled(t *testing.T) {
	t.Parallel()
	p, h := startHeldGate(t)
	since := p.kill(t)
	p.wait(t)
	held("(gaterun) is gone").check(t, h, result{dir: p.dir}, since)
}

// TestGateWithoutItsGotestsum: when gotestsum is killed there is no JUnit file,
// and the gate ends the tests that gotestsum left behind.
func TestGateWithoutItsGotestsum(t *testing.T) {
	t.Parallel()
	p, h := startHeldGate(t)
	victim := childNamed(t, p.cmd.Process.Pid, "gotestsum")
	since := time.Now()
	require.NoError(t, syscall.Kill(victim, syscall.SIGKILL))
	got := p.wait(t)
	assert.Equal(t, gateHarness, got.exit, got.output)
	assert.Contains(t, got.output, "gate: FAIL (harness): no JUnit file")
	held("").check(t, h, result{dir: p.dir}, since)
}

// childNamed finds a child of a process by its name.
func childNamed(t *testing.T, parent int, name string) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended since
		}
		var pid, ppid int
		head, tail, _ := strings.Cut(string(text), fmt.Sprintf(" (%s) ", name))
		if _, err := fmt.Sscan(head, &pid); err != nil {
			continue
		}
		var state string
		if _, err := fmt.Sscan(tail, &state, &ppid); err == nil && ppid == parent {
			return pid
		}
	}
	t.Fatalf("process %d has no child named %s", parent, name)
	return 0
}
