// Package memnet is a network in memory for tests in virtual time: a listener
// and buffered connections that never leave the process, so that clients,
// servers and timers can run inside one testing/synctest bubble. A real socket
// there would stop the clock (a goroutine in real network I/O is not durably
// blocked), and net.Pipe has no buffer, so that a slow reader would move the
// writer's clock.
//
// Inside a bubble the listener and every connection must be made inside it.
// What is written is readable at the same instant: the network takes no time.
package memnet

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
)

// BufferBytes is how much one direction of a connection holds before a write
// waits for the reader, as the send and receive buffers of a kernel would.
const BufferBytes = 256 << 10

// Listener hands dialed connections to Accept. It is a [net.Listener], safe
// for concurrent use. The zero value is not usable; call [Listen].
type Listener struct {
	addr   addr
	dialed chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Listen makes a listener. It has no port: every dial through its DialContext
// arrives here, whatever address was asked for.
func Listen() *Listener {
	return &Listener{addr: "memnet", dialed: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept waits for the next dial. After Close it returns [net.ErrClosed].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close refuses further dials; connections that stand are not touched. It
// never fails.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is a fixed name on the network "mem".
func (l *Listener) Addr() net.Addr { return l.addr }

// DialContext connects to the listener and waits until it is accepted. It has
// the signature of [net.Dialer.DialContext]; network and address are ignored.
// A closed listener refuses with ECONNREFUSED, as a closed port does.
func (l *Listener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	up, down := newHalf(), newHalf()
	client := &Conn{local: "client", remote: l.addr, in: down, out: up}
	server := &Conn{local: l.addr, remote: "client", in: up, out: down}
	select {
	case l.dialed <- server:
		return client, nil
	case <-l.closed:
		return nil, l.refused()
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "mem", Addr: l.addr, Err: ctx.Err()}
	}
}

func (l *Listener) refused() error {
	return &net.OpError{Op: "dial", Net: "mem", Addr: l.addr,
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// addr is a [net.Addr] by name.
type addr string

func (a addr) Network() string { return "mem" }
func (a addr) String() string  { return string(a) }
