package load

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/tool/load/codec"
)

// Idle describes the connections of Plan.Idle. Each has received one answer before the
// measurement: a connection that has not may still be in the server's accept queue, which costs
// the server nothing.
type Idle struct {
	Conns  int64 `json:"conns"`  // opened and used
	Failed int64 `json:"failed"` // opened but without an answer, where Plan.AllowErrors allows that; they are not kept
	Open   int64 `json:"open"`   // of Conns, those open at the end of the measured time
	Closed int64 `json:"closed"` // of Conns, those that the server closed before that
	// ClosedAfter is how long those of Closed were idle.
	ClosedAfter Quantiles `json:"closed_after_us"`
	// ServerBytes is the server's memory per connection. The caller fills it in, by means of
	// IdleOpens and IdleOpened.
	ServerBytes *float64 `json:"server_bytes_each"`
}

// idleConns keeps the idle connections. One goroutine watches all of them where the system has a
// poller, else each has its own goroutine.
type idleConns struct {
	run  *run
	poll *sys.Poll // nil: the system has none

	mu     sync.Mutex
	kept   []idleConn
	till   int64 // when the measured time ends; 0: not known yet
	used   int64
	failed int64
	closed int64
	after  histogram
}

// idleConn is an idle connection; nil: it has ended.
type idleConn struct {
	nc    net.Conn
	since int64
	codec codec.Codec // nil: its server asks for no replies
	held  []byte      // the incomplete beginning of a message
}

func newIdleConns(r *run) *idleConns {
	return &idleConns{run: r, kept: make([]idleConn, r.plan.Partition.count(r.plan.Idle)), after: newHistogram()}
}

// open opens the connections, and reports whether all are open.
func (s *idleConns) open() bool {
	if poll, err := sys.NewPoll(nil); err == nil {
		s.poll = poll
		s.run.goroutines.Go(s.watch)
	}
	if s.run.plan.IdleOpens != nil {
		s.run.plan.IdleOpens()
	}
	if !s.run.rampUp(len(s.kept), s.dial) {
		return false
	}
	if s.run.plan.IdleOpened != nil {
		s.run.plan.IdleOpened()
	}
	return true
}

// dial opens a connection, uses it, and keeps it.
func (s *idleConns) dial(number int) bool {
	r := s.run
	ctx, cancel := context.WithTimeout(r.dialing, r.plan.Timeout)
	defer cancel()
	nc, err := r.plan.Target.Dial(ctx)
	if err != nil {
		r.cannotDial(err)
		return false
	}
	speaks := r.plan.Target.Codec()
	rest, e := r.use(ctx, nc, speaks, r.sizedContent(uint64(r.plan.Partition.number(number))))
	switch {
	case e == nil, r.plan.AllowErrors && (e.Kind == Failed || e.Kind == codec.WrongContent):
	case r.plan.AllowErrors && (e.Kind == Closed || e.Kind == Timeout):
		nc.Close()
		s.mu.Lock()
		s.failed++
		s.mu.Unlock()
		return true
	default:
		nc.Close()
		e.What = fmt.Sprintf("idle connection %d: %s", number+1, e.What)
		if e.Kind == Timeout {
			e.Kind = codec.Silent
		}
		r.fail(e)
		r.endDials()
		return false
	}
	r.open.Add(1)
	s.keep(number, nc, speaks, rest)
	return true
}

func (s *idleConns) keep(number int, nc net.Conn, speaks codec.Codec, rest []byte) {
	k := idleConn{nc: nc, since: s.run.now()}
	if s.run.plan.route.Pings {
		k.codec = speaks
	}
	s.mu.Lock()
	s.kept[number] = k
	s.used++
	s.mu.Unlock()
	s.reply(number, rest)
	if raw := rawOf(nc); s.poll == nil || raw == nil || !watched(s.poll, raw, uint64(number)) {
		s.run.goroutines.Go(func() {
			in := make([]byte, leastRead)
			for s.read(number, nc, in) {
			}
		})
	}
}

// watch reads unsolicited messages until the run ends.
func (s *idleConns) watch() {
	var ready [64]sys.Ready
	in := make([]byte, firstRead)
	for !s.run.stopping.Load() {
		for i := range s.poll.Park(ready[:]) {
			if key := ready[i].Key(); key != sys.WakeKey {
				s.mu.Lock()
				nc := s.kept[key].nc
				s.mu.Unlock()
				if nc != nil {
					s.read(int(key), nc, in) // there is input, so it does not block
				}
			}
		}
	}
}

// read reads once, and reports whether the connection is still open.
func (s *idleConns) read(number int, nc net.Conn, in []byte) bool {
	if n, err := nc.Read(in); err == nil {
		s.reply(number, in[:n])
		return true
	}
	if s.run.stopping.Load() {
		return false // the run itself closes connections now
	}
	now := s.run.now()
	s.mu.Lock()
	if s.till == 0 || now < s.till {
		s.closed++
		s.after.record(now-s.kept[number].since, 1)
	}
	s.kept[number].nc = nil
	s.mu.Unlock()
	nc.Close()
	s.run.open.Add(-1)
	return false
}

// reply sends the protocol's replies to what a connection has received. Only the connection's
// reader calls it. After an undecodable message it sends nothing more.
func (s *idleConns) reply(number int, in []byte) {
	k := &s.kept[number]
	if k.codec == nil {
		return
	}
	in, a := append(k.held, in...), codec.Answer{}
	for len(in) > 0 {
		used, err := codec.Next(k.codec, &a, in)
		if used == 0 && err != nil {
			k.codec, k.held = nil, nil
			return
		}
		if in = in[used:]; used == 0 {
			break
		}
	}
	k.held = append([]byte(nil), in...)
	reply(k.nc, &a)
}

// until sets when the measured time ends.
func (s *idleConns) until(till int64) {
	s.mu.Lock()
	s.till = till
	s.mu.Unlock()
}

// stop closes all connections. None is opened after that.
func (s *idleConns) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kept {
		if k.nc != nil {
			k.nc.Close()
		}
	}
	if s.poll != nil {
		_ = s.poll.Wake() // nothing else can fail in an eventfd's write
	}
}

// close releases the poller when nobody uses it any more.
func (s *idleConns) close() {
	if s.poll != nil {
		_ = s.poll.Close()
	}
}

func (s *idleConns) result() *idleCounts {
	return &idleCounts{Idle{Conns: s.used, Failed: s.failed, Open: s.used - s.closed, Closed: s.closed}, s.after}
}

// idleCounts holds the counts.
type idleCounts struct {
	Idle
	After histogram
}

func (s *idleCounts) add(other *idleCounts) {
	s.Conns += other.Conns
	s.Failed += other.Failed
	s.Open += other.Open
	s.Closed += other.Closed
	s.After.add(other.After)
}

// idleOf computes the published figures.
func (m *Measured) idleOf() *Idle {
	if m.Idle == nil {
		return nil
	}
	figures := m.Idle.Idle
	figures.ClosedAfter = QuantilesOf(m.Idle.After.Histogram)
	return &figures
}
