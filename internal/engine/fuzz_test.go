package engine

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzPage reads anything: no panic, no number that is none, no counter below 0,
// and nothing in a snapshot that was not on the page. A page compared with itself
// has not moved.
func FuzzPage(f *testing.F) {
	files, _ := filepath.Glob(filepath.Join("..", "..", "fixtures", "engine", "*.prom"))
	if len(files) < 10 {
		f.Fatalf("got %d fixtures, want at least 10", len(files))
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	for _, seed := range []string{
		"vllm:prompt_tokens_total 1e400\n", "vllm:prompt_tokens_total{a=\"\\\"} 1\n", "{\"vllm:prompt_tokens_total\"} 1\n",
		"vllm:time_to_first_token_seconds_bucket{le=\"x\"} 1\n", "vllm:time_to_first_token_seconds_bucket 1\n",
		"# TYPE vllm:prompt_tokens_total\n# HELP\n#\n", "\"\\u0000\"", "vllm:time_to_first_token_seconds_count 1e19\n",
		"vllm:time_to_first_token_seconds_bucket{le=\"1\",le=\"2\"} 1\n", "vllm:num_requests_running{ 1 # {a=\"b\"} 2\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := readPage(strings.NewReader(text), wantedAll, limits{bytes: 1 << 16, samples: 1 << 10})
		if err != nil {
			return
		}
		s, ok := newSnapshot(p, epoch, "glm", allRoles)
		if !ok {
			return
		}
		for role, v := range s.Values {
			if math.IsNaN(v) || v < 0 {
				t.Fatalf("%s = %v", role, v)
			}
		}
		for role, h := range s.Histograms {
			if h.check() != nil && !math.IsInf(h.Sum, 0) && !math.IsInf(h.Count, 0) {
				t.Fatalf("%s: %v: %+v", role, h.check(), h)
			}
		}
		d := Between(s, s)
		if len(d.Resets) > 0 {
			t.Fatalf("nothing moved, and %v went back", d.Resets)
		}
		for role, v := range d.Values {
			if v != 0 {
				t.Fatalf("nothing moved, and %s rose by %v", role, v)
			}
		}
		NewReport(Session{Before: s, After: s}, nil, Client{})
	})
}
