package report

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchfmt"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/config"
	"anvil-capacity/internal/contract"
)

// sample is a benchmark line as golang.org/x/perf reads it.
type sample struct {
	name   string
	iters  int
	values map[string]float64
	config map[string]string
}

// read parses benchmark lines the way benchstat does; a line that it cannot
// parse fails the test.
func read(t *testing.T, text string) (samples []sample, better map[string]string) {
	t.Helper()
	better = map[string]string{}
	r := benchfmt.NewReader(strings.NewReader(text), "test")
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Fatal(rec)
		case *benchfmt.UnitMetadata:
			require.Equal(t, "better", rec.Key)
			better[rec.Unit] = rec.Value
		case *benchfmt.Result:
			s := sample{name: string(rec.Name), iters: rec.Iters, values: map[string]float64{}, config: map[string]string{}}
			for _, v := range rec.Values {
				s.values[v.Unit] = v.Value
			}
			for _, c := range rec.Config {
				s.config[c.Key] = string(c.Value)
			}
			samples = append(samples, s)
		}
	}
	require.NoError(t, r.Err())
	return samples, better
}

func bench(t *testing.T, o BenchOptions, natives ...*artifact.Native) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Bench(&b, o, natives...))
	return b.String()
}

func TestBenchIsOneSampleARequest(t *testing.T) {
	samples, better := read(t, bench(t, BenchOptions{}, built(t, 3)))
	require.Len(t, samples, 4, "three requests, and the run for its throughput")
	for i, s := range samples[:3] {
		first := 0.1 + float64(i)/1000 // see madeUp
		assert.Equal(t, "Capacity/c=4/ctx=2048/w=16", s.name)
		assert.Equal(t, 1, s.iters)
		require.Len(t, s.values, 4)
		assert.InDelta(t, first, s.values["ttfo-sec"], 1e-12)
		assert.InDelta(t, first+0.02, s.values["ttft-sec"], 1e-12)
		assert.InDelta(t, first+0.31, s.values["e2e-sec"], 1e-12)
		assert.InDelta(t, 0.01, s.values["tpot-sec"], 1e-12, "310 ms over 31 gaps")
	}
	assert.Equal(t, samples[0].name, samples[3].name)
	assert.Equal(t, 3, samples[3].iters)
	assert.Equal(t, map[string]float64{"tok/s": 96}, samples[3].values, "3 x 32 tokens in a second")
	assert.Equal(t, map[string]string{
		"ttfo-sec": "lower", "ttft-sec": "lower", "e2e-sec": "lower", "tpot-sec": "lower", "tok/s": "higher",
	}, better, "benchstat knows no unit of ours by itself")
}

func TestBenchPerRun(t *testing.T) {
	slow := func(r *artifact.Run) { r.WallMS = 2000 }
	samples, better := read(t, bench(t, BenchOptions{PerRun: true}, built(t, 3), built(t, 3, slow)))
	require.Len(t, samples, 2, "a run is a sample")
	assert.Equal(t, 3, samples[0].iters)
	assert.InDelta(t, 0.121, samples[0].values["ttft-p50-sec"], 1e-12, "the middle of 120, 121 and 122 ms")
	assert.InDelta(t, 96, samples[0].values["tok/s"], 1e-9)
	assert.InDelta(t, 48, samples[1].values["tok/s"], 1e-9)
	for unit := range samples[0].values {
		assert.Contains(t, better, unit)
	}
	assert.Len(t, samples[0].values, len(benchRun)+1)
}

func TestBenchWithoutRows(t *testing.T) {
	n := built(t, 3)
	n.RequestTimings = nil
	var b bytes.Buffer
	assert.ErrorContains(t, Bench(&b, BenchOptions{}, n), "one sample a run")
	assert.Empty(t, b.String())
	samples, _ := read(t, bench(t, BenchOptions{PerRun: true}, n))
	assert.Len(t, samples, 1, "its metrics are there")
}

func TestBenchRefuses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		o       BenchOptions
		natives []*artifact.Native
		want    string
		why     string
	}{
		{"nothing", BenchOptions{}, nil, "no run", "an empty file would compare with everything"},
		{"failed", BenchOptions{}, []*artifact.Native{built(t, 3), built(t, 3, failed)}, "1 of 3 requests failed", "a server that fails what is slow would win"},
		{"partial", BenchOptions{PerRun: true}, []*artifact.Native{built(t, 3, cutShort)}, "interrupted by a test", "what was cut off was the slow end"},
		{"key", BenchOptions{Keys: []string{"engin"}}, []*artifact.Native{built(t, 3)}, `"engin"`, "a typo would leave the comment a comment"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			err := Bench(&b, tt.o, tt.natives...)
			require.ErrorContains(t, err, tt.want, tt.why)
			assert.Empty(t, b.String(), "half a file would be read as a whole one")
		})
	}
	broken := errors.New("disk full")
	assert.ErrorIs(t, Bench(failingWriter{broken}, BenchOptions{}, built(t, 1)), broken)
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// TestBenchConfigurationTearsApartWhatCannotBeCompared holds the format to
// gate.Baseline: what refuses a comparison there must be configuration or name
// here, and what one compares must be neither. benchstat compares within equal
// configuration only.
func TestBenchConfigurationTearsApartWhatCannotBeCompared(t *testing.T) {
	base := built(t, 4)
	changes := map[string]func(*artifact.Native){
		"measurement_protocol":     func(n *artifact.Native) { n.MeasurementProtocol = "capacity-v3" },
		"context":                  func(n *artifact.Native) { n.ContextTokens = new(4096) },
		"max_context_tokens":       func(n *artifact.Native) { n.MaxContextTokens = nil },
		"max_tokens":               func(n *artifact.Native) { n.MaxTokens = 1 },
		"requests":                 func(n *artifact.Native) { n.Requests, n.Completed = 5, 5 },
		"concurrency":              func(n *artifact.Native) { n.Concurrency = 1 },
		"response_words":           func(n *artifact.Native) { n.ResponseWords = new(1) },
		"prompt_cache_mode":        func(n *artifact.Native) { n.PromptCacheMode = new("shared") },
		"shared_prefix_tokens":     func(n *artifact.Native) { n.SharedPrefixTokens = new(64) },
		"request_canaries":         func(n *artifact.Native) { n.RequestCanaries = new(false) },
		"controlled_output_policy": func(n *artifact.Native) { n.ControlledOutputPolicy = new(contract.Strict) },
		"thinking":                 func(n *artifact.Native) { n.ServeFlags.ReasoningEffort = new("low") },
		"sampling":                 func(n *artifact.Native) { n.Sampling.Requested.TopP = new(0.5) },
	}
	where := func(n *artifact.Native) string {
		samples, _ := read(t, bench(t, BenchOptions{}, n))
		return fmt.Sprint(samples[0].name, samples[0].config)
	}
	want := where(base)
	for _, name := range config.AllowedDifferences {
		if name == "context_seed" {
			continue // repeats have a seed each
		}
		change, ok := changes[name]
		require.True(t, ok, "%s refuses a comparison: give it a configuration line, and a row here", name)
		n := built(t, 4)
		change(n)
		assert.NotEqual(t, want, where(n), "%s", name)
	}
	n := built(t, 4, func(r *artifact.Run) {
		r.Facts.Engine, r.Facts.GPU, r.Facts.Model, r.Facts.ContextSeed = "sglang 0.5", "B200", "other", 8
		r.Facts.BaseURL, r.StartedAt = "http://127.0.0.1:9000/v1", r.StartedAt.AddDate(0, 0, 1)
		for i := range r.Records {
			r.Records[i].Canary.Marker = fmt.Sprintf("ANVIL_REQ_8_%05d", i)
		}
	})
	assert.Equal(t, want, where(n), "engine, GPU, model and seed are what one compares")
}

func TestBenchKeys(t *testing.T) {
	samples, _ := read(t, bench(t, BenchOptions{Keys: []string{"engine", "gpu"}}, built(t, 1)))
	assert.Equal(t, "vllm 0.10", samples[0].config["engine"])
	assert.Equal(t, "H100", samples[0].config["gpu"])
	assert.NotContains(t, samples[0].config, "model", "not asked for")
}

// TestBenchDoesNotCarryOver writes a run that says nothing behind one that does:
// in this format a line stays in force until the next of its key.
func TestBenchDoesNotCarryOver(t *testing.T) {
	silent := built(t, 1)
	silent.Harness, silent.MaxContextTokens, silent.PromptCacheMode, silent.SharedPrefixTokens = nil, nil, nil, nil
	silent.RequestCanaries, silent.ControlledOutputPolicy, silent.ServeFlags, silent.Sampling, silent.Engine = nil, nil, nil, nil, nil
	o := BenchOptions{Keys: []string{"engine"}}
	alone, _ := read(t, bench(t, o, silent))
	behind, _ := read(t, bench(t, o, built(t, 1), silent))
	require.Len(t, behind, 4)
	assert.Equal(t, alone[0].config, behind[2].config)
	assert.Equal(t, "not-said", behind[2].config["engine"])
}

// TestBenchTextsOfOthers keeps a name from becoming a line of its own.
func TestBenchTextsOfOthers(t *testing.T) {
	n := built(t, 2)
	evil := "x\nBenchmarkEvil 1 1 ns/op\nengine: evil\rUnit a better=lower" + strings.Repeat("y", 70_000)
	n.Model, n.MeasurementProtocol, n.Engine, n.GPU = evil, evil, &evil, new(" \t ")
	n.ContextTokens, n.ContextDistribution = nil, map[string]int{"a b/c=1\n": 1, "7-8": 1}
	text := bench(t, BenchOptions{Keys: BenchKeys()}, n)
	samples, better := read(t, text)
	require.Len(t, samples, 3)
	for _, s := range samples {
		assert.Equal(t, "Capacity/c=4/ctx=7_8x1_a_b_c_1_x1/w=16", s.name)
	}
	assert.Len(t, better, 5)
	assert.Equal(t, "not-said", samples[0].config["gpu"], "a value that is empty would delete its key")
	for _, line := range strings.Split(text, "\n") {
		assert.Less(t, len(line), 64<<10, "benchstat reads no longer line")
	}
}

func TestNanoseconds(t *testing.T) {
	for _, tt := range []struct {
		ms   float64
		want string
		why  string
	}{
		{96.180351, "96180351", "a clock reading is a whole number again"},
		{0, "0", "nothing"},
		{1e-6, "1", "a nanosecond"},
		{3599999.999999, "3599999999999", "the longest request"},
		{3.7762763, "3776276.3", "times a million this is 3776276.3000000003"},
		{5.3273028984375, "5327302.8984375", "a quotient keeps its digits"},
		{21, "21000000", "zeros are moved too"},
	} {
		assert.Equal(t, tt.want, nanoseconds(tt.ms), tt.why)
	}
}
