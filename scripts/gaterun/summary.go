package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/report"
)

// stepSummary names the variable with which GitHub Actions says where the page of
// a step is collected.
const stepSummary = "GITHUB_STEP_SUMMARY"

// unfinished is what -markdown holds while the tests run: a page of an earlier
// run must never speak for this one, nor a gate that was killed for a pass.
const unfinished = "## Capacity gate: FAIL\n\nThe gate did not come to its end.\n"

// startSummary makes sure that the page of -markdown can be written, before any
// load is sent.
func (o options) startSummary() error {
	if o.markdown == "" {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(o.markdown), 0o755)
	if err == nil {
		err = os.WriteFile(o.markdown, []byte(unfinished), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing the page of -markdown: %w", err)
	}
	return nil
}

// writeSummary writes the page to the file of -markdown and to the one that
// GitHub Actions collects. The verdict stands whatever becomes of the page, so
// an error is only told.
func (o options) writeSummary(stderr io.Writer, v verdict) {
	var page bytes.Buffer
	err := report.Markdown(&page, o.page(v))
	if o.markdown != "" {
		err = errors.Join(err, os.WriteFile(o.markdown, page.Bytes(), 0o644))
	}
	if file := os.Getenv(stepSummary); file != "" {
		// What an earlier command left there may lack its last line end.
		err = errors.Join(err, appendTo(file, append([]byte("\n"), page.Bytes()...)))
	}
	if err != nil {
		fmt.Fprintln(stderr, "gate: writing the page of the run:", err)
	}
}

// page is what the verdict, the JUnit file and the artifacts say. Without a JUnit
// file it is the verdict, which then names the reason.
func (o options) page(v verdict) report.Page {
	cases, err := report.ReadJUnit(o.junit)
	if err != nil {
		cases = nil
	}
	source := report.PageSource{
		Passed: v.Exit == exitPass, Verdict: v.String(), Cases: cases,
		KindOf: kindOrHarness, Read: o.readArtifact,
	}
	for _, k := range kinds {
		source.KindOrder = append(source.KindOrder, k.name)
	}
	return report.NewPage(source)
}

// kindOrHarness gives the kind of a test, harness where no kind claims it.
func kindOrHarness(test string) string {
	if name := kindOf(test); name != "" {
		return name
	}
	return kinds[0].name
}

// readArtifact reads an artifact that a test named: tests run in the folder of
// their package.
func (o options) readArtifact(path string) (artifact.Native, error) {
	if !filepath.IsAbs(path) && strings.HasPrefix(o.pkg, ".") {
		path = filepath.Join(o.pkg, path)
	}
	return artifact.ReadNative(path)
}

func appendTo(path string, data []byte) (err error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.Write(data)
	return err
}
