package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// names lists a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	found := []string{}
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

func TestWriteThenRead(t *testing.T) {
	t.Parallel()
	n := Build(mixedRun())
	dir := t.TempDir()
	path := filepath.Join(dir, "not", "yet", "there", "run.json")
	require.NoError(t, Write(path, n), "a directory that vanished is made again")
	assert.Equal(t, []string{"run.json"}, names(t, filepath.Dir(path)), "no temporary file stays")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.True(t, bytes.HasSuffix(data, []byte("\n}\n")))
	back, err := ReadNative(path)
	require.NoError(t, err)
	assert.NoError(t, back.Validate())
	again, err := encode(back)
	require.NoError(t, err)
	assert.Equal(t, string(data), string(again), "reading and writing again changes no byte")
}

func TestWriteNeverOverwrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.json")
	require.NoError(t, Write(path, Build(smallRun(2))))
	before, err := os.ReadFile(path)
	require.NoError(t, err)

	require.NoError(t, Write(path, Build(smallRun(2))), "the same bytes are there already")
	err = Write(path, Build(smallRun(3)))
	assert.ErrorIs(t, err, ErrExists)
	assert.ErrorContains(t, err, path)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, before, after)
	assert.Equal(t, []string{"run.json"}, names(t, filepath.Dir(path)))
}

// Of many writers of one name exactly one wins, and the file is whole.
func TestWriteRace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.json")
	var wins, losses int
	var mu sync.Mutex
	var writers sync.WaitGroup
	for i := range 16 {
		writers.Go(func() {
			err := Write(path, map[string]int{"writer": i})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				wins++
			} else if errors.Is(err, ErrExists) {
				losses++
			}
		})
	}
	writers.Wait()
	assert.Equal(t, []int{1, 15}, []int{wins, losses})
	assert.Equal(t, []string{"run.json"}, names(t, filepath.Dir(path)))
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	invalid := Build(smallRun(2))
	invalid.Completed = 5
	unmarked := Build(smallRun(3))
	unmarked.RequestTimings, unmarked.Completed = unmarked.RequestTimings[:2], 2
	unreasoned := Build(smallRun(3))
	unreasoned.Harness.Complete = false
	nan := Build(smallRun(2))
	nan.MarkPartial("to get past validation")
	nan.WallClockMS = new(math.NaN())
	tests := []struct {
		name, why string
		value     any
		want      string
	}{
		{"an invalid artifact", "evidence that contradicts itself is none", invalid, "artifact is not valid"},
		{"by pointer too", "the same check", &invalid, "artifact is not valid"},
		{"missing rows, unmarked", "a partial run must say so", unmarked, "must be marked partial"},
		{"incomplete without reason", "a partial run must say why", unreasoned, "with its reason"},
		{"NaN", "JSON has none, and no file may be left half written", nan, "NaN"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			err := Write(filepath.Join(dir, "run.json"), tt.value)
			assert.ErrorContains(t, err, tt.want, tt.why)
			assert.ErrorContains(t, err, "run.json", "the error names the file")
			assert.Empty(t, names(t, dir), "nothing is left behind")
		})
	}
}

// What Write refuses can be kept as partial evidence.
func TestInvalidEvidenceIsKeptAsPartial(t *testing.T) {
	t.Parallel()
	n := Build(smallRun(2))
	n.RequestTimings[0].ReasoningChunks = nil
	err := n.Validate()
	require.Error(t, err)
	n.MarkPartial(err.Error())
	path := writeNative(t, "run.json", n)
	_, err = ReadNative(path)
	assert.ErrorIs(t, err, ErrPartial)
	assert.ErrorContains(t, err, "reasoning_chunks is missing")
}

// A write that breaks in the middle, as on a full disk, leaves nothing.
func TestWriteTempCleansUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := io.MultiReader(strings.NewReader("half a file"), iotest.ErrReader(errors.New("no space left on device")))
	_, err := writeTemp(dir, "run.json", broken)
	assert.ErrorContains(t, err, "no space left")
	assert.Empty(t, names(t, dir))
}

func TestPublishFailureCleansUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "run.json")
	require.NoError(t, os.Mkdir(path, 0o755), "a folder stands where the file should go")
	assert.Error(t, Write(path, map[string]int{"a": 1}))
	assert.Equal(t, []string{"run.json"}, names(t, dir))
}

// Where the file system has no hard links, a name that is taken is still not
// written over.
func TestPublishWithoutLinks(t *testing.T) {
	t.Parallel()
	noLinks := func(string, string) error { return errors.ErrUnsupported }
	dir := t.TempDir()
	temp, path := filepath.Join(dir, "temp"), filepath.Join(dir, "run.json")
	require.NoError(t, os.WriteFile(temp, []byte("new"), 0o600))
	require.NoError(t, publish(temp, path, noLinks))
	assert.Equal(t, "new", readText(t, path))
	assert.NoFileExists(t, temp)

	require.NoError(t, os.WriteFile(temp, []byte("newer"), 0o600))
	assert.ErrorIs(t, publish(temp, path, noLinks), os.ErrExist)
	assert.Equal(t, "new", readText(t, path))
}

// What a server sent stays readable: an operator looks at these files.
func TestMessagesStayReadable(t *testing.T) {
	t.Parallel()
	run := mixedRun()
	run.Records[1].Failure.Message = `got "<html>502 & more</html>"`
	text := readText(t, writeNative(t, "run.json", Build(run)))
	assert.Contains(t, text, `got \"<html>502 & more</html>\"`)
}

// A dangling link at the final name is somebody's: it is not followed.
func TestWriteDoesNotFollowALink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "run.json")
	target := filepath.Join(dir, "elsewhere.json")
	require.NoError(t, os.Symlink(target, path))
	assert.Error(t, Write(path, map[string]int{"a": 1}))
	assert.NoFileExists(t, target)
}

func TestCheckWritable(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	file := filepath.Join(base, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	fresh := filepath.Join(base, "a", "b")
	require.NoError(t, CheckWritable(fresh), "the directory is made")
	assert.Empty(t, names(t, fresh), "the probe is removed")
	require.NoError(t, CheckWritable(fresh), "and again")

	closed := filepath.Join(base, "closed")
	require.NoError(t, os.Mkdir(closed, 0o500))
	t.Cleanup(func() { os.Chmod(closed, 0o700) })
	for _, tt := range []struct {
		name, dir, why string
		skip           bool
	}{
		{"a file", file, "it is no directory", false},
		{"below a file", filepath.Join(file, "x"), "no directory can be made there", false},
		{"no permission", closed, "found before the first request", os.Geteuid() == 0},
		{"a NUL", "a\x00b", "no such name", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.skip {
				t.Skip("root may write anywhere")
			}
			err := CheckWritable(tt.dir)
			require.Error(t, err, tt.why)
			assert.ErrorContains(t, err, "CAPACITY_ARTIFACT_DIR")
			assert.ErrorContains(t, err, fmt.Sprintf("%q", tt.dir))
			assert.ErrorContains(t, err, "name a directory that can be written")
		})
	}
}

// edit changes the JSON of a valid artifact.
func edit(t testing.TB, change func(map[string]any)) []byte {
	t.Helper()
	data, err := encode(Build(mixedRun()))
	require.NoError(t, err)
	var object map[string]any
	require.NoError(t, json.Unmarshal(data, &object))
	change(object)
	data, err = json.Marshal(object)
	require.NoError(t, err)
	return data
}

func TestReadNativeRefuses(t *testing.T) {
	t.Parallel()
	valid := edit(t, func(map[string]any) {})
	set := func(key string, v any) []byte { return edit(t, func(o map[string]any) { o[key] = v }) }
	partial := func(change func(map[string]any)) []byte {
		return edit(t, func(o map[string]any) { change(o["harness"].(map[string]any)) })
	}
	tests := []struct {
		name, why string
		data      []byte
		is        error
		want      string
	}{
		{"empty", "a crash before the first byte", nil, ErrEmpty, "file is empty"},
		{"white space", "no JSON either", []byte("  \n"), nil, "parsing JSON"},
		{"cut", "half a file", valid[:len(valid)/2], nil, "the file ends early"},
		{"NaN", "what other languages write for not measured", bytes.Replace(valid, []byte(`"wall_clock_ms":2400`), []byte(`"wall_clock_ms":NaN`), 1), nil, "NaN is not a JSON number"},
		{"Infinity", "likewise", bytes.Replace(valid, []byte(`"wall_clock_ms":2400`), []byte(`"wall_clock_ms":-Infinity`), 1), nil, "Infinity is not a JSON number"},
		{"huge number", "no float64 holds it", bytes.Replace(valid, []byte(`"wall_clock_ms":2400`), []byte(`"wall_clock_ms":1e999`), 1), nil, "1e999"},
		{"trailing data", "two artifacts in one file", append(bytes.Clone(valid), valid...), nil, "parsing JSON"},
		{"HTML", "an error page that was saved", []byte("<html>"), nil, "parsing JSON at byte 1"},
		{"a list", "JSON, and no artifact", []byte("[1,2]"), ErrSchema, "no schema"},
		{"a string", "JSON, and no artifact", []byte(`"anvil"`), ErrSchema, "no schema"},
		{"null", "JSON, and no artifact", []byte("null"), ErrSchema, "no schema"},
		{"no schema", "JSON of anything", []byte("{}"), ErrSchema, "no schema"},
		{"null schema", "JSON of anything", []byte(`{"schema":null}`), ErrSchema, "no schema"},
		{"another schema", "a summary in place of its artifact", set("schema", SummarySchema), ErrSchema, SummarySchema},
		{"another schema, other types", "called another kind, not malformed", []byte(`{"schema":"other/v9","requests":"ten"}`), ErrSchema, `"other/v9"`},
		{"wrong type", "a count that is text", set("requests", "ten"), nil, "requests"},
		{"nothing planned", "0 of 0 is not success", edit(t, func(o map[string]any) {
			o["requests"], o["completed"], o["failed"], o["request_timings"], o["failures"] = 0, 0, 0, []any{}, []any{}
		}), nil, "nothing was measured"},
		{"negative", "no count is", set("completed", -3), nil, "counts contradict"},
		{"too many", "more than were planned", set("requests", 4), nil, "counts contradict"},
		{"overflow", "counts that wrap around", edit(t, func(o map[string]any) { o["completed"], o["failed"] = math.MaxInt64, math.MaxInt64 }), nil, "counts contradict"},
		{"rows missing", "fewer rows than completed", edit(t, func(o map[string]any) { o["request_timings"] = o["request_timings"].([]any)[:2] }), nil, "request_timings has 2 rows, completed says 3"},
		{"failures missing", "fewer rows than failed", set("failures", nil), nil, "failures has 0 rows, failed says 3"},
		{"no metrics", "the point of it all", edit(t, func(o map[string]any) { delete(o, "metrics") }), nil, "metrics is missing"},
		{"metric is text", "it would read as missing", edit(t, func(o map[string]any) { o["metrics"].(map[string]any)["ttft_p50_ms"] = "fast" }), nil, "ttft_p50_ms"},
		{"interrupted", "the harness says so", partial(func(h map[string]any) { h["complete"], h["incomplete_reason"] = false, "SIGINT" }), ErrPartial, "SIGINT"},
		{"complete not said", "absence is no yes", partial(func(h map[string]any) { delete(h, "complete") }), ErrPartial, "harness.complete is not true"},
		{"short without harness", "another implementation's crash", edit(t, func(o map[string]any) { delete(o, "harness"); o["requests"] = 9 }), ErrPartial, "3 of 9 planned requests have no record"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "artifact.json")
			require.NoError(t, os.WriteFile(path, tt.data, 0o600))
			for name, read := range map[string]func(string) error{
				"ReadNative": func(p string) error { _, err := ReadNative(p); return err },
				"Summarize":  func(p string) error { _, err := Summarize(p); return err },
			} {
				err := read(path)
				require.Error(t, err, "%s: %s", name, tt.why)
				assert.ErrorContains(t, err, tt.want, name)
				assert.ErrorContains(t, err, path, "the error names the file")
				if tt.is != nil {
					assert.ErrorIs(t, err, tt.is, name)
				}
			}
		})
	}
}

func TestReadNativeNeedsAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := ReadNative(filepath.Join(dir, "missing.json"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = ReadNative(dir)
	assert.ErrorContains(t, err, "not a regular file")
	_, err = ReadNative("/dev/zero")
	assert.ErrorContains(t, err, "not a regular file", "a device never ends")
}

// A newer suite's artifact, with keys that this one does not know, is read.
func TestReadNativeIgnoresUnknownKeys(t *testing.T) {
	t.Parallel()
	data := edit(t, func(o map[string]any) {
		o["from_the_future"] = map[string]any{"a": 1}
		o["harness"].(map[string]any)["search"] = []int{1, 2}
		o["request_timings"].([]any)[0].(map[string]any)["itl"] = 1
		o["metrics"].(map[string]any)["goodput"] = 3
	})
	n, err := decodeNative(data)
	require.NoError(t, err)
	assert.Equal(t, 3, n.Completed)
}

// The bound on what is read holds at n-1, n and n+1, for a file that grows too.
func TestReadBounded(t *testing.T) {
	t.Parallel()
	const limit = 1000
	for _, tt := range []struct {
		size int
		ok   bool
	}{{limit - 1, true}, {limit, true}, {limit + 1, false}, {limit * 50, false}} {
		data, err := readBounded(bytes.NewReader(make([]byte, tt.size)), nil, limit)
		assert.Equal(t, tt.ok, err == nil, "%d bytes", tt.size)
		if tt.ok {
			assert.Len(t, data, tt.size)
		}
	}
	_, err := readBounded(iotest.ErrReader(errors.New("disk on fire")), nil, limit)
	assert.ErrorContains(t, err, "disk on fire")
}

func TestFileLimitIsChecked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "huge.json")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(FileLimitBytes+1), "a sparse file: no disk is used")
	require.NoError(t, f.Close())
	_, err = ReadNative(path)
	assert.ErrorContains(t, err, "want at most 536870912")
}

func TestScoutFrom(t *testing.T) {
	t.Parallel()
	run := smallRun(3)
	run.ContextSeed = 7
	path := writeNative(t, "scout.json", Build(run))
	scout, err := ScoutFrom(path)
	require.NoError(t, err)
	hash, err := HashFile(path)
	require.NoError(t, err)
	assert.Equal(t, Scout{Artifact: "scout.json", RunID: "benchmark-20260922T013950Z", SHA256: hash, Requests: 3, ContextSeed: 7}, scout)
	assert.Regexp(t, `^[0-9a-f]{64}$`, hash)

	short := smallRun(3)
	short.Records = short.Records[:1]
	scout, err = ScoutFrom(writeNative(t, "scout.json", Build(short)))
	require.NoError(t, err, "a partial scout warmed the server all the same")
	assert.Equal(t, 1, scout.Requests, "with what it sent, not with what it planned")
	short.Records = nil
	_, err = ScoutFrom(writeNative(t, "scout.json", Build(short)))
	assert.ErrorContains(t, err, "it sent no request")
	_, err = ScoutFrom(filepath.Join(t.TempDir(), "none.json"))
	assert.Error(t, err)
}

// SHA-256 of "abc" is the first example of FIPS 180-2, appendix B.1.
func TestHashFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "abc")
	require.NoError(t, os.WriteFile(path, []byte("abc"), 0o600))
	hash, err := HashFile(path)
	require.NoError(t, err)
	assert.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", hash)
}

func TestReadSummary(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, data, want string }{
		{"empty", "", "file is empty"},
		{"a native artifact", `{"schema":"` + NativeSchema + `"}`, "not the right schema"},
		{"counts", `{"schema":"` + SummarySchema + `","completion":{"requests":3,"completed":1,"failed":1}}`, "counts contradict"},
		{"nothing", `{"schema":"` + SummarySchema + `"}`, "counts contradict"},
		{"text for a number", `{"schema":"` + SummarySchema + `","exact_metrics":{"ttft_p50_ms":"fast"}}`, "reading a number"},
		{"huge number", `{"schema":"` + SummarySchema + `","exact_metrics":{"ttft_p50_ms":1e999}}`, "reading a number"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "summary.json")
			require.NoError(t, os.WriteFile(path, []byte(tt.data), 0o600))
			_, err := ReadSummary(path)
			assert.ErrorContains(t, err, tt.want)
			assert.ErrorContains(t, err, path)
		})
	}
	path := filepath.Join(t.TempDir(), "run-summary.json")
	require.NoError(t, WriteSummary(writeNative(t, "run.json", Build(mixedRun())), path))
	s, err := ReadSummary(path)
	require.NoError(t, err)
	assert.Equal(t, Completion{Requests: 6, Completed: 3, Failed: 3, ResponsesReceived: new(5)}, s.Completion)
	assert.Nil(t, s.ExactMetrics.ThroughputTokS.Float64(), "failures withhold it")
	assert.Equal(t, 200.0, *s.ExactMetrics.TTFTP50MS.Float64())
}
