package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/openai/openai-go/v3/option"

	"anvil-capacity/internal/chunk"
	"anvil-capacity/internal/record"
)

// Model is one entry of a server's model list.
type Model struct {
	ID string
	// MaxContextTokens is the model's context, prompt and output together, in
	// tokens; 0 where the server does not say.
	MaxContextTokens int
}

// ModelsBytes bounds the model list that is read.
const ModelsBytes = 8 << 20

// StatusError is a model list that was refused with a status.
type StatusError struct {
	// Status is the HTTP status, not 2xx.
	Status int
	// Type, Code and Text are the server's own words, "" where it gave none.
	Type, Code, Text string
	// Location is where a redirect points, without userinfo and query.
	Location string
	message  string
}

// Error tells status, the server's words and what was seen on the wire.
func (e *StatusError) Error() string { return e.message }

// NotJSONError is a 2xx whose body is not a model list.
type NotJSONError struct {
	// HTML says that the body is a page: the base URL leads to a site.
	HTML    bool
	message string
}

// Error tells what the body is instead.
func (e *NotJSONError) Error() string { return e.message }

// TransportError is a model list that no response came for.
type TransportError struct {
	// Detail says where it failed, as for a completion: dns, connect, tls, ...
	Detail  record.Detail
	Err     error // of the transport; nil for a time limit
	message string
}

// Error tells what broke.
func (e *TransportError) Error() string { return e.message }

// Unwrap gives the transport's own error.
func (e *TransportError) Unwrap() error { return e.Err }

// IsNotJSON says that err is, or wraps, a *NotJSONError.
func IsNotJSON(err error) bool {
	var not *NotJSONError
	return errors.As(err, &not)
}

// IsNotFound says that err is, or wraps, a *StatusError with status 404 or 405:
// the server has no model list.
func IsNotFound(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusMethodNotAllowed)
}

// Models asks for the list of served models, in the server's order. It gives a
// *StatusError, a *NotJSONError or a *TransportError. The limits of Options hold.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	x, limited, cancel := c.newExchange(ctx, nil)
	defer cancel()
	if err := c.get(limited, x); err != nil {
		return nil, c.transportError(ctx, limited, x, err, theModelList)
	}
	defer func() { _ = x.res.Body.Close() }()
	if code := x.res.StatusCode; code < 200 || code > 299 {
		return nil, c.statusError(x)
	}
	x.dog.enter(awaitOutput, x.header)
	body, _ := content(x.res)
	list, err := io.ReadAll(io.LimitReader(body, ModelsBytes))
	if err != nil {
		return nil, c.transportError(ctx, limited, x, err, theModelList)
	}
	return c.parseModels(list, x)
}

// get sends the request of x for the model list; an error means no response.
func (c *Client) get(ctx context.Context, x *exchange) error {
	var raw *http.Response
	_, err := c.models.List(ctx, option.WithResponseBodyInto(&raw))
	if x.res != nil {
		return nil
	}
	if err == nil {
		err = errors.New("no response and no error")
	}
	return err
}

// theModelList is what Models asks for, for messages.
const theModelList = "the model list"

// transportError says why what was asked for did not come.
func (c *Client) transportError(ctx, limited context.Context, x *exchange, err error, what string) error {
	limit, canceled := cause(limited, ctx)
	f := &fault{detail: record.TransportReset, text: "the connection broke in the middle of " + what, err: err}
	switch {
	case x.t0.IsZero() && !canceled:
		return fmt.Errorf("asking for %s: %s", what, c.safe(err.Error()))
	case x.res == nil:
		f = x.noAnswer(limit, canceled, c.opts)
	case canceled:
		f = &fault{detail: record.Canceled, text: "the run ended while " + what + " arrived"}
	case limit != nil:
		f = limitFault(limit, c.opts)
	}
	told := c.failure(f, x, nil, sinceStart(x))
	return &TransportError{Detail: f.detail, Err: f.err, message: told.Message}
}

func sinceStart(x *exchange) time.Duration {
	if x.t0.IsZero() {
		return 0
	}
	return x.sinceT0()
}

func (c *Client) statusError(x *exchange) error {
	head := x.readHead()
	server := parseServerError(new(chunk.Decoder), head)
	f := c.refused(x.res, server)
	e := &StatusError{
		Status: x.res.StatusCode,
		Type:   cut(c.safe(server.typ), errorTypeChars),
		Code:   cut(c.safe(server.code), errorTypeChars),
		Text:   cut(c.safe(server.text), serverTextChars),
	}
	if e.Status >= 300 && e.Status < 400 {
		e.Location = cut(c.safe(location(x.res)), headerChars)
	}
	e.message = c.failure(f, x, nil, x.sinceT0()).Message
	return e
}

// parseModels reads the list of OpenAI's shape, {"data": [...]}.
func (c *Client) parseModels(list []byte, x *exchange) ([]Model, error) {
	var page struct {
		Data *[]listedModel `json:"data"`
	}
	if err := json.Unmarshal(list, &page); err != nil || page.Data == nil {
		return nil, c.notJSON(list, x)
	}
	models := make([]Model, 0, len(*page.Data))
	for _, m := range *page.Data {
		if m.ID != "" {
			models = append(models, Model{ID: m.ID, MaxContextTokens: m.context()})
		}
	}
	return models, nil
}

// notJSON says what a body is that is no model list.
func (c *Client) notJSON(body []byte, x *exchange) error {
	f := &fault{detail: record.NotEventStream, text: "the answer is not a model list in JSON"}
	e := &NotJSONError{HTML: isHTML(body)}
	if e.HTML {
		f.server.text = pageText(body[:min(len(body), HeadBytes)])
	} else if server, ok := new(chunk.Decoder).DecodeError(body); ok {
		f.server = serverErrorOf(server)
	}
	if len(body) > 0 {
		f.data = body[:min(len(body), rawKept)]
	}
	e.message = c.failure(f, x, nil, x.sinceT0()).Message
	return e
}

// listedModel is a model as servers list it. The names of the context are
// tried in this order: vLLM and SGLang, LM Studio, OpenRouter and Together,
// llama.cpp.
type listedModel struct {
	ID               string `json:"id"`
	MaxModelLen      tokens `json:"max_model_len"`
	MaxContextLength tokens `json:"max_context_length"`
	ContextLength    tokens `json:"context_length"`
	Meta             struct {
		NCtx tokens `json:"n_ctx"`
	} `json:"meta"`
}

func (m listedModel) context() int {
	for _, n := range []tokens{m.MaxModelLen, m.MaxContextLength, m.ContextLength, m.Meta.NCtx} {
		if n > 0 {
			return int(n)
		}
	}
	return 0
}

// tokens is a count that may be null or of another type, which is 0: a list is
// not worth refusing over it.
type tokens int

// UnmarshalJSON takes a whole number of at least 1 and makes all else 0.
func (t *tokens) UnmarshalJSON(b []byte) error {
	var n float64
	if json.Unmarshal(b, &n) == nil && n >= 1 && n <= 1<<40 {
		*t = tokens(n)
	}
	return nil
}

// WarmTimeout bounds Warm.
const WarmTimeout = 10 * time.Second

// Warm connects the pool before a clock starts: n requests for the model list
// go out at once, and none of their bodies is read before all have their
// header, so that each needs a connection of its own. The connections then wait
// in the pool, for IdleTimeout. With HTTP/2 they may be fewer: one carries many
// requests.
//
// It gives the number of connections made or found, and the first error of
// those that were not. Any status will do: it is the connection that counts.
func (c *Client) Warm(ctx context.Context, n int) (connections int, err error) {
	if c.conns.fresh.Load() {
		return 0, nil // each request gets a connection of its own, before its clock starts
	}
	ctx, cancel := context.WithTimeout(ctx, WarmTimeout)
	defer cancel()
	var (
		answered sync.WaitGroup // all have a header or have failed
		finished sync.WaitGroup
		mu       sync.Mutex // guards connections and err
	)
	answered.Add(n)
	for range n {
		finished.Go(func() {
			failure := c.warmOne(ctx, &answered)
			mu.Lock()
			defer mu.Unlock()
			if failure == nil {
				connections++
			} else if err == nil {
				err = failure
			}
		})
	}
	finished.Wait()
	if err != nil {
		err = fmt.Errorf("connecting %d of %d connections: %w", connections, n, err)
	}
	return connections, err
}

// warmOne makes one connection and puts it into the pool.
func (c *Client) warmOne(ctx context.Context, answered *sync.WaitGroup) error {
	x, limited, cancel := c.newExchange(ctx, nil)
	defer cancel()
	err := c.get(limited, x)
	answered.Done()
	answered.Wait()
	if err != nil {
		return c.transportError(ctx, limited, x, err, theModelList)
	}
	x.dog.enter(awaitOutput, x.header)
	_, _ = io.Copy(io.Discard, io.LimitReader(x.res.Body, ModelsBytes)) // to its end, or the connection is not kept
	_ = x.res.Body.Close()
	return nil
}
