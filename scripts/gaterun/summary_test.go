package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const failedJUnit = `<testsuites><testsuite>
<testcase name="TestCapacity/c1/service"><failure>=== RUN   TestCapacity/c1/service
    capacity_test.go:1: 2 of 3 failed
--- FAIL: TestCapacity/c1/service (0.00s)
</failure></testcase>
<testcase name="TestCapacity/c1"><properties><property name="artifact" value="gone.json"></property></properties><failure>--- FAIL: TestCapacity/c1 (0.00s)
</failure></testcase>
</testsuite></testsuites>`

// summaryOptions are options whose files lie in a folder of the test's own.
func summaryOptions(t *testing.T, junit string) options {
	t.Helper()
	dir := t.TempDir()
	t.Setenv(stepSummary, "")
	o := options{junit: filepath.Join(dir, "junit.xml"), markdown: filepath.Join(dir, "new", "page.md"), pkg: "."}
	if junit != "" {
		require.NoError(t, os.WriteFile(o.junit, []byte(junit), 0o644))
	}
	return o
}

func contents(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// TestStartedPageIsNoPass: a gate that is killed leaves this page behind.
func TestStartedPageIsNoPass(t *testing.T) {
	o := summaryOptions(t, "")
	require.NoError(t, os.MkdirAll(filepath.Dir(o.markdown), 0o755))
	require.NoError(t, os.WriteFile(o.markdown, []byte("## Capacity gate: PASS\n"), 0o644))
	require.NoError(t, o.startSummary())
	assert.Equal(t, unfinished, contents(t, o.markdown), "the page of an earlier run must not speak for this one")
	assert.NotContains(t, unfinished, "PASS")

	o.markdown = filepath.Join(o.markdown, "page.md") // below a file: no folder
	assert.ErrorContains(t, o.startSummary(), "-markdown")
	o.markdown = ""
	assert.NoError(t, o.startSummary(), "none was asked for")
}

func TestSummaryOfAFailure(t *testing.T) {
	o := summaryOptions(t, failedJUnit)
	step := filepath.Join(t.TempDir(), "step.md")
	require.NoError(t, os.WriteFile(step, []byte("before"), 0o644))
	t.Setenv(stepSummary, step)
	require.NoError(t, o.startSummary())
	var stderr bytes.Buffer
	v := judge(o.junit, 1)
	o.writeSummary(&stderr, v)
	assert.Empty(t, stderr.String())

	page := contents(t, o.markdown)
	assert.True(t, strings.HasPrefix(page, "## Capacity gate: FAIL\n"), page)
	assert.Contains(t, page, v.String())
	assert.Contains(t, page, "`service`: `TestCapacity/c1/service`\n\n```text\n2 of 3 failed\n```")
	assert.NotContains(t, page, "`harness`: `TestCapacity/c1`\n", "it failed because of its subtest")
	assert.Contains(t, page, "gone.json", "an artifact that is missing is told")
	assert.Equal(t, "before\n"+page, contents(t, step), "what other commands wrote stays")
}

// TestSummaryWithoutJUnit names the verdict's reason, and passes for nothing else.
func TestSummaryWithoutJUnit(t *testing.T) {
	o := summaryOptions(t, "")
	v := judge(o.junit, 2)
	var stderr bytes.Buffer
	require.NoError(t, o.startSummary())
	o.writeSummary(&stderr, v)
	page := contents(t, o.markdown)
	assert.Contains(t, page, "## Capacity gate: FAIL")
	assert.Contains(t, page, "no JUnit file")
}

// TestSummaryThatCannotBeWritten is told, and changes no verdict.
func TestSummaryThatCannotBeWritten(t *testing.T) {
	o := summaryOptions(t, failedJUnit)
	o.markdown = ""
	t.Setenv(stepSummary, t.TempDir())
	var stderr bytes.Buffer
	o.writeSummary(&stderr, judge(o.junit, 1))
	assert.Contains(t, stderr.String(), "gate: writing the page of the run:")
}

// TestArtifactsAreReadFromThePackagesFolder, where its tests ran.
func TestArtifactsAreReadFromThePackagesFolder(t *testing.T) {
	_, err := options{pkg: "./nowhere"}.readArtifact("artifacts/x.json")
	assert.ErrorContains(t, err, `nowhere/artifacts/x.json`)
	_, err = options{pkg: "./nowhere"}.readArtifact("/nowhere/x.json")
	assert.ErrorContains(t, err, `"/nowhere/x.json"`)
	_, err = options{pkg: "anvil-capacity"}.readArtifact("artifacts/x.json")
	assert.ErrorContains(t, err, `"artifacts/x.json"`, "an import path is no folder")
}

// TestEveryKindIsOrdered holds the page to the order of the exit statuses.
func TestEveryKindIsOrdered(t *testing.T) {
	require.NotEmpty(t, kinds)
	assert.Equal(t, "harness", kinds[0].name, "what no kind claims is the harness's")
	assert.Equal(t, "harness", kindOrHarness("TestCapacity"))
	assert.Equal(t, "limit", kindOrHarness("TestCapacity/c1/threshold/ttft_p50_ms"))
}
