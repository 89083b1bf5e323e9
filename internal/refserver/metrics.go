package refserver

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// MetricsPrefix stands before every name on /metrics. What follows it is vLLM's
// name for the same thing (vllm:num_requests_running), so that one table of
// names reads both.
const MetricsPrefix = "refserver:"

// Bucket bounds in seconds; the first three are vLLM's for these histograms.
var (
	ttftBounds = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	tpotBounds = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	e2eBounds  = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	lateBounds = []float64{0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 1}
)

// metrics are the server's own counters. Safe for concurrent use.
type metrics struct {
	prompt, generation           atomic.Int64
	stopped, cutShort, abandoned atomic.Int64
	ttft, tpot, e2e, late        histogram
}

func newMetrics() *metrics {
	return &metrics{
		ttft: newHistogram(ttftBounds), tpot: newHistogram(tpotBounds),
		e2e: newHistogram(e2eBounds), late: newHistogram(lateBounds),
	}
}

// observe counts a request that ended.
func (m *metrics) observe(e *Exchange, finish string) {
	if e.Outcome != OutcomeDone {
		m.abandoned.Add(1)
		return
	}
	if finish == "length" {
		m.cutShort.Add(1)
	} else {
		m.stopped.Add(1)
	}
	m.e2e.observe(e.DoneAt.Sub(e.Arrived))
	if e.Streamed && e.Sent > 1 {
		m.tpot.observe(e.LastOutputAt.Sub(e.FirstOutputAt) / time.Duration(e.Sent-1))
	}
}

// histogram is cumulative only when written.
type histogram struct {
	bounds []float64      // seconds
	counts []atomic.Int64 // one more than bounds
	sumNS  atomic.Int64
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]atomic.Int64, len(bounds)+1)}
}

func (h *histogram) observe(d time.Duration) {
	i, seconds := 0, d.Seconds()
	for i < len(h.bounds) && seconds > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sumNS.Add(int64(d))
}

// metricsPage writes Prometheus text, format 0.0.4.
func (s *Server) metricsPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	running, waiting, prefix := s.model.load(s.clock)
	p := promWriter{w: w, label: "model_name=" + strconv.Quote(s.opts.Model)}
	p.value("num_requests_running", "gauge", "Requests that hold a slot.", float64(running))
	p.value("num_requests_waiting", "gauge", "Requests that wait for a slot.", float64(waiting))
	p.value("prompt_tokens_total", "counter", "Prompt tokens of requests that joined.", float64(s.metrics.prompt.Load()))
	p.value("generation_tokens_total", "counter", "Tokens sent.", float64(s.metrics.generation.Load()))
	p.value("prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.", float64(prefix.queries))
	p.value("prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.", float64(prefix.hits))
	p.head("request_success_total", "counter", "Requests that ended, by reason.")
	for _, r := range []struct {
		reason string
		n      *atomic.Int64
	}{{"stop", &s.metrics.stopped}, {"length", &s.metrics.cutShort}, {"abort", &s.metrics.abandoned}} {
		p.sample("request_success_total", `,finished_reason="`+r.reason+`"`, float64(r.n.Load()))
	}
	p.histogram("time_to_first_token_seconds", "Handler entry to the first token.", &s.metrics.ttft)
	p.histogram("request_time_per_output_token_seconds", "Mean time between the tokens of a request.", &s.metrics.tpot)
	p.histogram("e2e_request_latency_seconds", "Handler entry to the end of the answer.", &s.metrics.e2e)
	p.histogram("event_lateness_seconds", "How long after its planned time each token was written (not in vLLM).", &s.metrics.late)
}

// promWriter writes samples that share one label. Write errors are those of a
// client that has left.
type promWriter struct {
	w     io.Writer
	label string
}

func (p *promWriter) head(name, kind, help string) {
	fmt.Fprintf(p.w, "# HELP %s%s %s\n# TYPE %[1]s%[2]s %[4]s\n", MetricsPrefix, name, help, kind)
}

func (p *promWriter) sample(name, labels string, v float64) {
	fmt.Fprintf(p.w, "%s%s{%s%s} %s\n", MetricsPrefix, name, p.label, labels, strconv.FormatFloat(v, 'g', -1, 64))
}

func (p *promWriter) value(name, kind, help string, v float64) {
	p.head(name, kind, help)
	p.sample(name, "", v)
}

func (p *promWriter) histogram(name, help string, h *histogram) {
	p.head(name, "histogram", help)
	var n int64
	for i := range h.counts {
		n += h.counts[i].Load()
		le := "+Inf"
		if i < len(h.bounds) {
			le = strconv.FormatFloat(h.bounds[i], 'g', -1, 64)
		}
		p.sample(name+"_bucket", `,le="`+le+`"`, float64(n))
	}
	p.sample(name+"_sum", "", time.Duration(h.sumNS.Load()).Seconds())
	p.sample(name+"_count", "", float64(n))
}
