package artifact

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/stats"
)

// realArtifact is a published artifact of another implementation and what its
// file says, read off by eye.
type realArtifact struct {
	file                        string
	why                         string
	protocol                    string
	requests, completed, failed int
	rows                        int
	firstFailed                 int // request_index of the first failure, -1 for none
	engine                      string
	maxContext                  int
	throughput                  float64
	eligible                    bool
	warmText                    string // part of the derived cache caveat
}

var realArtifactTable = []realArtifact{
	{"baseline-capacity-4k.json", "v3 with first output and chunks a row, all completed", "capacity-v3",
		10, 10, 0, 10, -1, "sglang", 131072, 49.30263158410785, true, "In the rows no request stands out"},
	{"capacity-low-32k-c1-r2.json", "three failures, and a throughput that its older implementation published all the same", "capacity-v4-reasoning",
		12, 9, 3, 9, 1, "vllm-0.26.0", 32768, 7.101005874577681, false, "In the rows no request stands out"},
	{"deepseek-v4-flash-0731-capacity-32k-c1-reasoning-v4.json", "a failure without a message; context capped below what was asked", "capacity-v4-reasoning",
		12, 11, 1, 11, 1, "sglang-v0.5.16-wsl2-nomultimem", 32768, 8.980380908540008, false, "In the rows no request stands out"},
	{"eviction-sequence-256k-offload16-6x150k.json", "few rows, and a cache share that the server reported", "capacity-v4-reasoning",
		6, 4, 2, 4, 1, "vllm-r16-b12x-wsl2-offload-mmap-unpinned", 262144, 9.449013159151491, false, "3.7 % of a prompt's tokens"},
	{"fp8-moe-ab-default-v3-primary-r1.json", "v3 whose rows know no time to first output", "capacity-v3",
		32, 32, 0, 32, -1, "vllm-f25953cc-default", 131072, 214.86322540984713, true, "rows"},
	{"fp8-moe-ab-tuned-v3-primary-r2.json", "the other arm of the same comparison", "capacity-v3",
		32, 32, 0, 32, -1, "vllm-f25953cc-tuned", 131072, 211.89695392914547, true, "rows"},
	{"fp8-text-capacity-8k-c16.json", "v2: no rows, no timestamps, no wall clock", "capacity-v2",
		32, 32, 0, 0, -1, "vllm-f25953cc", 131072, 207.46358387211606, true, "has no rows"},
	{"nemotron3-super-capacity-32k-c1.json", "v3, concurrency 1", "capacity-v3",
		12, 12, 0, 12, -1, "nvidia-vllm-0.22.1", 65536, 17.194878805840872, true, "In the rows no request stands out"},
}

func TestReadNativeTakesOtherImplementations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(realArtifacts, "*.json"))
	require.NoError(t, err)
	require.Len(t, files, len(realArtifactTable), "every file of fixtures/artifacts stands in the table")

	for _, want := range realArtifactTable {
		t.Run(want.file, func(t *testing.T) {
			t.Parallel()
			n, err := ReadNative(filepath.Join(realArtifacts, want.file))
			require.NoError(t, err, want.why)
			assert.Equal(t, want.protocol, n.MeasurementProtocol)
			assert.Equal(t, []int{want.requests, want.completed, want.failed, want.rows},
				[]int{n.Requests, n.Completed, n.Failed, len(n.RequestTimings)}, "requests, completed, failed, rows")
			assert.Equal(t, want.engine, *n.Engine)
			assert.Equal(t, want.maxContext, *n.MaxContextTokens)
			assert.Equal(t, want.eligible, n.Eligible())
			if want.firstFailed >= 0 {
				assert.Equal(t, want.firstFailed, n.Failures[0].RequestIndex)
				assert.Equal(t, "ValueError", n.Failures[0].ErrorType)
				assert.Empty(t, n.Failures[0].FailureClass, "a class that was not stated is not guessed")
			}
			throughput, known := n.Metrics.Get("throughput_tok_s")
			require.True(t, known)
			assert.Equal(t, want.throughput, *throughput)
			assert.Nil(t, n.Harness, "only this suite writes harness")
			assert.Nil(t, n.RequestCanaries, "a key that the file lacks is not known, and not false")

			s, err := Summarize(filepath.Join(realArtifacts, want.file))
			require.NoError(t, err)
			assert.Equal(t, want.eligible, s.Completion.PerformanceEligible)
			assert.Equal(t, want.throughput, *s.ExactMetrics.ThroughputTokS.Float64())
			assert.Contains(t, s.CacheCaveat, "does not say whether prompts are unique")
			assert.Contains(t, s.CacheCaveat, "does not say what ran before")
			assert.Contains(t, s.CacheCaveat, want.warmText)
		})
	}
}

// Rows of another implementation become records that give its own published
// percentiles again, to the last bit: aggregates and baselines stand on that.
func TestForeignRowsRefoldToTheirOwnMetrics(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, want := range realArtifactTable {
		if want.rows == 0 {
			continue
		}
		n, err := ReadNative(filepath.Join(realArtifacts, want.file))
		require.NoError(t, err)
		records := n.Records()
		require.Len(t, records, want.completed+want.failed, want.file)
		for i, r := range records {
			assert.Equal(t, i, r.RequestIndex, "%s: in index order, failures among them", want.file)
		}
		folded := stats.Fold(records, n.Requests, *n.WallClockMS)
		for _, key := range n.Metrics.Keys() {
			name, _, statistic := stats.SplitKey(key)
			published, _ := n.Metrics.Get(key)
			if !statistic || published == nil {
				continue
			}
			got, _ := folded.Get(key)
			if assert.NotNil(t, got, "%s %s of %s", want.file, key, name) {
				assert.Equal(t, *published, *got, "%s %s", want.file, key)
			}
			compared++
		}
	}
	assert.Greater(t, compared, 90, "13 to 15 statistics of each of 7 files")
}

// A number that stands in a Python artifact as 3613.0 keeps its spelling.
func TestSummaryCopiesTokensAndNotValues(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(realArtifacts, "baseline-capacity-4k.json"))
	require.NoError(t, err)
	var file map[string]any
	require.NoError(t, json.Unmarshal(data, &file))
	file["wall_clock_ms"] = json.RawMessage("9532.9600")
	file["metrics"].(map[string]any)["ttft_p50_ms"] = json.RawMessage("3613.0")
	delete(file["metrics"].(map[string]any), "e2e_p50_ms")
	data, err = json.Marshal(file)
	require.NoError(t, err)

	s, err := summarize("x.json", data)
	require.NoError(t, err)
	assert.Equal(t, "9532.9600", s.Timing.WallClockMS.String())
	assert.Equal(t, "3613.0", s.ExactMetrics.TTFTP50MS.String())
	assert.Equal(t, "null", s.ExactMetrics.E2EP50MS.String(), "a metric that is not there is null and not 0")
	assert.Nil(t, s.ExactMetrics.E2EP50MS.Float64())
	out, err := encode(s)
	require.NoError(t, err)
	assert.Contains(t, string(out), `"ttft_p50_ms": 3613.0,`)
}

func TestExact(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"0", "-0", "3613.0", "1e-7", "21.765362347922913"} {
		var e Exact
		require.NoError(t, e.UnmarshalJSON([]byte(" "+token+"\n")))
		assert.Equal(t, token, e.String())
		data, err := e.MarshalJSON()
		require.NoError(t, err)
		assert.Equal(t, token, string(data))
		require.NotNil(t, e.Float64())
	}
	for _, token := range []string{"", "NaN", "Inf", "-Infinity", "0x1p-2", "1_000", "1e999", `"1"`, "true", "[1]", "{}", "1 2"} {
		assert.Error(t, new(Exact).UnmarshalJSON([]byte(token)), token)
	}
	e := Exact{token: "1"}
	require.NoError(t, e.UnmarshalJSON([]byte("null")))
	assert.Equal(t, Exact{}, e)
	assert.Nil(t, e.Float64())
}
