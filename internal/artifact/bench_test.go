package artifact

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/record"
)

// largest is a run of the largest cell that the protocol allows, with times
// that differ, as real ones do.
func largest() Run {
	run := smallRun(MaxRequests)
	for i := range run.Records {
		r := &run.Records[i]
		jitter := float64(i*7919%10007) / 313
		r.Timing.TTFOMS, r.Timing.TTFTMS = new(100+jitter/3), new(200+jitter/2)
		r.Tokens.Output = new(31 + i%17)
	}
	return run
}

func BenchmarkBuild10000(b *testing.B) {
	run := largest()
	for b.Loop() {
		Build(run)
	}
}

func BenchmarkWrite10000(b *testing.B) {
	n := Build(largest())
	dir := b.TempDir()
	i := 0
	for b.Loop() {
		path := filepath.Join(dir, strconv.Itoa(i))
		require.NoError(b, Write(path, n))
		i++
	}
	info, err := os.Stat(filepath.Join(dir, "0"))
	require.NoError(b, err)
	b.ReportMetric(float64(info.Size()), "file-bytes")
}

func BenchmarkRead10000(b *testing.B) {
	path := writeNative(b, "run.json", Build(largest()))
	for b.Loop() {
		_, err := ReadNative(path)
		require.NoError(b, err)
	}
}

func BenchmarkSummarize10000(b *testing.B) {
	path := writeNative(b, "run.json", Build(largest()))
	for b.Loop() {
		_, err := Summarize(path)
		require.NoError(b, err)
	}
}

func BenchmarkJournalAppend(b *testing.B) {
	run := smallRun(1)
	j, err := CreateJournal(filepath.Join(b.TempDir(), "run.journal"), run.Facts)
	require.NoError(b, err)
	defer j.Close()
	for b.Loop() {
		require.NoError(b, j.Append(run.Records[0]))
	}
}

// The largest cell of the protocol goes through a file and stays valid. How long
// that takes is for the benchmarks to say: a busy machine is no fault.
func TestLargestArtifact(t *testing.T) {
	t.Parallel()
	if testing.Short() || raceEnabled {
		t.Skip("15 MB on one goroutine: slow under the race detector and nothing for it to find")
	}
	n := Build(largest())
	path := writeNative(t, "run.json", n)
	back, err := ReadNative(path)
	require.NoError(t, err)
	require.Len(t, back.RequestTimings, MaxRequests)
	require.NoError(t, back.Validate())
}

// The largest file that this suite can write is one that it reads: every
// request failed, each with the longest message in its longest escape, and with
// as many foreign markers as the capture holds.
func TestLargestFileIsBelowTheLimit(t *testing.T) {
	t.Parallel()
	r := fullRecord()
	r.CanaryObserved = false
	r.Failure.Message = strings.Repeat("\x01", record.MessageLimitChars)
	markers := contract.CaptureLimitChars / len("ANVIL_REQ_0_00000 ")
	r.Canary.Foreign = slices.Repeat([]string{"ANVIL_REQ_0_00000"}, markers)
	r.Canary.LeakedFrom = slices.Repeat([]int{9999}, markers)
	data, err := encode(map[string]any{"failures": []FailureRow{failureRowOf(&r)}})
	require.NoError(t, err)
	require.Greater(t, len(data), 6*record.MessageLimitChars)
	require.Less(t, len(data)*MaxRequests, FileLimitBytes-1<<20)
}
