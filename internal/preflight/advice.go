package preflight

import (
	"errors"
	"fmt"
	"net/http"

	"anvil-capacity/internal/client"
)

// advise turns a failed request for the model list into what to do about it.
func advise(err error, o Options) string {
	var status *client.StatusError
	switch {
	case errors.As(err, &status):
		return statusAdvice(status.Status, o)
	case client.IsNotJSON(err):
		return "what answers there is not an OpenAI-compatible API: the base URL usually ends in /v1"
	}
	return "is the server running, and is CAPACITY_BASE_URL its address? For example http://localhost:8000/v1"
}

func statusAdvice(status int, o Options) string {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		if o.KeyGiven {
			return "the key was not accepted: check CAPACITY_API_KEY or CAPACITY_API_KEY_FILE"
		}
		return "a key is demanded and none is set: set CAPACITY_API_KEY or CAPACITY_API_KEY_FILE"
	case status == http.StatusNotFound:
		return fmt.Sprintf("nothing is served under %q: the base URL usually ends in /v1, and CAPACITY_MODEL must be a served one", o.BaseURL)
	case status >= 300 && status < 400:
		return "redirects are never followed, so that the key stays with its host: set CAPACITY_BASE_URL to the final address"
	case status == http.StatusTooManyRequests:
		return "the server refuses load before the cell has begun: wait, or raise its limit"
	case status >= 500:
		return "the server is there and broken, or still loading the model: look at its log"
	}
	return "look at the server's log for why it refused the request"
}
