package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// ReplyBytes bounds the reply to a Post: a list of the token ids of the largest
// prompt is below it.
const ReplyBytes = 32 << 20

// Post sends JSON to a path of the server that is not OpenAI's, such as vLLM's
// /tokenize beside /v1, and gives the body of a 2xx as it is. target is a whole
// URL; it must have scheme and host of the base URL, for the key and the headers
// go with it. It gives a *StatusError, a *TransportError, or another error for
// a reply of more than ReplyBytes. The limits of Options hold, the whole reply
// counting as one output.
func (c *Client) Post(ctx context.Context, target string, body []byte) ([]byte, error) {
	u, err := c.ownURL(target)
	if err != nil {
		return nil, err
	}
	x, limited, cancel := c.newExchange(ctx, body)
	defer cancel()
	x.json = true
	what := "the reply of " + u.Path
	if err := c.post(limited, x, u); err != nil {
		return nil, c.transportError(ctx, limited, x, err, what)
	}
	defer func() { _ = x.res.Body.Close() }()
	if code := x.res.StatusCode; code < 200 || code > 299 {
		return nil, c.statusError(x)
	}
	x.dog.enter(awaitOutput, x.header)
	reader, _ := content(x.res)
	reply, err := io.ReadAll(io.LimitReader(reader, ReplyBytes+1))
	switch {
	case err != nil:
		return nil, c.transportError(ctx, limited, x, err, what)
	case len(reply) > ReplyBytes:
		return nil, fmt.Errorf("reading %s: it has more than %d bytes", what, ReplyBytes)
	}
	return reply, nil
}

// ownURL reads a URL of the server that this client is for.
func (c *Client) ownURL(target string) (*url.URL, error) {
	u, err := checkBaseURL(target)
	if err != nil {
		return nil, fmt.Errorf("posting to another path of the server: %w", err)
	}
	base, err := url.Parse(c.opts.BaseURL)
	if err != nil || u.Scheme != base.Scheme || !strings.EqualFold(u.Host, base.Host) {
		return nil, fmt.Errorf("posting to %q: it is not on the host of the base URL, which the key is for", c.safe(u.Host))
	}
	return u, nil
}

// post sends the request of x to u; an error means no response. openai-go knows
// no such path: it makes a chat completion request, which is turned round last.
func (c *Client) post(ctx context.Context, x *exchange, u *url.URL) error {
	var raw *http.Response
	_, err := c.chat.New(ctx, openai.ChatCompletionNewParams{},
		option.WithRequestBody("application/json", x.body), option.WithResponseBodyInto(&raw),
		option.WithMiddleware(func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			req.URL = u
			return next(req)
		}))
	if x.res != nil {
		return nil
	}
	if err == nil {
		err = errors.New("no response and no error")
	}
	return err
}
