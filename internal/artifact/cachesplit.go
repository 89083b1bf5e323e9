package artifact

import (
	"fmt"
	"slices"

	"anvil-capacity/internal/record"
	"anvil-capacity/internal/stats"
)

// What a CacheSplit goes by.
const (
	// SplitByCachedTokens takes the server's word, request by request.
	SplitByCachedTokens = "cached_tokens"
	// SplitByTimes takes the rows that stats.WarmRows finds.
	SplitByTimes = "timings"
)

// CacheSplit parts the completed requests of a cell with a shared prefix into
// those that computed the prefix and those that took it from the server's
// cache: two kinds of request whose common median is neither's.
type CacheSplit struct {
	// Basis is SplitByCachedTokens where the server sent cached_tokens with every
	// answer, else SplitByTimes.
	Basis string `json:"basis"`
	// WarmFromTokens is the least cached_tokens of a warm request; 0 with
	// SplitByTimes.
	WarmFromTokens int       `json:"warm_from_cached_tokens"`
	Cold           CacheSide `json:"cold"`
	Warm           CacheSide `json:"warm"`
}

// CacheSide is the requests on one side of a CacheSplit. Times are milliseconds;
// nil is no sample.
type CacheSide struct {
	N          int      `json:"n"`
	TTFOP50MS  *float64 `json:"time_to_first_output_p50_ms"`
	TTFTP50MS  *float64 `json:"ttft_p50_ms"`
	TTFTMeanMS *float64 `json:"ttft_mean_ms"`
	// CachedTokens is the mean of cached_tokens; nil where they were not sent.
	CachedTokens *float64 `json:"cached_tokens_mean"`
	// FirstWave is how many of the N were among those that all workers started at
	// once.
	FirstWave int `json:"first_wave"`
}

// warmShare of the shared prefix must come from the cache for a request to be
// warm. What is cached of a cold one is the chat template, which every request
// before shares, the preflight's too; what is cached of a warm one lacks the
// prefix's last part block, at most. Nominal tokens are a fifth to a quarter
// more than real ones, which leaves room on both sides.
const warmShare = 0.5

// splitCache parts the records of a cell, nil where there is nothing to part:
// unique prompts, no completed request, or neither cached_tokens nor times that
// tell warm from cold.
func splitCache(f Facts, records []record.Record) *CacheSplit {
	if f.PromptCacheMode != CacheShared {
		return nil
	}
	s := CacheSplit{Basis: SplitByCachedTokens, WarmFromTokens: max(1, int(warmShare*float64(f.SharedPrefixTokens)))}
	isWarm := func(r *record.Record) bool { return *r.Tokens.Cached >= s.WarmFromTokens }
	if !allSayCached(records) {
		warm := stats.WarmRows(records, f.Concurrency)
		if len(warm) == 0 {
			return nil
		}
		s.Basis, s.WarmFromTokens = SplitByTimes, 0
		isWarm = func(r *record.Record) bool { return slices.Contains(warm, r.RequestIndex) }
	}
	var cold, warm []*record.Record
	for i := range records {
		switch r := &records[i]; {
		case !r.Completed():
		case isWarm(r):
			warm = append(warm, r)
		default:
			cold = append(cold, r)
		}
	}
	if len(cold)+len(warm) == 0 {
		return nil
	}
	s.Cold, s.Warm = sideOf(cold), sideOf(warm)
	return &s
}

// allSayCached says that the server sent cached_tokens with every completed
// request. Silence of some is not 0.
func allSayCached(records []record.Record) bool {
	for i := range records {
		if records[i].Completed() && records[i].Tokens.Cached == nil {
			return false
		}
	}
	return true
}

func sideOf(rows []*record.Record) CacheSide {
	side := CacheSide{N: len(rows)}
	var ttfo, ttft, cached []float64
	for _, r := range rows {
		if r.FirstWave {
			side.FirstWave++
		}
		if t := r.Timing.TTFOMS; t != nil {
			ttfo = append(ttfo, *t)
		}
		if t := r.Timing.TTFTMS; t != nil {
			ttft = append(ttft, *t)
		}
		if n := r.Tokens.Cached; n != nil {
			cached = append(cached, float64(*n))
		}
	}
	side.TTFOP50MS = stats.Describe(ttfo).P50
	d := stats.Describe(ttft)
	side.TTFTP50MS, side.TTFTMeanMS = d.P50, d.Mean
	side.CachedTokens = stats.Describe(cached).Mean
	return side
}

// String tells it in one line.
func (s *CacheSplit) String() string {
	return fmt.Sprintf("shared prefix: %d cold requests with TTFT p50 %s, %d warm ones with %s (by %s)",
		s.Cold.N, splitMS(s.Cold.TTFTP50MS), s.Warm.N, splitMS(s.Warm.TTFTP50MS), s.Basis)
}

func splitMS(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", *v)
}
