package sse_test

import (
	"bytes"
	"errors"
	"testing"

	"anvil-capacity/internal/sse"
)

// cut cuts a body where seed says: each byte of seed is the length of a piece,
// again and again; an empty seed leaves the body whole.
func cut(body, seed []byte) [][]byte {
	if len(seed) == 0 {
		return [][]byte{body}
	}
	var pieces [][]byte
	for i := 0; len(body) > 0; i++ {
		n := min(int(seed[i%len(seed)]), len(body))
		if n == 0 && i >= len(seed) && bytes.Count(seed, []byte{0}) == len(seed) {
			n = len(body) // nothing but empty reads would never end
		}
		pieces = append(pieces, body[:n])
		body = body[n:]
	}
	return pieces
}

// FuzzParser wants, of any body, any cuts and any limit: what the reference
// reads; memory within the limit at every step; no panic.
func FuzzParser(f *testing.F) {
	for _, body := range streams(f) {
		f.Add(body, []byte{1}, uint16(0))
		f.Add(body, []byte{100, 7}, uint16(300))
	}
	for i, row := range rows {
		f.Add([]byte(row.body), []byte{byte(i), 0, 2}, uint16(i))
	}
	f.Fuzz(func(t *testing.T, body, seed []byte, limit uint16) {
		bound := int(limit)
		if limit == 0 {
			bound = sse.MaxEventBytes
		}
		p := sse.NewParser(int(limit))
		pieces := cut(body, seed)
		got, err := read(p, pieces...)
		if want := reference(string(body), bound); !same(got, want) {
			t.Fatalf("in %d pieces, limit %d:\n got %+v\nwant %+v", len(pieces), limit, got, want)
		}
		if err != nil && !errors.Is(err, sse.ErrTooLong) {
			t.Fatalf("got error %v, want ErrTooLong or none", err)
		}
		checkMemory(t, pieces, int(limit), bound)
	})
}

func same(a, b reading) bool {
	if a.Stats != b.Stats || a.TooLong != b.TooLong || len(a.Events) != len(b.Events) {
		return false
	}
	for i := range a.Events {
		if a.Events[i] != b.Events[i] {
			return false
		}
	}
	return true
}

// checkMemory reads the pieces once more and looks at the memory after each.
func checkMemory(t *testing.T, pieces [][]byte, limit, bound int) {
	p := sse.NewParser(limit)
	var ev sse.Event
	// The type has a buffer of its own, whose capacity append rounds up.
	worst := 2*(bound+sse.MarkBytes) + sse.StartBytes
	for _, piece := range pieces {
		p.Feed(piece)
		for p.Next(&ev) {
			if len(ev.Data)+len(ev.Type) > bound {
				t.Fatalf("an event of %d bytes, limit %d", len(ev.Data)+len(ev.Type), bound)
			}
		}
		if got := sse.Held(p); got > worst {
			t.Fatalf("holding %d bytes, want at most %d at limit %d", got, worst, bound)
		}
	}
}
