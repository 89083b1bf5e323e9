package suite

import (
	"context"
	"fmt"
	"time"

	"anvil-capacity/internal/client"
	"anvil-capacity/internal/config"
	"anvil-capacity/internal/preflight"
	"anvil-capacity/internal/refserver"
)

// EmbeddedEngine is the engine that an artifact of the embedded endpoint names,
// whatever CAPACITY_ENGINE says: no one can mistake it for a model's.
const EmbeddedEngine = "refserver"

// endpoint is the server that a cell runs against, and the client for it.
type endpoint struct {
	baseURL  string
	client   *client.Client
	embedded *refserver.Server // nil for a live server
	// redact takes the cell's secrets out of a text, also those that are not
	// sent to the embedded endpoint.
	redact func(text string) string
}

// openEndpoint makes the client of a cell, and starts the embedded endpoint
// where no base URL was given.
func (s *Session) openEndpoint(cell config.Cell) (*endpoint, error) {
	e := &endpoint{baseURL: cell.BaseURL, redact: client.Redactor(client.Options{APIKey: cell.APIKey, Headers: cell.Headers})}
	options := client.Options{
		APIKey: cell.APIKey, Headers: cell.Headers, RootCAs: s.rootCAs, HTTPVersion: cell.HTTPVersion,
		Timeout: cell.Timeout, StallTimeout: cell.StallTimeout, Concurrency: cell.Concurrency,
		KeepArrivals: cell.Gaps == config.GapsAll,
	}
	if cell.Embedded() {
		server, err := startEmbedded()
		if err != nil {
			return nil, err
		}
		e.embedded, e.baseURL = server, server.URL()
		options.APIKey, options.Headers = "", nil // the key is for the configured host, and there is none
	}
	options.BaseURL = e.baseURL
	c, err := client.New(options)
	if err != nil {
		e.close()
		return nil, err
	}
	e.client = c
	return e, nil
}

func startEmbedded() (*refserver.Server, error) {
	server, err := refserver.New(refserver.EmbeddedOptions())
	if err != nil {
		return nil, fmt.Errorf("making the embedded endpoint: %w", err)
	}
	if err := server.Start("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("starting the embedded endpoint: %w", err)
	}
	return server, nil
}

// closeTimeout bounds the end of the embedded endpoint.
const closeTimeout = 5 * time.Second

func (e *endpoint) close() {
	if e.client != nil {
		e.client.Close()
	}
	if e.embedded == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = e.embedded.Shutdown(ctx) // the run is over; its evidence does not depend on this
}

// preflightOptions asks the server with the cell's own request options.
func (c *Cell) preflightOptions() preflight.Options {
	return preflight.Options{
		Server: c.endpoint.client, BaseURL: c.endpoint.baseURL,
		Model: c.Model, MaxModelLen: c.MaxModelLen, Params: c.params(),
		RequireUsage: c.Usage == config.UsageRequire, KeyGiven: c.APIKey != "", Redact: c.endpoint.redact,
	}
}
