package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// maxJUnitBytes bounds the JUnit file that is read. A failing test case takes
// some KiB; this is room for thousands.
const maxJUnitBytes = 64 << 20

// TestCase is one test of a JUnit file that gotestsum wrote.
type TestCase struct {
	// Name is the path of the subtest: TestCapacity/c4-ctx2048-w16/service.
	Name    string
	Failed  bool
	Skipped bool
	// Message is what the test said, without go test's framing; "" where it
	// passed, and where it failed only because a subtest did.
	Message string
	// Properties are the test's attributes; nil is none.
	Properties map[string]string
}

// ReadJUnit reads the test cases of a JUnit file in their order: gotestsum lists
// failed ones first, then skipped, then passed. Every error names the file.
func ReadJUnit(path string) ([]TestCase, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the JUnit file: %w", err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxJUnitBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the JUnit file: %w", err)
	}
	if len(raw) > maxJUnitBytes {
		return nil, fmt.Errorf("reading the JUnit file %q: more than %d bytes", path, maxJUnitBytes)
	}
	cases, err := parseJUnit(raw)
	if err != nil {
		return nil, fmt.Errorf("reading the JUnit file %q: %w", path, err)
	}
	return cases, nil
}

// junitCase is a test case as it stands in the file.
type junitCase struct {
	Name       string `xml:"name,attr"`
	Properties []struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	} `xml:"properties>property"`
	Failure *struct {
		Text string `xml:",chardata"`
	} `xml:"failure"`
	Skipped *struct {
		Message string `xml:"message,attr"`
	} `xml:"skipped"`
}

func parseJUnit(raw []byte) ([]TestCase, error) {
	var file struct {
		XMLName xml.Name    `xml:"testsuites"`
		Cases   []junitCase `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(raw, &file); err != nil {
		return nil, err
	}
	cases := make([]TestCase, len(file.Cases))
	for i, c := range file.Cases {
		cases[i] = c.testCase()
	}
	return cases, nil
}

func (c junitCase) testCase() TestCase {
	out := TestCase{Name: c.Name}
	switch {
	case c.Failure != nil:
		out.Failed, out.Message = true, said(c.Failure.Text)
	case c.Skipped != nil:
		out.Skipped, out.Message = true, said(c.Skipped.Message)
	}
	for _, p := range c.Properties {
		if out.Properties == nil {
			out.Properties = map[string]string{}
		}
		out.Properties[p.Name] = p.Value
	}
	return out
}

var (
	// framing are the lines that go test writes around a test's own.
	framing = regexp.MustCompile(`^(=== (RUN|PAUSE|CONT|NAME|ATTR|ARTIFACTS)|--- (PASS|FAIL|SKIP):)`)
	// logged begins what t.Log, t.Error and their sisters wrote.
	logged = regexp.MustCompile(`^ {4}[^\s:]+\.go:\d+: ?(.*)$`)
)

// continued begins the further lines of a message.
const continued = "        "

// said takes from the output of a test what it said by t.Error, t.Log or t.Skip,
// and what stands outside of any test (a panic), and leaves out what it printed:
// tables and progress. Where it said nothing in that way, all is kept.
func said(output string) string {
	var messages, all []string
	inMessage, found := false, false
	for _, line := range strings.Split(strings.TrimRight(output, "\n"), "\n") {
		if framing.MatchString(line) {
			continue
		}
		all = append(all, strings.TrimPrefix(line, "    "))
		begin := logged.FindStringSubmatch(line)
		switch {
		case begin != nil:
			messages, inMessage, found = append(messages, begin[1]), true, true
		case inMessage && strings.HasPrefix(line, continued):
			messages = append(messages, strings.TrimPrefix(line, continued))
		case strings.HasPrefix(line, "    "):
			inMessage = false
		case line != "":
			messages, inMessage = append(messages, line), false
		}
	}
	if found {
		all = messages
	}
	return strings.TrimSpace(strings.Join(all, "\n"))
}
