package stats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"anvil-capacity/internal/record"
)

// Metrics is the metrics object of an artifact: a flat map from metric key to a
// number, nil where it was not measured, and two keys that are no numbers. The
// zero value holds no key and is ready for UnmarshalJSON. Copies share their
// contents; nothing here changes them after Fold or UnmarshalJSON.
type Metrics struct {
	values map[string]*float64

	// OutputTokenSources counts the completed requests by where their output
	// token count came from: record.SourceUsage or record.SourceContentChunks.
	// Nil when the metrics were read from an artifact without it.
	OutputTokenSources map[string]int
	// ThroughputPerformanceEligible says that throughput_tok_s stands on every
	// planned request and on usage alone. Nil like OutputTokenSources.
	ThroughputPerformanceEligible *bool

	// other keeps what another implementation wrote under a key whose value is
	// neither a number nor null, so that writing again loses nothing.
	other map[string]json.RawMessage
}

// Get gives the value of a metric key. known is false when these metrics have
// no such key; a known key with a nil value was not measured (WhyNil says why).
// The value must not be changed.
func (m Metrics) Get(key string) (v *float64, known bool) {
	v, known = m.values[key]
	return v, known
}

// Keys lists the numeric keys of these metrics, sorted. For those that Fold can
// give see the function Keys.
func (m Metrics) Keys() []string {
	return slices.Sorted(maps.Keys(m.values))
}

func (m *Metrics) setDistribution(f family, d Distribution) {
	for _, s := range statistics {
		m.values[f.key(s.name)] = s.of(&d)
	}
}

// MarshalJSON writes one object with its keys sorted, so that equal metrics are
// equal bytes. Numbers are the shortest text that reads back as the same bits.
func (m Metrics) MarshalJSON() ([]byte, error) {
	object := make(map[string]any, len(m.values)+len(m.other)+2)
	for key, raw := range m.other {
		object[key] = raw
	}
	for key, v := range m.values {
		object[key] = v
	}
	if m.OutputTokenSources != nil {
		object[keyTokenSources] = m.OutputTokenSources
	}
	if m.ThroughputPerformanceEligible != nil {
		object[keyThroughputEligible] = *m.ThroughputPerformanceEligible
	}
	return json.Marshal(object)
}

// UnmarshalJSON reads the metrics object of any implementation: every key whose
// value is a number (whole or not) or null is kept and can be had by Get, known
// to Fold or not, and anything else is kept to be written again. A number that
// no float64 can hold is an error, and so is a key of Fold with a value that is
// no number: it would otherwise read as a metric that was never there.
func (m *Metrics) UnmarshalJSON(data []byte) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return fmt.Errorf("reading metrics: %w", err)
	}
	read := Metrics{values: make(map[string]*float64, len(object))}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if err := read.readKey(key, object[key]); err != nil {
			return fmt.Errorf("reading metric %q: %w", key, err)
		}
	}
	*m = read
	return nil
}

func (m *Metrics) readKey(key string, raw json.RawMessage) error {
	switch key {
	case keyTokenSources:
		return json.Unmarshal(raw, &m.OutputTokenSources)
	case keyThroughputEligible:
		return json.Unmarshal(raw, &m.ThroughputPerformanceEligible)
	}
	raw = bytes.TrimSpace(raw)
	if isNumberOrNull(raw) {
		var v *float64
		if err := json.Unmarshal(raw, &v); err != nil {
			return err
		}
		m.values[key] = v
		return nil
	}
	if _, own := slices.BinarySearch(Keys(), key); own {
		return fmt.Errorf("got %.40s, want a number or null", raw)
	}
	if m.other == nil {
		m.other = map[string]json.RawMessage{}
	}
	m.other[key] = raw
	return nil
}

// isNumberOrNull looks at the first byte of a valid JSON value.
func isNumberOrNull(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' || raw[0] == 'n')
}

// completedRequests is how many requests the metrics stand on; known is false
// when the artifact did not say.
func (m Metrics) completedRequests() (n int, known bool) {
	for _, c := range m.OutputTokenSources {
		n += c
	}
	return n, m.OutputTokenSources != nil
}

// WhyNil says in half a sentence why a metric was not measured, from what the
// metrics themselves hold, so that it works on an artifact read back. It is ""
// for a metric that has a value.
func (m Metrics) WhyNil(key string) string {
	v, known := m.Get(key)
	switch {
	case !known:
		return "these metrics have no such key"
	case v != nil:
		return ""
	}
	if n, ok := m.completedRequests(); ok && n == 0 {
		return "no request completed"
	}
	if name, _, ok := SplitKey(key); ok {
		return m.whyNoStatistic(name)
	}
	return m.whyNoTotal(key)
}

func (m Metrics) whyNoStatistic(name string) string {
	f, _ := familyOf(name)
	if n := m.values[f.key(statSamples)]; n == nil || *n > 0 {
		return "its value was not recorded or is not a finite number"
	}
	return "zero samples: no completed request had " + f.needs
}

func (m Metrics) whyNoTotal(key string) string {
	total, _ := m.completedRequests()
	without := total - m.OutputTokenSources[record.SourceUsage]
	noUsage := fmt.Sprintf("%d of %d completed requests carried no usage", without, total)
	switch key {
	case keyThroughput, keyOutputTokens:
		if without > 0 {
			return noUsage
		}
		return "not every planned request completed, so there is no throughput"
	case keyContentChunksS:
		if without == 0 {
			return "tokens are counted from usage; chunks are no rate beside them"
		}
		return "not every planned request completed"
	case keyPromptTokens:
		return "no completed request had " + needsPrompt
	case keyPrefixCacheHitAvg, keyPrefixCacheHitRate:
		return "the server returned no cached_tokens; unknown is not 0"
	case keyCanaryPassed:
		return "zero samples: no answer was judged by its canary (canaries off or observed)"
	case keyWordsExact, keyWordsUnobservable:
		return "zero samples: no response words were asked for"
	case keyWordsExactRate:
		return "no answer in which the words could be counted"
	}
	return "it was not recorded"
}
