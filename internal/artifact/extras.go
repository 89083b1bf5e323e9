package artifact

import (
	"fmt"
	"strconv"
	"strings"

	"anvil-capacity/internal/record"
)

// Extras are what this suite keeps of a request beyond the protocol: extra keys
// of a row, completed or failed.
type Extras struct {
	// DispatchLagMS is how long the request's slot was free before its start;
	// absent for a worker's first request.
	DispatchLagMS *float64 `json:"dispatch_lag_ms,omitempty"`
	// FirstWave marks the requests that all workers start at once.
	FirstWave bool `json:"first_wave,omitempty"`
	// SecondOutputMS is the time to the second output event.
	SecondOutputMS *float64    `json:"time_to_second_output_ms,omitempty"`
	InterChunk     *InterChunk `json:"inter_chunk,omitempty"`
	// EventReads are the reads that completed an event, CrowdedReads those of them
	// that completed several: many of these are a buffering proxy.
	EventReads    int                   `json:"event_reads,omitempty"`
	CrowdedReads  int                   `json:"crowded_reads,omitempty"`
	ServerTimings *record.ServerTimings `json:"server_timings,omitempty"`
}

// InterChunk describes the gaps between output events: inter-chunk latency, in
// milliseconds. Mean and longest are exact; percentiles come from the histogram
// and are within record.GapResolution.
type InterChunk struct {
	Gaps   int      `json:"gaps"`
	MeanMS *float64 `json:"mean_ms"`
	P50MS  *float64 `json:"p50_ms"`
	P90MS  *float64 `json:"p90_ms"`
	P99MS  *float64 `json:"p99_ms"`
	// LongestMS is the longest silence between two outputs: a stall.
	LongestMS *float64 `json:"longest_ms"`
	SumMS     float64  `json:"sum_ms"`
	// Histogram lists the buckets that hold a gap (record.GapHistogram).
	Histogram GapBuckets `json:"histogram"`
}

// GapBuckets are written as one string, "index:count index:count", since a
// thousand short lines a request would bury the rest.
type GapBuckets []record.GapBucket

// MarshalText writes the buckets.
func (b GapBuckets) MarshalText() ([]byte, error) {
	var text []byte
	for i, bucket := range b {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendUint(text, uint64(bucket.Index), 10)
		text = append(text, ':')
		text = strconv.AppendUint(text, uint64(bucket.Count), 10)
	}
	return text, nil
}

// UnmarshalText reads what MarshalText writes: the indexes must rise.
func (b *GapBuckets) UnmarshalText(text []byte) error {
	*b = nil
	last := -1
	for field := range strings.FieldsSeq(string(text)) {
		index, count, ok := strings.Cut(field, ":")
		i, err1 := strconv.ParseUint(index, 10, 16)
		n, err2 := strconv.ParseUint(count, 10, 32)
		if !ok || err1 != nil || err2 != nil || n == 0 || int(i) <= last {
			return fmt.Errorf("reading a histogram: got %.40q, want INDEX:COUNT with rising indexes", field)
		}
		last = int(i)
		*b = append(*b, record.GapBucket{Index: uint16(i), Count: uint32(n)})
	}
	return nil
}

// interChunkOf is nil for a stream without a gap.
func interChunkOf(g record.Gaps) *InterChunk {
	if g.Count == 0 {
		return nil
	}
	return &InterChunk{
		Gaps: g.Count, MeanMS: g.MeanMS(), P50MS: g.QuantileMS(0.5), P90MS: g.QuantileMS(0.9), P99MS: g.QuantileMS(0.99),
		LongestMS: new(g.MaxMS), SumMS: g.SumMS, Histogram: GapBuckets(g.Buckets),
	}
}

// gaps turns it back; nothing for nil.
func (c *InterChunk) gaps() record.Gaps {
	if c == nil {
		return record.Gaps{}
	}
	return record.Gaps{Count: c.Gaps, SumMS: c.SumMS, MaxMS: orZero(c.LongestMS), Buckets: c.Histogram}
}

func extrasOf(r *record.Record) Extras {
	return Extras{
		DispatchLagMS: r.DispatchLagMS, FirstWave: r.FirstWave,
		SecondOutputMS: r.Response.SecondOutputMS, InterChunk: interChunkOf(r.Response.Gaps),
		EventReads: r.Response.Reads, CrowdedReads: r.Response.CrowdedReads, ServerTimings: r.Response.ServerTimings,
	}
}

func (e *Extras) into(r *record.Record) {
	r.DispatchLagMS, r.FirstWave = e.DispatchLagMS, e.FirstWave
	r.Response.SecondOutputMS, r.Response.Gaps = e.SecondOutputMS, e.InterChunk.gaps()
	r.Response.Reads, r.Response.CrowdedReads, r.Response.ServerTimings = e.EventReads, e.CrowdedReads, e.ServerTimings
}

// PooledGaps describes the gaps of all completed requests together.
type PooledGaps struct {
	InterChunk
	// Is says what a gap is here: "inter-token latency" where every stream brought
	// one token an event (checked against usage), else "inter-chunk latency".
	Is string `json:"is"`
	// LongestByRequest are the percentiles over requests of each one's longest gap.
	LongestP50MS *float64 `json:"longest_by_request_p50_ms"`
	LongestP99MS *float64 `json:"longest_by_request_p99_ms"`
}

// The two readings of a gap.
const (
	InterTokenLatency = "inter-token latency"
	InterChunkLatency = "inter-chunk latency"
)
