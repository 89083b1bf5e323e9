package artifact

import (
	"fmt"
	"maps"
	"slices"

	"anvil-capacity/internal/contract"
)

// timestampPrecision describes the four timestamps of an artifact.
const timestampPrecision = "nanoseconds since the Unix epoch in the *_unix_ns fields; started_at and finished_at are those, rounded down to whole seconds"

// Methodology says in words how this implementation takes each number: the
// value of timing_methodology. The keys are those of PROTOCOL section 6.
func Methodology() map[string]string {
	return map[string]string{
		"artifact_timestamps": "started_at_unix_ns is the client's wall clock at the first request's start; finished_at_unix_ns is that plus wall_clock_ms, " +
			"so a step of the wall clock during the run moves neither; timestamps of two artifacts may be aligned only where both carry the same clock_domain_id",
		"clock": "the client's monotonic clock (Go time.Time readings), in nanoseconds, published as milliseconds without rounding; " +
			"t0 is read just before the request is handed to the transport, with prompt and body already built; " +
			"an event arrives when the read that completed it returned, stamped before anything is parsed",
		"controlled_output": fmt.Sprintf("the visible text is compared with the marker and exactly response_words times the word code; "+
			"observe records the verdict, strict makes any other answer a failure that is in no distribution; "+
			"%d characters of visible text are captured, and an answer beyond that has no exact verdict and fails strict", contract.CaptureLimitChars),
		"decode": "(output tokens - 1) / (generation / 1000), tokens a second of one request; output tokens are the server's usage and include reasoning tokens; " +
			"null where usage is missing, tokens are fewer than 2 or generation is not positive",
		"distributions": "over eligible requests only: mean, sample standard deviation (n - 1; 0 for one sample), mean -/+ 1.96 standard errors as its 95 % interval, " +
			"min, max and nearest-rank percentiles p25 to p99 (the ceil(q*n/100)-th smallest value); an empty set has 0 samples and null, never 0",
		"effective_prefill": "prompt tokens from the server's usage / (time to first output / 1000): what the client sees of queueing, scheduling, prefill and the first token together, " +
			"not the engine's prefill rate",
		"generation": "E2E minus time to first output; E2E ends at the arrival of [DONE], without it at the finish event or a clean end of the body, " +
			"and never waits for a connection that lingers",
		"mean_inter_token_latency": "an older name of tpot, with the same values; an average over a whole answer, not the latency between two tokens",
		"p99": "always the nearest-rank value; with fewer than 100 eligible samples it describes those samples and estimates no tail " +
			"(metric_population says which it is for each metric)",
		"request_canaries": "each prompt carries a marker of its own; where request_canaries is true an answer must begin with it, after leading white space, " +
			"carry no other request's marker and fit the capture, or the request fails and is in no distribution; " +
			"another request's marker fails a request under every policy",
		"time_to_first_output": "t0 to the first event with non-empty generated text, reasoning or visible; " +
			"role-only, empty, null, usage, progress and tool-call events are not output",
		"tpot": "generation / (output tokens - 1), milliseconds an output token after the first, from the server's usage; null where decode is; " +
			"events are never counted as tokens",
		"ttft": "t0 to the first event with non-empty visible text; reasoning does not count",
	}
}

// methodologyKeys lists the keys of timing_methodology (PROTOCOL section 6).
var methodologyKeys = slices.Sorted(maps.Keys(Methodology()))
