package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Conn is one end of a buffered connection: a [net.Conn] with deadlines, and
// with SetLinger and CloseWrite like a [net.TCPConn]. Safe for concurrent use.
type Conn struct {
	local, remote addr
	in, out       *half

	mu     sync.Mutex // guards linger
	linger int        // 0 makes Close a reset; see SetLinger
	set    bool       // linger was set
}

// Read gives what has arrived, or waits for some. After the peer's Close it
// gives the rest and then [io.EOF]; after a reset, ECONNRESET at once.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.opError("read", err)
}

// Write buffers p and returns; it waits only while the peer has BufferBytes
// unread. Writing to a closed peer fails with EPIPE.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.opError("write", err)
}

// Close ends both directions: the peer reads what was written and then
// [io.EOF], or ECONNRESET when SetLinger(0) came before. It never fails.
func (c *Conn) Close() error {
	c.mu.Lock()
	reset := c.set && c.linger == 0
	c.mu.Unlock()
	if reset {
		c.out.reset()
		c.in.reset()
	}
	c.out.closeWriter()
	c.in.closeReader()
	return nil
}

// CloseWrite ends the sending direction alone: the peer reads [io.EOF] after
// what was written.
func (c *Conn) CloseWrite() error {
	c.out.closeWriter()
	return nil
}

// SetLinger with 0 makes the next Close a reset that throws away what the peer
// has not read; any other value has no effect.
func (c *Conn) SetLinger(sec int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.linger, c.set = sec, true
	return nil
}

// LocalAddr and RemoteAddr are names on the network "mem".
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the other end's name.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines; the zero time is none.
func (c *Conn) SetDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

// SetReadDeadline makes reads fail with [os.ErrDeadlineExceeded] from t on,
// those that wait included.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	return nil
}

// SetWriteDeadline is SetReadDeadline for writes.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

// opError dresses an error as the net package would; io.EOF stays bare.
func (c *Conn) opError(op string, err error) error {
	switch err {
	case nil, io.EOF:
		return err
	}
	if errno, ok := err.(syscall.Errno); ok {
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: "mem", Source: c.local, Addr: c.remote, Err: err}
}

// half is one direction: bytes from a writer to a reader.
type half struct {
	mu      sync.Mutex
	changed *sync.Cond // any field below changed

	buf          []byte
	start        int // buf[start:] is unread
	writerClosed bool
	readerClosed bool
	wasReset     bool
	readBy       deadline
	writeBy      deadline
}

func newHalf() *half {
	h := &half{}
	h.changed = sync.NewCond(&h.mu)
	return h
}

func (h *half) unread() int { return len(h.buf) - h.start }

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.readerClosed:
			return 0, net.ErrClosed
		case h.readBy.passed:
			return 0, os.ErrDeadlineExceeded
		case h.wasReset:
			return 0, syscall.ECONNRESET
		case len(p) == 0:
			return 0, nil
		case h.unread() > 0:
			return h.take(p), nil
		case h.writerClosed:
			return 0, io.EOF
		}
		h.changed.Wait()
	}
}

// take moves unread bytes to p, and begins the buffer anew when it is empty so
// that a long stream holds no more than what is unread.
func (h *half) take(p []byte) int {
	n := copy(p, h.buf[h.start:])
	h.start += n
	if h.unread() == 0 {
		h.buf, h.start = h.buf[:0], 0
	}
	h.changed.Broadcast()
	return n
}

func (h *half) write(p []byte) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.writerClosed:
			return n, net.ErrClosed
		case h.writeBy.passed:
			return n, os.ErrDeadlineExceeded
		case h.wasReset:
			return n, syscall.ECONNRESET
		case h.readerClosed:
			return n, syscall.EPIPE
		}
		room := min(BufferBytes-h.unread(), len(p)-n)
		if room > 0 {
			h.put(p[n : n+room])
			n += room
		}
		if n == len(p) {
			return n, nil
		}
		h.changed.Wait()
	}
}

// put appends to the buffer, over the bytes already read where that saves growth.
func (h *half) put(p []byte) {
	if h.start > 0 && len(h.buf)+len(p) > cap(h.buf) {
		h.buf = h.buf[:copy(h.buf, h.buf[h.start:])]
		h.start = 0
	}
	h.buf = append(h.buf, p...)
	h.changed.Broadcast()
}

func (h *half) closeWriter() { h.set(&h.writerClosed) }
func (h *half) closeReader() { h.set(&h.readerClosed) }
func (h *half) reset()       { h.set(&h.wasReset) }

func (h *half) set(flag *bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*flag = true
	h.changed.Broadcast()
	if h.writerClosed && h.readerClosed {
		h.readBy.stop()
		h.writeBy.stop()
	}
}

// deadline says whether a time limit has passed.
type deadline struct {
	passed bool
	timer  *time.Timer
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (h *half) setDeadline(d *deadline, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.stop()
	d.passed = !t.IsZero() && !t.After(time.Now())
	if !t.IsZero() && !d.passed {
		var timer *time.Timer
		timer = time.AfterFunc(time.Until(t), func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if d.timer == timer { // not replaced since
				d.passed = true
				h.changed.Broadcast()
			}
		})
		d.timer = timer
	}
	h.changed.Broadcast()
}
