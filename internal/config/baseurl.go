package config

import (
	"net/url"
	"strconv"
	"strings"
)

const (
	// baseURLAllowed is what a base URL looks like.
	baseURLAllowed = "http:// or https://, a host and a path such as /v1"
	// baseURLExample stands in hints that cannot repeat what was given.
	baseURLExample = "http://localhost:8000/v1"
)

// endpoints are paths that the suite adds by itself.
var endpoints = []string{"/chat/completions", "/completions", "/models", "/responses"}

// baseURL parses an OpenAI-compatible base URL and normalises it: scheme in
// lower case, no trailing slash.
func baseURL(field func(*Settings) *string) kind {
	return kind{baseURLAllowed, func(v *value, s *Settings) {
		u, want, hint := parseBaseURL(v.text)
		if want != "" {
			v.report(shown(hideURLSecrets(v.text)), want, hint)
			return
		}
		*field(s) = u
	}}
}

// parseBaseURL gives the normalised URL, or what was wanted and a hint. Neither
// repeats any part of text that may be a secret: url.Parse's own errors would.
func parseBaseURL(text string) (normal, want, hint string) {
	if !strings.Contains(text, "://") {
		return "", "a scheme: " + baseURLAllowed, "write " + completed(text)
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", "a URL: " + baseURLAllowed, ""
	}
	if want, hint := checkAuthority(u); want != "" {
		return "", want, hint
	}
	if u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#") {
		return "", "no query and no fragment", "give a key as CAPACITY_API_KEY, anything else as CAPACITY_HEADERS"
	}
	path, endpoint := cutEndpoint(u)
	switch {
	case strings.Contains(u.Path, "@"):
		// A password with / in it ends the host early, and the rest of it would be
		// kept and shown as a path.
		return "", "no @ after the host", "give the key as CAPACITY_API_KEY, and no user or password in the URL"
	case endpoint != "":
		return "", "the URL without " + endpoint, "the suite adds it: write " + completed(text)
	case path == "":
		return "", "a path too, most often /v1", "write " + completed(text)
	}
	return u.Scheme + "://" + u.Host + path, "", ""
}

// checkAuthority looks at what stands before the path.
func checkAuthority(u *url.URL) (want, hint string) {
	switch {
	case u.User != nil:
		return "no user or password in it", "give the key as CAPACITY_API_KEY"
	case u.Scheme != "http" && u.Scheme != "https":
		return "the scheme http or https", ""
	case u.Hostname() == "":
		return "a host after ://", "write " + baseURLExample
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "a port, 1 to 65535", ""
		}
	}
	return "", ""
}

// cutEndpoint gives the path without trailing slashes and without an endpoint
// at its end, and that endpoint, "" where there is none.
func cutEndpoint(u *url.URL) (path, endpoint string) {
	path = strings.TrimRight(u.EscapedPath(), "/")
	for _, e := range endpoints {
		if rest, ok := strings.CutSuffix(path, e); ok {
			return strings.TrimRight(rest, "/"), e
		}
	}
	return path, ""
}

// completed gives text as a whole base URL, or an example where text may hold a
// secret or is nothing like a host.
func completed(text string) string {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	plain := err == nil && len(text) <= shownLimitChars && printable(text) && hideURLSecrets(text) == text
	if !plain || u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "http") {
		return baseURLExample
	}
	path, _ := cutEndpoint(u)
	if path == "" {
		path = "/v1"
	}
	return u.Scheme + "://" + u.Host + path
}

// hideURLSecrets replaces what may be userinfo, query or fragment. It goes by
// the text alone, since it must hold for a URL that does not parse.
func hideURLSecrets(text string) string {
	scheme, rest := "", text
	if i := strings.Index(text, "://"); i >= 0 && isToken(text[:i], "+-.") {
		scheme, rest = text[:i+3], text[i+3:]
	}
	at := max(strings.LastIndex(rest, "@"), strings.LastIndex(rest, "%40"))
	query := strings.IndexAny(rest, "?#")
	if 0 <= query && query < at {
		return scheme + redacted // a password with ?, or a query with @: either may go on after it
	}
	if query >= 0 {
		rest = rest[:query+1] + redacted
	}
	if at >= 0 {
		rest = redacted + rest[at:]
	}
	return scheme + rest
}
