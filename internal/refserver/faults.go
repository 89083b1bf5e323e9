package refserver

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"anvil-capacity/internal/spelling"
)

// FaultKind is one row of the table of faults: what a fault plan can name.
type FaultKind struct {
	// Name is how the plan calls it.
	Name string
	// Arg is the argument's name in help, "" where the kind takes none.
	Arg string
	// Default is the argument when the plan gives none.
	Default string
	// Meaning says what the server does.
	Meaning string

	parse  func(string) (argument, error) // nil where the kind takes no argument
	apply  func(*effects, argument)
	paired bool // selecting one request of a pair 2k, 2k+1 selects both
}

// argument is a parsed argument, in the field of its kind.
type argument struct {
	n int
	d time.Duration
	f float64
}

// cut is how a stream breaks off.
type cut uint8

const (
	cutNone cut = iota
	cutReset
	cutStall
	cutTruncate
	cutError
)

// effects are what the fault plan does to one request.
type effects struct {
	names []string // as the plan spells them, for Exchange.Faults

	status      int // 0: none
	resetBefore bool
	cut         cut
	after       int
	garbage     bool
	garbageAt   int

	wrongCanary         bool
	foreign             int // 0: none
	swap, merge, repeat bool
	extra, missing      int

	noUsage, lateUsage      bool
	headers, buffer, linger time.Duration
	slow                    float64 // 0: as planned
}

func breakOff(how cut) func(*effects, argument) {
	return func(e *effects, a argument) { e.cut, e.after = how, a.n }
}

// faultKinds is the table. AFTER counts output events: the fault comes when the
// event after those is due, or at the end of a shorter answer.
var faultKinds = []FaultKind{
	{Name: "status", Arg: "CODE", Default: "503", parse: intIn(400, 599),
		Meaning: "answers with this HTTP status and an error object at once, without a slot; 429 and 503 carry Retry-After",
		apply:   func(e *effects, a argument) { e.status = a.n }},
	{Name: "reset-before",
		Meaning: "resets the connection when the request has been read, before any response byte",
		apply:   func(e *effects, _ argument) { e.resetBefore = true }},
	{Name: "reset-stream", Arg: "AFTER", Default: "1", parse: count,
		Meaning: "resets the connection after this many output events", apply: breakOff(cutReset)},
	{Name: "stall", Arg: "AFTER", Default: "1", parse: count,
		Meaning: "goes silent after this many output events, and holds slot and connection until the client leaves or the server closes",
		apply:   breakOff(cutStall)},
	{Name: "truncate", Arg: "AFTER", Default: "1", parse: count,
		Meaning: "ends the body cleanly after this many output events, without finish_reason and [DONE]", apply: breakOff(cutTruncate)},
	{Name: "error", Arg: "AFTER", Default: "1", parse: count,
		Meaning: "sends an error object and [DONE] after this many output events", apply: breakOff(cutError)},
	{Name: "garbage", Arg: "AFTER", Default: "1", parse: count,
		Meaning: "sends one data line that is not JSON after this many output events, then goes on",
		apply:   func(e *effects, a argument) { e.garbage, e.garbageAt = true, a.n }},
	{Name: "wrong-canary",
		Meaning: "begins the answer with " + wrongCanary + " in place of the marker",
		apply:   func(e *effects, _ argument) { e.wrongCanary = true }},
	{Name: "foreign-canary", Arg: "OFFSET", Default: "1", parse: offset,
		Meaning: "begins the answer with the marker of request index+OFFSET (upwards where that would be below 0), same seed",
		apply:   func(e *effects, a argument) { e.foreign = a.n }},
	{Name: "swap", paired: true,
		Meaning: "swaps two answers: requests 2k and 2k+1 each get the other's marker; selecting one selects both",
		apply:   func(e *effects, _ argument) { e.swap = true }},
	{Name: "merge",
		Meaning: "appends the other answer of the pair 2k, 2k+1 to this one",
		apply:   func(e *effects, _ argument) { e.merge = true }},
	{Name: "repeat",
		Meaning: "says the whole answer twice",
		apply:   func(e *effects, _ argument) { e.repeat = true }},
	{Name: "extra-words", Arg: "N", Default: "1", parse: intIn(1, maxFaultCount),
		Meaning: `appends the word "` + extraWord + `" N times`,
		apply:   func(e *effects, a argument) { e.extra = a.n }},
	{Name: "missing-words", Arg: "N", Default: "1", parse: intIn(1, maxFaultCount),
		Meaning: "leaves out the last N words of the answer, the marker never",
		apply:   func(e *effects, a argument) { e.missing = a.n }},
	{Name: "no-usage",
		Meaning: "sends no usage although it was asked for",
		apply:   func(e *effects, _ argument) { e.noUsage = true }},
	{Name: "late-usage",
		Meaning: "sends the usage event after [DONE]",
		apply:   func(e *effects, _ argument) { e.lateUsage = true }},
	{Name: "slow-headers", Arg: "DURATION", Default: "1s", parse: duration,
		Meaning: "holds the request for this long before it joins the line and before any response byte",
		apply:   func(e *effects, a argument) { e.headers = a.d }},
	{Name: "buffer", Arg: "DURATION", Default: "100ms", parse: duration,
		Meaning: "collects events and sends them together this long after the first of them, or when they fill 64 KiB, like a proxy",
		apply:   func(e *effects, a argument) { e.buffer = a.d }},
	{Name: "linger", Arg: "DURATION", Default: "1s", parse: duration,
		Meaning: "keeps the body open for this long after [DONE]",
		apply:   func(e *effects, a argument) { e.linger = a.d }},
	{Name: "slow", Arg: "FACTOR", Default: "2", parse: factor,
		Meaning: "multiplies prefill and every token step of the request",
		apply:   func(e *effects, a argument) { e.slow = a.f }},
}

// Limits of a fault's argument and of a selector.
const (
	maxFaultCount    = 1_000_000
	maxFaultDuration = 24 * time.Hour
	maxFaultFactor   = 1000
	maxFaultIndex    = 99_999_999
)

// FaultKinds lists every kind of fault that a plan can name, in the order of help.
func FaultKinds() []FaultKind { return append([]FaultKind(nil), faultKinds...) }

// FaultGrammar is how a fault plan is written, for help.
const FaultGrammar = `A fault plan is a list of KIND[=ARG]@REQUESTS, joined by ";".
REQUESTS is a list of indexes and ranges (3 or 1,5,10-19), a share (10%, drawn from the seed),
or "all". The index is the one in the prompt's marker; a prompt without a marker counts by
arrival, from 0. A later fault of the same kind wins. Example: status=503@3;stall=4@10%`

// FaultHelp is FaultGrammar and the table of kinds, as text for a terminal.
func FaultHelp() string {
	var b strings.Builder
	b.WriteString(FaultGrammar + "\n\n")
	for _, k := range faultKinds {
		name := k.Name
		if k.Arg != "" {
			name += "=" + k.Arg
		}
		fmt.Fprintf(&b, "  %-24s %s", name, k.Meaning)
		if k.Default != "" {
			fmt.Fprintf(&b, " (default %s)", k.Default)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Fault is one entry of a fault plan.
type Fault struct {
	text string // as written
	kind *FaultKind
	arg  argument
	on   selector
}

// String gives the entry as it was written, without the space around it.
func (f Fault) String() string { return f.text }

// ParseFaults reads a fault plan (FaultGrammar). "" is an empty plan. The error
// names every entry that is wrong, with what is allowed, and the nearest kind
// where a name is unknown.
func ParseFaults(plan string) ([]Fault, error) {
	var faults []Fault
	var errs []error
	for entry := range strings.SplitSeq(plan, ";") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		f, err := parseFault(entry)
		if err != nil {
			errs = append(errs, fmt.Errorf("parsing fault %q: %w", entry, err))
			continue
		}
		faults = append(faults, f)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return faults, nil
}

func parseFault(entry string) (Fault, error) {
	what, requests, selected := strings.Cut(entry, "@")
	if !selected {
		return Fault{}, errors.New(`no requests named; add @INDEX, @10% or @all`)
	}
	name, arg, given := strings.Cut(what, "=")
	kind, err := findKind(strings.TrimSpace(name))
	if err != nil {
		return Fault{}, err
	}
	f := Fault{text: entry, kind: kind}
	switch {
	case kind.parse == nil && given:
		return Fault{}, fmt.Errorf("%s takes no argument, got %q", kind.Name, arg)
	case kind.parse != nil:
		if !given {
			arg = kind.Default
		}
		if f.arg, err = kind.parse(strings.TrimSpace(arg)); err != nil {
			return Fault{}, fmt.Errorf("argument %s of %s: %w", kind.Arg, kind.Name, err)
		}
	}
	f.on, err = parseSelector(requests)
	return f, err
}

func findKind(name string) (*FaultKind, error) {
	names := make([]string, len(faultKinds))
	for i := range faultKinds {
		if faultKinds[i].Name == name {
			return &faultKinds[i], nil
		}
		names[i] = faultKinds[i].Name
	}
	if near := nearest(name, names); near != "" {
		return nil, fmt.Errorf("unknown kind %q; did you mean %q?", name, near)
	}
	return nil, fmt.Errorf("unknown kind %q, want one of %s", name, strings.Join(names, ", "))
}

// selector says which requests a fault is for.
type selector struct {
	spans []span
	share float64 // probability, where spans is nil
}

// span is a range of request indexes, both ends in it.
type span struct{ from, to int }

func parseSelector(text string) (selector, error) {
	text = strings.TrimSpace(text)
	if text == "all" {
		return selector{share: 1}, nil
	}
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		p, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(p > 0 && p <= 100) {
			return selector{}, fmt.Errorf("share %q of the requests, want more than 0%% and at most 100%%", text)
		}
		return selector{share: p / 100}, nil
	}
	var s selector
	for item := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if !isRange {
			to = from
		}
		a, errA := parseIndex(from)
		b, errB := parseIndex(to)
		if errA != nil || errB != nil || a > b {
			return selector{}, fmt.Errorf("requests %q, want indexes 0..%d, ranges of them (2-4), a share (10%%) or all", item, maxFaultIndex)
		}
		s.spans = append(s.spans, span{a, b})
	}
	return s, nil
}

func parseIndex(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err == nil && n > maxFaultIndex {
		err = strconv.ErrRange
	}
	return int(n), err
}

// covers says whether request index is selected. draw sets apart the shares of
// different entries of a plan.
func (s selector) covers(seed, index int, draw uint64) bool {
	if s.spans == nil {
		return uniform(seed, uint64(index), draw) < s.share
	}
	for _, r := range s.spans {
		if r.from <= index && index <= r.to {
			return true
		}
	}
	return false
}

// effectsOn folds the plan into what it does to request index.
func effectsOn(plan []Fault, seed, index int) effects {
	var e effects
	for i, f := range plan {
		draw := uint64(i)
		if f.on.covers(seed, index, draw) || f.kind.paired && f.on.covers(seed, index^1, draw) {
			f.kind.apply(&e, f.arg)
			e.names = append(e.names, f.text)
		}
	}
	return e
}

func intIn(low, high int) func(string) (argument, error) {
	return func(text string) (argument, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < low || n > high {
			return argument{}, fmt.Errorf("got %q, want %d..%d", text, low, high)
		}
		return argument{n: n}, nil
	}
}

var count = intIn(0, maxFaultCount)

func offset(text string) (argument, error) {
	a, err := intIn(-maxFaultIndex, maxFaultIndex)(text)
	if err == nil && a.n == 0 {
		return argument{}, errors.New("got 0, which is the request's own marker")
	}
	return a, err
}

func duration(text string) (argument, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxFaultDuration {
		return argument{}, fmt.Errorf("got %q, want a duration with its unit, more than 0 and at most %v", text, maxFaultDuration)
	}
	return argument{d: d}, nil
}

func factor(text string) (argument, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f > maxFaultFactor {
		return argument{}, fmt.Errorf("got %q, want a factor of more than 0 and at most %d", text, maxFaultFactor)
	}
	return argument{f: f}, nil
}

// nearest gives the name with the smallest edit distance to got, "" when none
// is nearer than half of got's length.
func nearest(got string, names []string) string {
	near, _ := spelling.Nearest(got, names, len(got)/2+1)
	return near
}
