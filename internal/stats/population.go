package stats

import "anvil-capacity/internal/record"

// P99MinimumRecommendedSamples is how many samples a p99 needs before it says
// anything about a tail: below it the nearest-rank p99 is the largest value.
const P99MinimumRecommendedSamples = 100

// What a p99 is, by the size of its sample.
const (
	P99Descriptive  = "descriptive-nearest-rank-only"
	P99TailEstimate = "tail-estimate"
)

// P99Interpretation labels a p99 of so many samples: P99Descriptive below
// P99MinimumRecommendedSamples, else P99TailEstimate.
func P99Interpretation(samples int) string {
	if samples < P99MinimumRecommendedSamples {
		return P99Descriptive
	}
	return P99TailEstimate
}

// FailurePolicy says in the artifact what became of failed requests.
const FailurePolicy = "a failed request keeps its timing and metadata in failures and stays out of every distribution; no request is retried"

// MetricPopulation is the artifact's metric_population: which requests the
// metrics stand on.
type MetricPopulation struct {
	// AttemptedRequests counts the requests that were started: successful and
	// excluded together. A run that was cut short planned more.
	AttemptedRequests int `json:"attempted_requests"`
	// SuccessfulRequests completed; each of them is eligible, so the two next
	// counts are the same number.
	SuccessfulRequests          int `json:"successful_requests"`
	PerformanceEligibleRequests int `json:"performance_eligible_requests"`
	// ExcludedRequests failed.
	ExcludedRequests int `json:"excluded_requests"`
	// AggregateThroughputEligible is throughput_performance_eligible of Fold,
	// for a run whose wall clock is positive.
	AggregateThroughputEligible  bool `json:"aggregate_throughput_eligible"`
	P99MinimumRecommendedSamples int  `json:"p99_minimum_recommended_samples"`
	// P99Interpretation is that of the eligible requests; a metric that only
	// some of them have is labelled by its own samples below.
	P99Interpretation         string            `json:"p99_interpretation"`
	P99SamplesByMetric        map[string]int    `json:"p99_samples_by_metric"`
	P99InterpretationByMetric map[string]string `json:"p99_interpretation_by_metric"`
	FailurePolicy             string            `json:"failure_policy"`
}

// Population describes the population of a run's metrics. The two maps have one
// entry for each of Names.
func Population(records []record.Record, planned int) MetricPopulation {
	rows := completed(records)
	p := MetricPopulation{
		AttemptedRequests:            len(records),
		SuccessfulRequests:           len(rows),
		PerformanceEligibleRequests:  len(rows),
		ExcludedRequests:             len(records) - len(rows),
		AggregateThroughputEligible:  PerformanceEligible(records, planned) && tokenSources(rows)[record.SourceUsage] == len(rows),
		P99MinimumRecommendedSamples: P99MinimumRecommendedSamples,
		P99Interpretation:            P99Interpretation(len(rows)),
		P99SamplesByMetric:           make(map[string]int, len(families)),
		P99InterpretationByMetric:    make(map[string]string, len(families)),
		FailurePolicy:                FailurePolicy,
	}
	for _, f := range families {
		n := usable(f.sample(rows))
		p.P99SamplesByMetric[f.name] = n
		p.P99InterpretationByMetric[f.name] = P99Interpretation(n)
	}
	return p
}

// PerformanceEligible is the artifact's performance_eligible: every planned
// request completed and none failed. The request indexes must be exactly
// 0..planned-1, each once, so that a row counted twice cannot stand in for one
// that is missing. False when nothing was planned.
func PerformanceEligible(records []record.Record, planned int) bool {
	if planned <= 0 || len(records) != planned {
		return false
	}
	seen := make([]bool, planned)
	for i := range records {
		index := records[i].RequestIndex
		if !records[i].Completed() || index < 0 || index >= planned || seen[index] {
			return false
		}
		seen[index] = true
	}
	return true
}
