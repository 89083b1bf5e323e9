package artifact

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/record"
)

// journalOf writes a journal of all records of a run and leaves it as a dead
// process would: not closed in order, lock gone.
func journalOf(t testing.TB, run Run) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run"+JournalSuffix)
	j, err := CreateJournal(path, run.Facts)
	require.NoError(t, err)
	for _, r := range run.Records {
		require.NoError(t, j.Append(r))
	}
	require.NoError(t, j.Close())
	return path
}

func TestJournalGivesTheRecordsBack(t *testing.T) {
	t.Parallel()
	run := mixedRun()
	run.Records = run.Records[:5] // request 5 was in flight
	r, err := Recover(journalOf(t, run))
	require.NoError(t, err)
	assert.Zero(t, r.TornLines)
	assert.Empty(t, r.Corrupt)

	n := r.Native
	direct := Build(run)
	assert.Equal(t, direct.RequestTimings, n.RequestTimings, "each row as the final artifact would have had it")
	assert.Equal(t, direct.Failures, n.Failures)
	assert.Equal(t, 2000.0, *n.WallClockMS, "first start at 0 to the last recorded end at 2,000 ms")
	reason, partial := n.Partial()
	assert.True(t, partial)
	assert.Contains(t, reason, "recovered from journal run.journal")
	assert.Contains(t, reason, "5 of 6 requests recorded")
	assert.Equal(t, &Recovered{Journal: "run.journal"}, n.Harness.Recovered)
	assert.Empty(t, violationsOf(t, &n))

	path := filepath.Join(t.TempDir(), "run.json")
	require.NoError(t, Write(path, n), "partial evidence can be written")
	_, err = ReadNative(path)
	assert.ErrorIs(t, err, ErrPartial, "and passes nowhere")
}

// All requests recorded, and then killed: still partial, still no throughput.
func TestRecoveredIsNeverComplete(t *testing.T) {
	t.Parallel()
	r, err := Recover(journalOf(t, smallRun(3)))
	require.NoError(t, err)
	_, partial := r.Native.Partial()
	assert.True(t, partial)
	assert.False(t, r.Native.Eligible())
	throughput, known := r.Native.Metrics.Get("throughput_tok_s")
	assert.True(t, known && throughput == nil)
	assert.Equal(t, 3, r.Native.Completed)
}

// Before the first request ends there are only the facts.
func TestRecoverAnEmptyJournal(t *testing.T) {
	t.Parallel()
	run := smallRun(3)
	run.Records = nil
	r, err := Recover(journalOf(t, run))
	require.NoError(t, err)
	assert.Equal(t, []int{3, 0, 0}, []int{r.Native.Requests, r.Native.Completed, r.Native.Failed})
	assert.NoError(t, Write(filepath.Join(t.TempDir(), "run.json"), r.Native))
}

func TestRecoverDamagedJournals(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(journalOf(t, smallRun(4)))
	require.NoError(t, err)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	require.Len(t, lines, 6, "header, four records, and nothing after the last line end")
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	tests := []struct {
		name, why string
		data      []byte
		completed int
		torn      int
		corrupt   []int // line numbers
	}{
		{"whole", "nothing wrong", whole, 4, 0, nil},
		{"torn in the middle of the last line", "a kill between two bytes of a write", whole[:len(whole)-40], 3, 1, nil},
		{"torn after one byte", "a kill after the first", join(lines[0], lines[1], []byte("{")), 1, 1, nil},
		{"torn before the line end", "the record is all there", whole[:len(whole)-1], 4, 0, nil},
		{"garbage in the middle", "costs that line and no other", join(lines[0], lines[1], []byte("garbage\n"), lines[3], lines[4]), 3, 0, []int{3}},
		{"NULs in the middle", "a block that a crashed machine never wrote", join(lines[0], bytes.Repeat([]byte{0}, 600), []byte("\n"), lines[2], lines[3]), 2, 0, []int{2}},
		{"NULs at the end", "the same, as the last line", join(lines[0], lines[1], bytes.Repeat([]byte{0}, 600)), 1, 1, nil},
		{"a line in pieces", "two writers would do that", join(lines[0], lines[1][:50], []byte("\n"), lines[1][50:], lines[2]), 1, 0, []int{2, 3}},
		{"the same request twice", "one request has one outcome: the first", join(lines[0], lines[1], lines[1], lines[2]), 2, 0, []int{3}},
		{"another run's request", "index 4 of 4", join(lines[0], bytes.ReplaceAll(lines[1], []byte(`"request_index":0`), []byte(`"request_index":4`)), lines[2]), 1, 0, []int{2}},
		{"negative index", "none has one", join(lines[0], bytes.ReplaceAll(lines[1], []byte(`"request_index":0`), []byte(`"request_index":-1`))), 0, 0, []int{2}},
		{"no record", "a line of something else", join(lines[0], []byte("{}\n"), lines[2]), 1, 0, []int{2}},
		{"both kinds", "a request cannot complete and fail", join(lines[0], []byte(`{"request_timing":{},"failure":{}}`+"\n"), lines[2]), 1, 0, []int{2}},
		{"an impossible time", "would throw the timestamps out of range", join(lines[0], []byte(`{"at_ms":1e300,"request_timing":{}}`+"\n"), lines[2]), 1, 0, []int{2}},
		{"an empty line", "nobody writes one", join(lines[0], []byte("\n"), lines[2]), 1, 0, []int{2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := recoverFrom("run.journal", bytes.NewReader(tt.data))
			require.NoError(t, err)
			assert.Equal(t, tt.completed, r.Native.Completed, tt.why)
			assert.Equal(t, tt.torn, r.TornLines, tt.why)
			var numbers []int
			for _, line := range r.Corrupt {
				numbers = append(numbers, line.Line)
				assert.Error(t, line.Err)
			}
			assert.Equal(t, tt.corrupt, numbers, tt.why)
			assert.Equal(t, &Recovered{Journal: "run.journal", TornLines: tt.torn, CorruptLines: len(tt.corrupt)}, r.Native.Harness.Recovered)
			assert.Len(t, r.Native.Harness.Notes, len(tt.corrupt), "damage is noted in the artifact")
			assert.NoError(t, Write(filepath.Join(t.TempDir(), "run.json"), r.Native))
		})
	}
}

// A journal cut at every byte gives back every record whose line is whole.
func TestRecoverAtEveryCut(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(journalOf(t, smallRun(2)))
	require.NoError(t, err)
	header := bytes.IndexByte(whole, '\n')
	require.Positive(t, header)
	cuts := 0
	for cut := header + 1; cut <= len(whole); cut++ {
		r, err := recoverFrom("run.journal", bytes.NewReader(whole[:cut]))
		require.NoError(t, err)
		lineEnds := bytes.Count(whole[header+1:cut], []byte("\n"))
		require.GreaterOrEqual(t, r.Native.Completed, lineEnds, "cut at byte %d", cut)
		require.LessOrEqual(t, r.Native.Completed+r.TornLines, lineEnds+1)
		require.Empty(t, r.Corrupt, "a cut is no corruption")
		cuts++
	}
	assert.Greater(t, cuts, 1000)
}

func TestRecoverRefuses(t *testing.T) {
	t.Parallel()
	header, _, _ := strings.Cut(readText(t, journalOf(t, smallRun(4))), "\n")
	tests := []struct{ name, why, data, want string }{
		{"empty", "a kill before the first write", "", "file is empty"},
		{"torn header", "a kill in the first write", header[:50], "the run died before its first request"},
		{"no journal", "some other text file", "hello\n", "first line is not a journal's"},
		{"another schema", "an artifact on one line", `{"schema":"` + NativeSchema + `"}` + "\n", "want \"anvil-capacity.journal/v1\""},
		{"a later journal", "its lines may mean other things", strings.Replace(header, "journal/v1", "journal/v2", 1) + "\n", "got \"anvil-capacity.journal/v2\""},
		{"no facts", "nothing to build on", `{"schema":"` + JournalSchema + `"}` + "\n", "with its facts"},
		{"no requests", "nothing was planned", strings.Replace(header, `"requests":4`, `"requests":0`, 1) + "\n", "facts say 0 requests, want 1 to 10000"},
		{"too many requests", "memory is bounded by the plan", strings.Replace(header, `"requests":4`, `"requests":10001`, 1) + "\n", "facts say 10001 requests"},
		{"endless first line", "memory is bounded by the line limit", strings.Repeat("x", JournalLineLimitBytes+1), "more than 1048576 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "run.journal")
			require.NoError(t, os.WriteFile(path, []byte(tt.data), 0o600))
			_, err := Recover(path)
			assert.ErrorContains(t, err, tt.want, tt.why)
			assert.ErrorContains(t, err, path, "the error names the file")
		})
	}
	_, err := Recover(t.TempDir())
	assert.ErrorContains(t, err, "not a regular file")
}

// The limit of a line at n-1, n and n+1 bytes; the next line is read all the same.
func TestJournalLineLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		bytes int
		long  bool
	}{{JournalLineLimitBytes - 1, false}, {JournalLineLimitBytes, false}, {JournalLineLimitBytes + 1, true}, {3 * JournalLineLimitBytes, true}} {
		text := strings.Repeat("x", tt.bytes) + "\nnext\n" + strings.Repeat("y", tt.bytes)
		lines := lineReader{r: bufio.NewReaderSize(strings.NewReader(text), 64<<10)}
		first, ended, err := lines.next()
		assert.Equal(t, tt.long, err == errLongLine, "%d bytes", tt.bytes)
		assert.True(t, ended)
		if !tt.long {
			assert.Len(t, first, tt.bytes)
		}
		second, _, err := lines.next()
		require.NoError(t, err)
		assert.Equal(t, "next", string(second))
		_, ended, err = lines.next()
		assert.Equal(t, tt.long, err == errLongLine, "the last line too")
		assert.False(t, ended)
		assert.Equal(t, 3, lines.number)
	}
}

// A record that the limit must hold: the longest message in its longest escape.
func TestLongestRecordFitsTheLineLimit(t *testing.T) {
	t.Parallel()
	r := fullRecord()
	r.Failure.Message = strings.Repeat("\x00", record.MessageLimitChars)
	r.Failure.ErrorType = strings.Repeat("\x00", 1024)
	r.Canary.Foreign = strings.Fields(strings.Repeat("ANVIL_REQ_0_00000 ", 8192/18))
	data, err := json.Marshal(journalLine{Failure: new(failureRowOf(&r))})
	require.NoError(t, err)
	assert.Less(t, len(data), JournalLineLimitBytes/10)
}

// Without StartMS in the records the journal's own clock puts them in order.
func TestRecoverWithoutStartTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run := smallRun(3)
		path := filepath.Join(t.TempDir(), "run.journal")
		j, err := CreateJournal(path, run.Facts)
		require.NoError(t, err)
		created := time.Now()
		time.Sleep(50 * time.Millisecond) // the first request starts 50 ms after the journal
		for _, r := range run.Records {
			time.Sleep(400 * time.Millisecond)
			r.StartMS = 0
			require.NoError(t, j.Append(r))
		}
		require.NoError(t, j.Close())
		r, err := Recover(path)
		require.NoError(t, err)
		assert.Equal(t, created.Add(50*time.Millisecond).UnixNano(), *r.Native.StartedAtUnixNS)
		assert.Equal(t, 1200.0, *r.Native.WallClockMS)
		for i, row := range r.Native.RequestTimings {
			assert.Equal(t, float64(i)*400, *row.StartOffsetMS)
		}
	})
}

// One write a line: lines of many writers never mix.
func TestJournalIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	run := smallRun(200)
	path := filepath.Join(t.TempDir(), "run.journal")
	j, err := CreateJournal(path, run.Facts)
	require.NoError(t, err)
	var writers sync.WaitGroup
	for _, r := range run.Records {
		writers.Go(func() { assert.NoError(t, j.Append(r)) })
	}
	writers.Wait()
	require.NoError(t, j.Close())
	r, err := Recover(path)
	require.NoError(t, err)
	assert.Equal(t, 200, r.Native.Completed)
	assert.Empty(t, r.Corrupt)
}

// A journal belongs to one run.
func TestCreateJournalRefuses(t *testing.T) {
	t.Parallel()
	path := journalOf(t, smallRun(2))
	before := readText(t, path)
	_, err := CreateJournal(path, realFacts(2))
	assert.ErrorIs(t, err, os.ErrExist, "an older run's journal may be its only evidence")
	assert.Equal(t, before, readText(t, path))

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = CreateJournal(filepath.Join(file, "run.journal"), realFacts(2))
	assert.ErrorContains(t, err, "CAPACITY_ARTIFACT_DIR")
}

// While its run lives, a journal is nobody else's to recover.
func TestRecoverLeavesALiveJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.journal")
	j, err := CreateJournal(path, realFacts(2))
	require.NoError(t, err)
	_, err = Recover(path)
	assert.ErrorIs(t, err, ErrJournalLive)
	require.NoError(t, j.Close())
	_, err = Recover(path)
	assert.NoError(t, err)
}

// After a failed write nothing follows: a half-written line must stay the last.
func TestJournalStopsAtAFailedWrite(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	j := &Journal{lines: &lineFile{path: "run.journal", file: full}, opened: time.Now()}
	first := j.Append(smallRun(1).Records[0])
	assert.ErrorContains(t, first, "no space left on device")
	assert.ErrorContains(t, first, `appending request 0 to journal "run.journal" (CAPACITY_ARTIFACT_DIR)`)
	again, err := os.Create(filepath.Join(t.TempDir(), "room"))
	require.NoError(t, err)
	defer again.Close()
	j.lines.file = again
	assert.ErrorContains(t, j.Append(smallRun(1).Records[0]), "no space left on device", "the first error stays")
	info, err := again.Stat()
	require.NoError(t, err)
	assert.Zero(t, info.Size())
}

// A record that JSON cannot hold costs its own line only.
func TestJournalGoesOnAfterAnUnwritableRecord(t *testing.T) {
	t.Parallel()
	run := smallRun(2)
	path := filepath.Join(t.TempDir(), "run.journal")
	j, err := CreateJournal(path, run.Facts)
	require.NoError(t, err)
	bad := run.Records[0]
	bad.StartMS = math.NaN()
	assert.ErrorContains(t, j.Append(bad), "NaN")
	assert.NoError(t, j.Append(run.Records[1]))
	require.NoError(t, j.Close())
	r, err := Recover(path)
	require.NoError(t, err)
	assert.Equal(t, 1, r.Native.Completed)
	assert.Empty(t, r.Corrupt)
}

func TestJournalKeepsNoSecret(t *testing.T) {
	t.Parallel()
	run := smallRun(1)
	run.BaseURL = "https://user:sekrit@host/v1?key=sekrit"
	text := readText(t, journalOf(t, run))
	assert.NotContains(t, text, "sekrit")
	assert.Contains(t, text, "https://host/v1")
	n := Build(run)
	data, err := encode(n)
	require.NoError(t, err)
	assert.NotContains(t, string(data), "sekrit")
}

func TestJournalRemove(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.journal")
	j, err := CreateJournal(path, realFacts(2))
	require.NoError(t, err)
	assert.Equal(t, path, j.Path())
	require.NoError(t, j.Remove())
	assert.NoFileExists(t, path)
	assert.Error(t, j.Append(smallRun(1).Records[0]), "a removed journal takes no more")
}

// kill -9 loses nothing that Append had returned from.
func TestKillLosesNoFinishedRecord(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.journal")
	cmd := exec.Command(os.Args[0], "-test.run=^TestJournalWriterProcess$")
	cmd.Env = append(os.Environ(), writerProcess+"="+path)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	reported := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "appended %d", &reported); err == nil && reported >= 500 {
			require.NoError(t, cmd.Process.Kill())
			break
		}
	}
	cmd.Wait()
	require.GreaterOrEqual(t, reported, 500, "the writer must have written")
	r, err := Recover(path)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, r.Native.Completed, reported)
	assert.Less(t, r.Native.Completed, MaxRequests, "it was killed in the middle")
	assert.Empty(t, r.Corrupt)
	t.Logf("killed after %d reported records: %d recovered, %d torn", reported, r.Native.Completed, r.TornLines)
}

const writerProcess = "ARTIFACT_TEST_JOURNAL"

// TestJournalWriterProcess is the process that TestKillLosesNoFinishedRecord kills.
func TestJournalWriterProcess(t *testing.T) {
	path := os.Getenv(writerProcess)
	if path == "" {
		t.Skip("only as the process of another test")
	}
	run := smallRun(1)
	facts := realFacts(MaxRequests)
	j, err := CreateJournal(path, facts)
	require.NoError(t, err)
	for i := range MaxRequests {
		r := run.Records[0]
		r.RequestIndex = i
		require.NoError(t, j.Append(r))
		fmt.Printf("appended %d\n", i+1)
	}
	select {} // until killed
}

func readText(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}
