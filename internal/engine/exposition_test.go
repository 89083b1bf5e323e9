package engine

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatIsNoPage(t *testing.T) {
	for _, row := range []struct {
		name, page string
		want       error
		why        string
	}{
		{"nothing", "", errEmpty, "an empty answer"},
		{"white space", " \r\n\t\n", errEmpty, ""},
		{"a page for people", "<!DOCTYPE html><html><body>Sign in</body></html>", errHTML, "a login or a dashboard"},
		{"a page after white space and a byte order mark", "\ufeff \n<html>", errHTML, ""},
		{"an object", `{"error":{"message":"not found"}}`, errJSON, "a gateway's answer with status 200"},
		{"a list", `[{"iter": 1, "iterLatencyMS": 20.1}]`, errJSON, "trtllm-serve's /metrics"},
		{"a text", "It works!\n", errUnparseable, ""},
		{"a JSON string that is no page", `"It works!"`, errUnparseable, ""},
		{"half a JSON string", `"# HELP llamacpp`, errUnparseable, ""},
		{"bytes", "\x00\x01\x02\x03\n\x7fELF\n", errUnparseable, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := readPage(strings.NewReader(row.page), wantedAll, defaults)
			assert.ErrorIs(t, err, row.want, row.why)
		})
	}
}

func TestPageOfAnotherExporterIsAPageWithoutAnEngine(t *testing.T) {
	p, err := readPage(strings.NewReader("# HELP go_goroutines x\ngo_goroutines 8\n"), wantedAll, defaults)
	require.NoError(t, err)
	_, ok := newSnapshot(p, epoch, "", allRoles)
	assert.False(t, ok)
}

func TestHowAPageIsCutDoesNotMatter(t *testing.T) {
	text := fixture(t, "vllm-0.30.prom")
	want := snapshot(t, text, "glm")
	for name, r := range map[string]io.Reader{
		"one byte at a time": iotest.OneByteReader(strings.NewReader(text)),
		"half reads":         iotest.HalfReader(strings.NewReader(text)),
		"data with the EOF":  iotest.DataErrReader(strings.NewReader(text)),
		"CRLF":               strings.NewReader(strings.ReplaceAll(text, "\n", "\r\n")),
		"a byte order mark":  strings.NewReader("\ufeff" + text),
		"no comments":        strings.NewReader(withoutComments(text)),
		"one JSON string":    strings.NewReader(quoted(text)),
	} {
		t.Run(name, func(t *testing.T) {
			p, err := readPage(r, wantedAll, defaults)
			require.NoError(t, err)
			got, ok := newSnapshot(p, epoch, "glm", allRoles)
			require.True(t, ok)
			assert.Equal(t, want.Values, got.Values)
			assert.Equal(t, want.Histograms, got.Histograms)
			assert.Zero(t, got.Faults, got.Fault)
		})
	}
}

// quoted is a page as llama.cpp b7010 to b7100 sent it.
func quoted(text string) string {
	whole, _ := json.Marshal(text) // a string always encodes
	return string(whole)
}

func withoutComments(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func TestBadLinesAreLeftOutAndCounted(t *testing.T) {
	good := `prompt_tokens_total{engine="0"} 100`
	for _, row := range []struct {
		name   string
		lines  []string
		tokens *float64 // nil: the role is not read
		faults int
		why    string
	}{
		{"all good", []string{good, `prompt_tokens_total{engine="1"} 20`}, new(120.0), 0, ""},
		{"a value that is none", []string{good, `prompt_tokens_total{engine="1"} many`}, new(100.0), 1, ""},
		{"a line without a value", []string{`prompt_tokens_total{engine="1"}`, good}, new(100.0), 1, ""},
		{"an open label", []string{`prompt_tokens_total{engine="1} 5`, good}, new(100.0), 1, "the quote takes in the rest of the line"},
		{"labels without a comma", []string{good, `prompt_tokens_total{engine="1"model="x"} 5`}, new(100.0), 1, ""},
		{"NaN", []string{good, `prompt_tokens_total{engine="1"} NaN`}, new(100.0), 1, "a count that is no number"},
		{"infinite", []string{good, `prompt_tokens_total{engine="1"} +Inf`}, new(100.0), 1, ""},
		{"below 0", []string{good, `prompt_tokens_total{engine="1"} -5`}, new(100.0), 1, "no counter is negative"},
		{"another metric's line is bad", []string{good, "unknown_metric{ 5"}, new(100.0), 0, "what is not wanted is not even looked at"},
		{"twice the same series", []string{good, good}, new(100.0), 0, "a repeated line is not a second engine"},
		{"both spellings", []string{good, `prompt_tokens{engine="0"} 77`}, new(100.0), 0, "the first of two names counts, and not both"},
		{"a time stamp", []string{`prompt_tokens_total{engine="0"} 100 1790000000000`}, new(100.0), 0, "the format allows one"},
		{"many bad lines", append([]string{good}, repeat("prompt_tokens_total{ x", maxFaults)...), new(100.0), maxFaults, "the last that can be left out"},
		{"nothing good", []string{`prompt_tokens_total{engine="0"} NaN`}, nil, 1, "and not 0, which a counter that has not counted is"},
		{"one bad line too many", append([]string{good}, repeat("prompt_tokens_total{ x", maxFaults+1)...), nil, maxFaults + 1, "nothing can be told of it any more"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := snapshot(t, vllmPage(append(row.lines, "num_requests_running 1")...), "")
			assert.Equal(t, row.faults, s.Faults, s.Fault)
			assert.Equal(t, row.tokens, s.Value(PromptTokens), row.why)
			assert.Equal(t, new(1.0), s.Value(Running), "the other families stand")
		})
	}
}

func repeat(line string, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = line
	}
	return lines
}

func TestBadHistogramsAreLeftOutAndCounted(t *testing.T) {
	const name = "time_to_first_token_seconds"
	for _, row := range []struct {
		name  string
		lines []string
		why   string
	}{
		{"buckets that fall", []string{`_bucket{le="1"} 5`, `_bucket{le="2"} 3`, `_bucket{le="+Inf"} 5`, "_sum 4", "_count 5"}, "they are cumulative"},
		{"more in the buckets than in all", []string{`_bucket{le="1"} 9`, "_sum 4", "_count 5"}, ""},
		{"a sum of NaN", []string{`_bucket{le="+Inf"} 5`, "_sum NaN", "_count 5"}, ""},
		{"a negative sum", []string{`_bucket{le="+Inf"} 5`, "_sum -4", "_count 5"}, "times are not negative"},
		{"a count below 0", []string{"_count -1", "_sum 1"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			lines := []string{"num_requests_running 1"}
			for _, l := range row.lines {
				lines = append(lines, name+l)
			}
			s := snapshot(t, vllmPage(lines...), "")
			assert.Positive(t, s.Faults, row.why)
			assert.NotContains(t, s.Histograms, TTFT, "and not an empty one")
		})
	}
}

func TestAPageThatIsCutLosesItsLastNumber(t *testing.T) {
	s := snapshot(t, "vllm:num_requests_running 1\nvllm:prompt_tokens_total 12", "")
	assert.Nil(t, s.Value(PromptTokens), "12 may be the beginning of 12345")
	assert.Equal(t, 1, s.Faults)
	assert.Contains(t, s.Fault, "ends within a line")
}

func TestDeclaredCounterWithoutASeriesIsZero(t *testing.T) {
	s := snapshot(t, "# TYPE vllm:prompt_tokens_total counter\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_waiting 0\n", "")
	assert.Equal(t, new(0.0), s.Value(PromptTokens), "it has not counted yet")
	assert.Nil(t, s.Value(Running), "a gauge without a series says nothing")
	assert.Nil(t, s.Value(GenerationTokens), "never heard of")
}

func TestPageLimit(t *testing.T) {
	page := "vllm:num_requests_running 1\n# " + strings.Repeat("x", 100) + "\n"
	for _, row := range []struct {
		limit int
		want  error
	}{{len(page) + 1, nil}, {len(page), nil}, {len(page) - 1, errTooLong}} {
		_, err := readPage(strings.NewReader(page), wantedAll, limits{bytes: int64(row.limit), samples: 10})
		if row.want == nil {
			require.NoError(t, err, "limit %d for %d bytes", row.limit, len(page))
			continue
		}
		require.ErrorIs(t, err, row.want)
	}
	_, err := readPage(strings.NewReader(quoted(page)), wantedAll, limits{bytes: int64(len(page)), samples: 10})
	require.ErrorIs(t, err, errTooLong, "a JSON string is read whole, and no further than the limit")
}

func TestSampleLimit(t *testing.T) {
	var page strings.Builder
	for i := range 10 {
		fmt.Fprintf(&page, "vllm:prompt_tokens_total{engine=\"%d\"} 1\n", i)
	}
	for _, row := range []struct {
		limit int
		want  error
	}{{11, nil}, {10, nil}, {9, errTooMany}} {
		_, err := readPage(strings.NewReader(page.String()), wantedAll, limits{bytes: MaxBytes, samples: row.limit})
		if row.want == nil {
			require.NoError(t, err, "limit %d", row.limit)
			continue
		}
		require.ErrorIs(t, err, row.want, "limit %d", row.limit)
	}
	_, err := readPage(strings.NewReader(strings.Repeat("other_metric 1\n", 1000)+page.String()), wantedAll, limits{bytes: MaxBytes, samples: 10})
	require.NoError(t, err, "what is not wanted does not count")
}

func TestLineLimit(t *testing.T) {
	line := func(bytes int) string {
		head, tail := `vllm:prompt_tokens_total{x="`, `"} 7`
		return head + strings.Repeat("y", bytes-len(head)-len(tail)-1) + tail + "\n"
	}
	for _, row := range []struct {
		bytes int // with the line end
		want  *float64
	}{{MaxLineBytes - 1, new(7.0)}, {MaxLineBytes, new(7.0)}, {MaxLineBytes + 1, nil}} {
		s := snapshot(t, line(row.bytes)+"vllm:num_requests_running 1\n", "")
		assert.Equal(t, row.want, s.Value(PromptTokens), "%d bytes", row.bytes)
		assert.Equal(t, new(1.0), s.Value(Running), "what follows is read")
		assert.Equal(t, row.want == nil, s.Faults == 1, s.Fault)
	}
	s := snapshot(t, strings.Repeat("z", 3*MaxLineBytes)+"\nvllm:num_requests_running 1\n", "")
	assert.Zero(t, s.Faults, "a long line of something else is no fault")
	s = snapshot(t, "vllm:num_requests_running 1\nvllm:prompt_tokens_total{x=\""+strings.Repeat("z", 2*MaxLineBytes), "")
	assert.Equal(t, 1, s.Faults, "and it may be the last")
}

func TestReadErrorIsPassedOn(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("vllm:num_requests_running 1\n"), iotest.ErrReader(io.ErrUnexpectedEOF))
	_, err := readPage(broken, wantedAll, defaults)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "half a page is no page: counters that are missing would look new")
}

// A page of MaxBytes of nothing that is wanted must cost a buffer, not a copy.
func TestAHugeForeignPageCostsNoMemory(t *testing.T) {
	page := strings.Repeat("other_metric{a=\"b\"} 1\n", 1<<18) // 5.5 MiB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readPage(strings.NewReader(page), wantedAll, defaults)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(512<<10))
}
