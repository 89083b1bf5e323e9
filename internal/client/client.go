// Package client makes streamed chat completions and reports what it saw: one
// request gives one Observation, with its clock readings, its text, the
// server's own counts, and what was wrong, if anything was.
//
// The request goes out through openai-go, which carries types, authorization
// and options; the stream is read here, from the raw body, since a measuring
// client stamps arrivals at the read and needs framing that the library does
// not promise. Nothing is retried, no redirect is followed, no proxy is used,
// and nothing comes from the process environment.
//
// # Clock
//
// t0 is taken when the transport is handed the request, whose body was made
// before. An event arrived when the read that completed it returned, and that
// time is taken before anything is parsed; all events of one read have one
// time. PROTOCOL section 1 defines what is measured from these.
//
// # Limits
//
// The total, stall and header limits of [Options] each end a request. One timer
// a request is armed for the earliest of them and armed again only when it
// fires too early, so that an event costs no timer.
package client

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"anvil-capacity/internal/record"
)

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	opts    Options
	conns   *connections
	chat    openai.ChatCompletionService
	models  openai.ModelService
	secrets secrets
	readers sync.Pool // of *reader
}

// New makes a client and sends nothing.
func New(o Options) (*Client, error) {
	base, err := o.check()
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	o.BaseURL = base.String()
	c := &Client{opts: o, conns: newConnections(o), secrets: secretsOf(o)}
	opts := requestOptions(o, httpClient(c.conns, hostHeader(o)))
	c.chat = openai.NewChatCompletionService(opts...)
	c.models = openai.NewModelService(opts...)
	c.readers.New = func() any { return newReader(EventLimitBytes(o.Concurrency)) }
	return c, nil
}

// Close lets idle connections go. Requests in flight are not touched, and the
// client can still be used.
func (c *Client) Close() { c.conns.closeIdle() }

// Observation is what one request looked like from here. Times are zero and
// marked as not seen (Has...) where the event did not happen.
type Observation struct {
	// Start is t0, with its monotonic reading. End is when the request was over:
	// for a whole answer Start + E2E, never the time that a connection lingers.
	Start, End time.Time

	// TTFO, TTFT and E2E are the times from Start to the first output, to the
	// first visible text and to the end of the answer (PROTOCOL section 1).
	// TTFO <= TTFT <= E2E holds among those that were seen.
	TTFO, TTFT, E2E          time.Duration
	HasTTFO, HasTTFT, HasE2E bool

	// Text is the visible text, verbatim, up to the capture's limit;
	// Response.TextTruncated says that there was more.
	Text     string
	Tokens   record.Tokens
	Response record.Response
	// Failure is nil when the server gave a whole visible answer. Usage and
	// contents are judged elsewhere.
	Failure *record.Failure

	// Reads counts the reads of the body that gave bytes; EventReads those that
	// completed an event, CrowdedReads those that completed several at once.
	Reads, EventReads, CrowdedReads int

	// Arrivals are the times from Start to each output event, as TTFO is to the
	// first; nil without Options.KeepArrivals. ArrivalsTruncated says that there
	// were more than ArrivalsMost.
	Arrivals          []time.Duration
	ArrivalsTruncated bool
}

// Complete sends one request, whose body [Body] or a [Template] made, and reads
// its answer to the end. It is never retried; what went wrong is in the
// Observation. When ctx ends, the request ends at once, as canceled. The body
// is not kept.
func (c *Client) Complete(ctx context.Context, body []byte) Observation {
	return *c.complete(ctx, body)
}

// complete is Complete. Observations go by pointer below here, and what sends is
// apart from what reads: large frames on the way down to the socket would cost
// each of 1,000 waiting streams a stack of twice the size.
func (c *Client) complete(ctx context.Context, body []byte) *Observation {
	x, limited, cancel := c.newExchange(ctx, body)
	defer cancel()
	err := c.send(limited, x)
	if x.t0.IsZero() {
		return c.unsent(err)
	}
	if x.res == nil {
		limit, canceled := cause(limited, ctx)
		return c.observe(x, nil, x.noAnswer(limit, canceled, c.opts), x.header)
	}
	defer func() { _ = x.res.Body.Close() }()
	if code := x.res.StatusCode; code < 200 || code > 299 {
		return c.observeRefusal(x)
	}
	return c.observeStream(ctx, limited, x)
}

// send hands the request to the transport, and comes back with the response
// header, which x then has, or without.
func (c *Client) send(ctx context.Context, x *exchange) error {
	var raw *http.Response // of openai-go: the exchange has the one with the body
	_, err := c.chat.New(ctx, openai.ChatCompletionNewParams{},
		option.WithRequestBody("application/json", x.body), option.WithResponseBodyInto(&raw))
	return err
}

// unsent reports a request that the transport was never handed, which is a
// fault of this suite: all that a user can get wrong was refused by New.
func (c *Client) unsent(err error) *Observation {
	now := time.Now()
	f := record.Failure{Class: record.RunnerError, ErrorType: fmt.Sprintf("%T", err)}
	f.Message, f.MessageTruncated = record.Clip("the request was not sent: " + c.safe(fmt.Sprint(err)))
	return &Observation{Start: now, End: now, Failure: &f}
}

// observeRefusal reports a status other than 2xx.
func (c *Client) observeRefusal(x *exchange) *Observation {
	r := c.readers.Get().(*reader)
	defer c.putBack(r)
	head := x.readHead()
	server := parseServerError(&r.decoder, head)
	s := r.begin(x)
	s.bytes = int64(len(head))
	if len(head) > 0 {
		s.raw.add(head)
	}
	return c.observe(x, s, c.refused(x.res, server), x.sinceT0())
}

// readHead reads the start of a body, for HeadTimeout at most. A body that ends
// before HeadBytes is read to its end, and its connection kept.
func (x *exchange) readHead() []byte {
	x.dog.enter(awaitHead, x.sinceT0())
	body, _ := content(x.res)
	head, _ := io.ReadAll(io.LimitReader(body, HeadBytes)) // what there is will do
	return head
}

// observeStream reads and judges the body of a 2xx.
func (c *Client) observeStream(ctx, limited context.Context, x *exchange) *Observation {
	r := c.readers.Get().(*reader)
	defer c.putBack(r)
	s := r.begin(x)
	s.labelled, s.safe, s.keepArrivals = isEventStream(x.res), c.safe, c.opts.KeepArrivals
	x.dog.enter(awaitOutput, x.header)
	body, encoded := content(x.res)
	err := s.read(body)
	var limit error
	var canceled bool
	if err != nil && err != io.EOF { // a body that ended was not ended by a limit that passes now
		limit, canceled = cause(limited, ctx)
	}
	f := s.verdict(x.res, err, limit, canceled, c.opts)
	took := x.sinceT0()
	if end := s.e2e(); end.set {
		took = end.at
	}
	obs := c.observe(x, s, f, took)
	s.report(obs, c)
	if encoded {
		obs.Response.Flags = append(obs.Response.Flags, record.FlagContentEncoded)
	}
	slices.Sort(obs.Response.Flags)
	return obs
}

// putBack gives a reader to the next request, and keeps nothing of this one alive.
func (c *Client) putBack(r *reader) {
	r.stream = stream{}
	c.readers.Put(r)
}

// observe makes what all observations have: s is nil without a response, f nil
// without a failure.
func (c *Client) observe(x *exchange, s *stream, f *fault, took time.Duration) *Observation {
	obs := &Observation{Start: x.t0, End: x.t0.Add(took)}
	obs.Response.Connection = x.connection()
	if x.res != nil {
		obs.Response.HTTPStatus = x.res.StatusCode
		obs.Response.RequestID = c.requestID(x.res.Header)
	}
	if s != nil {
		obs.Response.BytesRead = s.bytes
	}
	if f != nil {
		obs.Failure = c.failure(f, x, s, took)
	}
	return obs
}

// isEventStream says that a response calls itself one.
func isEventStream(res *http.Response) bool {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return err == nil && media == "text/event-stream"
}
