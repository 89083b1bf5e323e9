package bench

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// roleEnv makes the test binary something else than a test: a process of its own
// for what must not share memory and CPU with the one that measures.
const roleEnv = "ANVIL_BENCH_ROLE"

// roles are the processes that the test binary can be. Each gets its arguments
// as words, prints its lines to standard output and ends with its parent.
var roles = map[string]func(arguments []string){
	"server": serve,
	"holder": hold,
}

func TestMain(m *testing.M) {
	if role, arguments, _ := strings.Cut(os.Getenv(roleEnv), " "); role != "" {
		roles[role](strings.Fields(arguments))
		return
	}
	os.Exit(m.Run())
}

// endWithParent ends this process when its standard input is closed.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// startRole starts a process and gives its output, line by line. It ends with
// the test or benchmark.
func startRole(tb testing.TB, role string, arguments ...string) *bufio.Reader {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+strings.Join(append([]string{role}, arguments...), " "))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(tb, err)
	out, err := cmd.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, cmd.Start())
	tb.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return bufio.NewReader(out)
}

// readLine gives the next line that a role printed.
func readLine(tb testing.TB, out *bufio.Reader) string {
	tb.Helper()
	line, err := out.ReadString('\n')
	require.NoError(tb, err, "the other process ended")
	return strings.TrimSpace(line)
}

// startServer starts the server's process and gives its address.
func startServer(tb testing.TB) string {
	tb.Helper()
	return readLine(tb, startRole(tb, "server"))
}
