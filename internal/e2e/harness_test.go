package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/refserver"
)

// moduleRoot is where go.mod is, seen from this package.
const moduleRoot = "../.."

// binary is the compiled suite, made once for all tests of this package.
var binary string

// TestMain leaves the whole package out of -short: it starts go test, gotestsum
// and hundreds of runs as processes, which takes minutes. .ci/run runs it all.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("internal/e2e starts whole processes and is left out of -short; .ci/run runs it")
		return
	}
	dropNohup()
	os.Exit(run(m))
}

// dropNohup gives the processes that tests start the usual answer to SIGHUP, also
// where these tests run under nohup: the suite asks for no more than it was given,
// and would rightly outlive the hangup that a test sends it.
func dropNohup() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "anvil-capacity-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "capacity.test")
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Dir = moduleRoot
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the suite: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// runLimit bounds every process that a test starts.
const runLimit = 2 * time.Minute

// result is a process that has ended.
type result struct {
	output string // stdout and stderr as they came
	exit   int
	dir    string // its working folder, with artifacts/ in it
}

// files lists the names below artifacts/ that match a pattern.
func (r result) files(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(r.dir, "artifacts", pattern))
	require.NoError(t, err)
	return paths
}

// runSuite runs the compiled suite in a folder of its own with these
// CAPACITY_ variables (KEY=VALUE, without the prefix) and no others.
func runSuite(t *testing.T, vars ...string) result {
	t.Helper()
	dir := suiteDir(t)
	cmd := suiteCommand(t, dir, vars...)
	return finish(t, cmd, dir)
}

// suiteDir is a folder that the suite can run in: the cells are there.
func suiteDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "fixtures", "cells"), os.DirFS(filepath.Join(moduleRoot, "fixtures", "cells"))))
	return dir
}

func suiteCommand(t *testing.T, dir string, vars ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, "-test.run=^TestCapacity$", "-test.v", "-test.timeout=100s")
	cmd.Dir = dir
	cmd.Env = environment(vars)
	return cmd
}

// environment is this process's without any target or key, and the given
// CAPACITY_ variables.
func environment(vars []string) []string {
	var env []string
	for _, kv := range os.Environ() {
		// GITHUB_STEP_SUMMARY is the page of the job that runs these tests, not theirs.
		if !strings.HasPrefix(kv, "CAPACITY_") && !strings.HasPrefix(kv, "OPENAI_") && !strings.HasPrefix(kv, "GITHUB_STEP_SUMMARY=") {
			env = append(env, kv)
		}
	}
	for _, kv := range vars {
		env = append(env, "CAPACITY_"+kv)
	}
	return env
}

func finish(t *testing.T, cmd *exec.Cmd, dir string) result {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("running %s: %v\n%s", cmd.Path, err, out.String())
	}
	return result{output: out.String(), exit: cmd.ProcessState.ExitCode(), dir: dir}
}

// target is a server on loopback that counts what it is asked.
type target struct {
	URL         string // ends in /v1
	requests    atomic.Int64
	completions atomic.Int64
}

// serve starts a counting server around a handler.
func serve(t *testing.T, h http.Handler) *target {
	t.Helper()
	tg := &target{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tg.requests.Add(1)
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			tg.completions.Add(1)
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	tg.URL = server.URL + "/v1"
	return tg
}

// refTarget starts a reference server with these options behind a counter.
func refTarget(t *testing.T, o refserver.Options) *target {
	t.Helper()
	server, err := refserver.New(o)
	require.NoError(t, err)
	tg := serve(t, server.Handler())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
	})
	return tg
}

// fast is a reference server that answers at once.
func fast() refserver.Options {
	return refserver.Options{Model: "tiny", MaxModelLen: 8192, ReasoningTokens: 1}
}

// small is a cell of a few requests, aimed at a server. The check of the suite's
// own error takes two seconds and depends on the machine's load; it has a test
// of its own.
func small(url string, more ...string) []string {
	return append([]string{"BASE_URL=" + url, "REQUESTS=4", "CONCURRENCY=2", "CONTEXT_TOKENS=256", "RESPONSE_WORDS=4", "MAX_TOKENS=64", "SELF_CHECK=off"}, more...)
}
