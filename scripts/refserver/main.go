// Refserver serves the reference endpoint for hands and other tools: an
// OpenAI-compatible server with known timings that can fail on demand.
//
//	go run ./scripts/refserver -slots 4 -faults 'stall=4@3;status=503@10%'
//
// It prints its base URL and the lines that aim the suite at it, serves until
// SIGINT, SIGTERM or -for, and then says what it served. The exit status is 0
// after an orderly end, 1 when it could not serve, 2 for wrong flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"anvil-capacity/internal/refserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(exitStatus(os.Stderr, run(ctx, os.Stdout, os.Stderr, os.Args[1:])))
}

// errUsage marks an error in the flags.
var errUsage = errors.New("run with -h for the flags")

func exitStatus(stderr io.Writer, err error) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "refserver:", err)
		return 2
	}
	fmt.Fprintln(stderr, "refserver:", err)
	return 1
}

// settings are what the flags say.
type settings struct {
	options   refserver.Options
	listen    string
	bounded   time.Duration // 0: until ctx ends
	apiKey    string        // file name
	rejecting string
}

// run serves until ctx ends or -for has passed.
func run(ctx context.Context, stdout, stderr io.Writer, args []string) error {
	set, err := parse(stderr, args)
	if err != nil {
		return err
	}
	server, err := refserver.New(set.options)
	if err != nil {
		return fmt.Errorf("%w; %w", err, errUsage)
	}
	if err := server.Start(set.listen); err != nil {
		return err
	}
	announce(stdout, server, set)
	if set.bounded > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, set.bounded)
		defer cancel()
	}
	<-ctx.Done()
	err = server.Close()
	fmt.Fprintln(stderr, account(server))
	return err
}

// parse reads the flags; the defaults are those of the embedded endpoint.
func parse(stderr io.Writer, args []string) (settings, error) {
	set := settings{options: refserver.EmbeddedOptions()}
	o := &set.options
	f := flag.NewFlagSet("refserver", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&set.listen, "listen", "127.0.0.1:0", "`host:port` to listen on; port 0 is a free one")
	f.DurationVar(&set.bounded, "for", 0, "serve for this `duration` and end; 0 is until a signal")
	f.StringVar(&o.Model, "model", o.Model, "`name` of the one model served")
	f.StringVar(&set.apiKey, "api-key-file", "", "require the key in this `file` (its text, trimmed) as bearer token")
	f.IntVar(&o.MaxModelLen, "max-model-len", o.MaxModelLen, "context length in `tokens`, prompt and answer; 0 is no limit")
	f.IntVar(&o.Slots, "slots", o.Slots, "`requests` served at once, the others wait in line; 0 is no limit")
	f.Float64Var(&o.PrefillTokS, "prefill-tok-s", o.PrefillTokS, "prefill rate of a request in `tokens/s`; 0 takes no time")
	f.DurationVar(&o.DecodeBase, "decode-base", o.DecodeBase, "time per token of a request that decodes alone (a `duration`)")
	f.DurationVar(&o.DecodePerActive, "decode-per-active", o.DecodePerActive, "time per token that each other decoding request adds (a `duration`)")
	f.IntVar(&o.ReasoningTokens, "reasoning-tokens", o.ReasoningTokens, "reasoning `tokens` before the visible text")
	f.StringVar(&o.ReasoningKey, "reasoning-key", "reasoning_content", "delta `key` of reasoning: reasoning_content or reasoning")
	f.Float64Var(&o.JitterFraction, "jitter", o.JitterFraction, "largest relative deviation of prefill and token times, a `fraction` below 1")
	f.IntVar(&o.Seed, "seed", o.Seed, "`number` that feeds jitter and the shares of the fault plan")
	f.BoolVar(&o.PrefixCache, "prefix-cache", o.PrefixCache, "remember leading text of prompts and skip its prefill")
	f.IntVar(&o.PrefixCacheTokens, "prefix-cache-tokens", refserver.DefaultPrefixCacheTokens, "`tokens` that the prefix cache holds")
	f.StringVar(&set.rejecting, "reject", "", "request `keys` to answer with 400, joined by commas: stream_options,max_tokens")
	f.StringVar(&o.Faults, "faults", "", "fault `plan`, see below")
	f.Usage = func() {
		fmt.Fprint(stderr, "usage: refserver [flags]\n\n")
		f.PrintDefaults()
		fmt.Fprint(stderr, "\n", refserver.FaultHelp())
	}
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return settings{}, err
		}
		return settings{}, errUsage // the flag set has said what is wrong
	}
	if f.NArg() > 0 {
		return settings{}, fmt.Errorf("unexpected argument %q; %w", f.Arg(0), errUsage)
	}
	if set.bounded < 0 {
		return settings{}, fmt.Errorf("flag -for is %v, want at least 0; %w", set.bounded, errUsage)
	}
	if set.rejecting != "" {
		o.RejectParams = strings.Split(set.rejecting, ",")
	}
	return set, readKey(&set)
}

func readKey(set *settings) error {
	if set.apiKey == "" {
		return nil
	}
	text, err := os.ReadFile(set.apiKey)
	if err != nil {
		return fmt.Errorf("reading the API key: %w", err)
	}
	set.options.APIKey = strings.TrimSpace(string(text))
	if set.options.APIKey == "" {
		return fmt.Errorf("reading the API key: file %q is empty", set.apiKey)
	}
	return nil
}

// announce prints the base URL and what to export.
func announce(stdout io.Writer, server *refserver.Server, set settings) {
	fmt.Fprintln(stdout, server.URL())
	fmt.Fprintln(stdout, "export CAPACITY_BASE_URL="+quoted(server.URL()))
	fmt.Fprintln(stdout, "export CAPACITY_MODEL="+quoted(set.options.Model))
	fmt.Fprintln(stdout, "export CAPACITY_ENGINE=refserver")
	if set.apiKey != "" {
		fmt.Fprintln(stdout, "export CAPACITY_API_KEY_FILE="+quoted(set.apiKey))
	}
}

// quoted is text as one word of a shell.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// account says in one line what was served and how late first tokens were.
func account(server *refserver.Server) string {
	log := server.Log()
	outcomes := map[refserver.Outcome]int{}
	var late []time.Duration
	for _, e := range log {
		outcomes[e.Outcome]++
		if !e.FirstOutputAt.IsZero() {
			late = append(late, e.FirstOutputAt.Sub(e.PrefillDone()))
		}
	}
	line := fmt.Sprintf("refserver: %d requests", len(log)+server.Dropped())
	for _, o := range []refserver.Outcome{refserver.OutcomeDone, refserver.OutcomeFault, refserver.OutcomeRefused, refserver.OutcomeLeft, refserver.OutcomeClosed} {
		if outcomes[o] > 0 {
			line += fmt.Sprintf(", %d %s", outcomes[o], o)
		}
	}
	if len(late) > 0 {
		slices.Sort(late)
		rank := func(q int) time.Duration { return late[(len(late)*q+99)/100-1].Round(time.Microsecond) }
		line += fmt.Sprintf("; first tokens left after plan by p50 %v, p99 %v", rank(50), rank(99))
	}
	return line
}
