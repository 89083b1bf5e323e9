package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
)

// TestFullDisk fills the disk of the artifacts while a cell runs. The first row
// that finds no place ends the run, and the partial artifact has the room that
// was held back for it.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	h := newHolding(t, heldFrom)
	dir := suiteDir(t)
	artifacts := smallDisk(t, filepath.Join(dir, "artifacts"), 1<<20)
	p := start(t, suiteCommand(t, dir, heldCell(h.URL)...), dir)
	awaitHeld(t, h, dir)
	filled := fillDisk(t, filepath.Join(artifacts, "filler"))
	require.Less(t, filled, int64(900<<10), "nothing is held back")
	rows, since := letGoUntilEnd(t, h, p)
	got := p.wait(t)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "no space left on device")
	assert.Contains(t, got.output, artifact.DirVariable)
	// The request whose row found no place is in the artifact all the same.
	cutShort{reason: "its evidence could not be kept", completed: heldFrom + rows, canceled: heldConcurrency - 1}.check(t, h, got, since)
}

// letGoUntilEnd lets one held request after the other go on, until one of them
// is not followed by the next. It says how many went and when the last did.
func letGoUntilEnd(t *testing.T, h *holding, p *process) (rows int, last time.Time) {
	t.Helper()
	ended := func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	}
	for !ended() && rows < 30 {
		before := h.completions.Load()
		last = time.Now()
		h.letGo(t)
		rows++
		await(t, "the next request or the end", func() bool { return h.completions.Load() > before || ended() })
	}
	return rows, last
}

// TestNoRoomForTheEvidence says so before the first request.
func TestNoRoomForTheEvidence(t *testing.T) {
	t.Parallel()
	ref := refTarget(t, fast())
	dir := suiteDir(t)
	smallDisk(t, filepath.Join(dir, "artifacts"), 256<<10)
	got := finish(t, suiteCommand(t, dir, small(ref.URL, "REQUESTS=100")...), dir)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "no space left on device")
	assert.Contains(t, got.output, "make room there")
	assert.Equal(t, int64(1), ref.completions.Load(), "the preflight's alone")
	assert.Empty(t, got.files(t, "*"), "nothing is left behind")
}

// smallDisk mounts a file system of so many bytes.
func smallDisk(t *testing.T, dir string, bytes int) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes))
	if errors.Is(err, syscall.EPERM) {
		t.Skip("a small disk needs the right to mount one")
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fillDisk writes until nothing more fits and says how much that was.
func fillDisk(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	n, err := io.Copy(f, zeros{})
	require.ErrorIs(t, err, syscall.ENOSPC)
	return n
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestFileSizeLimit makes the next row impossible in another way, in which the
// artifact finds no place either: the rows stay in the journal, and the next
// run makes a partial artifact of them.
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	h := newHolding(t, heldFrom)
	dir := suiteDir(t)
	p := start(t, suiteCommand(t, dir, heldCell(h.URL)...), dir)
	awaitHeld(t, h, dir)
	limitFileSize(t, p.cmd.Process.Pid, 64)
	since := time.Now()
	h.letGo(t)
	got := p.wait(t)
	assert.NotZero(t, got.exit)
	assert.Contains(t, got.output, "file too large")
	assert.Contains(t, got.output, "held-c4-ctx256-w4.journal", "where the rows are")
	assert.Contains(t, got.output, "scripts/evidence recover", "what to do about it")
	cutShort{completed: heldFrom + 1, canceled: heldConcurrency - 1}.checkServer(t, h, since)
	assert.NotContains(t, got.output, "--- PASS: TestCapacity/c4-ctx256-w4/threshold")
	assert.Empty(t, got.files(t, "*.json"))
	assert.Equal(t, heldFrom, journalRows(dir, "held-c4-ctx256-w4"))

	recoverByNextRun(t, dir)
}

// limitFileSize sets RLIMIT_FSIZE of a running process, in bytes.
func limitFileSize(t *testing.T, pid int, bytes uint64) {
	t.Helper()
	limit := syscall.Rlimit{Cur: bytes, Max: bytes}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	require.Zero(t, errno)
}

// TestVanishedArtifactDir: rows appended to a deleted file are lost without an
// error, so the run must look.
func TestVanishedArtifactDir(t *testing.T) {
	t.Run("deleted", func(t *testing.T) {
		t.Parallel()
		p, h := startHeld(t)
		since := time.Now()
		require.NoError(t, os.RemoveAll(filepath.Join(p.dir, "artifacts")))
		got := p.wait(t)
		assert.NotZero(t, got.exit)
		held("held-c4-ctx256-w4.journal\" is gone").check(t, h, got, since) // the folder is made again
	})
	t.Run("moved", func(t *testing.T) {
		t.Parallel()
		p, h := startHeld(t)
		since := time.Now()
		require.NoError(t, os.Rename(filepath.Join(p.dir, "artifacts"), filepath.Join(p.dir, "moved")))
		got := p.wait(t)
		assert.NotZero(t, got.exit)
		held("held-c4-ctx256-w4.journal\" is gone").check(t, h, got, since)
	})
	t.Run("a_file_in_its_place", func(t *testing.T) {
		t.Parallel()
		h := newHolding(t, heldFrom)
		dir, spare := suiteDir(t), t.TempDir()
		cmd := suiteCommand(t, dir, heldCell(h.URL)...)
		cmd.Env = append(cmd.Env, "TMPDIR="+spare)
		p := start(t, cmd, dir)
		awaitHeld(t, h, dir)
		since := time.Now()
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "artifacts")))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "artifacts"), nil, 0o644))
		got := p.wait(t)
		assert.NotZero(t, got.exit)
		held("").checkServer(t, h, since)
		elsewhere, err := filepath.Glob(filepath.Join(spare, "anvil-capacity-*", "held-c4-ctx256-w4.partial.json"))
		require.NoError(t, err)
		require.Len(t, elsewhere, 1, got.output)
		assert.Contains(t, got.output, elsewhere[0], "the message says where")
		held("could not be kept").checkPartial(t, elsewhere[0])
	})
}
