package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/contract"
)

func TestCellFileSyntax(t *testing.T) {
	for _, row := range []struct{ name, why, content, model string }{
		{"plain", "NAME=VALUE", "MODEL=m", "m"},
		{"prefix", "CAPACITY_ may be written", "CAPACITY_MODEL=m", "m"},
		{"spaces", "around all of it", " \tMODEL =  m n \t", "m n"},
		{"comment lines", "with and without space before", "# MODEL=x\n  # MODEL=y\nMODEL=m\n#", "m"},
		{"comment at the end", "after white space", "MODEL=m # c", "m"},
		{"hash inside", "no white space before it", "MODEL=m#c", "m#c"},
		{"comment alone", "the value is empty, so not set", "MODEL=# c", ""},
		{"comment after a space alone", "the same", "MODEL= # c", ""},
		{"single quotes", "as it is between them", `MODEL='m "$x" \n # c'`, `m "$x" \n # c`},
		{"double quotes", "no escapes and no expansion", `MODEL="m '$x' \n # c"`, `m '$x' \n # c`},
		{"comment after quotes", "allowed", `MODEL='m' # c`, "m"},
		{"empty quotes", "empty is not set", `MODEL=''`, ""},
		{"quote inside", "only a first one counts", `MODEL=m'n`, "m'n"},
		{"dollar", "no expansion", "MODEL=sk-a$b", "sk-a$b"},
		{"equals inside", "only the first one divides", "MODEL=a=b", "a=b"},
		{"empty", "not set", "MODEL=", ""},
		{"CRLF", "a file from Windows", "MODEL=m\r\n\r\nGPU=g\r\n", "m"},
		{"byte order mark", "a file from Windows", "\ufeffMODEL=m", "m"},
		{"no line end", "the last line counts", "GPU=g\nMODEL=m", "m"},
		{"nothing", "an empty file sets nothing", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.model, mustLoad(t, oneCell(row.content), "CELL=x").Model, row.why)
		})
	}
}

func TestCellFileBadInput(t *testing.T) {
	for _, row := range []struct{ name, why, content, want string }{
		{"unknown name", "name, file and line", "GPU=g\nREQEUSTS=5", "CAPACITY_REQEUSTS (fixtures/cells/x.env:2): got a name that is not known; did you mean CAPACITY_REQUESTS?"},
		{"unknown with prefix", "told the same", "CAPACITY_REQEUSTS=5", "CAPACITY_REQEUSTS (fixtures/cells/x.env:1): got a name that is not known; did you mean CAPACITY_REQUESTS?"},
		{"unknown far", "nothing is near", "FROBNICATE=5", "CAPACITY_FROBNICATE (fixtures/cells/x.env:1): got a name that is not known; .env.example lists every name"},
		{"lower case", "what stands before = is not repeated: it may be a key", "requests=5", "fixtures/cells/x.env:1: got a name that is not known; did you mean CAPACITY_REQUESTS?"},
		{"a key that ends in =", "not repeated", "c2szcjN0s3cr3t==", "fixtures/cells/x.env:1: got a name that is not known; .env.example lists every name"},
		{"value", "where it stands", "\n\nREQUESTS=x", `CAPACITY_REQUESTS (fixtures/cells/x.env:3): got "x", want a whole number`},
		{"twice", "both places", "REQUESTS=1\nGPU=g\nCAPACITY_REQUESTS=1", "CAPACITY_REQUESTS (fixtures/cells/x.env:3): got a second value, want one; the first stands on line 1"},
		{"twice, and a contradiction", "one mistake is told once: which of the values is meant is not known", "RESPONSE_WORDS=0\nMAX_TOKENS=4\nMAX_TOKENS=64", "CAPACITY_MAX_TOKENS (fixtures/cells/x.env:3): got a second value"},
		{"key", "these files are committed", "API_KEY=s3cr3t", "CAPACITY_API_KEY (fixtures/cells/x.env:1): got a secret in a cell file, want it in the environment"},
		{"headers", "their values are secrets", "HEADERS=A: s3cr3t", "CAPACITY_HEADERS (fixtures/cells/x.env:1): got a secret"},
		{"cell", "no chains", "CELL=x", "CAPACITY_CELL (fixtures/cells/x.env:1): got a cell file inside a cell file"},
		{"no equals", "not repeated", "REQUESTS s3cr3t", "fixtures/cells/x.env:1: got a line of another form, want NAME=VALUE"},
		{"no name", "an empty one", "=s3cr3t", "fixtures/cells/x.env:1: got a line of another form"},
		{"prefix alone", "an empty name too", "CAPACITY_=s3cr3t", "fixtures/cells/x.env:1: got a line of another form"},
		{"name with dash", "no name", "s3cr3t-x=5", "fixtures/cells/x.env:1: got a line of another form"},
		{"export", "a habit from shells", "export REQUESTS=5", "fixtures/cells/x.env:1: got an export"},
		{"open quote", "not repeated", "GPU='s3cr3t", "fixtures/cells/x.env:1: got an opening quote alone"},
		{"text after quote", "not repeated", "GPU='a' s3cr3t", "fixtures/cells/x.env:1: got text after the closing quote"},
		{"control character", "NUL", "GPU=a\x00b", "fixtures/cells/x.env:1: got bytes that are not text"},
		{"CR inside", "an old Mac file is one line", "GPU=a\rMODEL=b", "fixtures/cells/x.env:1: got bytes that are not text"},
		{"not UTF-8", "Latin-1", "GPU=\xe9", "fixtures/cells/x.env:1: got bytes that are not text"},
		{"base URL with key", "the place is told, the key is not", "BASE_URL=http://a:s3cr3t@h/v1", `CAPACITY_BASE_URL (fixtures/cells/x.env:1): got "http://[redacted]@h/v1"`},
		{"contradiction", "told where the first of the two stands", "GPU=g\nMAX_TOKENS=4\nRESPONSE_WORDS=0", "CAPACITY_MAX_TOKENS (fixtures/cells/x.env:2): got 4 with"},
	} {
		t.Run(row.name, func(t *testing.T) {
			faults := faultsOf(t, oneCell(row.content), "CELL=x")
			require.Len(t, faults, 1, row.why)
			assert.True(t, strings.HasPrefix(faults[0], row.want), "%s: %s", row.why, faults[0])
			assert.NotContains(t, faults[0], "s3cr3t")
		})
	}
}

// A value that the environment overrides is not parsed, but its name is still
// looked at: the file is wrong for everyone.
func TestCellFileBehindTheEnvironment(t *testing.T) {
	cells := oneCell("REQUESTS=x\n")
	assert.Equal(t, 5, mustLoad(t, cells, "CELL=x", "REQUESTS=5").Requests)
	assert.Len(t, faultsOf(t, oneCell("REQUESTS=5\nREQUESTS=5"), "CELL=x", "REQUESTS=5"), 1)
	assert.Len(t, faultsOf(t, oneCell("API_KEY=a"), "CELL=x", "API_KEY=b"), 1)
}

// A file that no CAPACITY_CELL could name is not offered, and cannot break the
// message into lines.
func TestOnlyCellsThatCanBeNamedAreListed(t *testing.T) {
	cells := fstest.MapFS{"b.env": {}, "a\n.env": {}, ".env": {}, ".hidden.env": {}, "a.env": {}, "notes.txt": {}}
	faults := faultsOf(t, cells, "CELL=zzz")
	require.Len(t, faults, 1)
	assert.True(t, strings.HasSuffix(faults[0], "; there are a, b"), faults[0])
}

func TestDefaultCellIsTheDefault(t *testing.T) {
	cell := mustLoad(t, realCells(), "CELL=default")
	assert.Equal(t, "default", cell.Cell)
	cell.Cell = ""
	assert.Equal(t, mustLoad(t, nil), cell)

	content, err := fs.ReadFile(realCells(), "default.env")
	require.NoError(t, err)
	lines, faults := parseCell("default.env", content)
	require.Empty(t, faults)
	written := map[string]string{}
	for _, l := range lines {
		written[l.name] = l.text
	}
	workload := 0
	for _, row := range table {
		if row.Group != groupWorkload || row.Default == "" {
			continue
		}
		workload++
		assert.Equal(t, row.Default, written[row.Name], "every default of the workload is written out: %s", row.Name)
	}
	assert.Equal(t, 12, workload)
}

func TestPublishedCell(t *testing.T) {
	s := mustLoad(t, realCells(), "CELL=glm-c4-16word")
	want := mustLoad(t, nil)
	want.Cell = "glm-c4-16word"
	want.Requests, want.Concurrency, want.Context = 100, []int{4}, []Context{Fixed(32768)}
	want.MaxTokens, want.ResponseWords = 2048, []int{16}
	want.ControlledOutput, want.Canaries, want.PromptCache = contract.Strict, contract.Strict, CacheUnique
	want.ContextSeed, want.ScoutRequests, want.ScoutSeed = 0, 8, new(0)
	assert.Equal(t, want, s)
	assert.Equal(t, "c4-ctx32768-w16", s.Cells()[0].Name)
}

// Every cell file of the repository loads, begins with a comment that says what
// it is, and is small enough to be read at a glance.
func TestCellFilesOfTheRepository(t *testing.T) {
	files, err := filepath.Glob("../../fixtures/cells/*")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 3)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".env")
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.True(t, strings.HasPrefix(string(content), "# "+name+": "), "the header names the cell")
			assert.Equal(t, name, mustLoad(t, realCells(), "CELL="+name).Cell)
		})
	}
}

func TestSmokeCell(t *testing.T) {
	s := mustLoad(t, realCells(), "CELL=smoke")
	assert.Equal(t, 4, s.Requests)
	assert.Equal(t, []int{2}, s.Concurrency)
}
