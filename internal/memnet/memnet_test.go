package memnet_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/memnet"
)

// pair gives both ends of one connection.
func pair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	ln := memnet.Listen()
	t.Cleanup(func() { _ = ln.Close() })
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			accepted <- c
		}
	}()
	client, err := ln.DialContext(t.Context(), "tcp", "anything:1")
	require.NoError(t, err)
	server = <-accepted
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	return client, server
}

func TestWritesDoNotWaitForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pair(t)
		began := time.Now()
		for range 3 {
			time.Sleep(100 * time.Millisecond)
			_, err := server.Write([]byte("x"))
			require.NoError(t, err)
		}
		assert.Equal(t, 300*time.Millisecond, time.Since(began), "a reader that reads nothing moved the writer's clock")
		got := make([]byte, 8)
		n, err := client.Read(got)
		require.NoError(t, err)
		assert.Equal(t, "xxx", string(got[:n]))
	})
}

func TestBufferIsBounded(t *testing.T) {
	rows := []struct {
		name  string
		bytes int
		waits bool
		why   string
	}{
		{"one under", memnet.BufferBytes - 1, false, "there is room for one more"},
		{"full", memnet.BufferBytes, false, "the last byte still fits"},
		{"one over", memnet.BufferBytes + 1, true, "a kernel's buffer is full too, and the write waits for the reader"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := pair(t)
				sent := bytes.Repeat([]byte("ab"), memnet.BufferBytes)[:row.bytes]
				returned := make(chan struct{})
				go func() {
					n, err := server.Write(sent)
					assert.NoError(t, err)
					assert.Equal(t, len(sent), n)
					close(returned)
				}()
				synctest.Wait()
				select {
				case <-returned:
					assert.False(t, row.waits, row.why)
				default:
					assert.True(t, row.waits, row.why)
				}
				got := make([]byte, len(sent))
				_, err := io.ReadFull(client, got)
				require.NoError(t, err)
				assert.True(t, bytes.Equal(sent, got))
				<-returned
			})
		})
	}
}

func TestEnds(t *testing.T) {
	rows := []struct {
		name string
		end  func(server net.Conn)
		text string
		want error
		why  string
	}{
		{"close", func(s net.Conn) { _ = s.Close() }, "tail", io.EOF, "what was written is read before the end"},
		{"half close", func(s net.Conn) { _ = s.(*memnet.Conn).CloseWrite() }, "tail", io.EOF, "a FIN ends one direction"},
		{"reset", func(s net.Conn) { _ = s.(*memnet.Conn).SetLinger(0); _ = s.Close() }, "", syscall.ECONNRESET,
			"a reset throws away what was not read"},
		{"linger other than 0", func(s net.Conn) { _ = s.(*memnet.Conn).SetLinger(5); _ = s.Close() }, "tail", io.EOF,
			"only linger 0 resets"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			client, server := pair(t)
			_, err := server.Write([]byte("tail"))
			require.NoError(t, err)
			row.end(server)
			got, err := io.ReadAll(client)
			if row.want == io.EOF {
				require.NoError(t, err, row.why)
			} else {
				require.ErrorIs(t, err, row.want, row.why)
			}
			assert.Equal(t, row.text, string(got), row.why)
		})
	}
}

func TestUseAfterClose(t *testing.T) {
	client, server := pair(t)
	require.NoError(t, client.Close())
	_, err := client.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = client.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = server.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE, "the reader is gone")
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pair(t)
		began := time.Now()
		require.NoError(t, client.SetReadDeadline(began.Add(time.Second)))
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began), "a waiting read ends at the deadline exactly")

		require.NoError(t, client.SetReadDeadline(time.Time{}))
		_, err = server.Write([]byte("x"))
		require.NoError(t, err)
		_, err = client.Read(make([]byte, 1))
		require.NoError(t, err, "the zero time takes the deadline away")

		require.NoError(t, server.SetDeadline(time.Now().Add(time.Second)))
		_, err = server.Write(make([]byte, memnet.BufferBytes+1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "a write that waits for room ends too")
		require.NoError(t, server.SetWriteDeadline(time.Now().Add(-time.Second)))
		_, err = server.Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "a deadline in the past fails at once")
	})
}

func TestDialing(t *testing.T) {
	t.Run("refused when closed", func(t *testing.T) {
		ln := memnet.Listen()
		require.NoError(t, ln.Close())
		require.NoError(t, ln.Close(), "closing twice is harmless")
		_, err := ln.DialContext(t.Context(), "tcp", "x:1")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		_, err = ln.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
	})
	t.Run("ends with its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := memnet.Listen().DialContext(ctx, "tcp", "x:1")
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestServesHTTPInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := memnet.Listen()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(21 * time.Second)
			_, _ = io.WriteString(w, "late")
		})}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()
		tr := &http.Transport{DialContext: ln.DialContext}
		began := time.Now()
		res, err := (&http.Client{Transport: tr}).Get("http://mem/")
		require.NoError(t, err)
		got, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, "late", string(got))
		assert.Equal(t, 21*time.Second, time.Since(began))
		tr.CloseIdleConnections()
		require.NoError(t, srv.Shutdown(context.Background()))
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}
