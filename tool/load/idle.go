package load

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/internal/sys"
)

// Idle is what became of the connections of Plan.Idle. Each has had one answer before
// anything was measured: one that has none may be standing in the server's queue, which
// costs the server nothing.
type Idle struct {
	Conns  int64 `json:"conns"`  // that were opened and used
	Failed int64 `json:"failed"` // that were opened and had no answer, where Plan.AllowErrors allows that; they are not kept
	Open   int64 `json:"open"`   // those of them that were at the end of the measured time
	Closed int64 `json:"closed"` // those that the server has closed until then
	// ClosedAfter is how long those of Closed were left alone.
	ClosedAfter Quantiles `json:"closed_after_us"`
	// ServerBytes is the server's memory for one of them. It is for the caller to fill,
	// who knows of IdleOpens and IdleOpened.
	ServerBytes *float64 `json:"server_bytes_each"`
}

// soak keeps connections. One goroutine watches all of them where there is a poll,
// else each has one of its own.
type soak struct {
	run  *run
	poll *sys.Poll // nil: there is none

	mu     sync.Mutex
	kept   []kept
	till   int64 // when the measured time ends; 0: nobody knows yet
	used   int64
	failed int64
	closed int64
	after  *hdrhistogram.Histogram
}

// kept is a connection without a word since then; nil: it has ended.
type kept struct {
	nc     net.Conn
	since  int64
	caller replier // nil: the protocol wants nothing from who is silent
	held   []byte  // the front of what caller is still to decode
}

func newSoak(r *run) *soak {
	return &soak{run: r, kept: make([]kept, r.plan.Part.count(r.plan.Idle)), after: NewHistogram()}
}

// open opens the connections, and reports whether all could be.
func (s *soak) open() bool {
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
func (s *soak) dial(number int) bool {
	r := s.run
	ctx, cancel := context.WithTimeout(r.dialing, r.plan.Timeout)
	defer cancel()
	nc, err := r.plan.Target.Dial(ctx)
	if err != nil {
		r.cannotDial(err)
		return false
	}
	caller := r.plan.Target.Caller()
	rest, e := r.use(ctx, nc, caller, r.sizedContent(uint64(r.plan.Part.number(number))))
	switch {
	case e == nil, r.plan.AllowErrors && (e.Kind == Failed || e.Kind == WrongContent):
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
			e.Kind = Silent
		}
		r.fail(e)
		r.endDials()
		return false
	}
	r.open.Add(1)
	s.keep(number, nc, caller, rest)
	return true
}

func (s *soak) keep(number int, nc net.Conn, caller Caller, rest []byte) {
	k := kept{nc: nc, since: s.run.now()}
	if k.caller, _ = caller.(replier); k.caller != nil {
		k.caller.Ignore()
	}
	s.mu.Lock()
	s.kept[number] = k
	s.used++
	s.mu.Unlock()
	s.reply(number, rest)
	if s.poll == nil || !s.watched(number, nc) {
		s.run.goroutines.Go(func() {
			in := make([]byte, leastRead)
			for s.read(number, nc, in) {
			}
		})
	}
}

// watched has the connection reported, if it can be.
func (s *soak) watched(number int, nc net.Conn) bool {
	var direct syscall.Conn
	switch nc := nc.(type) {
	case *net.TCPConn:
		direct = nc
	case *net.UnixConn:
		direct = nc
	default:
		return false
	}
	raw, err := direct.SyscallConn()
	added := false
	if err == nil {
		err = raw.Control(func(fd uintptr) { added = s.poll.Add(sys.Socket(fd), sys.In, uint64(number)) == nil })
	}
	return err == nil && added
}

// watch reads what nobody has asked for, until the run ends.
func (s *soak) watch() {
	var ready [64]sys.Ready
	in := make([]byte, firstRead)
	for !s.run.stopping.Load() {
		for i := range s.poll.Park(ready[:]) {
			if key := ready[i].Key(); key != sys.WakeKey {
				s.mu.Lock()
				nc := s.kept[key].nc
				s.mu.Unlock()
				if nc != nil {
					s.read(int(key), nc, in) // there is something, so it does not wait
				}
			}
		}
	}
}

// read reads once, and reports whether the connection is still open.
func (s *soak) read(number int, nc net.Conn, in []byte) bool {
	if n, err := nc.Read(in); err == nil {
		s.reply(number, in[:n])
		return true
	}
	if s.run.stopping.Load() {
		return false // what ends now is our own doing
	}
	now := s.run.now()
	s.mu.Lock()
	if s.till == 0 || now < s.till {
		s.closed++
		record(s.after, now-s.kept[number].since, 1)
	}
	s.kept[number].nc = nil
	s.mu.Unlock()
	nc.Close()
	s.run.open.Add(-1)
	return false
}

// reply sends what the protocol wants for what a connection has brought. Only who reads
// the connection calls it. After what cannot be decoded nothing more is: nobody has asked.
func (s *soak) reply(number int, in []byte) {
	k := &s.kept[number]
	if k.caller == nil {
		return
	}
	in = append(k.held, in...)
	for len(in) > 0 {
		used, err := k.caller.Decode(new(Answer), in)
		if err != nil {
			k.caller, k.held = nil, nil
			return
		}
		if used == 0 {
			break
		}
		in = in[used:]
	}
	k.held = append([]byte(nil), in...)
	reply(k.nc, k.caller)
}

// until says when the measured time ends.
func (s *soak) until(till int64) {
	s.mu.Lock()
	s.till = till
	s.mu.Unlock()
}

// stop closes what is open. Nothing is opened any more.
func (s *soak) stop() {
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

// close lets go of the poll when nobody uses it any more.
func (s *soak) close() {
	if s.poll != nil {
		_ = s.poll.Close()
	}
}

func (s *soak) result() *soaked {
	return &soaked{Idle{Conns: s.used, Failed: s.failed, Open: s.used - s.closed, Closed: s.closed}, s.after}
}

// soaked is what was counted.
type soaked struct {
	Idle
	after *hdrhistogram.Histogram
}

// idleOf makes the figures.
func (m *measurement) idleOf() *Idle {
	if m.idle == nil {
		return nil
	}
	figures := m.idle.Idle
	figures.ClosedAfter = QuantilesOf(m.idle.after)
	return &figures
}
