package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// FileLimitBytes bounds an artifact or journal that is read. 10,000 requests
// that all failed with the longest messages stay below it.
const FileLimitBytes = 512 << 20

// Errors of reading, for errors.Is.
var (
	// ErrEmpty says that the file has no content.
	ErrEmpty = errors.New("file is empty")
	// ErrSchema says that the file is not of the schema that was asked for.
	ErrSchema = errors.New("not the right schema")
	// ErrPartial says that the artifact is of a run that was cut short.
	ErrPartial = errors.New("artifact is partial")
)

// ReadNative reads a native artifact, of this suite or of another
// implementation of the protocol. It refuses what no gate may pass on: a file
// that is missing, empty, too large, not JSON (NaN and Infinity are not), of
// another schema, partial, or whose counts and rows contradict each other. It
// does not apply Validate, which holds an artifact to the present protocol.
// Every error names the file.
func ReadNative(path string) (Native, error) {
	n, err := ReadPartial(path)
	if err != nil {
		return Native{}, err
	}
	if reason, partial := n.Partial(); partial {
		return Native{}, fmt.Errorf("reading artifact %q: %w: %s", path, ErrPartial, reason)
	}
	return n, nil
}

// ReadPartial is ReadNative for tools that look at evidence without judging it:
// it takes partial artifacts too. Ask Native.Partial.
func ReadPartial(path string) (Native, error) {
	data, err := readFile(path)
	if err != nil {
		return Native{}, fmt.Errorf("reading artifact %q: %w", path, err)
	}
	n, err := decodeNative(data)
	if err != nil {
		return Native{}, fmt.Errorf("reading artifact %q: %w", path, err)
	}
	return n, nil
}

// readFile reads a regular file of bounded size.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file: %s", info.Mode().Type())
	}
	if info.Size() > FileLimitBytes {
		return nil, fmt.Errorf("file has %d bytes, want at most %d", info.Size(), FileLimitBytes)
	}
	data := make([]byte, 0, info.Size()+1)
	return readBounded(f, data, FileLimitBytes)
}

// readBounded appends what r holds to data, up to limit: a file that grows
// while it is read does not get past it.
func readBounded(r io.Reader, data []byte, limit int) ([]byte, error) {
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		got, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+got]
		switch {
		case len(data) > limit:
			return nil, fmt.Errorf("file has more than %d bytes", limit)
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		}
	}
}

// decodeNative is ReadPartial on bytes.
func decodeNative(data []byte) (Native, error) {
	var n Native
	if err := decodeAs(data, NativeSchema, &n, &n.Schema); err != nil {
		return Native{}, err
	}
	if err := n.check(); err != nil {
		return Native{}, err
	}
	return n, nil
}

// decodeAs decodes a file of the schema into v, whose schema field is got.
func decodeAs(data []byte, schema string, v any, got *string) error {
	if len(data) == 0 {
		return ErrEmpty
	}
	err := json.Unmarshal(data, v)
	if err == nil && *got == schema {
		return nil
	}
	if fault := schemaFault(data, schema); fault != nil {
		return fault
	}
	return explainJSON(data, err)
}

// schemaFault says that well-formed JSON is of another schema, so that a file
// of another kind is called that and not a malformed artifact. Nil when the
// schema is right or the JSON is broken.
func schemaFault(data []byte, want string) error {
	var head struct {
		Schema json.RawMessage `json:"schema"`
	}
	var got string
	err := json.Unmarshal(data, &head)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return nil
	}
	if err != nil || json.Unmarshal(head.Schema, &got) != nil || got == "" {
		return fmt.Errorf("%w: no schema, want %q", ErrSchema, want)
	}
	if got != want {
		return fmt.Errorf("%w: got %q, want %q", ErrSchema, clipText(got), want)
	}
	return nil
}

// explainJSON says where the JSON is broken, and names the usual suspect.
func explainJSON(data []byte, err error) error {
	syntax := (*json.SyntaxError)(nil)
	if !errors.As(err, &syntax) {
		return fmt.Errorf("parsing JSON: %w", err)
	}
	at := max(0, int(syntax.Offset)-1)
	rest := strings.TrimPrefix(string(data[min(at, len(data)):min(at+10, len(data))]), "-")
	hint := ""
	for _, word := range []string{"NaN", "Infinity"} {
		if strings.HasPrefix(rest, word) {
			hint = "; " + word + " is not a JSON number: the writer had a value that was not measured and did not say null"
		}
	}
	if at >= len(data)-1 {
		hint = "; the file ends early"
	}
	return fmt.Errorf("parsing JSON at byte %d: %w%s", syntax.Offset, err, hint)
}

// check is the light check of reading: the counts say one thing, and the rows
// are as many as they say. It holds for every protocol version.
func (n *Native) check() error {
	switch {
	case n.Requests < 1:
		return fmt.Errorf("requests is %d, want at least 1: nothing was measured", n.Requests)
	case n.Completed < 0 || n.Failed < 0 || n.Completed > n.Requests || n.Failed > n.Requests-n.Completed:
		return fmt.Errorf("counts contradict each other: requests %d, completed %d, failed %d", n.Requests, n.Completed, n.Failed)
	case len(n.Failures) != n.Failed:
		return fmt.Errorf("failures has %d rows, failed says %d", len(n.Failures), n.Failed)
	case n.RequestTimings != nil && len(n.RequestTimings) != n.Completed:
		return fmt.Errorf("request_timings has %d rows, completed says %d", len(n.RequestTimings), n.Completed)
	case n.Metrics == nil:
		return errors.New("metrics is missing")
	}
	return nil
}

// HashFile is the SHA-256 of a file's bytes in lower-case hex: how one artifact
// names another.
func HashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("hashing %q: %w", path, err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hashing %q: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ScoutFrom makes the link to a scout from its native artifact. A partial scout
// links too, with as many requests as it sent: they have warmed the server all
// the same. One that sent nothing is an error.
func ScoutFrom(path string) (Scout, error) {
	n, err := ReadPartial(path)
	if err != nil {
		return Scout{}, err
	}
	sent := n.Completed + n.Failed
	if sent == 0 {
		return Scout{}, fmt.Errorf("linking scout %q: it sent no request", path)
	}
	hash, err := HashFile(path)
	if err != nil {
		return Scout{}, err
	}
	return Scout{
		Artifact: filepath.Base(path), RunID: n.RunID, SHA256: hash,
		Requests: sent, ContextSeed: orZero(n.ContextSeed),
	}, nil
}

// clipText bounds foreign text in an error.
func clipText(s string) string {
	const limit = 80
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}
