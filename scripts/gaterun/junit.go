package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Exit statuses of scripts/gate. Where several kinds failed, the first in this
// order is given: a wrong answer also counts as not completed, so correctness
// stands before service.
const (
	exitPass        = 0
	exitUsage       = 2
	exitHarness     = 10
	exitCorrectness = 11
	exitService     = 12
	exitLimit       = 13
	exitBaseline    = 14
)

// kind is a kind of check: which subtests belong to it and its exit status.
type kind struct {
	name     string
	exit     int
	meaning  string
	subtests []string
}

// kinds are in the order of precedence. A failed test that no kind claims is a
// failure of the harness.
var kinds = []kind{
	{"harness", exitHarness, "settings, preflight, the suite's own clock error, a panic, an interrupt, no test run", []string{"preflight", "client", "engine", "scout", "evidence"}},
	{"correctness", exitCorrectness, "an answer was not its own, or not the asked words", []string{"canaries", "words", "leak"}},
	{"service", exitService, "a planned request was not completed", []string{"service"}},
	{"limit", exitLimit, "a threshold was not met or not measured", []string{"threshold"}},
	{"baseline", exitBaseline, "worse than the baseline, or not comparable with it", []string{"baseline", "aa"}},
}

func exitHelp() string {
	var b strings.Builder
	b.WriteString("\nexit status: 0 passed, 2 bad command line, and the first that failed of\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "  %d %-12s %s\n", k.exit, k.name, k.meaning)
	}
	return b.String()
}

// junitFile is the part of gotestsum's JUnit file that a verdict needs.
type junitFile struct {
	Suites []struct {
		Cases []junitCase `xml:"testcase"`
	} `xml:"testsuite"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure"`
	Skipped *struct{}     `xml:"skipped"`
}

// junitFailure holds the output of a failed test.
type junitFailure struct {
	Output string `xml:",chardata"`
}

// ended says that the test came to its end, which go test then tells in a line
// of its own. Without one the whole process died in the middle of the test, by a
// panic elsewhere, os.Exit or a signal.
func (c junitCase) ended() bool {
	return strings.Contains(c.Failure.Output, "--- FAIL: "+c.Name+" (")
}

// panicLine begins what the runtime prints of a panic.
var panicLine = regexp.MustCompile(`(?m)^panic: (.*)$`)

// verdict is what the gate says last.
type verdict struct {
	Exit   int
	Ran    int
	Failed map[string][]string // kind name -> tests
	// Died says how the test process ended before its tests, "" for not at all.
	Died string
	Note string
}

// judge reads the JUnit file and holds it against gotestsum's exit status.
func judge(path string, status int) verdict {
	raw, err := os.ReadFile(path)
	if err != nil {
		return verdict{Exit: exitHarness, Note: fmt.Sprintf("no JUnit file: %v (gotestsum exited %d)", err, status)}
	}
	var file junitFile
	if err := xml.Unmarshal(raw, &file); err != nil {
		return verdict{Exit: exitHarness, Note: fmt.Sprintf("reading %q: %v", path, err)}
	}
	v := verdict{Failed: map[string][]string{}}
	for _, suite := range file.Suites {
		for _, c := range suite.Cases {
			v.add(c)
		}
	}
	v.decide(status)
	return v
}

// add counts one test case under its kind. A parent fails because a child did;
// it is its own failure only when no child names the reason.
func (v *verdict) add(c junitCase) {
	if c.Skipped != nil {
		return
	}
	v.Ran++
	if c.Failure == nil {
		return
	}
	name := kindOf(c.Name)
	v.Failed[name] = append(v.Failed[name], c.Name)
	if found := panicLine.FindStringSubmatch(c.Failure.Output); found != nil {
		v.Died = "the suite panicked: " + found[1]
	} else if v.Died == "" && !c.ended() {
		v.Died = fmt.Sprintf("the test process ended in the middle of %s", c.Name)
	}
}

// kindOf names the kind of a test from its path below the cell:
// TestCapacity/<cell>/<check>[/...]; "" for a test or a cell as a whole.
func kindOf(test string) string {
	parts := strings.Split(test, "/")
	for _, part := range parts[min(2, len(parts)):] {
		for _, k := range kinds {
			for _, sub := range k.subtests {
				if part == sub {
					return k.name
				}
			}
		}
	}
	return ""
}

func (v *verdict) decide(status int) {
	failed := 0
	for _, tests := range v.Failed {
		failed += len(tests)
	}
	switch {
	case v.Ran == 0:
		v.Exit, v.Note = exitHarness, fmt.Sprintf("no test was executed (gotestsum exited %d)", status)
	case (failed > 0) != (status != 0):
		v.Exit, v.Note = exitHarness, fmt.Sprintf("the JUnit file has %d failures and gotestsum exited %d: they disagree", failed, status)
	case v.Died != "":
		v.Exit, v.Note = exitHarness, v.Died
	case failed == 0:
		v.Exit = exitPass
	default:
		v.Exit = exitHarness
		for _, k := range kinds {
			if len(v.Failed[k.name]) > 0 {
				v.Exit = k.exit
				return
			}
		}
	}
}

// String is the gate's last line.
func (v verdict) String() string {
	if v.Note != "" {
		return "gate: FAIL (harness): " + v.Note
	}
	if v.Exit == exitPass {
		return fmt.Sprintf("gate: PASS: %d tests", v.Ran)
	}
	var kindsFailed []string
	for _, k := range kinds {
		if n := len(v.Failed[k.name]); n > 0 {
			kindsFailed = append(kindsFailed, fmt.Sprintf("%s (%d)", k.name, n))
		}
	}
	if len(kindsFailed) == 0 {
		kindsFailed = []string{"harness"}
	}
	return fmt.Sprintf("gate: FAIL: %s, exit status %d", strings.Join(kindsFailed, ", "), v.Exit)
}
