package engine

import (
	"context"
	"sync"
	"time"
)

// DefaultInterval is how often the gauges are read during the load.
const DefaultInterval = time.Second

// Engines count a request some time after its last byte, and the reading before
// the load must not miss what came before it. So both readings are repeated
// until nothing moves.
const (
	// SettlePause is the pause between two such readings.
	SettlePause = 100 * time.Millisecond
	// SettleLimit bounds the repetition: other traffic on the server never
	// settles.
	SettleLimit = 2 * time.Second
)

// Series sums up a gauge over the readings during the load.
type Series struct {
	// Samples is how many readings had the gauge.
	Samples int
	// Mean, Min and Max are over them.
	Mean, Min, Max float64
}

func (s Series) with(v float64) Series {
	if s.Samples == 0 {
		return Series{Samples: 1, Mean: v, Min: v, Max: v}
	}
	n := s.Samples + 1
	return Series{Samples: n, Mean: s.Mean + (v-s.Mean)/float64(n), Min: min(s.Min, v), Max: max(s.Max, v)}
}

// Session is what a sampler has read. It is made by [Sampler.Stop] and read only
// after that.
type Session struct {
	// URL is what was read, without userinfo and query; KeySent says whether the
	// requests' key went there.
	URL     string
	KeySent bool
	// Before and After are the readings on both sides of the load; nil when there
	// is none, for the reason in Unavailable.
	Before, After *Snapshot
	// Gauges sum up the readings during the load, by role; a role that is absent
	// was not exposed.
	Gauges map[Role]Series
	// Reads counts the readings during the load that gave something, and
	// ReadErrors those that did not; LastReadError tells of the last of them.
	Reads, ReadErrors int
	LastReadError     string
	// Unavailable says why Before or After is missing, nil when both are there.
	Unavailable *Unavailable
}

// Delta is [Between] of Before and After, ok only when both are there.
func (s *Session) Delta() (d Delta, ok bool) {
	if s.Before == nil || s.After == nil {
		return Delta{}, false
	}
	return Between(s.Before, s.After), true
}

// Sampler reads the gauges in one goroutine while a load runs. Make one with
// [Reader.Start] and end it with [Sampler.Stop].
type Sampler struct {
	reader  *Reader
	session Session
	cancel  context.CancelFunc
	done    chan struct{} // closed when the goroutine has ended; session is its until then
	once    sync.Once
}

// Start reads the metrics as they are before a load, and from then on the gauges
// every so often, until Stop or the end of ctx. It returns before the load has to
// begin: after two readings when the server rests, after SettleLimit and a
// reading's timeout at most. With a server that has no metrics it returns all
// the same, and Stop says why there are none. every <= 0 takes no reading during
// the load.
func (r *Reader) Start(ctx context.Context, every time.Duration) *Sampler {
	s := &Sampler{reader: r, done: make(chan struct{}), session: Session{Gauges: make(map[Role]Series)}}
	s.session.Before, s.session.Unavailable = r.settled(ctx)
	ctx, s.cancel = context.WithCancel(ctx)
	if s.session.Before == nil || every <= 0 {
		close(s.done)
		return s
	}
	go func() {
		defer close(s.done)
		s.loop(ctx, every)
	}()
	return s
}

// loop reads at each tick. A reading that takes longer than the interval makes
// the ticker drop ticks: they never pile up on a busy server.
func (s *Sampler) loop(ctx context.Context, every time.Duration) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			s.sample(ctx)
		}
	}
}

func (s *Sampler) sample(ctx context.Context) {
	snapshot, gone := s.reader.readGauges(ctx)
	switch {
	case gone != nil && gone.Kind == Interrupted: // by Stop: no fault of the server's
	case gone != nil:
		s.session.ReadErrors++
		s.session.LastReadError = gone.Reason
	default:
		s.session.Reads++
		for role, v := range snapshot.Values {
			s.session.Gauges[role] = s.session.Gauges[role].with(v)
		}
	}
}

// Stop ends the readings, reads the metrics as they are after the load, and
// gives all that was read. The goroutine has ended when it returns, and the
// reader's connection is closed. Further calls give the same session.
func (s *Sampler) Stop(ctx context.Context) Session {
	s.once.Do(func() {
		s.cancel()
		<-s.done
		if s.session.Before != nil {
			s.session.After, s.session.Unavailable = s.reader.settled(ctx)
		}
		s.session.URL, s.session.KeySent = s.reader.URL(), s.reader.KeySent()
		s.reader.Close()
	})
	return s.session
}

// settled reads until two readings in a row have the same counters and no
// request runs or waits, or until SettleLimit has passed, and gives the last
// reading. Only the first one can fail.
func (r *Reader) settled(ctx context.Context) (*Snapshot, *Unavailable) {
	last, gone := r.read(ctx, wantedAll, allRoles)
	if gone != nil {
		return nil, gone
	}
	for deadline := time.Now().Add(SettleLimit); time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return last, nil
		case <-time.After(SettlePause):
		}
		next, gone := r.read(ctx, wantedAll, allRoles)
		if gone != nil {
			return last, nil
		}
		if next.restsAfter(last) {
			return next, nil
		}
		last = next
	}
	return last, nil
}

// restsAfter says that nothing has moved since the snapshot before, and that
// nothing is going on.
func (s *Snapshot) restsAfter(before *Snapshot) bool {
	for _, role := range counters {
		if s.Values[role] != before.Values[role] {
			return false
		}
	}
	for _, role := range histograms {
		if s.Histograms[role].Count != before.Histograms[role].Count {
			return false
		}
	}
	return s.Values[Running] == 0 && s.Values[Waiting] == 0
}
