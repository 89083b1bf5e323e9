package e2e

import (
	"encoding/xml"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/record"
)

// leakKinds are the ways in which an answer goes to the wrong request.
var leakKinds = []struct {
	name, faults string
	leaks        []artifact.Leak
	why          string
}{
	{"swapped", "swap@0", []artifact.Leak{{RequestIndex: 0, FromRequestIndex: 1}, {RequestIndex: 1, FromRequestIndex: 0}},
		"two answers, each of them right for the other request"},
	{"given_twice", "foreign-canary=2@1", []artifact.Leak{{RequestIndex: 1, FromRequestIndex: 3}},
		"request 3 gets its answer, and request 1 gets it too"},
	{"merged", "merge@2", []artifact.Leak{{RequestIndex: 2, FromRequestIndex: 3, OwnMarkerToo: true}},
		"its own answer, with that of request 3 behind it"},
	{"all_at_once", "swap@0;merge@2", []artifact.Leak{{RequestIndex: 0, FromRequestIndex: 1}, {RequestIndex: 1, FromRequestIndex: 0}, {RequestIndex: 2, FromRequestIndex: 3, OwnMarkerToo: true}},
		"each is counted"},
}

// TestCrossRequestLeak: an answer with another request's marker fails under
// every policy, names both requests, and has a subtest and a count of its own.
func TestCrossRequestLeak(t *testing.T) {
	for _, tt := range leakKinds {
		for _, policy := range []string{"strict", "observe"} {
			t.Run(tt.name+"_"+policy, func(t *testing.T) {
				t.Parallel()
				o := fast()
				o.Faults = tt.faults
				ref := refTarget(t, o)
				got := runSuite(t, small(ref.URL, "CANARIES="+policy, "RUN=leak", "MAX_FAILURE_RATE=100%")...)
				assert.NotZero(t, got.exit, tt.why)
				checkLeaks(t, got, tt.leaks)
			})
		}
	}
}

// TestNoMarkersNoLeak: without markers in the prompts there is nothing to mix up,
// and the count is there all the same.
func TestNoMarkersNoLeak(t *testing.T) {
	t.Parallel()
	o := fast()
	o.Faults = "swap@0"
	ref := refTarget(t, o)
	got := runSuite(t, small(ref.URL, "CANARIES=off")...)
	assert.Zero(t, got.exit, got.output)
	assert.Contains(t, got.output, "=== ATTR  TestCapacity/c2-ctx256-w4/leak cross_request_leaks 0")
}

func checkLeaks(t *testing.T, got result, leaks []artifact.Leak) {
	t.Helper()
	assert.Contains(t, got.output, "--- FAIL: TestCapacity/c2-ctx256-w4/leak (")
	assert.Contains(t, got.output, fmt.Sprintf("%d answers went to the wrong request", len(leaks)))
	assert.Contains(t, got.output, fmt.Sprintf("=== ATTR  TestCapacity/c2-ctx256-w4/leak cross_request_leaks %d", len(leaks)))
	n := one(t, got)
	assert.Equal(t, leaks, n.Harness.Leaks)
	require.Len(t, n.Failures, len(leaks), "the other requests are all right")
	for i, leak := range leaks {
		assert.Contains(t, got.output, leak.String(), "both requests are named")
		f := n.Failures[i]
		assert.Equal(t, leak.RequestIndex, f.RequestIndex)
		assert.Equal(t, string(record.CanaryFailed), f.FailureClass)
		assert.Contains(t, f.ErrorMessage, fmt.Sprintf("answer to request %d carries the marker of request %d of this run", leak.RequestIndex, leak.FromRequestIndex))
	}
}

// junitFile is a JUnit file as far as these tests read it.
type junitFile struct {
	Suites []struct {
		Cases []junitCase `xml:"testcase"`
	} `xml:"testsuite"`
}

type junitCase struct {
	Name    string `xml:"name,attr"`
	Failure *struct {
		Output string `xml:",chardata"`
	} `xml:"failure"`
	Properties []property `xml:"properties>property"`
}

type property struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

func readJUnit(t *testing.T, path string) junitFile {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var file junitFile
	require.NoError(t, xml.Unmarshal(text, &file))
	return file
}

// find gives the one case of a name.
func (f junitFile) find(t *testing.T, name string) junitCase {
	t.Helper()
	var found []junitCase
	for _, s := range f.Suites {
		for _, c := range s.Cases {
			if c.Name == name {
				found = append(found, c)
			}
		}
	}
	require.Len(t, found, 1, name)
	return found[0]
}

// failed counts the cases that failed and all cases.
func (f junitFile) failed() (failed []string, all int) {
	for _, s := range f.Suites {
		for _, c := range s.Cases {
			all++
			if c.Failure != nil {
				failed = append(failed, strings.TrimPrefix(c.Name, "TestCapacity"))
			}
		}
	}
	return failed, all
}
