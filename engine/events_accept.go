package engine

import (
	"fmt"
	"runtime"

	"github.com/hone-go/hone/internal/sys"
)

// How the Events engine assigns connections to loops.

// joinLoop gives an admitted connection to the loop that has the fewest.
func (s *Server) joinLoop(socket sys.Socket, a arrival) {
	k, why := s.leastLoaded().take()
	if why != 0 {
		if a.end != nil {
			a.end.Close()
		} else {
			socket.Close()
		}
		s.uncount(why, a.from.Addr(), a.counted, 0)
		return
	}
	if a.end != nil {
		socket = k.sh.poll.Adopt(a.end)
	}
	k.owner().begin(&a, socket, nil)
	if a.config != nil {
		k.held().secure(a.config)
	}
	if s.forced.Load() { // the loop may have ended
		k.fail(Forced)
		k.s.mu.Unlock()
		d := &workspace{offLoop: true, ref: k}
		d.ref.owner().end(d)
		return
	}
	if !k.s.opened || s.endsAll.Load() {
		k.held().list()
	}
	k.held().release()
	s.queueSilent(k.conn(), a.crowded)
}

// leastLoaded returns the loop that has the fewest connections.
func (s *Server) leastLoaded() (least *loop) {
	least = s.loops[0]
	for _, l := range s.loops[1:] {
		if l.open.Load() < least.open.Load() {
			least = l
		}
	}
	return least
}

// startLoops starts the loops, unless they run already.
func (s *Server) startLoops(open func() (*sys.Poll, error)) error {
	return s.startSome(loopCount(), open)
}

// startSome is startLoops for n of them.
func (s *Server) startSome(n int, open func() (*sys.Poll, error)) error {
	if len(s.started()) > 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() || len(s.started()) > 0 {
		return nil
	}
	var loops []*loop
	for range n {
		l, err := newLoop(s, open)
		if err != nil {
			for _, l := range loops {
				l.poll.Close()
			}
			return fmt.Errorf("engine: %w", err)
		}
		loops = append(loops, l)
	}
	s.loops = loops
	close(s.running)
	for _, l := range s.loops {
		s.helpers.run(job{l: l})
	}
	if s.how.hand != Inline { // also for Offload, whose callbacks run on loops
		s.goroutines.Go(s.watchLoops)
	}
	return nil
}

func newLoop(s *Server, open func() (*sys.Poll, error)) (*loop, error) {
	poll, err := open()
	if err != nil {
		return nil, err
	}
	l := &loop{}
	l.loop, l.srv, l.poll = l, s, poll
	l.Bell.Init(func() { poll.Wake() })
	l.chunks.Store(&[]chunk{})
	return l, nil
}

// loopCount returns how many loops a server has: more than processors would only compete
// for them.
func loopCount() int { return min(runtime.GOMAXPROCS(0), runtime.NumCPU()) }
