package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// junitText is the shape that gotestsum 1.13 writes; TestJUnitOfARealRun in
// internal/e2e holds it to the tool.
const junitText = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4" failures="2" errors="0" time="0.4">
	<testsuite tests="4" failures="2" skipped="1" time="0.4" name="anvil-capacity">
		<properties><property name="go.version" value="go1.26.8"></property></properties>
		<testcase classname="anvil-capacity" name="TestCapacity/c1/service" time="0.26">
			<properties><property name="limit" value="a&lt;=1"></property><property name="empty" value=""></property></properties>
			<failure message="Failed" type="">=== RUN   TestCapacity/c1/service&#xA;    1/6 done&#xA;    capacity_test.go:143: 2 failed&#xA;        1 x &lt;b&gt;&#xA;    a table&#xA;--- FAIL: TestCapacity/c1/service (0.26s)&#xA;</failure>
		</testcase>
		<testcase classname="anvil-capacity" name="TestCapacity/c1" time="0.28"><failure message="Failed" type="">=== RUN   TestCapacity/c1&#xA;--- FAIL: TestCapacity/c1 (0.28s)&#xA;</failure></testcase>
		<testcase classname="anvil-capacity" name="TestCapacity/c1/baseline/ttft" time="0"><skipped message="=== RUN   TestCapacity/c1/baseline/ttft&#xA;    capacity_test.go:9: WARNING: cannot tell&#xA;--- SKIP: TestCapacity/c1/baseline/ttft (0.00s)&#xA;"></skipped></testcase>
		<testcase classname="anvil-capacity" name="TestCapacity/c1/leak" time="0"></testcase>
	</testsuite>
</testsuites>`

func TestReadJUnit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "junit.xml")
	require.NoError(t, os.WriteFile(path, []byte(junitText), 0o644))
	cases, err := ReadJUnit(path)
	require.NoError(t, err)
	assert.Equal(t, []TestCase{
		{Name: "TestCapacity/c1/service", Failed: true, Message: "2 failed\n1 x <b>", Properties: map[string]string{"limit": "a<=1", "empty": ""}},
		{Name: "TestCapacity/c1", Failed: true},
		{Name: "TestCapacity/c1/baseline/ttft", Skipped: true, Message: "WARNING: cannot tell"},
		{Name: "TestCapacity/c1/leak"},
	}, cases)
}

func TestReadJUnitRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ name, text, why string }{
		{"empty", "", "a run that was killed"},
		{"cut", junitText[:len(junitText)/2], "a disk that was full"},
		{"html", "<html><body>busy</body></html>", "not a JUnit file at all"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(dir, tt.name+".xml")
			require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o644))
			cases, err := ReadJUnit(path)
			assert.ErrorContains(t, err, tt.name+".xml", tt.why)
			assert.Empty(t, cases)
		})
	}
	_, err := ReadJUnit(filepath.Join(dir, "missing.xml"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// TestJUnitLimit reads a file of the largest size, padded behind its end, and
// refuses one that is a byte larger.
func TestJUnitLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "junit.xml")
	padding := strings.Repeat(" ", maxJUnitBytes-len(junitText))
	for _, tt := range []struct {
		extra string
		ok    bool
	}{{"", true}, {" ", false}} {
		require.NoError(t, os.WriteFile(path, []byte(junitText+padding+tt.extra), 0o644))
		cases, err := ReadJUnit(path)
		if tt.ok {
			require.NoError(t, err)
			assert.Len(t, cases, 4)
			continue
		}
		assert.ErrorContains(t, err, "more than")
	}
}

func TestSaid(t *testing.T) {
	for _, tt := range []struct{ name, output, want, why string }{
		{"nothing", "=== RUN   T\n--- FAIL: T (0.00s)\n", "", "a parent of what failed"},
		{"error", "=== RUN   T\n    a_test.go:1: boom\n--- FAIL: T (0.00s)\n", "boom", "the place is in the JUnit file"},
		{"several_lines", "    a_test.go:1: one\n        \n        three\n          deep\n", "one\n\nthree\n  deep", "as t.Error indents them"},
		{"printed_left_out", "    6/6 done\n    a_test.go:1: one\n        two\n    a table\n            deep\n    a_test.go:2: three\n", "one\ntwo\nthree", "tables are in the log"},
		{"only_printed", "=== RUN   T\n    a table\n      deep\n--- FAIL: T (0.00s)\n", "a table\n  deep", "better than nothing"},
		{"panic", "    a_test.go:1: before\n--- FAIL: T (0.00s)\npanic: boom\n\ngoroutine 1 [running]:\nmain.f()\n\t/x.go:1\n", "before\npanic: boom\ngoroutine 1 [running]:\nmain.f()\n\t/x.go:1", "it stands outside of any test"},
		{"only_panic", "=== RUN   T\npanic: boom\n", "panic: boom", "the reason"},
		{"attributes", "=== ATTR  T k v\n    a_test.go:1: x\n", "x", "they are properties"},
		{"looks_like_framing", "    a_test.go:1: x\n        --- FAIL: no\n        === RUN no\n", "x\n--- FAIL: no\n=== RUN no", "an answer of a server may say anything"},
		{"no_message", "    a_test.go:7: \n", "", "t.Error() of nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, said(tt.output), tt.why) })
	}
}
