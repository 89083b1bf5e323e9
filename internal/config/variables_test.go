package config

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite .env.example from the table of variables")

// exampleFile is .env.example at the top of the repository.
const exampleFile = "../../.env.example"

const exampleHead = `# anvil-capacity: every variable, with its meaning, unit, range and default.
#
# Nothing needs to be set: without a base URL the suite measures itself against
# its own endpoint. Three lines aim it at a server:
#
#   export CAPACITY_BASE_URL=http://localhost:8000/v1
#   export CAPACITY_MODEL=llama-3.3-70b-instruct
#   export CAPACITY_REQUESTS=100
#
# This file is not read by the suite. Copy the lines you need into a shell, a CI
# job's variables, or a .env of your own that your shell reads:
#
#   set -a; . ./.env; set +a
#
# A shell that reads a file runs it: it replaces $ and what follows, splits at
# spaces, takes < > & | ; # as its own, and overrides what was exported before.
# sk-a$b without quotes becomes sk-a. So keep 'single quotes' around values that
# hold any of these, as below.
#
# What is set in the environment goes before the cell file (CAPACITY_CELL), and
# that before the default. A variable that is set but empty counts as not set.
# Unknown CAPACITY_ names are refused, and so is any value out of its range: all
# faults in one message, before the first request. Spaces around values and
# around the items of lists are dropped. Booleans are true/false, on/off or 1/0.
# OPENAI_* variables are never read.
#
# * marks lists: CAPACITY_CONCURRENCY=1,4,16 makes three cells, and two such
# variables make all pairs (at most 256 cells).
#
# Each line below is commented out and shows the default; nothing after = is a
# variable that is not set by default.
#
# Made from the code: go test ./internal/config -run EnvExample -update
`

// renderExample writes .env.example.
func renderExample() string {
	var b strings.Builder
	b.WriteString(exampleHead)
	for _, g := range Groups() {
		fmt.Fprintf(&b, "\n# ==== %s: %s ====\n", g.Name, g.Meaning)
		for _, v := range Variables() {
			if v.Group == g.Name {
				renderVariable(&b, v)
			}
		}
	}
	return b.String()
}

func renderVariable(b *strings.Builder, v Variable) {
	b.WriteString("\n")
	meaning := v.Meaning
	if v.List {
		meaning = "* " + meaning
	}
	if v.Secret {
		meaning += " A secret: never shown, never in a cell file."
	}
	for _, line := range wrap(meaning, 84) {
		b.WriteString("# " + line + "\n")
	}
	if v.Unit != "" {
		b.WriteString("#   unit:    " + v.Unit + "\n")
	}
	b.WriteString("#   range:   " + v.Range + "\n")
	b.WriteString("#   default: " + cmpOr(v.Default, "not set") + "\n")
	if v.Example != "" {
		b.WriteString("#   example: " + v.Name + "=" + shellQuoted(v.Example) + "\n")
	}
	b.WriteString("#" + v.Name + "=" + shellQuoted(v.Default) + "\n")
}

func cmpOr(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// shellQuoted puts single quotes around what a shell would not leave alone.
func shellQuoted(text string) string {
	if isMadeOf(text, "+,-./:=@%_") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// wrap breaks text at spaces into lines of at most width bytes.
func wrap(text string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

func TestEnvExampleIsMadeFromTheTable(t *testing.T) {
	want := renderExample()
	if *update {
		require.NoError(t, os.WriteFile(exampleFile, []byte(want), 0o644))
	}
	got, err := os.ReadFile(exampleFile)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "rewrite it: go test ./internal/config -run EnvExample -update")
}

// documented is what .env.example says of one variable, read from the file and
// not from the code that wrote it.
type documented struct {
	name, text, meaning, unit, allowed, standard, example string
}

var (
	exampleSetting = regexp.MustCompile(`^#?(CAPACITY_[A-Z_]+)=(.*)$`)
	exampleFact    = regexp.MustCompile(`^#   (unit|range|default|example): +(.*)$`)
	exampleText    = regexp.MustCompile(`^# (.+)$`)
)

func readExample(t *testing.T) []documented {
	t.Helper()
	content, err := os.ReadFile(exampleFile)
	require.NoError(t, err)
	var all []documented
	for block := range strings.SplitSeq(strings.TrimPrefix(string(content), exampleHead), "\n\n") {
		var d documented
		for line := range strings.SplitSeq(block, "\n") {
			if m := exampleSetting.FindStringSubmatch(line); m != nil {
				require.Empty(t, d.name, "one variable a block: %s", line)
				d.name, d.text = m[1], unquoted(m[2])
			} else if m := exampleFact.FindStringSubmatch(line); m != nil {
				*map[string]*string{"unit": &d.unit, "range": &d.allowed, "default": &d.standard, "example": &d.example}[m[1]] = m[2]
			} else if m := exampleText.FindStringSubmatch(line); m != nil {
				d.meaning = strings.TrimSpace(d.meaning + " " + m[1])
			}
		}
		if d.name != "" {
			all = append(all, d)
		}
	}
	return all
}

func unquoted(text string) string { return strings.Trim(text, "'") }

func TestEnvExampleAndCodeAgree(t *testing.T) {
	inFile := readExample(t)
	variables := Variables()
	require.Greater(t, len(variables), 40-5)
	require.Len(t, inFile, len(variables), "each variable once, and no other")
	for i, v := range variables {
		d := inFile[i]
		t.Run(v.Name, func(t *testing.T) {
			assert.Equal(t, v.Name, d.name, "in the order of the table")
			assert.Equal(t, v.Default, d.text)
			assert.Equal(t, cmpOr(v.Default, "not set"), d.standard)
			assert.Contains(t, d.meaning, v.Meaning)
			assert.Equal(t, v.List, strings.HasPrefix(d.meaning, "* "))
			assert.Equal(t, v.Secret, strings.Contains(d.meaning, "A secret: "))
			assert.Equal(t, v.Unit, d.unit)
			assert.Equal(t, v.Range, d.allowed)
		})
	}
}

// Taken as it is, or with every line that has a value uncommented, the file
// changes nothing: it shows the defaults.
func TestEnvExampleShowsTheDefaults(t *testing.T) {
	var pairs []string
	for _, d := range readExample(t) {
		pairs = append(pairs, strings.TrimPrefix(d.name, Prefix)+"="+d.text)
	}
	require.NotEmpty(t, pairs)
	assert.Equal(t, mustLoad(t, nil), mustLoad(t, nil, pairs...))
	content, err := os.ReadFile(exampleFile)
	require.NoError(t, err)
	for i, line := range strings.Split(string(content), "\n") {
		assert.True(t, line == "" || line[0] == '#', "line %d is commented out: %s", i+1, line)
	}
}

// Examples are copied; each has to load, with what it needs beside it.
func TestExamplesLoad(t *testing.T) {
	earlier := "BASELINE=" + writeFile(t, "{}")
	beside := map[string][]string{
		"API_KEY_FILE":  nil, // names a file that is not here
		"CA_FILE":       nil,
		"BASELINE":      nil,
		"CELL":          {},
		"MAX_MODEL_LEN": {},

		"BASELINE_ALLOW": {earlier},
		"MAX_REGRESSION": {earlier},
	}
	looked := 0
	for _, v := range Variables() {
		name := strings.TrimPrefix(v.Name, Prefix)
		if with, known := beside[name]; v.Example == "" || known && with == nil {
			continue
		}
		looked++
		plain := mustLoad(t, realCells())
		assert.NotEqual(t, plain, mustLoad(t, realCells(), append(beside[name], name+"="+v.Example)...), "the example of %s says something", v.Name)
	}
	assert.Greater(t, looked, 15)
}

func TestVariablesAreWellFormed(t *testing.T) {
	var groups []string
	for _, g := range Groups() {
		assert.NotEmpty(t, g.Meaning)
		groups = append(groups, g.Name)
	}
	seen := map[string]bool{}
	at := 0
	for _, v := range Variables() {
		assert.Regexp(t, `^CAPACITY_[A-Z]+(_[A-Z]+)*$`, v.Name)
		assert.False(t, seen[v.Name], v.Name)
		seen[v.Name] = true
		assert.NotEmpty(t, v.Range, v.Name)
		assert.True(t, strings.HasSuffix(v.Meaning, "."), "%s has a meaning in sentences", v.Name)
		if v.Default == "" && !v.Secret {
			assert.NotEmpty(t, v.Example, "%s shows how it is written", v.Name)
		}
		now := slices.Index(groups, v.Group)
		assert.GreaterOrEqual(t, now, at, "%s stands with its group", v.Name)
		at = now
	}
	assert.Equal(t, len(groups)-1, at, "every group has a variable")
}

// The caller owns what Variables and Groups give.
func TestVariablesAreCopies(t *testing.T) {
	Variables()[0].Name = "X"
	Groups()[0].Name = "X"
	assert.Equal(t, "CAPACITY_BASE_URL", Variables()[0].Name)
	assert.Equal(t, "target", Groups()[0].Name)
}

// Every name that a contradiction reads is one of the table: a misspelt one
// would never be suspect.
func TestContradictionsNameVariables(t *testing.T) {
	require.NotEmpty(t, contradictions)
	for _, c := range contradictions {
		for _, name := range c.names {
			assert.True(t, known(name), name)
		}
	}
}
