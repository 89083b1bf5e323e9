package refserver

import (
	"sync"
	"time"
)

// Outcome says how a request ended, as the server saw it.
type Outcome string

const (
	// OutcomeDone: answered to its end, as planned.
	OutcomeDone Outcome = "done"
	// OutcomeFault: ended early by the fault plan.
	OutcomeFault Outcome = "fault"
	// OutcomeRefused: answered with an error status by a rule of the server.
	OutcomeRefused Outcome = "refused"
	// OutcomeLeft: the client went away first.
	OutcomeLeft Outcome = "left"
	// OutcomeClosed: the server closed first.
	OutcomeClosed Outcome = "closed"
)

// Exchange is what the server knows of one chat request. Times are clock
// readings with a monotonic part, comparable with any other of this process;
// zero is "did not happen". A plain value: the receiver owns it.
type Exchange struct {
	// Arrival counts chat requests from 0, in the order in which their handlers began.
	Arrival int
	// RequestID was sent as the x-request-id header.
	RequestID string
	// Marker is the canary that the prompt asked for, "" for none.
	Marker string
	// Index is what the fault plan went by: the one in Marker, else Arrival.
	Index int
	// Faults are the entries of the fault plan that were applied.
	Faults []string
	// Outcome says how it ended, and Status which HTTP status was sent, 0 for none.
	Outcome Outcome
	Status  int
	// Streamed is false for an answer in one piece.
	Streamed bool

	// Arrived is the handler's entry, Joined the end of reading the request,
	// when it joined the line: there its timetable begins.
	Arrived, Joined time.Time
	// HeadersAt is the response header (with the role event), FirstOutputAt the
	// first token of any kind, FirstContentAt the first visible one, LastOutputAt
	// the last. Each is the clock just before the write of that event.
	HeadersAt, FirstOutputAt, FirstContentAt, LastOutputAt time.Time
	// DoneAt is just before the write of [DONE], or of a whole answer in one piece.
	DoneAt time.Time
	// EndedAt is when the server was finished with the request, whatever the end.
	EndedAt time.Time

	// Job is what the timetable was computed from, and Planned the timetable.
	// Both are zero for a request that never joined. A request that ended early
	// has the timetable up to there.
	Job     Job
	Planned Planned
	// Sent counts the tokens that were written; of them, the first
	// min(Sent, Job.Reasoning) are reasoning.
	Sent int
	// Writes are the clock just before the write of each token, since Joined,
	// beside Planned.Tokens. Nil unless Options.KeepEvents.
	Writes []time.Duration
}

// Admitted is when the request was planned to get its slot, and PrefillDone when
// its first token was planned; zero for a request that got none.
func (e Exchange) Admitted() time.Time { return e.instant(e.Planned.Queue) }

// PrefillDone is when the first token was planned to leave.
func (e Exchange) PrefillDone() time.Time { return e.instant(e.Planned.TTFO) }

// End is when the answer was planned to end.
func (e Exchange) End() time.Time { return e.instant(e.Planned.E2E) }

func (e Exchange) instant(d time.Duration) time.Time {
	if !e.Planned.Started {
		return time.Time{}
	}
	return e.Joined.Add(d)
}

// Lateness says for each token how long after its plan it was written. Nil
// unless Options.KeepEvents. In a bubble every entry is 0.
func (e Exchange) Lateness() []time.Duration {
	n := min(len(e.Writes), len(e.Planned.Tokens))
	if n == 0 {
		return nil
	}
	late := make([]time.Duration, n)
	for i := range late {
		late[i] = e.Writes[i] - e.Planned.Tokens[i]
	}
	return late
}

// journal keeps the last exchanges in a ring. Safe for concurrent use.
type journal struct {
	mu      sync.Mutex // guards all below
	ring    []Exchange
	limit   int
	next    int // where the oldest stands once the ring is full
	dropped int
}

// add takes in an exchange and lets finish fill in its last stamps inside the
// critical section, so that the log is complete before the client can know.
func (l *journal) add(e Exchange, finish func(*Exchange)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if finish != nil {
		finish(&e)
	}
	switch {
	case l.limit < 0:
		l.dropped++
	case len(l.ring) < l.limit:
		l.ring = append(l.ring, e)
	default:
		l.ring[l.next] = e
		l.next = (l.next + 1) % l.limit
		l.dropped++
	}
}

// list copies the ring, oldest first, and clears it where forget is set.
func (l *journal) list(forget bool) []Exchange {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := append(append(make([]Exchange, 0, len(l.ring)), l.ring[l.next:]...), l.ring[:l.next]...)
	if forget {
		l.ring, l.next, l.dropped = nil, 0, 0
	}
	return all
}

// Log gives the finished requests, oldest first: as many as Options.LogLimit
// keeps. An answer is in the log before its [DONE] leaves. Safe for concurrent use.
func (s *Server) Log() []Exchange { return s.journal.list(false) }

// DrainLog gives what Log gives, and forgets it.
func (s *Server) DrainLog() []Exchange { return s.journal.list(true) }

// Dropped says how many finished requests the log did not keep.
func (s *Server) Dropped() int {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	return s.journal.dropped
}
