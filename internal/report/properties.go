package report

import (
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/gate"
)

// Property is an attribute of a test case: testing.T.Attr puts it into go test's
// JSON, and gotestsum into the JUnit file as a <property>. Key holds no white
// space and Value no line end, else Attr would fail the test.
type Property struct{ Key, Value string }

// Keys of the properties of a run's test case. The metrics follow under their
// keys in the artifact.
const (
	PropertyArtifact  = "artifact"
	PropertyCompleted = "completed"
	PropertyFailed    = "failed"
)

// Keys of the properties of a threshold's test case and of a comparison's.
const (
	PropertyMetric     = "metric"
	PropertyLimit      = "limit"
	PropertyValue      = "value"
	PropertyStatus     = "status"
	PropertyVerdict    = "verdict"
	PropertyBaseline   = "baseline_value"
	PropertyChange     = "change"
	PropertyChangeLow  = "change_low"
	PropertyChangeHigh = "change_high"
	PropertyConfidence = "confidence"
	PropertyMargin     = "margin"
	PropertyMethod     = "method"
)

// PropertyNull is the value of what was not measured: unknown is neither 0 nor
// left out.
const PropertyNull = "null"

// maxPropertyBytes bounds a value. go test drops an attribute whose line is
// longer than about 4 KiB, without a word.
const maxPropertyBytes = 1024

// RunProperties are those of a run: where its evidence is, how many requests
// completed and failed, and the exact metrics with every digit. file is the
// artifact's path as the test sees it.
func RunProperties(n *artifact.Native, file string) []Property {
	properties := []Property{
		property(PropertyArtifact, filepath.ToSlash(file)),
		property(PropertyCompleted, strconv.Itoa(n.Completed)),
		property(PropertyFailed, strconv.Itoa(n.Failed)),
	}
	for _, key := range exactKeys {
		properties = append(properties, numberProperty(key, metric(n, key)))
	}
	return properties
}

// ThresholdProperties are those of one limit: what was asked, what was got (of a
// limit with @95% the interval's bound), and the status.
func ThresholdProperties(v gate.Verdict) []Property {
	return []Property{
		property(PropertyMetric, v.Threshold.Metric),
		property(PropertyLimit, v.Threshold.Source),
		numberProperty(PropertyValue, v.Got),
		property(PropertyStatus, string(v.Status)),
	}
}

// ComparedProperties are those of one metric against its baseline. Changes,
// confidence and margin are ratios: 0.05 is 5 %.
func ComparedProperties(c gate.Compared) []Property {
	return []Property{
		property(PropertyMetric, c.Metric),
		numberProperty(PropertyBaseline, c.Comparison.Baseline.Value),
		numberProperty(PropertyValue, c.Comparison.Candidate.Value),
		numberProperty(PropertyChange, c.Comparison.Change),
		numberProperty(PropertyChangeLow, c.Comparison.Low),
		numberProperty(PropertyChangeHigh, c.Comparison.High),
		numberProperty(PropertyConfidence, &c.Comparison.Confidence),
		numberProperty(PropertyMargin, c.Margin),
		property(PropertyStatus, string(c.Status)),
		property(PropertyVerdict, string(c.Comparison.Verdict)),
		property(PropertyMethod, string(c.Comparison.Method)),
	}
}

func property(key, value string) Property {
	return Property{Key: key, Value: clip(plain(value), maxPropertyBytes)}
}

func numberProperty(key string, v *float64) Property {
	if v == nil {
		return Property{key, PropertyNull}
	}
	return Property{key, strconv.FormatFloat(*v, 'g', -1, 64)}
}

// plain makes text one line of printable characters: white space becomes a
// space, and what is not printable (control characters, line ends, marks that
// turn the direction of writing, bytes that are no UTF-8) becomes U+FFFD.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return utf8.RuneError
	}, s)
}

// clippedMark ends a text that was cut.
const clippedMark = "..."

// clip cuts s to limit bytes at most, whole characters, mark included. limit is
// more than the mark.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	cut := limit - len(clippedMark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + clippedMark
}
