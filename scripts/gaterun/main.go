// Command gaterun is what scripts/gate starts: it runs the capacity suite under
// gotestsum, reads the JUnit file that gotestsum wrote, and exits with a status
// that says which kind of check failed. It fails closed: no JUnit file, no
// executed test, or a file that disagrees with the exit status is a failure of
// the harness, never a pass.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() { os.Exit(run(os.Stdout, os.Stderr, os.Args[1:])) }

// options are the flags of scripts/gate.
type options struct {
	junit    string
	markdown string // "" for none
	pattern  string
	format   string
	pkg      string
}

func run(stdout, stderr io.Writer, args []string) int {
	o, err := parseFlags(stderr, args)
	if errors.Is(err, flag.ErrHelp) {
		return exitPass
	}
	if err != nil {
		fmt.Fprintln(stderr, "gate:", err)
		return exitUsage
	}
	// A file of an earlier run must never speak for this one.
	if err := os.Remove(o.junit); err != nil && !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(stderr, "gate: removing the JUnit file of an earlier run: %v\n", err)
		return exitHarness
	}
	if err := os.MkdirAll(filepath.Dir(o.junit), 0o755); err != nil {
		fmt.Fprintf(stderr, "gate: making the folder of the JUnit file: %v\n", err)
		return exitHarness
	}
	if err := o.startSummary(); err != nil {
		fmt.Fprintln(stderr, "gate:", err)
		return exitHarness
	}
	status, err := runTests(stdout, stderr, o)
	if err != nil {
		o.writeSummary(stderr, verdict{Exit: exitHarness, Note: err.Error()})
		fmt.Fprintln(stderr, "gate:", err)
		return exitHarness
	}
	verdict := judge(o.junit, status)
	o.writeSummary(stderr, verdict)
	fmt.Fprintln(stdout, verdict)
	return verdict.Exit
}

func parseFlags(stderr io.Writer, args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("scripts/gate", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.junit, "junit", "artifacts/junit.xml", "where to write the JUnit `file`")
	fs.StringVar(&o.markdown, "markdown", "", "where to write the page of the run, a `file`; $GITHUB_STEP_SUMMARY gets it in any case")
	fs.StringVar(&o.pattern, "run", "^TestCapacity$", "which tests to run, a go test -run `pattern`")
	fs.StringVar(&o.format, "format", "standard-verbose", "gotestsum output `format`")
	fs.StringVar(&o.pkg, "package", ".", "the `package` of the suite")
	fs.Usage = func() {
		fmt.Fprintln(stderr, "scripts/gate: run the capacity suite as a CI gate")
		fs.PrintDefaults()
		fmt.Fprint(stderr, exitHelp())
	}
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("reading the command line: unexpected argument %q; settings are CAPACITY_ variables, see README.md", fs.Arg(0))
	}
	return o, nil
}
