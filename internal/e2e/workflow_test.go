package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"anvil-capacity/internal/config"
	"anvil-capacity/internal/report"
)

// workflow is a file of GitHub Actions. A key that is not here is a typo, or a
// reason to look at it once.
type workflow struct {
	Name        string            `yaml:"name"`
	On          map[string]any    `yaml:"on"`
	Permissions map[string]string `yaml:"permissions"`
	Concurrency map[string]any    `yaml:"concurrency"`
	Jobs        map[string]struct {
		RunsOn         string            `yaml:"runs-on"`
		Environment    string            `yaml:"environment"`
		TimeoutMinutes int               `yaml:"timeout-minutes"`
		Permissions    map[string]string `yaml:"permissions"`
		Steps          []step            `yaml:"steps"`
	} `yaml:"jobs"`

	file string
	text string
}

type step struct {
	Name string            `yaml:"name"`
	ID   string            `yaml:"id"`
	If   string            `yaml:"if"`
	Uses string            `yaml:"uses"`
	With map[string]string `yaml:"with"`
	Env  map[string]string `yaml:"env"`
	Run  string            `yaml:"run"`
}

func workflows(t *testing.T) []workflow {
	t.Helper()
	files, err := filepath.Glob(moduleRoot + "/.github/workflows/*.yml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 2)
	var all []workflow
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		decoder := yaml.NewDecoder(strings.NewReader(string(text)))
		decoder.KnownFields(true)
		w := workflow{file: filepath.Base(file), text: string(text)}
		require.NoError(t, decoder.Decode(&w), file)
		require.NotEmpty(t, w.Jobs, file)
		all = append(all, w)
	}
	return all
}

// capacityStep gives a step of capacity.yml by its id.
func capacityStep(t *testing.T, id string) step {
	t.Helper()
	for _, w := range workflows(t) {
		if w.file != "capacity.yml" {
			continue
		}
		for _, s := range w.Jobs["gate"].Steps {
			if s.ID == id {
				return s
			}
		}
	}
	require.Fail(t, "no such step in capacity.yml", id)
	return step{}
}

var (
	pinned     = regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)
	expression = regexp.MustCompile(`\$\{\{.*?\}\}`)
)

// TestWorkflowsAreCareful holds them to the rules for workflows that hold a key.
func TestWorkflowsAreCareful(t *testing.T) {
	for _, w := range workflows(t) {
		t.Run(w.file, func(t *testing.T) {
			require.NotNil(t, w.Permissions, "without it the token may write")
			assert.NotEmpty(t, w.Concurrency)
			assert.NotContains(t, w.On, "pull_request_target", "it would run a stranger's code with our secrets")
			if strings.Contains(w.text, "secrets.") {
				assert.NotContains(t, w.On, "pull_request")
			}
			for name, job := range w.Jobs {
				assert.Positive(t, job.TimeoutMinutes, "job %s hangs for six hours without", name)
				for scope, access := range job.Permissions {
					assert.Equal(t, "read", access, scope)
				}
				require.NotEmpty(t, job.Steps)
				for _, s := range job.Steps {
					checkStep(t, w, s)
				}
			}
			for scope, access := range w.Permissions {
				assert.Equal(t, "read", access, scope)
			}
		})
	}
}

func checkStep(t *testing.T, w workflow, s step) {
	t.Helper()
	assert.True(t, (s.Uses == "") != (s.Run == ""), "step %q either uses or runs", s.Name)
	if s.Uses != "" {
		assert.Regexp(t, pinned, s.Uses, "a tag can be moved")
		assert.Regexp(t, regexp.QuoteMeta(s.Uses)+` # v\d+\.\d+\.\d+\n`, w.text, "which version it is")
	}
	if strings.HasPrefix(s.Uses, "actions/checkout@") {
		assert.Equal(t, "false", s.With["persist-credentials"], "the token would lie in .git for every later step")
	}
	if s.Run == "" {
		return
	}
	assert.NotRegexp(t, expression, s.Run, "an expression becomes part of the script: take it through env")
	check := exec.Command("bash", "-n", "-c", s.Run)
	out, err := check.CombinedOutput()
	assert.NoError(t, err, "%s", out)
	for name, value := range s.Env {
		if strings.Contains(value, "secrets.") {
			assert.Contains(t, s.Run, "scripts/gate", "%s goes to the gate and to nothing else", name)
		}
	}
}

// TestWorkflowCIRunsTheWholeCheck: the file must not drift from .ci/run.
func TestWorkflowCIRunsTheWholeCheck(t *testing.T) {
	for _, w := range workflows(t) {
		if w.file != "ci.yml" {
			continue
		}
		steps := w.Jobs["ci"].Steps
		assert.Equal(t, ".ci/run", steps[len(steps)-1].Run)
		return
	}
	assert.Fail(t, "no ci.yml")
}

// scheduled is what GitHub Actions puts in for the expressions of capacity.yml in
// a run on a schedule of a repository where only the first variable is set.
var scheduled = map[string]string{
	"${{ vars.CAPACITY_BASE_URL }}":                 "",
	"${{ inputs.model || vars.CAPACITY_MODEL }}":    "",
	"${{ secrets.CAPACITY_API_KEY }}":               "",
	"${{ inputs.first_run }}":                       "",
	"${{ github.token }}":                           "token",
	"${{ github.repository }}":                      "owner/name",
	"${{ github.event.repository.default_branch }}": "main",
	"${{ vars.CAPACITY_BASELINE_RUN }}":             "",
}

// runStep runs the script of a step as the runner does, with its environment and
// these changes to it.
func runStep(t *testing.T, s step, changes map[string]string) result {
	t.Helper()
	env := environment(nil)
	for name, value := range s.Env {
		if given, ok := changes[name]; ok {
			value = given
		} else if expression.MatchString(value) {
			known, ok := scheduled[value]
			require.True(t, ok, "what is %s on a schedule?", value)
			value = known
		}
		env = append(env, name+"="+value)
	}
	for name, value := range changes {
		env = append(env, name+"="+value)
	}
	cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.Run)
	cmd.Dir = moduleRoot
	cmd.Env = append(env, "GITHUB_STEP_SUMMARY=", "GITHUB_RUN_ATTEMPT=1")
	return finish(t, cmd, moduleRoot)
}

// published is an artifact that settings may name as a baseline.
const published = moduleRoot + "/fixtures/artifacts/fp8-moe-ab-tuned-v3-primary-r2.json"

// TestWorkflowSettings loads what capacity.yml sets as the suite does: a name or
// a value that is none would fail the first real run.
func TestWorkflowSettings(t *testing.T) {
	var names []string
	for _, v := range config.Variables() {
		names = append(names, v.Name)
	}
	gate := capacityStep(t, "gate")
	var env []string
	for name, value := range gate.Env {
		if !strings.HasPrefix(name, "CAPACITY_") {
			continue
		}
		assert.Contains(t, names, name)
		if known, ok := scheduled[value]; ok {
			value = known
		}
		if name == "CAPACITY_BASELINE" {
			assert.Equal(t, "baseline/gate-index.json", value)
			value = published // settings name files that are there
		}
		env = append(env, name+"="+value)
	}
	s, err := config.Load(env, nil)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, s.Repeats, 3, "below, a comparison knows nothing of the spread between runs")
	assert.NotEmpty(t, s.Thresholds)
	assert.NotEmpty(t, s.MaxRegression)
	assert.Equal(t, "gate", s.Run, "the baseline's name is made of it")
	assert.NotContains(t, gate.Env, "CAPACITY_CONTEXT_SEED", "each run has seeds of its own, from its number")
}

// TestWorkflowGate runs the gate step of capacity.yml twice against a server on
// loopback: a first run, and one that is compared with its evidence.
func TestWorkflowGate(t *testing.T) {
	o := fast()
	o.PrefillTokS, o.DecodeBase = 200_000, time.Millisecond
	ref := refTarget(t, o)
	gate := capacityStep(t, "gate")
	first, second := t.TempDir(), t.TempDir()
	run := func(dir, number, isFirst, baseline string) (result, string) {
		got := runStep(t, gate, map[string]string{
			"CAPACITY_BASE_URL": ref.URL, "CAPACITY_ARTIFACT_DIR": dir, "GITHUB_RUN_NUMBER": number,
			"FIRST_RUN": isFirst, "CAPACITY_BASELINE": baseline, "CAPACITY_SELF_CHECK": "off",
		})
		page, err := os.ReadFile(filepath.Join(dir, "page.md"))
		require.NoError(t, err, got.output)
		return got, string(page)
	}
	got, page := run(first, "7", "true", "baseline/gate-index.json")
	require.Zero(t, got.exit, got.output)
	assert.NotContains(t, page, "Against the baseline")
	require.FileExists(t, filepath.Join(first, "gate-index.json"), "what the next run asks for")

	// Whether chance keeps within the margin on this machine is not the question.
	got, page = run(second, "8", "", filepath.Join(first, "gate-index.json"))
	assert.Contains(t, []int{0, 14}, got.exit, got.output)
	assert.Contains(t, page, "### Against the baseline")
	assert.NotContains(t, page, "not comparable")
	assert.Equal(t, []string{"1420 1421 1422", "1620 1621 1622"}, []string{seedsIn(t, first), seedsIn(t, second)},
		"no prompt of one run is in the other")
}

// seedsIn lists the seeds of the runs that an index names.
func seedsIn(t *testing.T, dir string) string {
	t.Helper()
	runs, err := report.ReadRuns(filepath.Join(dir, "gate-index.json"))
	require.NoError(t, err)
	seeds := make([]string, len(runs))
	for i, r := range runs {
		seeds[i] = fmt.Sprint(*r.Native.ContextSeed)
	}
	return strings.Join(seeds, " ")
}

// TestWorkflowGateWithoutAServer must not pass on the suite's own endpoint.
func TestWorkflowGateWithoutAServer(t *testing.T) {
	dir := t.TempDir()
	got := runStep(t, capacityStep(t, "gate"), map[string]string{"CAPACITY_ARTIFACT_DIR": dir, "GITHUB_RUN_NUMBER": "1"})
	assert.Equal(t, 10, got.exit, got.output)
	assert.Contains(t, got.output, "::error::")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestWorkflowFindsItsBaseline runs the step that looks for the last good run,
// with a gh that answers as asked.
func TestWorkflowFindsItsBaseline(t *testing.T) {
	for _, tt := range []struct {
		name, gh, chosen string
		want             string // "" is a failed step
		why              string
	}{
		{"last_good_run", "echo 123", "", "run=123\n", "what gh found"},
		{"none", "true", "", "", "the first run is started by hand"},
		{"gh_fails", "echo 5; exit 1", "", "", "half an answer is none"},
		{"pinned", "exit 1", "77", "run=77\n", "gh is not asked"},
		{"pinned_wrongly", "echo 123", "7 7", "", "a name is no id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			output := filepath.Join(dir, "output")
			require.NoError(t, os.WriteFile(filepath.Join(dir, "gh"), []byte("#!/bin/sh\n"+tt.gh+"\n"), 0o755))
			got := runStep(t, capacityStep(t, "baseline"), map[string]string{
				"PATH": dir + ":" + os.Getenv("PATH"), "GITHUB_OUTPUT": output, "CHOSEN": tt.chosen,
			})
			written, _ := os.ReadFile(output) // a step that failed wrote none
			assert.Equal(t, tt.want, string(written), tt.why)
			assert.Equal(t, tt.want == "", got.exit != 0, got.output)
		})
	}
}
