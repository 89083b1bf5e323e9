package selfcheck

import (
	"context"
	"fmt"
	"time"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/client"
	"anvil-capacity/internal/contract"
	"anvil-capacity/internal/load"
	"anvil-capacity/internal/record"
	"anvil-capacity/internal/refserver"
	"anvil-capacity/internal/workload"
)

// Shape is the load that a check imitates: that of the cell it stands before.
type Shape struct {
	// Concurrency is how many requests are in flight.
	Concurrency int
	// ContextTokens is the nominal prompt size, which sets the size of a body.
	ContextTokens int
	// EventsPerS is the pace of one stream's events; 0 is DefaultEventsPerS.
	EventsPerS float64
}

const (
	// DefaultEventsPerS is the pace where nothing is known of the server: a
	// usual one for a stream of a large model.
	DefaultEventsPerS = 50
	// maxEventsPerS bounds what is imitated: Go timers are a millisecond coarse.
	maxEventsPerS = 1000
	// streamTime and waves make a check last about two seconds.
	streamTime = 600 * time.Millisecond
	waves      = 3
	// minSamples is how many requests are made at low concurrency, so that a p99
	// is not of a handful.
	minSamples = 24
	// runLimit bounds a check on a machine that cannot keep up.
	runLimit = 15 * time.Second
	// maxContextTokens bounds the prompts: their size costs the client memory
	// bandwidth, and beyond this the check would take longer than it is worth.
	maxContextTokens = 131_072
)

// Run drives the shape against an embedded endpoint in this process for about
// two seconds and gives the suite's own error there. Nothing leaves the machine.
func Run(ctx context.Context, shape Shape) (*artifact.SelfCheck, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	server, err := startServer(shape)
	if err != nil {
		return nil, fmt.Errorf("checking the suite's own error: %w", err)
	}
	defer func() { _ = server.Close() }() // its evidence is taken by then
	usage := StartUsage()
	result, err := drive(ctx, shape, server.URL())
	if err != nil {
		return nil, fmt.Errorf("checking the suite's own error: %w", err)
	}
	check := Compare(result.Records, server.Log(), shape.Concurrency)
	if check == nil {
		return nil, fmt.Errorf("checking the suite's own error: none of %d requests against the embedded endpoint can be compared", len(result.Records))
	}
	check.Client = usage.Stop()
	return check, nil
}

// eventsPerS is the pace that is imitated.
func (s Shape) eventsPerS() float64 {
	if s.EventsPerS <= 0 {
		return DefaultEventsPerS
	}
	return min(s.EventsPerS, maxEventsPerS)
}

// words makes a stream last streamTime at the shape's pace.
func (s Shape) words() int { return max(8, int(s.eventsPerS()*streamTime.Seconds())) }

func (s Shape) requests() int {
	return min(max(waves*s.Concurrency, minSamples), workload.MaxRequests)
}

func startServer(shape Shape) (*refserver.Server, error) {
	server, err := refserver.New(refserver.Options{
		ReasoningTokens: 2,
		DecodeBase:      time.Duration(float64(time.Second) / shape.eventsPerS()),
	})
	if err != nil {
		return nil, err
	}
	return server, server.Start("")
}

func drive(ctx context.Context, shape Shape, url string) (load.Result, error) {
	plan, err := workload.New(workload.Spec{
		Requests: shape.requests(), ResponseWords: shape.words(), Canaries: true,
		Parts: []workload.Part{{Tokens: min(shape.ContextTokens, maxContextTokens), Weight: 1}},
	})
	if err != nil {
		return load.Result{}, err
	}
	template, err := client.NewTemplate(client.Params{Model: refserver.DefaultModel, MaxTokens: shape.words() + 16})
	if err != nil {
		return load.Result{}, err
	}
	c, err := client.New(client.Options{BaseURL: url, Concurrency: shape.Concurrency, Timeout: runLimit})
	if err != nil {
		return load.Result{}, err
	}
	defer c.Close()
	_, _ = c.Warm(ctx, min(shape.Concurrency, shape.requests())) // as a cell does; a failure shows in the requests
	return load.Run(ctx, load.Options{
		Plan: plan, Client: c, Concurrency: shape.Concurrency,
		Body: func(i int) ([]byte, error) { return template.Append(nil, plan.AppendPrompt(nil, i)), nil },
		Policy: load.Policy{
			Canaries: contract.Observe, Words: contract.Observe, ResponseWords: shape.words(),
		},
	})
}

// PaceOf is the events a second of one stream, from records of a run against the
// same server; 0 where they do not say.
func PaceOf(records []record.Record) float64 {
	events, ms := 0, 0.0
	for i := range records {
		r := &records[i]
		if g := r.Timing.GenerationMS(); r.Completed() && g != nil && *g > 0 {
			events += r.Response.ContentChunks + r.Response.ReasoningChunks - 1
			ms += *g
		}
	}
	if events <= 0 || ms <= 0 {
		return 0
	}
	return float64(events) / ms * 1000
}
