// Benchlines writes capacity artifacts in the Go benchmark format, for benchstat:
//
//	go run ./scripts/benchlines artifacts/old.json > old.txt
//	go run ./scripts/benchlines artifacts/new.json > new.txt
//	go tool benchstat old.txt new.txt
//
// It takes native artifacts and index files, whose runs are repeats, and writes
// one sample a request, or with -per run one sample a run. benchstat takes all
// samples for independent, which requests of one run are not: read its p-values
// as a hint, and let CAPACITY_BASELINE decide. The exit status is 1 when nothing
// could be written, 2 for wrong flags.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/report"
)

func main() { os.Exit(exitStatus(os.Stderr, run(os.Stdout, os.Stderr, os.Args[1:]))) }

// errUsage marks an error in the command line.
var errUsage = errors.New("run with -h for the flags")

func exitStatus(stderr io.Writer, err error) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "benchlines:", err)
		return 2
	}
	fmt.Fprintln(stderr, "benchlines:", err)
	return 1
}

func run(stdout, stderr io.Writer, args []string) error {
	options, files, err := parse(stderr, args)
	if err != nil {
		return err
	}
	runs, err := report.ReadRuns(files...)
	if err != nil {
		return err
	}
	natives := make([]*artifact.Native, len(runs))
	for i, r := range runs {
		natives[i] = r.Native
	}
	return report.Bench(stdout, options, natives...)
}

func parse(stderr io.Writer, args []string) (report.BenchOptions, []string, error) {
	var o report.BenchOptions
	fs := flag.NewFlagSet("benchlines", flag.ContinueOnError)
	fs.SetOutput(stderr)
	per := fs.String("per", "request", "one sample a `unit`: request or run")
	keys := fs.String("key", "", "comments to write as configuration, a comma `list` of "+strings.Join(report.BenchKeys(), ", "))
	fs.Usage = func() {
		fmt.Fprint(stderr, "usage: benchlines [flags] FILE...\n\nFILE is a native artifact or an index.\n\n")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, nil, err
		}
		return o, nil, errUsage // the flag set has said what is wrong
	}
	switch *per {
	case "request", "run":
		o.PerRun = *per == "run"
	default:
		return o, nil, fmt.Errorf("flag -per is %q, want request or run; %w", *per, errUsage)
	}
	if *keys != "" {
		o.Keys = strings.Split(*keys, ",")
	}
	if fs.NArg() == 0 {
		return o, nil, fmt.Errorf("no file named; %w", errUsage)
	}
	return o, fs.Args(), nil
}
