package artifact

import (
	"encoding/json"
	"fmt"
	"runtime"

	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/record"
)

// SuiteName and SuiteVersion say which implementation wrote an artifact.
const (
	SuiteName    = "anvil-capacity"
	SuiteVersion = "0.1.0"
)

// Harness is everything that this suite says beyond the protocol: who measured,
// whether the run came to its end, what ran before it. Readers of the protocol
// may ignore it; this suite's gate may not. Unknown keys are ignored on reading,
// so that an older suite reads a newer one's artifact.
type Harness struct {
	Suite Suite `json:"suite"`
	// Complete is false in a partial artifact: interrupted, recovered, or
	// refused by Validate. IncompleteReason then says why; nil when complete.
	Complete         bool    `json:"complete"`
	IncompleteReason *string `json:"incomplete_reason"`
	// Scout is the warm-up that ran just before this cell; nil is none.
	Scout *Scout `json:"scout"`
	// SelfCheck is how far off this suite's clock was; nil when not measured.
	SelfCheck *SelfCheck `json:"self_check"`
	// Client is what this suite spent during the cell itself; nil is not measured.
	Client   *ClientUsage `json:"client"`
	Endpoint Endpoint     `json:"endpoint"`
	// CanaryPolicy is off, observe or strict; UsagePolicy require or observe.
	CanaryPolicy contract.Policy `json:"canary_policy"`
	UsagePolicy  string          `json:"usage_policy"`
	// Notes are findings in words; never nil in a file of this suite.
	Notes []string `json:"notes"`
	// Leaks are the answers that carry another live request's marker: each of
	// them went to the wrong request. Never nil in a file of this suite.
	Leaks []Leak `json:"cross_request_leaks"`
	// Recovered is set in an artifact that was made from a journal.
	Recovered *Recovered `json:"recovered,omitempty"`

	// TimingSuspect says why the clock readings are not to be trusted; nil is
	// nothing known against them.
	TimingSuspect []string `json:"timing_suspect,omitempty"`
	// Engine is the engine's own view, before and after; nil was not read.
	Engine *Engine `json:"engine,omitempty"`
	// ContextSizing is how prompts were sized in real tokens; nil is nominal.
	ContextSizing *ContextSizing `json:"context_sizing,omitempty"`
	// CacheSplit parts cold from warm requests of a cell with a shared prefix; nil
	// for unique prompts, and where they could not be told apart.
	CacheSplit *CacheSplit `json:"cache_split,omitempty"`
	// Gaps are the times between output events, of all completed requests.
	Gaps *PooledGaps `json:"inter_chunk,omitempty"`
	// GapsFile names the file beside this one that has all of them one by one
	// (CAPACITY_GAPS=all); "" is none.
	GapsFile string `json:"gaps_file,omitempty"`
}

// Leak is an answer that carries the marker of another request of its run.
type Leak struct {
	// RequestIndex is the request that the answer came to.
	RequestIndex int `json:"request_index"`
	// FromRequestIndex is the request whose marker it carries.
	FromRequestIndex int `json:"from_request_index"`
	// OwnMarkerToo says that the answer carries its own marker as well: two
	// answers were merged.
	OwnMarkerToo bool `json:"own_marker_too"`
}

// String tells it in one line.
func (l Leak) String() string {
	if l.OwnMarkerToo {
		return fmt.Sprintf("the answer to request %d carries the marker of request %d beside its own", l.RequestIndex, l.FromRequestIndex)
	}
	return fmt.Sprintf("the answer to request %d carries the marker of request %d and not its own", l.RequestIndex, l.FromRequestIndex)
}

// LeaksOf lists the leaks of a run in request order.
func LeaksOf(records []record.Record) []Leak {
	leaks := []Leak{}
	for i := range records {
		r := &records[i]
		if r.Canary == nil {
			continue
		}
		for _, from := range r.Canary.LeakedFrom {
			leaks = append(leaks, Leak{RequestIndex: r.RequestIndex, FromRequestIndex: from, OwnMarkerToo: r.Canary.ObservedMarkerCount > 0})
		}
	}
	return leaks
}

// Suite is the implementation and the machine that measured.
type Suite struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	GoVersion string `json:"go_version"`
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	CPUs      int    `json:"cpus"`
}

// ThisSuite describes the running program.
func ThisSuite() Suite {
	return Suite{
		Name: SuiteName, Version: SuiteVersion, GoVersion: runtime.Version(),
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
	}
}

// Scout links a cell to the warm-up that ran before it. ScoutFrom makes one
// from the scout's file.
type Scout struct {
	// Artifact is the scout's file name, without a folder.
	Artifact string `json:"artifact"`
	RunID    string `json:"run_id"`
	// SHA256 is the hash of the scout's file, 64 lower-case hex digits.
	SHA256      string `json:"sha256"`
	Requests    int    `json:"requests"`
	ContextSeed int    `json:"context_seed"`
}

// Endpoint describes the server that was measured, beyond base_url and engine.
type Endpoint struct {
	// Embedded says that the suite measured its own endpoint and no model.
	Embedded bool `json:"embedded"`
}

// SelfCheck is the suite's own error: its clock readings minus what a server of
// known timings wrote, at this load on this machine.
type SelfCheck struct {
	Requests    int         `json:"requests"`
	Concurrency int         `json:"concurrency"`
	TTFO        ErrorSpread `json:"time_to_first_output"`
	TTFT        ErrorSpread `json:"ttft"`
	E2E         ErrorSpread `json:"e2e"`
	TPOT        ErrorSpread `json:"tpot"`
	// Rest is the same without the first wave, in which all workers start at
	// once: the lock-step start is most of the p99 of every client. Nil where the
	// first wave is all there is.
	Rest *SelfCheckRest `json:"without_first_wave"`
	// EventsPerS is the rate of output events that the client took in, all
	// streams together, over the whole check.
	EventsPerS float64 `json:"events_per_s"`
	// Client is what the check cost; nil is not measured.
	Client *ClientUsage `json:"client"`
}

// SelfCheckRest are the errors of a check without its first wave.
type SelfCheckRest struct {
	TTFO ErrorSpread `json:"time_to_first_output"`
	TTFT ErrorSpread `json:"ttft"`
	E2E  ErrorSpread `json:"e2e"`
	TPOT ErrorSpread `json:"tpot"`
}

// ClientUsage is what this process spent while it measured. Times are
// milliseconds; nil is no sample.
type ClientUsage struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	// CPUShare is CPUSeconds over wall time and CPUs, the processors that the
	// process may use: 1 is all of them.
	CPUShare float64 `json:"cpu_share"`
	CPUs     int     `json:"cpus"`
	GCCycles int     `json:"gc_cycles"`
	// GCPauseMaxMS is the longest stop of all goroutines.
	GCPauseMaxMS *float64 `json:"gc_pause_max_ms"`
	// Sched is how long runnable goroutines waited for a processor.
	SchedSamples int      `json:"sched_latency_samples"`
	SchedP50MS   *float64 `json:"sched_latency_p50_ms"`
	SchedP99MS   *float64 `json:"sched_latency_p99_ms"`
	SchedMaxMS   *float64 `json:"sched_latency_max_ms"`
}

// ErrorSpread is a set of signed reading errors, milliseconds; the percentiles
// and the maximum are of absolute values. Nil where Samples is 0.
type ErrorSpread struct {
	Samples int      `json:"samples"`
	MeanMS  *float64 `json:"mean_ms"`
	P50MS   *float64 `json:"p50_ms"`
	P90MS   *float64 `json:"p90_ms"`
	P99MS   *float64 `json:"p99_ms"`
	MaxMS   *float64 `json:"max_ms"`
}

// Engine holds what the engine said of itself over the cell: counters after
// minus before. Nil was not exposed, which is not 0.
type Engine struct {
	PrefixCacheQueries *float64 `json:"prefix_cache_queries"`
	PrefixCacheHits    *float64 `json:"prefix_cache_hits"`
	// Detail is room for the rest, as its owner shapes it.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// Recovered says how an artifact came out of a journal.
type Recovered struct {
	// Journal is the journal's file name.
	Journal string `json:"journal"`
	// TornLines is 1 where the last line was cut by the end of the process.
	TornLines int `json:"torn_lines"`
	// CorruptLines counts lines before the last that could not be used.
	CorruptLines int `json:"corrupt_lines"`
}

// MarkPartial makes the artifact one that no gate passes on, because of reason:
// it is then not eligible for performance and has no throughput. Use it for a
// run that was cut short, and for one that Validate refuses, so that its
// evidence is kept all the same.
func (n *Native) MarkPartial(reason string) {
	if n.Harness == nil {
		n.Harness = &Harness{Suite: ThisSuite(), Notes: []string{}, Leaks: LeaksOf(n.Records())}
	}
	if reason == "" {
		reason = "no reason given"
	}
	n.Harness.Complete = false
	n.Harness.IncompleteReason = &reason
	n.PerformanceEligible = new(false)
	if n.RequestTimings != nil {
		n.fold(n.Records(), 0, orZero(n.WallClockMS))
	}
}

func describeShortfall(requests, completed, failed int) string {
	return fmt.Sprintf("%d of %d planned requests have no record", requests-completed-failed, requests)
}
