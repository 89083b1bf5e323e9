package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/refserver"
)

// serving runs the program until its first line is out, gives the base URL and
// what else it printed, and stops it at the end of the test.
func serving(t *testing.T, args ...string) (base, exports string, stop func() (stderr string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var stderr bytes.Buffer
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, in, &stderr, args)
		in.Close()
	}()
	lines := make([]byte, 4096)
	var printed string
	for !strings.Contains(printed, "CAPACITY_ENGINE") || !strings.HasSuffix(printed, "\n") {
		n, err := out.Read(lines)
		require.NoError(t, err, stderr.String())
		printed += string(lines[:n])
	}
	rest := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(out) // ends with run
		rest <- string(all)
	}()
	base, exports, _ = strings.Cut(printed, "\n")
	stopped := false
	stop = func() string {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-ended)
			exports += <-rest
		}
		return stderr.String()
	}
	t.Cleanup(func() { stop() })
	return base, exports, stop
}

func TestServesUntilStopped(t *testing.T) {
	base, exports, stop := serving(t, "-decode-base", "1ms", "-faults", "status=500@1")
	assert.Regexp(t, `^http://127\.0\.0\.1:\d+/v1$`, base)
	assert.Contains(t, exports, "export CAPACITY_BASE_URL='"+base+"'\n")
	assert.Contains(t, exports, "export CAPACITY_MODEL='refserver-embedded'\n")
	for _, want := range []int{200, 500} {
		res, err := http.Post(base+"/chat/completions", "application/json",
			strings.NewReader(`{"model":"refserver-embedded","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, want, res.StatusCode)
	}
	assert.Regexp(t, regexp.MustCompile(`^refserver: 2 requests, 1 done, 1 fault; first tokens left after plan by p50 \S+, p99 \S+\n$`), stop())
}

func TestKeyComesFromAFile(t *testing.T) {
	const key = "sk-canary-key"
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
	base, exports, stop := serving(t, "-api-key-file", file)
	res, err := http.Get(base + "/models")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, 401, res.StatusCode)
	req, err := http.NewRequest(http.MethodGet, base+"/models", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	res, err = http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, 200, res.StatusCode)
	assert.NotContains(t, exports+stop(), key, "a key is not printed")
}

func TestBounded(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.NoError(t, run(t.Context(), &stdout, &stderr, []string{"-for", "1ms"}))
	assert.Equal(t, "refserver: 0 requests\n", stderr.String())
}

func TestHelpHasEveryFault(t *testing.T) {
	var stderr bytes.Buffer
	err := run(t.Context(), io.Discard, &stderr, []string{"-h"})
	require.ErrorIs(t, err, flag.ErrHelp)
	kinds := refserver.FaultKinds()
	require.NotEmpty(t, kinds)
	for _, k := range kinds {
		assert.Contains(t, stderr.String(), k.Meaning)
	}
}

func TestWrongFlags(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, row := range []struct {
		name   string
		args   []string
		want   string
		status int
	}{
		{"unknown", []string{"-slotz", "3"}, "flag provided but not defined: -slotz", 2},
		{"argument", []string{"3"}, `unexpected argument "3"`, 2},
		{"range", []string{"-slots", "-1"}, `option "Slots" is -1, want 0..65536`, 2},
		{"fault", []string{"-faults", "stal@3"}, `did you mean "stall"?`, 2},
		{"time backwards", []string{"-for", "-1s"}, "flag -for is -1s", 2},
		{"key file missing", []string{"-api-key-file", empty + "x"}, "reading the API key", 1},
		{"key file empty", []string{"-api-key-file", empty}, "is empty", 1},
		{"address", []string{"-listen", "127.0.0.1:99999"}, "starting the reference server", 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			var stderr bytes.Buffer
			err := run(t.Context(), io.Discard, &stderr, row.args)
			require.Error(t, err)
			assert.Equal(t, row.status, exitStatus(&stderr, err))
			assert.Contains(t, stderr.String(), row.want)
		})
	}
	assert.Zero(t, exitStatus(io.Discard, nil))
	assert.Zero(t, exitStatus(io.Discard, flag.ErrHelp))
	assert.Equal(t, 1, exitStatus(io.Discard, errors.New("x")))
}
