package sse

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// held is the memory that p keeps, in bytes.
func held(p *Parser) int { return cap(p.buf) + cap(p.typ) + cap(p.in) }

// TestMemory says what a parser holds, beside the bytes that the caller fed.
func TestMemory(t *testing.T) {
	var ev Event
	drain := func(p *Parser) (n int) {
		for p.Next(&ev) {
			n++
		}
		return n
	}
	t.Run("whole_events", func(t *testing.T) {
		var p Parser
		p.Feed(bytes.Repeat([]byte("data: x\n\n"), 100))
		require.Equal(t, 100, drain(&p))
		assert.Zero(t, held(&p), "nothing was cut, so nothing is kept, the caller's buffer least of all")
	})
	t.Run("small_cut_events", func(t *testing.T) {
		var p Parser
		for range 100 {
			p.Feed([]byte("data: x\n\ndat"))
			p.Next(&ev)
			require.False(t, p.Next(&ev))
			p.Feed([]byte("a: x\n\n"))
			require.Equal(t, 1, drain(&p))
		}
		assert.Equal(t, startBytes, held(&p))
	})
	t.Run("after_a_large_event", func(t *testing.T) {
		for _, n := range []int{keepBytes - 1, keepBytes, keepBytes + 1} {
			var p Parser
			p.Feed([]byte("data: "))
			require.Zero(t, drain(&p))
			p.buf = append(make([]byte, 0, n), p.buf...) // a buffer of exactly n bytes
			p.Feed([]byte("x\n\n"))
			require.Equal(t, 1, drain(&p))
			if n <= keepBytes {
				assert.Equal(t, n, held(&p), "kept for the next event")
			} else {
				assert.Zero(t, held(&p), "let go once the event was read")
			}
		}
	})
	t.Run("endless_line", func(t *testing.T) {
		const limit = 1_000_000 // no power of two, which doubling would meet by chance
		p := NewParser(limit)
		p.Feed([]byte("data: "))
		piece := bytes.Repeat([]byte("x"), 1000)
		worst := 0
		for p.Err() == nil {
			require.Zero(t, drain(p))
			worst = max(worst, held(p))
			p.Feed(piece)
			require.Less(t, p.Stats().Bytes, int64(limit+2*len(piece)), "the end is near")
		}
		assert.ErrorIs(t, p.Err(), ErrTooLong)
		assert.LessOrEqual(t, worst, limit+len(byteOrderMark))
		assert.Zero(t, held(p), "a failed parser keeps nothing")
	})
	t.Run("endless_data_lines", func(t *testing.T) {
		const limit = 60_000
		p := NewParser(limit)
		worst := 0
		for p.Err() == nil {
			p.Feed([]byte("data: xxxxxxxxxxxxxxxx\n"))
			require.Zero(t, drain(p))
			worst = max(worst, held(p))
		}
		assert.ErrorIs(t, p.Err(), ErrTooLong)
		assert.LessOrEqual(t, worst, limit+len(byteOrderMark))
	})
	t.Run("one_huge_feed", func(t *testing.T) {
		p := NewParser(100)
		p.Feed(append([]byte("data: "), make([]byte, 1<<20)...))
		require.Zero(t, drain(p))
		assert.ErrorIs(t, p.Err(), ErrTooLong)
		assert.Zero(t, held(p), "refused without copying it")
	})
}
