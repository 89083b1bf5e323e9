package docs

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/config"
	"anvil-capacity/internal/record"
)

const readmePath = "../../README.md"

var update = flag.Bool("update", false, "rewrite the generated blocks of README.md")

func TestReadmeIsUpToDate(t *testing.T) {
	raw, err := os.ReadFile(readmePath)
	require.NoError(t, err)
	want, err := Replace(string(raw), Blocks())
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(readmePath, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(raw), "run: go test ./internal/docs -update")
}

func TestBlocksSayEverything(t *testing.T) {
	text := map[string]string{}
	for _, b := range Blocks() {
		text[b.Name] = b.Text
	}
	require.NotEmpty(t, config.Variables())
	for _, v := range config.Variables() {
		assert.Contains(t, text["variables"], "`"+v.Name+"`")
	}
	require.NotEmpty(t, record.Taxonomy)
	for _, f := range record.Taxonomy {
		assert.Contains(t, text["failures"], "`"+string(f.Detail)+"`")
	}
}

// TestEveryCommandIsRun wants a comment before every block of shell that says
// who runs it; .ci/readme acts on it.
func TestEveryCommandIsRun(t *testing.T) {
	raw, err := os.ReadFile(readmePath)
	require.NoError(t, err)
	blocks, mark := 0, ""
	for n, line := range strings.Split(string(raw), "\n") {
		switch {
		case strings.HasPrefix(line, "<!-- ci: "):
			mark = line
		case line == "```sh":
			blocks++
			assert.NotEmpty(t, mark, "README.md:%d: a block of shell without a ci comment", n+1)
			mark = ""
		case strings.HasPrefix(line, "```") && line != "```" && line != "```text" && line != "```yaml" && line != "```json":
			assert.Fail(t, "unknown kind of block", "README.md:%d: %s", n+1, line)
		}
	}
	assert.GreaterOrEqual(t, blocks, 4)
}
