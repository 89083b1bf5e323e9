// Package selfcheck measures the suite itself: how far its clock readings of a
// run against the embedded endpoint are from what that endpoint wrote down.
//
// Both sides read one monotonic clock of one process, so a difference is the
// way there and back: the client's write, the kernel, the server's and the
// client's wake-ups and reads. What it cannot see is the distance to a real
// server.
package selfcheck

import (
	"math"
	"time"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/refserver"
	"anvil-capacity/internal/stats"
)

// Compare holds each completed record against the server's exchange of the same
// request id. It is nil when no pair was found: an error that was not measured
// is not 0.
func Compare(records []record.Record, log []refserver.Exchange, concurrency int) *artifact.SelfCheck {
	exchanges := make(map[string]refserver.Exchange, len(log))
	for _, e := range log {
		exchanges[e.RequestID] = e
	}
	var pairs []pair
	for _, r := range records {
		if e, ok := exchanges[r.Response.RequestID]; ok && r.Completed() && e.Outcome == refserver.OutcomeDone {
			pairs = append(pairs, pair{r, e})
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	check := &artifact.SelfCheck{
		Requests: len(pairs), Concurrency: concurrency, EventsPerS: eventsPerS(pairs),
		TTFO: spread(pairs, pair.ttfoErrorMS),
		TTFT: spread(pairs, pair.ttftErrorMS),
		E2E:  spread(pairs, pair.e2eErrorMS),
		TPOT: spread(pairs, pair.tpotErrorMS),
	}
	if rest := withoutFirstWave(pairs, concurrency); len(rest) > 0 {
		check.Rest = &artifact.SelfCheckRest{
			TTFO: spread(rest, pair.ttfoErrorMS),
			TTFT: spread(rest, pair.ttftErrorMS),
			E2E:  spread(rest, pair.e2eErrorMS),
			TPOT: spread(rest, pair.tpotErrorMS),
		}
	}
	return check
}

// withoutFirstWave leaves out the requests that all workers start at once.
func withoutFirstWave(pairs []pair, concurrency int) []pair {
	var rest []pair
	for _, p := range pairs {
		if p.client.RequestIndex >= concurrency {
			rest = append(rest, p)
		}
	}
	return rest
}

// eventsPerS is the output events of all pairs over the time from the first
// start to the last end, 0 for no time.
func eventsPerS(pairs []pair) float64 {
	events, from, to := 0, pairs[0].client.StartMS, 0.0
	for _, p := range pairs {
		events += p.client.Response.ContentChunks + p.client.Response.ReasoningChunks
		from = min(from, p.client.StartMS)
		to = max(to, p.client.StartMS+p.client.ElapsedMS)
	}
	if to <= from {
		return 0
	}
	return float64(events) / (to - from) * 1000
}

// pair is one request as both sides saw it.
type pair struct {
	client record.Record
	server refserver.Exchange
}

func (p pair) ttfoErrorMS() (float64, bool) {
	return errorMS(p.client.Timing.TTFOMS, p.server.Arrived, p.server.FirstOutputAt)
}

func (p pair) ttftErrorMS() (float64, bool) {
	return errorMS(p.client.Timing.TTFTMS, p.server.Arrived, p.server.FirstContentAt)
}

func (p pair) e2eErrorMS() (float64, bool) {
	return errorMS(p.client.Timing.E2EMS, p.server.Arrived, p.server.DoneAt)
}

// tpotErrorMS compares time per output token: both sides divide by the same count.
func (p pair) tpotErrorMS() (float64, bool) {
	measured := p.client.TPOTMS()
	if measured == nil || p.server.Sent < 2 {
		return 0, false
	}
	truth := record.MS(p.server.DoneAt.Sub(p.server.FirstOutputAt)) / float64(p.server.Sent-1)
	return *measured - truth, true
}

// errorMS is the client's reading minus the server's span between two stamps.
func errorMS(measured *float64, from, to time.Time) (float64, bool) {
	if measured == nil || from.IsZero() || to.IsZero() {
		return 0, false
	}
	return *measured - record.MS(to.Sub(from)), true
}

// spread describes the errors of all pairs: the mean with its sign, the rest by
// size.
func spread(pairs []pair, of func(pair) (float64, bool)) artifact.ErrorSpread {
	var signed, sizes []float64
	for _, p := range pairs {
		if e, ok := of(p); ok {
			signed = append(signed, e)
			sizes = append(sizes, math.Abs(e))
		}
	}
	d := stats.Describe(sizes)
	return artifact.ErrorSpread{
		Samples: len(signed), MeanMS: stats.Describe(signed).Mean,
		P50MS: d.P50, P90MS: d.P90, P99MS: d.P99, MaxMS: d.Max,
	}
}
