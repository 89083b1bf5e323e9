package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/refserver"
)

// killHeld starts a held cell, kills it with SIGKILL while it stands still, and
// gives the folder that it leaves behind.
func killHeld(t *testing.T) string {
	t.Helper()
	p, h := startHeld(t)
	since := p.kill(t)
	p.wait(t)
	await(t, "the end of every request", func() bool { return h.inFlight() == 0 })
	held("").checkServer(t, h, since)
	require.Equal(t, []string{filepath.Join(p.dir, "artifacts", "held-c4-ctx256-w4.journal")}, result{dir: p.dir}.files(t, "*"),
		"nothing but the journal, not even a file that held room back")
	return p.dir
}

// TestKilledRunIsRecoveredByTheNext loses the requests in flight and no other.
func TestKilledRunIsRecoveredByTheNext(t *testing.T) {
	t.Parallel()
	recoverByNextRun(t, killHeld(t))
}

// TestKilledRunUnderItsOwnName is recovered too, and the name is then taken.
func TestKilledRunUnderItsOwnName(t *testing.T) {
	t.Parallel()
	dir := killHeld(t)
	ref := refTarget(t, fast())
	next := finish(t, suiteCommand(t, dir, heldCell(ref.URL)...), dir)
	assert.NotZero(t, next.exit)
	assert.Contains(t, next.output, "5 of 40 requests had ended")
	assert.Contains(t, next.output, "CAPACITY_RUN")
	assert.Zero(t, ref.requests.Load())
	cutShort{reason: "recovered from journal", completed: heldFrom}.checkArtifact(t, next)
}

// TestKilledRunIsRecoveredByHand uses the tool, as a user without a server does.
func TestKilledRunIsRecoveredByHand(t *testing.T) {
	t.Parallel()
	dir := killHeld(t)
	cmd := exec.Command("go", "run", "./scripts/evidence", "recover", filepath.Join(dir, "artifacts", "held-c4-ctx256-w4.journal"))
	cmd.Dir = moduleRoot
	got := finish(t, cmd, dir)
	require.Zero(t, got.exit, got.output)
	assert.Contains(t, got.output, "5 of 40 requests had ended")
	cutShort{reason: "recovered from journal", completed: heldFrom}.checkArtifact(t, got)
}

// TestKilledUnderLoad kills a run that does not stand still: whatever the server
// had answered is in the journal, but for the requests in flight.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	const concurrency, enough = 8, 60
	o := fast()
	o.DecodeBase = 2 * time.Millisecond
	server, err := refserver.New(o)
	require.NoError(t, err)
	var answered atomic.Int64
	ref := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.Handler().ServeHTTP(w, r)
		if r.Method == http.MethodPost && r.Context().Err() == nil {
			answered.Add(1)
		}
	}))
	dir := suiteDir(t)
	p := start(t, suiteCommand(t, dir, small(ref.URL, "REQUESTS=4000", "CONCURRENCY=8", "RUN=killed")...), dir)
	await(t, "answers", func() bool { return answered.Load() > enough })
	answeredThen := answered.Load() - 1 // of the plan: less the preflight's
	p.kill(t)
	p.wait(t)
	next := finish(t, suiteCommand(t, dir, small(ref.URL, "RUN=next")...), dir)
	require.Zero(t, next.exit, next.output)
	n, err := artifact.ReadPartial(filepath.Join(dir, "artifacts", "killed.partial.json"))
	require.NoError(t, err)
	rows := int64(n.Completed + n.Failed)
	assert.GreaterOrEqual(t, rows, answeredThen-concurrency, "no more than the requests in flight are lost")
	assert.Zero(t, n.Failed)
	t.Logf("kill -9 with %d answers given and %d in flight: %d rows kept", answeredThen, concurrency, rows)
}

// TestLiveJournalIsLeftAlone: a second run in the same folder must not take the
// first one's journal for that of a dead run.
func TestLiveJournalIsLeftAlone(t *testing.T) {
	t.Parallel()
	p, h := startHeld(t)
	ref := refTarget(t, fast())
	other := finish(t, suiteCommand(t, p.dir, small(ref.URL, "RUN=other")...), p.dir)
	require.Zero(t, other.exit, other.output)
	assert.NotContains(t, other.output, "journal")
	assert.FileExists(t, filepath.Join(p.dir, "artifacts", "held-c4-ctx256-w4.journal"))
	assert.NoFileExists(t, filepath.Join(p.dir, "artifacts", "held-c4-ctx256-w4.partial.json"))

	since := p.signal(t, syscall.SIGTERM)
	got := p.wait(t)
	for _, name := range other.files(t, "other*") {
		require.NoError(t, os.Remove(name))
	}
	held("interrupted by terminated").check(t, h, got, since)
}

// TestUselessJournal is told and left where it is: nothing is thrown away that
// was not understood.
func TestUselessJournal(t *testing.T) {
	t.Parallel()
	ref := refTarget(t, fast())
	dir := suiteDir(t)
	path := filepath.Join(dir, "artifacts", "old.journal")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(`{"schema":"anvil-capacity.jour`), 0o644))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "artifacts", "pipe.journal"), 0o644)) // to open it would block
	got := finish(t, suiteCommand(t, dir, small(ref.URL)...), dir)
	require.Zero(t, got.exit, got.output)
	assert.Contains(t, got.output, "old.journal")
	assert.Contains(t, got.output, "the run died before its first request")
	assert.FileExists(t, path)
}
