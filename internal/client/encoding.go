package client

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// errEncoding says that a body has an encoding that was not asked for and is
// not known here.
var errEncoding = errors.New("the body has an unknown Content-Encoding")

// content gives the body of a response decoded. Identity was asked for; a body
// that is compressed all the same can be read, but its events come in the
// compressor's portions and not as the server made them (WIRE 22).
func content(res *http.Response) (body io.Reader, encoded bool) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(res.Header.Values("Content-Encoding"), ",")))
	switch coding {
	case "", "identity":
		return res.Body, false
	case "gzip", "x-gzip":
		return &lazyReader{from: res.Body, open: func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }}, true
	case "deflate":
		return &lazyReader{from: res.Body, open: openDeflate}, true
	}
	return &lazyReader{open: func(io.Reader) (io.Reader, error) {
		return nil, fmt.Errorf("%w: %.40q", errEncoding, coding)
	}}, true
}

// lazyReader opens a decoder at the first read: opening waits for bytes.
type lazyReader struct {
	from io.Reader
	open func(io.Reader) (io.Reader, error)
	to   io.Reader
	err  error
}

func (l *lazyReader) Read(p []byte) (int, error) {
	if l.to == nil && l.err == nil {
		l.to, l.err = l.open(l.from)
	}
	if l.err != nil {
		return 0, l.err
	}
	return l.to.Read(p)
}

// openDeflate reads what servers call deflate: by the book zlib, by habit often
// bare deflate data. The first byte tells: 8 in its low bits is zlib's mark.
func openDeflate(from io.Reader) (io.Reader, error) {
	r := bufio.NewReader(from)
	first, err := r.Peek(1)
	if err != nil {
		return nil, err
	}
	if first[0]&0x0f == 8 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

// isCorrupt says that an error is a decoder's and not the connection's.
func isCorrupt(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.As(err, &corrupt) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) ||
		errors.Is(err, zlib.ErrHeader) || errors.Is(err, zlib.ErrChecksum) || errors.Is(err, zlib.ErrDictionary)
}
