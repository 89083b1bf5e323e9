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
	from  io.Reader
	open  func(io.Reader) (io.Reader, error)
	to    io.Reader
	err   error
	ended bool // the decoder has given its last byte
}

func (l *lazyReader) Read(p []byte) (n int, err error) {
	if l.to == nil && l.err == nil {
		l.to, l.err = l.open(l.from)
	}
	switch {
	case l.err != nil:
		return 0, l.err
	case l.ended:
		l.err = l.finish(p)
		return 0, l.err
	}
	n, err = l.to.Read(p)
	if err == io.EOF {
		// What was decoded goes out first: it arrived now, whenever the rest does.
		l.ended, err = true, nil
	}
	return n, err
}

// finish reads the body on to its own end, or to DrainBytes: a decoder stops at
// the end of what it decodes, and the connection would not be used again.
func (l *lazyReader) finish(scratch []byte) error {
	for left := DrainBytes; left > 0; {
		n, err := l.from.Read(scratch)
		if err != nil {
			return err
		}
		left -= n
	}
	return io.EOF
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
