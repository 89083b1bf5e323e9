package stats

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/record"
)

func TestMetricOf(t *testing.T) {
	for _, row := range []struct {
		name, key string
		statistic Statistic
		direction Direction
	}{
		{"ttft", "ttft_mean_ms", Mean, LowerIsBetter},
		{"ttft_p95_ms", "ttft_p95_ms", P95, LowerIsBetter},
		{"ttfo", "time_to_first_output_mean_ms", Mean, LowerIsBetter},
		{"e2e_p50_ms", "e2e_p50_ms", P50, LowerIsBetter},
		{"tpot", "tpot_mean_ms", Mean, LowerIsBetter},
		{"mean_inter_token_latency_ms_p25", "mean_inter_token_latency_ms_p25", "p25", LowerIsBetter},
		{"decode", "decode_tok_s_mean", Mean, HigherIsBetter},
		{"decode_tok_s_p50", "decode_tok_s_p50", P50, HigherIsBetter},
		{"prefill", "effective_prefill_tok_s_mean", Mean, HigherIsBetter},
		{"throughput", "throughput_tok_s", WholeRun, HigherIsBetter},
		{"throughput_tok_s", "throughput_tok_s", WholeRun, HigherIsBetter},
	} {
		m, err := MetricOf(row.name)
		require.NoError(t, err, row.name)
		assert.Equal(t, row.key, m.Key)
		assert.Equal(t, row.statistic, m.Statistic)
		assert.Equal(t, row.direction, m.Direction)
		assert.Contains(t, Keys(), m.Key, "a key of Fold")
	}
	for name, says := range map[string]string{
		"tttf": "no such metric", "": "no such metric", "ttft_p95": "no such metric", "prompt_tokens": "neither more nor less",
		"completion_tokens_p50": "neither more nor less", "ttft_stddev_ms": "stddev is not a statistic to compare",
		"ttft_max_ms": "max is not", "ttft_samples": "samples is not", "request_canary_passed": "no such metric",
	} {
		_, err := MetricOf(name)
		assert.ErrorContains(t, err, says, name)
	}
}

// TestMetricDirections: every distribution is a time, a rate or neither; a new
// one must be put where it belongs.
func TestMetricDirections(t *testing.T) {
	want := map[string]string{
		"time_to_first_output": "lower", "ttft": "lower", "generation": "lower", "e2e": "lower", "tpot": "lower",
		"mean_inter_token_latency_ms": "lower", "mean_time_per_output_token": "lower",
		"effective_prefill_tok_s": "higher", "decode_tok_s": "higher", "prompt_tokens": "neither", "completion_tokens": "neither",
	}
	for _, name := range Names() {
		m, err := MetricOf(name)
		got := "neither"
		if err == nil {
			got = map[Direction]string{LowerIsBetter: "lower", HigherIsBetter: "higher"}[m.Direction]
		}
		assert.Equal(t, want[name], got, name)
	}
}

// TestMetricRun: the statistic of a run is the one that the artifact has.
func TestMetricRun(t *testing.T) {
	records := realRecords(t, "final-rows.csv")
	metrics := Fold(records, 100, finalWallMS)
	for _, name := range []string{"ttft", "ttft_p50_ms", "e2e_p95_ms", "tpot", "decode", "prefill", "ttfo", "throughput"} {
		m, err := MetricOf(name)
		require.NoError(t, err)
		e := Interval(Arm{Runs: []Run{m.Run(records, 100, finalWallMS)}}, IntervalOptions{Statistic: m.Statistic, Concurrency: 4})
		require.NotNil(t, e.Value, "%s: %s", name, e.Why)
		assert.InEpsilon(t, value(t, metrics, m.Key), *e.Value, 1e-12, name)
		assert.NotNil(t, e.Low, name)
	}
}

func TestMetricRunLeavesOut(t *testing.T) {
	ttft, err := MetricOf("ttft")
	require.NoError(t, err)
	throughput, err := MetricOf("throughput")
	require.NoError(t, err)

	records := []record.Record{answer(3), failed(1), answer(0), answer(-1), answer(5), answer(1 << 40)}
	r := ttft.Run(records, 5, 1000)
	require.Len(t, r.Values, 4, "up to the last that has a value; 5 and more were not planned")
	assert.Equal(t, []bool{false, true, true, false},
		[]bool{math.IsNaN(r.Values[0]), math.IsNaN(r.Values[1]), math.IsNaN(r.Values[2]), math.IsNaN(r.Values[3])})
	assert.InDelta(t, 200, r.Values[3], 0)
	assert.Len(t, ttft.Run([]record.Record{answer(maxRequestIndex - 1)}, math.MaxInt, 1).Values, maxRequestIndex)
	assert.Empty(t, ttft.Run([]record.Record{answer(maxRequestIndex)}, math.MaxInt, 1).Values, "an index can ask for no more memory")

	assert.Nil(t, throughput.Run(records, 5, 1000).Whole, "not every planned request completed")
	whole := throughput.Run(answers(10), 10, 1100)
	assert.InDelta(t, 100, *whole.Whole, 1e-9, "110 tokens in 1.1 s")
	assert.Len(t, whole.Work, 10)
}

// TestWorkedExample compares two real builds, one run each: what a tuned
// configuration of a kernel did for a cell of 32 requests at concurrency 16. The
// published figures differ by up to 39 %, and nothing of it can be told: 32
// requests at 16 are two waves, whose requests all queue behind each other.
func TestWorkedExample(t *testing.T) {
	baseline, candidate := artifactRecords(t, "fp8-moe-ab-default-v3-primary-r1.json"), artifactRecords(t, "fp8-moe-ab-tuned-v3-primary-r2.json")
	for _, row := range []struct {
		name   string
		change float64 // of the published figures
	}{
		{"ttft", 0.0787}, {"ttft_p50_ms", 0.3937}, {"ttft_p95_ms", -0.0246}, {"e2e", -0.0156},
		{"tpot", -0.0213}, {"decode", 0.0333}, {"throughput", -0.0138},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, err := MetricOf(row.name)
			require.NoError(t, err)
			b, k := m.Run(baseline.records, 32, baseline.wallMS), m.Run(candidate.records, 32, candidate.wallMS)
			o := Options{Statistic: m.Statistic, Direction: m.Direction, Margin: new(0.05), Paired: true, Concurrency: 16}
			c := Compare(Arm{Runs: []Run{b}}, Arm{Runs: []Run{k}}, o)
			require.NotNil(t, c.Change, c.Why)
			require.NotNil(t, c.Low, c.Why)
			t.Logf("%s: %+.1f %% (%+.1f to %+.1f), %s: %s", m.Key, 100**c.Change, 100**c.Low, 100**c.High, c.Verdict, c.Why)
			assert.InDelta(t, row.change, *c.Change, 1e-4)
			assert.Equal(t, CannotTell, c.Verdict)
			assert.Equal(t, MethodPairedBlocks, c.Method)
			require.Len(t, c.Warnings, 2)
			assert.ErrorContains(t, c.Warnings[1], "32 requests at concurrency 16 are 2 waves, want 5")

			// It is not the caution that hides it: taking the requests as if each waited
			// for itself, and the runs as if they never differed, tells no more.
			o.Concurrency, o.Spread = 1, &Spread{}
			assert.Equal(t, CannotTell, Compare(Arm{Runs: []Run{b}}, Arm{Runs: []Run{k}}, o).Verdict)
		})
	}
}

type artifactRun struct {
	records []record.Record
	wallMS  float64
}

// artifactRecords reads the rows of a native artifact, as far as a comparison
// needs them. The package that reads artifacts stands to the right of this one.
func artifactRecords(t testing.TB, name string) artifactRun {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../fixtures/artifacts", name))
	require.NoError(t, err)
	var native struct {
		WallMS  float64 `json:"wall_clock_ms"`
		Timings []struct {
			Index      int     `json:"request_index"`
			Prompt     int     `json:"prompt_tokens"`
			Output     int     `json:"output_tokens"`
			TTFT       float64 `json:"ttft_ms"`
			E2E        float64 `json:"e2e_ms"`
			Generation float64 `json:"generation_ms"`
		} `json:"request_timings"`
	}
	require.NoError(t, json.Unmarshal(data, &native))
	require.NotEmpty(t, native.Timings)
	run := artifactRun{wallMS: native.WallMS}
	for _, r := range native.Timings {
		run.records = append(run.records, record.Record{
			RequestIndex: r.Index,
			Timing:       record.Timing{TTFOMS: new(r.E2E - r.Generation), TTFTMS: &r.TTFT, E2EMS: &r.E2E},
			Tokens:       record.Tokens{Prompt: &r.Prompt, Output: &r.Output},
		})
	}
	return run
}
