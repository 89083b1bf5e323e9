package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// interruptGrace is how long an interrupted suite has to write its partial
// artifact before it is killed.
const interruptGrace = 30 * time.Second

// runTests starts gotestsum in a process group of its own, waits until nothing
// of that group is left, and returns gotestsum's exit status. An interrupt or
// SIGTERM is passed on to the whole group as SIGINT: an orphaned test binary
// would keep on sending load.
func runTests(stdout, stderr io.Writer, o options) (status int, err error) {
	gotestsum, err := findGotestsum()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(gotestsum, "--format", o.format, "--junitfile", o.junit,
		"--", "-run", o.pattern, "-count=1", "-timeout", "0", o.pkg)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A handler and not SIG_IGN, which the tests would inherit: a reader of our
	// output that has gone must not end us before the tests have ended.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting gotestsum: %w", err)
	}
	g := &group{id: cmd.Process.Pid, stderr: stderr, ended: make(chan struct{})}
	passed := make(chan struct{})
	go func() { defer close(passed); g.pass(signals) }()
	err = cmd.Wait()
	g.end()
	close(g.ended)
	<-passed
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("running gotestsum: %w", err)
	}
	return cmd.ProcessState.ExitCode(), nil
}

// findGotestsum gives the path of the built tool. It is not run by go tool,
// which passes on every signal: of one interrupt to the group gotestsum would
// get two, and the second ends it before it has written the JUnit file.
func findGotestsum() (path string, err error) {
	out, err := exec.Command("go", "tool", "-n", "gotestsum").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("building gotestsum: %w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("building gotestsum: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// group is the process group of the tests.
type group struct {
	id     int
	stderr io.Writer
	ended  chan struct{} // closed when nothing of it is left
}

// pass turns the first signal into one SIGINT for the group. The suite then
// ends its requests and writes what it has, which an impatient second signal
// must not cut off; the third one kills, and so does the end of the grace.
func (g *group) pass(signals <-chan os.Signal) {
	var grace <-chan time.Time
	for count := 1; ; count++ {
		select {
		case <-g.ended:
			return
		case <-grace:
			count = 3
		case <-signals:
		}
		switch count {
		case 1:
			grace = time.After(interruptGrace)
			g.signal(syscall.SIGINT)
			fmt.Fprintln(g.stderr, "gate: interrupted: ending the requests in flight and writing what there is")
		case 2:
			fmt.Fprintln(g.stderr, "gate: still writing; a third signal kills the tests")
		default:
			g.signal(syscall.SIGKILL)
		}
	}
}

func (g *group) signal(s syscall.Signal) { _ = syscall.Kill(-g.id, s) } // it may have ended by itself

// groupPoll is how often end looks whether the group is gone.
const groupPoll = 50 * time.Millisecond

// end waits for what gotestsum left behind, which is nothing unless it was
// killed: a test binary that goes on sending load is interrupted, and killed
// after the grace.
func (g *group) end() {
	interrupted, deadline := false, time.Now().Add(interruptGrace)
	for syscall.Kill(-g.id, 0) == nil {
		switch {
		case time.Now().After(deadline):
			g.signal(syscall.SIGKILL)
			return
		case !interrupted:
			interrupted = true
			fmt.Fprintln(g.stderr, "gate: gotestsum is gone and the tests are not: interrupting them")
			g.signal(syscall.SIGINT)
		}
		time.Sleep(groupPoll)
	}
}
