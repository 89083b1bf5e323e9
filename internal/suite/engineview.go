package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/config"
	"anvil-capacity/internal/engine"
	"anvil-capacity/internal/record"
)

// engineReader reads the engine's own counters beside the load; nil where none
// are read.
func (c *Cell) engineReader() (*engine.Reader, error) {
	address, implied := engine.Target(c.MetricsURL, c.endpoint.baseURL)
	o := engine.Options{
		URL: address, Implied: implied, BaseURL: c.endpoint.baseURL, Model: c.server.Model,
		APIKey: c.APIKey, Headers: c.Headers, RootCAs: c.session.rootCAs, HTTP2: c.HTTPVersion == config.HTTP2,
	}
	if c.endpoint.embedded != nil {
		o.APIKey, o.Headers = "", nil // the key is for the configured host, and there is none
	}
	reader, err := engine.New(o)
	if err != nil {
		return nil, fmt.Errorf("reading the engine's metrics (CAPACITY_METRICS_URL): %w", err)
	}
	return reader, nil
}

// lastReading bounds the reading of the engine's counters after an interrupt.
const lastReading = 500 * time.Millisecond

// watched is a load with the engine's view of it.
type watched struct {
	reader   *engine.Reader
	sampler  *engine.Sampler
	identity *engine.Identity
}

// watchEngine begins to read the engine's counters, just before the load.
func (c *Cell) watchEngine(ctx context.Context) (*watched, error) {
	reader, err := c.engineReader()
	if err != nil {
		return nil, err
	}
	w := &watched{reader: reader}
	if c.MetricsURL != config.MetricsOff {
		if c.identity == nil {
			c.identity = reader.Identify(ctx, c.engineHint())
		}
		w.identity = c.identity
	}
	w.sampler = reader.Start(ctx, engine.DefaultInterval)
	return w, nil
}

// engineHint names the engine where it is known without asking.
func (c *Cell) engineHint() string {
	if c.endpoint.embedded != nil {
		return engine.RefServer
	}
	return c.Engine
}

// report ends the readings and folds them with what the client saw.
func (w *watched) report(ctx context.Context, records []record.Record) engine.Report {
	defer w.reader.Close()
	if ctx.Err() != nil {
		// After an interrupt the last reading is wanted all the same, and the
		// evidence must not wait long for it.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReading)
		defer cancel()
		ctx = bounded
	}
	return engine.NewReport(w.sampler.Stop(ctx), w.identity, engine.ClientOf(records))
}

// engineOf is the engine's view as the artifact keeps it, nil where there is
// nothing and nothing was asked for.
func engineOf(r engine.Report) *artifact.Engine {
	if r.Unavailable != nil && r.Unavailable.Fine && (r.Identity == nil || r.Identity.From == "") {
		return nil
	}
	detail, err := json.Marshal(r)
	if err != nil {
		return nil // a report of plain values; its round trip is tested
	}
	return &artifact.Engine{PrefixCacheQueries: r.PrefixCache.Queries, PrefixCacheHits: r.PrefixCache.Hits, Detail: detail}
}

// EngineVerdict puts the engine's view beside the client's. It fails only where
// CAPACITY_METRICS_URL names a place that gave nothing; what the two views
// disagree on is a finding for people. asked is false where there is nothing to
// say: no metrics were found and none were asked for.
func (c *Cell) EngineVerdict(out *Outcome) (v Verdict, asked bool) {
	r := out.Engine
	if r == nil || r.Unavailable != nil && r.Unavailable.Fine {
		return Verdict{}, false
	}
	if r.Unavailable != nil {
		return Verdict{Message: fmt.Sprintf("the engine's metrics (CAPACITY_METRICS_URL) were not read: %s", r.Unavailable.Reason)}, true
	}
	if len(r.Findings) == 0 {
		return Verdict{Passed: true, Message: "client and engine agree"}, true
	}
	return Verdict{Passed: true, Message: "findings, none of which fails the cell:\n" + strings.Join(r.Findings, "\n")}, true
}
