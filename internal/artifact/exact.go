package artifact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// Exact is a JSON number copied token for token from one file to another: not
// even 3613.0 becomes 3613 on the way. The zero value is null, which is what a
// metric has that was not measured.
type Exact struct{ token string }

// Float64 gives the number; nil for null.
func (e Exact) Float64() *float64 {
	if e.token == "" {
		return nil
	}
	v, err := strconv.ParseFloat(e.token, 64)
	if err != nil {
		return nil
	}
	return &v
}

// String is the token as it stands in the file.
func (e Exact) String() string {
	if e.token == "" {
		return "null"
	}
	return e.token
}

// MarshalJSON writes the token.
func (e Exact) MarshalJSON() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalJSON keeps the token of a number or null and refuses anything else,
// a number that no float64 holds included.
func (e *Exact) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if string(data) == "null" {
		e.token = ""
		return nil
	}
	// Only JSON numbers are both valid JSON and a float to strconv.
	if _, err := strconv.ParseFloat(string(data), 64); err != nil || !json.Valid(data) {
		return fmt.Errorf("reading a number: got %.40s", data)
	}
	e.token = string(data)
	return nil
}
