package report

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/stats"
)

// The Go benchmark format (golang.org/design/14313-benchmark-format), so that
// benchstat and its relatives read a capacity run.
//
// benchstat puts results into one table as far as their configuration lines
// agree, and compares files within a table. So the facts that make two runs
// comparable (protocol, cache, canaries, sizes) are configuration: runs that
// differ in one of them stand in separate tables and are not compared. The facts
// that one compares (engine, GPU, model, which run it was) are comments, unless
// BenchOptions.Keys asks for them: as configuration they would tear every
// comparison apart.

// BenchOptions say what Bench writes. The zero value is one sample a request.
type BenchOptions struct {
	// PerRun writes one sample a run. Requests of one run share its luck, and
	// benchstat takes every sample for independent: with repeats, the run is the
	// sample.
	PerRun bool
	// Keys lists comments (BenchKeys) to write as configuration, for
	// `benchstat -col engine`.
	Keys []string
}

// BenchKeys lists the facts that are comments unless BenchOptions.Keys names them.
func BenchKeys() []string {
	keys := make([]string, len(benchComments))
	for i, f := range benchComments {
		keys[i] = f.key
	}
	return keys
}

// benchFact is a line of configuration: lower-case key, one-line value.
type benchFact struct {
	key   string
	value func(*artifact.Native) string
}

// benchFacts make runs comparable; they agree with what gate.Baseline.Refusal
// looks at.
var benchFacts = []benchFact{
	{"goos", func(n *artifact.Native) string { return suiteFact(n, func(s artifact.Suite) string { return s.OS }) }},
	{"goarch", func(n *artifact.Native) string { return suiteFact(n, func(s artifact.Suite) string { return s.Arch }) }},
	{"pkg", func(*artifact.Native) string { return artifact.SuiteName }},
	{"protocol", func(n *artifact.Native) string { return n.MeasurementProtocol }},
	{"requests", func(n *artifact.Native) string { return strconv.Itoa(n.Requests) }},
	{"max-tokens", func(n *artifact.Native) string { return strconv.Itoa(n.MaxTokens) }},
	{"max-model-len", func(n *artifact.Native) string { return orNotSaid(n.MaxContextTokens) }},
	{"prompt-cache", func(n *artifact.Native) string { return orNotSaid(n.PromptCacheMode) }},
	{"shared-prefix-tokens", func(n *artifact.Native) string { return orNotSaid(n.SharedPrefixTokens) }},
	{"canaries", func(n *artifact.Native) string { return orNotSaid(n.RequestCanaries) }},
	{"controlled-output", func(n *artifact.Native) string { return orNotSaid(n.ControlledOutputPolicy) }},
	{"thinking", thinkingFact},
	{"temperature", func(n *artifact.Native) string {
		return samplingFact(n, func(s artifact.SamplingValues) *float64 { return s.Temperature })
	}},
	{"top-p", func(n *artifact.Native) string {
		return samplingFact(n, func(s artifact.SamplingValues) *float64 { return s.TopP })
	}},
}

// benchComments are what one compares, and which run it was.
var benchComments = []benchFact{
	{"engine", func(n *artifact.Native) string { return orNotSaid(n.Engine) }},
	{"gpu", func(n *artifact.Native) string { return orNotSaid(n.GPU) }},
	{"model", func(n *artifact.Native) string { return n.Model }},
	{"seed", func(n *artifact.Native) string { return orNotSaid(n.ContextSeed) }},
	{"run", func(n *artifact.Native) string { return n.RunID }},
	{"started", func(n *artifact.Native) string { return orNotSaid(n.StartedAt) }},
}

// notSaid stands for what an artifact does not say. A key without a value would
// leave the one of the run before in force.
const notSaid = "not-said"

func orNotSaid[T any](v *T) string {
	if v == nil {
		return notSaid
	}
	return fmt.Sprint(*v)
}

func suiteFact(n *artifact.Native, fact func(artifact.Suite) string) string {
	if n.Harness == nil {
		return notSaid
	}
	return fact(n.Harness.Suite)
}

func thinkingFact(n *artifact.Native) string {
	if n.ServeFlags == nil {
		return notSaid
	}
	if n.ServeFlags.ReasoningEffort == nil {
		return n.ServeFlags.ThinkingMode
	}
	return n.ServeFlags.ThinkingMode + " " + *n.ServeFlags.ReasoningEffort
}

func samplingFact(n *artifact.Native, fact func(artifact.SamplingValues) *float64) string {
	if n.Sampling == nil {
		return notSaid
	}
	return orNotSaid(fact(n.Sampling.Requested))
}

// benchRequest are the samples of one request, in the order of its life. Their
// unit is <name>-ns, which benchstat reads as seconds.
var benchRequest = []struct{ unit, name string }{
	{"ttfo-ns", "time_to_first_output"},
	{"ttft-ns", "ttft"},
	{"e2e-ns", "e2e"},
	{"tpot-ns", "tpot"},
}

// benchRun are the samples of one run, metrics in milliseconds.
var benchRun = []struct{ unit, key string }{
	{"ttft-p50-ns", "ttft_p50_ms"},
	{"ttft-p95-ns", "ttft_p95_ms"},
	{"ttft-mean-ns", "ttft_mean_ms"},
	{"e2e-p50-ns", "e2e_p50_ms"},
	{"e2e-mean-ns", "e2e_mean_ms"},
	{"tpot-mean-ns", "tpot_mean_ms"},
}

// Throughput belongs to a run as a whole and is written in either mode.
const (
	throughputUnit = "tok/s"
	throughputKey  = "throughput_tok_s"
)

// Bench writes runs in the Go benchmark format: with the zero options a line for
// each request (time to first output and first token, end to end, time per output
// token) and one for each run's throughput. A benchmark's name says the point of
// the matrix, Capacity/c=4/ctx=2048/w=16, in keys for benchstat's projections.
//
// A run that is partial or has a failed request is refused: benchstat knows no
// failures, and a server that fails what is slow would win. Nothing is written
// with an error.
func Bench(w io.Writer, o BenchOptions, natives ...*artifact.Native) error {
	if len(natives) == 0 {
		return errors.New("writing benchmark lines: no run to write")
	}
	for _, key := range o.Keys {
		if !slices.Contains(BenchKeys(), key) {
			return fmt.Errorf("writing benchmark lines: no such key %q, want one of %s", key, strings.Join(BenchKeys(), ", "))
		}
	}
	var b strings.Builder
	benchUnits(&b, o)
	for _, n := range natives {
		if err := benchFit(n, o); err != nil {
			return fmt.Errorf("writing benchmark lines of run %s (%s): %w", n.RunID, CellName(n), err)
		}
		benchConfig(&b, o, n)
		benchSamples(&b, o, n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// benchFit says why a run cannot be written.
func benchFit(n *artifact.Native, o BenchOptions) error {
	if reason, partial := n.Partial(); partial {
		return fmt.Errorf("it is partial: %s", reason)
	}
	if !n.Eligible() {
		return fmt.Errorf("%d of %d requests failed, so it is not eligible for performance", n.Failed, n.Requests)
	}
	if len(n.RequestTimings) == 0 && !o.PerRun {
		return errors.New("it has no rows of its requests; ask for one sample a run")
	}
	return nil
}

// benchUnits says of each unit which way is better.
func benchUnits(b *strings.Builder, o BenchOptions) {
	if o.PerRun {
		for _, m := range benchRun {
			fmt.Fprintf(b, "Unit %s better=lower\n", m.unit)
		}
	} else {
		for _, m := range benchRequest {
			fmt.Fprintf(b, "Unit %s better=lower\n", m.unit)
		}
	}
	fmt.Fprintf(b, "Unit %s better=higher\n", throughputUnit)
}

func benchConfig(b *strings.Builder, o BenchOptions, n *artifact.Native) {
	b.WriteByte('\n')
	for _, f := range benchFacts {
		fmt.Fprintf(b, "%s: %s\n", f.key, benchValue(f.value(n)))
	}
	for _, f := range benchComments {
		if !slices.Contains(o.Keys, f.key) {
			b.WriteString("# ")
		}
		fmt.Fprintf(b, "%s: %s\n", f.key, benchValue(f.value(n)))
	}
}

// maxBenchValueBytes bounds a configuration value: benchstat reads no line of
// 64 KiB.
const maxBenchValueBytes = 1024

// benchValue makes text a value of one line that is not empty.
func benchValue(s string) string {
	s = strings.TrimSpace(clip(plain(s), maxBenchValueBytes))
	if s == "" {
		return notSaid
	}
	return s
}

func benchSamples(b *strings.Builder, o BenchOptions, n *artifact.Native) {
	name := "BenchmarkCapacity/c=" + strconv.Itoa(n.Concurrency) + "/ctx=" + benchName(contextName(n)) + "/w=" + strconv.Itoa(words(n))
	if !o.PerRun {
		for _, r := range n.Records() {
			if r.Completed() {
				benchLine(b, name, 1, requestValues(&r))
			}
		}
	}
	benchLine(b, name, n.Requests, runValues(o, n))
}

// benchName keeps a text from ending a name or a key in it.
func benchName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '-' || r == '=' || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
}

// benchLine writes a result with its iterations: the requests it stands for. One
// without any value is left out.
func benchLine(b *strings.Builder, name string, iterations int, values []benchPair) {
	if len(values) == 0 {
		return
	}
	fmt.Fprintf(b, "%s %d", name, iterations)
	for _, v := range values {
		fmt.Fprintf(b, " %s %s", v.value, v.unit)
	}
	b.WriteByte('\n')
}

type benchPair struct{ value, unit string }

func requestValues(r *record.Record) []benchPair {
	var values []benchPair
	for _, m := range benchRequest {
		if v, _ := stats.Value(r, m.name); v != nil {
			values = append(values, benchPair{nanoseconds(*v), m.unit})
		}
	}
	return values
}

func runValues(o BenchOptions, n *artifact.Native) []benchPair {
	var values []benchPair
	if o.PerRun {
		for _, m := range benchRun {
			if v := metric(n, m.key); v != nil {
				values = append(values, benchPair{nanoseconds(*v), m.unit})
			}
		}
	}
	if v := metric(n, throughputKey); v != nil {
		values = append(values, benchPair{strconv.FormatFloat(*v, 'f', -1, 64), throughputUnit})
	}
	return values
}

// nanoseconds writes milliseconds in nanoseconds by moving the point: a clock
// reading comes out as the whole number that it was, and no digit is made up by
// a multiplication.
func nanoseconds(ms float64) string {
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(ms, 'e', -1, 64), "e")
	power, err := strconv.Atoi(exponent)
	if err != nil {
		return strconv.FormatFloat(ms, 'f', -1, 64) // not a finite number; artifacts hold none
	}
	ns, _ := strconv.ParseFloat(fmt.Sprintf("%se%d", digits, power+6), 64)
	return strconv.FormatFloat(ns, 'f', -1, 64)
}
