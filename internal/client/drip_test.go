package client

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"anvil-capacity/internal/memnet"
	"anvil-capacity/internal/record"
)

// dripServer answers every request with start at once, and then with the bytes of
// again, one a second, again and again until the client is gone.
func dripServer(ln net.Listener, serving *sync.WaitGroup, start, again string) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		serving.Go(func() {
			defer func() { _ = conn.Close() }()
			req, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			_, err = io.WriteString(conn, start)
			for i := 0; err == nil; i++ {
				time.Sleep(time.Second)
				_, err = conn.Write([]byte{again[i%len(again)]})
			}
		})
	}
}

// TestDripOfAByteASecond has 256 streams drip at once. Each ends at its limit, to
// the nanosecond: bytes are not output, however many come.
func TestDripOfAByteASecond(t *testing.T) {
	const streams = 256
	event := time.Duration(len(sayHello)) * time.Second // one event takes this long
	rows := []struct {
		name         string
		start, again string
		stall, total time.Duration
		ends         time.Duration
		want         record.Detail
		events       int
		why          string
	}{
		{"a_header_without_end", "", "HTTP/1.1 200 OK\r\nX-Long: xxxxxxxxxxxxxxxxxxxxxxxx", 30 * sec, 90 * sec,
			30 * sec, record.StallTimeout, 0, "WIRE 12: headers by their own limit, which is the stall limit here"},
		{"blank_lines", okHead, "\n", 30 * sec, 90 * sec, 30 * sec, record.StallTimeout, 0, "white space is no output"},
		{"a_comment_without_end", okHead + ":", "x", 30 * sec, 90 * sec, 30 * sec, record.StallTimeout, 0, "a line that never ends is none either"},
		{"an_event_slower_than_the_stall_limit", okHead, sayHello, event - 1, 300 * sec, event - 1, record.StallTimeout, 0, "all of it but the last byte is there"},
		{"an_event_as_slow_as_the_total_limit", okHead, sayHello, event + 1, 2*event + 1, 2*event + 1, record.TotalTimeout, 2, "each event breaks the silence in time, the whole is bounded"},
		{"the_total_limit_alone", okHead, sayHello, 0, 95 * sec, 95 * sec, record.TotalTimeout, 1, "no stall limit is set"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ln := memnet.Listen()
				var serving sync.WaitGroup
				serving.Go(func() { dripServer(ln, &serving, row.start, row.again) })
				c, err := New(Options{BaseURL: "http://mem/v1", Concurrency: streams, DialContext: ln.DialContext, StallTimeout: row.stall, Timeout: row.total})
				require.NoError(t, err)
				seen := make([]Observation, streams)
				var running sync.WaitGroup
				for i := range seen {
					running.Go(func() { seen[i] = c.Complete(t.Context(), testBody) })
				}
				running.Wait()
				for _, obs := range seen {
					require.NotNil(t, obs.Failure, row.why)
					require.Equal(t, row.want, obs.Failure.Detail, "%s: %s", row.why, obs.Failure.Message)
					require.Equal(t, row.ends, obs.End.Sub(obs.Start), row.why)
					require.Equal(t, row.events, obs.Response.ContentChunks, row.why)
				}
				c.Close()
				assert.NoError(t, ln.Close())
				serving.Wait()
			})
		})
	}
}
