package artifact

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

// tooSlow is ten times what the largest artifact needs on a small machine: the
// test finds a writer or reader that has become quadratic, not a busy machine.
const tooSlow = 10 * time.Second

func TestLargestArtifactIsQuick(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("writes 20 MB")
	}
	run := largest()
	started := time.Now()
	n := Build(run)
	built := time.Now()
	path := writeNative(t, "run.json", n)
	written := time.Now()
	back, err := ReadNative(path)
	require.NoError(t, err)
	read := time.Now()
	require.Len(t, back.RequestTimings, MaxRequests)
	t.Logf("10,000 rows: build %v, validate and write %v, read %v", built.Sub(started), written.Sub(built), read.Sub(written))
	require.Less(t, read.Sub(started), tooSlow)
}
