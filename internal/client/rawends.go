package client

// rawShown is how many of the first and of the last bytes of a body a message
// shows. A little more is kept, so that a secret on the edge is seen whole.
const (
	rawShown = 80
	rawKept  = 256
)

// rawEnds keeps the first and the last bytes of a body.
type rawEnds struct {
	head, tail       [rawKept]byte
	headLen, tailLen int
}

func (r *rawEnds) add(b []byte) {
	if r.headLen < rawKept {
		r.headLen += copy(r.head[r.headLen:], b)
	}
	if len(b) >= rawKept {
		r.tailLen = copy(r.tail[:], b[len(b)-rawKept:])
		return
	}
	keep := min(r.tailLen, rawKept-len(b))
	copy(r.tail[:], r.tail[r.tailLen-keep:r.tailLen])
	r.tailLen = keep + copy(r.tail[keep:], b)
}

func (r *rawEnds) first() []byte { return r.head[:r.headLen] }
func (r *rawEnds) last() []byte  { return r.tail[:r.tailLen] }
