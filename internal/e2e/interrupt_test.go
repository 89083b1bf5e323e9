package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/refserver"
)

const (
	// cancelLimit is how soon after its end was ordered a run must have let go of
	// every request in flight.
	cancelLimit = time.Second
	// eventLimit bounds every wait for an event.
	eventLimit = 60 * time.Second
	// eventPoll is how often a condition is looked at.
	eventPoll = 2 * time.Millisecond
)

// await waits for a condition; it fails the test when it does not come.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(eventLimit); !condition(); time.Sleep(eventPoll) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for: %s", eventLimit, what)
		}
	}
}

// holding is a server whose first answers come at once, and which holds the
// later ones: those with an even index in the middle of the stream, those with
// an odd one before the response header. It notes when requests come and go.
type holding struct {
	*target
	inner http.Handler
	from  int // the first index that is held

	release chan struct{} // lets one held request of odd index go on

	mu       sync.Mutex // guards all below
	answered int
	held     map[int]bool
	came     []time.Time // completions of the plan
	left     []time.Time // held requests whose client left
}

var markerIn = regexp.MustCompile(`ANVIL_REQ_\d+_(\d{5,})`)

func newHolding(t *testing.T, from int) *holding {
	t.Helper()
	o := fast()
	o.Faults = fmt.Sprintf("stall=1@%d-99999", from)
	server, err := refserver.New(o)
	require.NoError(t, err)
	h := &holding{inner: server.Handler(), from: from, release: make(chan struct{}), held: map[int]bool{}}
	h.target = serve(t, http.HandlerFunc(h.serve))
	t.Cleanup(func() { _ = server.Close() })
	return h
}

func (h *holding) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	marker := markerIn.FindSubmatch(body)
	if marker == nil { // a model list, the preflight's question
		h.inner.ServeHTTP(w, r)
		return
	}
	index, _ := strconv.Atoi(string(marker[1]))
	h.arrive(index)
	defer h.depart(index)
	if index >= h.from && index%2 == 1 {
		select {
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		case <-h.release:
			// The reference server would stall it.
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":5}}\n\ndata: [DONE]\n\n",
				string(marker[0])+" code code code code")
			return
		}
	}
	h.inner.ServeHTTP(w, r)
}

func (h *holding) arrive(index int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.came = append(h.came, time.Now())
	if index >= h.from {
		h.held[index] = true
	}
}

func (h *holding) depart(index int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.held[index] {
		h.answered++
		return
	}
	delete(h.held, index)
	h.left = append(h.left, time.Now())
}

// letGo lets one held request of odd index go on.
func (h *holding) letGo(t *testing.T) {
	t.Helper()
	select {
	case h.release <- struct{}{}:
	case <-time.After(eventLimit):
		t.Fatalf("waited %s for a held request", eventLimit)
	}
}

func (h *holding) inFlight() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

// lastLeft says how long after an instant the last held request was let go, and
// how many came after it.
func (h *holding) lastLeft(since time.Time) (last time.Duration, late int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range h.left {
		last = max(last, at.Sub(since))
	}
	for _, at := range h.came {
		if at.Sub(since) > cancelLimit {
			late++
		}
	}
	return last, late
}

// process is a started suite, alone in its process group.
type process struct {
	cmd    *exec.Cmd
	dir    string
	output *bytes.Buffer // to be read after wait
	ended  chan struct{} // closed when every process that holds the output has ended
}

// start starts a command whose output is read to its end, which comes when the
// last process that inherited it has ended.
func start(t *testing.T, cmd *exec.Cmd, dir string) *process {
	t.Helper()
	p := &process{cmd: cmd, dir: dir, output: &bytes.Buffer{}, ended: make(chan struct{})}
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = writer, writer
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, writer.Close())
	go func() {
		defer close(p.ended)
		defer reader.Close()
		_, _ = io.Copy(p.output, reader)
	}()
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	return p
}

// signal sends a signal to the whole group, as a terminal does.
func (p *process) signal(t *testing.T, s syscall.Signal) time.Time {
	t.Helper()
	at := time.Now()
	require.NoError(t, syscall.Kill(-p.cmd.Process.Pid, s))
	return at
}

// repeat sends a signal to the group until it has ended: whatever the processes do
// on their way there, one comes in the middle of it.
func (p *process) repeat(t *testing.T, s syscall.Signal) {
	t.Helper()
	beat := time.NewTicker(eventPoll)
	defer beat.Stop()
	for {
		select {
		case <-p.ended:
			return
		case <-beat.C:
			_ = syscall.Kill(-p.cmd.Process.Pid, s) // it may just have ended
		}
	}
}

// kill sends SIGKILL to the started process alone.
func (p *process) kill(t *testing.T) time.Time {
	t.Helper()
	at := time.Now()
	require.NoError(t, p.cmd.Process.Kill())
	return at
}

// wait waits for the end of all that was started.
func (p *process) wait(t *testing.T) result {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(eventLimit):
		t.Fatalf("%s did not end", p.cmd)
	}
	_ = p.cmd.Wait() // the exit status is in the result
	return result{output: p.output.String(), exit: p.cmd.ProcessState.ExitCode(), dir: p.dir}
}

// A held cell: five requests end, four are in flight when it is cut short, and a
// second cell would follow. The threshold is one that any answer meets.
const (
	heldFrom        = 5
	heldConcurrency = 4
)

func heldCell(url string, more ...string) []string {
	return append([]string{"BASE_URL=" + url, "REQUESTS=40", "CONCURRENCY=4,8", "CONTEXT_TOKENS=256", "RESPONSE_WORDS=4",
		"MAX_TOKENS=64", "THRESHOLDS=ttft_p50_ms<=3600000", "SELF_CHECK=off", "RUN=held"}, more...)
}

// awaitHeld waits until the cell stands still with all of its slots held, and
// the journal has the rows of those that ended.
func awaitHeld(t *testing.T, h *holding, dir string) {
	t.Helper()
	await(t, "four requests in flight", func() bool { return h.inFlight() == heldConcurrency })
	await(t, "five rows in the journal", func() bool { return journalRows(dir, "held-c4-ctx256-w4") == heldFrom })
}

func journalRows(dir, stem string) int {
	text, err := os.ReadFile(filepath.Join(dir, "artifacts", stem+artifact.JournalSuffix))
	if err != nil {
		return 0
	}
	return bytes.Count(text, []byte("\n")) - 1 // the first line is the header
}

// cutShort is what every cut run must look like.
type cutShort struct {
	reason    string // stands in harness.incomplete_reason
	completed int
	canceled  int
}

func (c cutShort) check(t *testing.T, h *holding, got result, since time.Time) {
	t.Helper()
	c.checkServer(t, h, since)
	c.checkArtifact(t, got)
	if got.output != "" {
		assert.NotContains(t, got.output, "--- PASS: TestCapacity/c4-ctx256-w4/threshold", "no threshold passes on a partial artifact")
		assert.NotContains(t, got.output, "--- PASS: TestCapacity/c4-ctx256-w4/service")
	}
}

// checkServer asks the server what it saw.
func (c cutShort) checkServer(t *testing.T, h *holding, since time.Time) {
	t.Helper()
	assert.Zero(t, h.inFlight(), "requests still in flight")
	last, late := h.lastLeft(since)
	assert.LessOrEqual(t, last, cancelLimit, "until the last request in flight was canceled")
	assert.Zero(t, late, "requests came after the end of the run")
	assert.Equal(t, int64(1+c.completed+c.canceled), h.completions.Load(), "the preflight's, those that ended, and those in flight: no later cell has begun")
	t.Logf("canceled after %s", last.Round(time.Millisecond))
}

func (c cutShort) checkArtifact(t *testing.T, got result) {
	t.Helper()
	assert.Empty(t, got.files(t, "*"+artifact.JournalSuffix), "the journal's rows stand in the artifact")
	partials := got.files(t, "*.json")
	require.Equal(t, []string{filepath.Join(got.dir, "artifacts", "held-c4-ctx256-w4.partial.json")}, partials, got.output)
	c.checkPartial(t, partials[0])
}

func (c cutShort) checkPartial(t *testing.T, path string) {
	t.Helper()
	n, err := artifact.ReadPartial(path)
	require.NoError(t, err)
	assert.False(t, n.Harness.Complete)
	reason, partial := n.Partial()
	assert.True(t, partial)
	assert.Contains(t, reason, c.reason)
	assert.False(t, *n.PerformanceEligible)
	assert.Equal(t, c.completed, n.Completed)
	throughput, _ := n.Metrics.Get("throughput_tok_s")
	assert.Nil(t, throughput)
	require.Len(t, n.Failures, c.canceled)
	for _, f := range n.Failures {
		require.NotNil(t, f.FailureDetail, f.ErrorMessage)
		assert.Equal(t, string(record.Canceled), *f.FailureDetail, f.ErrorMessage)
	}
	_, err = artifact.ReadNative(path)
	assert.ErrorIs(t, err, artifact.ErrPartial, "no gate reads it")
}

// held is what is left of a held cell that is cut short.
func held(reason string) cutShort {
	return cutShort{reason: reason, completed: heldFrom, canceled: heldConcurrency}
}

// startHeld starts a held cell and waits until it stands still.
func startHeld(t *testing.T, more ...string) (*process, *holding) {
	t.Helper()
	h := newHolding(t, heldFrom)
	dir := suiteDir(t)
	p := start(t, suiteCommand(t, dir, heldCell(h.URL, more...)...), dir)
	awaitHeld(t, h, dir)
	return p, h
}

// TestSignals: whatever tells the run to end, once or twice.
func TestSignals(t *testing.T) {
	for _, tt := range []struct {
		name    string
		signals []syscall.Signal
		reason  string
		why     string
	}{
		{"ctrl-c", []syscall.Signal{syscall.SIGINT}, "interrupted by interrupt", "a terminal signals the whole process group"},
		{"ctrl-c_again_and_again", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, "interrupted by interrupt", "an impatient user must not lose the evidence"},
		{"sigterm", []syscall.Signal{syscall.SIGTERM}, "interrupted by terminated", "CI cancels a job so"},
		{"sighup", []syscall.Signal{syscall.SIGHUP}, "interrupted by hangup", "a closed terminal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, h := startHeld(t)
			since := time.Now()
			p.signal(t, tt.signals[0])
			for _, s := range tt.signals[1:] {
				p.repeat(t, s)
			}
			got := p.wait(t)
			assert.NotZero(t, got.exit, tt.why)
			assert.Contains(t, got.output, "--- FAIL: TestCapacity/c8-ctx256-w4 (", "the later cell is told to be missing")
			assert.Contains(t, got.output, "not started")
			held(tt.reason).check(t, h, got, since)
		})
	}
}

// TestDeadlineNear ends the run by itself, ten seconds before go test would.
func TestDeadlineNear(t *testing.T) {
	t.Parallel()
	h := newHolding(t, heldFrom)
	dir := suiteDir(t)
	cmd := suiteCommand(t, dir, heldCell(h.URL)...)
	const left = 3 * time.Second // beyond the ten
	cmd.Args = append(cmd.Args, "-test.timeout="+(10*time.Second+left).String())
	p := start(t, cmd, dir)
	since := time.Now().Add(left) // the earliest
	awaitHeld(t, h, dir)
	got := p.wait(t)
	assert.NotZero(t, got.exit)
	assert.NotContains(t, got.output, "panic: test timed out")
	assert.Contains(t, got.output, "-timeout 0", "what to do about it")
	held("-timeout of go test").checkArtifact(t, got)
	last, _ := h.lastLeft(since)
	assert.LessOrEqual(t, last, cancelLimit+2*time.Second, "a process may take its time to start")
}

// TestInterruptedInThePreflight leaves no evidence, since there is none,
// and still does not pass.
func TestInterruptedInThePreflight(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	slow := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	dir := suiteDir(t)
	p := start(t, suiteCommand(t, dir, heldCell(slow.URL)...), dir)
	<-asked
	p.signal(t, syscall.SIGINT)
	got := p.wait(t)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "--- FAIL: TestCapacity/c4-ctx256-w4/preflight")
	assert.Equal(t, int64(1), slow.requests.Load())
	assert.Empty(t, got.files(t, "*.json"))
}

// TestInterruptedScout: the scout has evidence of its own, which is then partial,
// and the cell behind it does not start.
func TestInterruptedScout(t *testing.T) {
	t.Parallel()
	h := newHolding(t, heldFrom)
	dir := suiteDir(t)
	p := start(t, suiteCommand(t, dir, heldCell(h.URL, "CONCURRENCY=4", "SCOUT_REQUESTS=40")...), dir)
	await(t, "four requests in flight", func() bool { return h.inFlight() == heldConcurrency })
	await(t, "five rows in the journal", func() bool { return journalRows(dir, "held-scout") == heldFrom })
	since := p.signal(t, syscall.SIGINT)
	got := p.wait(t)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "--- FAIL: TestCapacity/c4-ctx256-w4/scout")
	assert.NotContains(t, got.output, "/service")
	held("").checkServer(t, h, since)
	require.Equal(t, []string{filepath.Join(dir, "artifacts", "held-scout.partial.json")}, got.files(t, "*"))
	held("interrupted by interrupt").checkPartial(t, got.files(t, "*")[0])
}

// TestKilledParent: nothing tells a process that its parent was killed, and what
// it writes then goes to a closed pipe. The run must see it and end.
func TestKilledParent(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script string // "$@" is the suite's command line; links to bash named go and gotestsum stand in the folder
		reason string
		why    string
	}{
		{"parent", `echo $$ >victim; "$@" & wait`, "(bash) is gone", "whatever started it"},
		{"go_test", `./go -c '"$@" & wait' go "$@" & echo $! >victim; wait`, "(go) is gone", "go test itself"},
		{"gotestsum", `./gotestsum -c './go -c "\"\$@\" & wait" go "$@" & wait' gotestsum "$@" & echo $! >victim; wait`, "(gotestsum) is gone", "go test lives on when gotestsum is killed, and so would the run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHolding(t, heldFrom)
			dir := suiteDir(t)
			for _, name := range []string{"go", "gotestsum"} {
				bash, err := exec.LookPath("bash")
				require.NoError(t, err)
				require.NoError(t, os.Symlink(bash, filepath.Join(dir, name)))
			}
			suite := suiteCommand(t, dir, heldCell(h.URL)...)
			cmd := exec.Command("bash", append([]string{"-c", tt.script, "bash"}, suite.Args...)...)
			cmd.Dir, cmd.Env = suite.Dir, suite.Env
			p := start(t, cmd, dir)
			awaitHeld(t, h, dir)
			victim := pidIn(t, filepath.Join(dir, "victim"))
			since := time.Now()
			require.NoError(t, syscall.Kill(victim, syscall.SIGKILL))
			got := p.wait(t)
			assert.Contains(t, got.output, "--- FAIL: TestCapacity (", tt.why)
			held(tt.reason).check(t, h, got, since)
		})
	}
}

func pidIn(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return pid
}

// TestKilledGoTest kills a real go test, whose pipe breaks with it.
func TestKilledGoTest(t *testing.T) {
	t.Parallel()
	h := newHolding(t, heldFrom)
	dir := t.TempDir()
	cmd := exec.Command("go", "test", "-v", "-run", "^TestCapacity$", "-count=1", ".")
	cmd.Dir = moduleRoot
	cmd.Env = environment(heldCell(h.URL, "ARTIFACT_DIR="+filepath.Join(dir, "artifacts")))
	p := start(t, cmd, dir)
	awaitHeld(t, h, dir)
	since := p.kill(t)
	p.wait(t)
	// The orphan has no output that could be waited for: it ends its requests,
	// writes, and lets its journal go last.
	await(t, "the partial artifact", func() bool {
		done, _ := filepath.Glob(filepath.Join(dir, "artifacts", "*.partial.json"))
		journals, _ := filepath.Glob(filepath.Join(dir, "artifacts", "*"+artifact.JournalSuffix))
		return len(done) == 1 && len(journals) == 0
	})
	held("(go) is gone").check(t, h, result{dir: dir}, since)
}

// TestNohup outlives the shell that started it, as it was asked to.
func TestNohup(t *testing.T) {
	t.Parallel()
	h := newHolding(t, heldFrom)
	dir := suiteDir(t)
	suite := suiteCommand(t, dir, heldCell(h.URL)...)
	cmd := exec.Command("bash", append([]string{"-c", `nohup "$@" & echo $! >suite; wait`, "bash"}, suite.Args...)...)
	cmd.Dir, cmd.Env = suite.Dir, suite.Env
	p := start(t, cmd, dir)
	awaitHeld(t, h, dir)
	p.kill(t)
	pid := pidIn(t, filepath.Join(dir, "suite"))
	require.NoError(t, syscall.Kill(pid, syscall.SIGHUP))
	// It goes on, also when it has looked for its parent: held requests are let
	// go, and the next take their places.
	killed, before := time.Now(), h.completions.Load()
	await(t, "a run that has looked for its parent", func() bool { return time.Since(killed) > 3*200*time.Millisecond })
	for range 2 {
		h.letGo(t)
	}
	await(t, "further requests", func() bool { return h.completions.Load() == before+2 })
	since := time.Now()
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	p.wait(t)
	last, _ := h.lastLeft(since)
	assert.LessOrEqual(t, last, cancelLimit)
}
