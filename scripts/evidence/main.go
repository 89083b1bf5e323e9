// Evidence works on the files that runs leave behind, offline.
//
//	go run ./scripts/evidence recover artifacts/run.journal...
//
// recover turns the journals of runs that were killed into partial artifacts
// beside them, <run>.partial.json, as the next run in that folder would. It
// prints a line for each. The exit status is 0 when all went well, 1 when a file
// could not be used, 2 for a wrong command line.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"anvil-capacity/internal/suite"
)

func main() { os.Exit(exitStatus(os.Stderr, run(os.Stdout, os.Args[1:]))) }

// verb is one thing that this program does with the files named behind it.
type verb struct {
	name, files, meaning string
	run                  func(stdout io.Writer, files []string) error
}

var verbs = []verb{
	{"recover", "FILE.journal...", "make partial artifacts of the journals of runs that were killed", recoverJournals},
}

// errUsage marks an error in the command line.
var errUsage = errors.New("wrong command line")

func exitStatus(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "evidence: %v\n", err)
	if errors.Is(err, errUsage) {
		fmt.Fprint(stderr, usage())
		return 2
	}
	return 1
}

func usage() string {
	text := "usage:\n"
	for _, v := range verbs {
		text += fmt.Sprintf("  go run ./scripts/evidence %s %s\n    \t%s\n", v.name, v.files, v.meaning)
	}
	return text
}

func run(stdout io.Writer, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: no verb given", errUsage)
	}
	for _, v := range verbs {
		if v.name != args[0] {
			continue
		}
		if len(args) == 1 {
			return fmt.Errorf("%w: %s needs %s", errUsage, v.name, v.files)
		}
		return v.run(stdout, args[1:])
	}
	return fmt.Errorf("%w: unknown verb %q", errUsage, args[0])
}

// recoverJournals goes through all files, also behind one that fails.
func recoverJournals(stdout io.Writer, files []string) error {
	var faults []error
	for _, file := range files {
		recovered, err := suite.RecoverJournal(file)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		fmt.Fprintln(stdout, recovered)
	}
	return errors.Join(faults...)
}
