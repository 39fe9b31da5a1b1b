package engine

import "sync/atomic"

// Stats is what a server has counted since it began, and what it holds now.
// Reading it sums a few counters; nothing is kept for it.
type Stats struct {
	Engine       string            // its name
	Limits       Limits            // in effect, defaults filled in; zero before the server serves
	Open         int               // connections now
	Accepted     uint64            // connections that were served
	Requests     uint64            // messages given to user code
	Promised     uint64            // of those, answers put off with Later
	Late         uint64            // late replies sent
	Pushes       uint64            // pushes queued
	BytesIn      uint64            // read from sockets
	BytesOut     uint64            // written to sockets
	Panics       uint64            // in user code
	HandOffs     uint64            // times that a loop went on without a handler that took long
	Owed         int               // late replies outstanding now; a visit that promises many counts up to 7 ahead
	Waiting      int64             // bytes of output waiting for peers now
	InLine       int               // connections whose next visit waits for room in Limits.TotalOutput now
	Paused       int               // connections that are not read because of Limits.TotalInFlight now
	Buffers      int64             // buffers that connections and workspaces have on loan now
	Lent         int64             // their bytes
	OutputMemory int64             // bytes that Limits.TotalOutput bounds now: what output takes, or is about to
	InputMemory  int64             // bytes that Limits.TotalInput bounds now
	Helpers      int               // goroutines beside the event loops now, for handlers that take long
	Sleeps       uint64            // times that event loops waited for something to do
	Turns        uint64            // times that they found it, up to 16 late
	Events       uint64            // how much that was: reports of sockets, and what goroutines beside them have done
	Drained      Drained           // how a Shutdown goes or went
	Ended        [reasons]uint64   // connections ended or refused, by Reason
	Own          [mostOwn]OwnEnded // the same for the protocol's own, Own first
}

// counters are one part of a server's counters. Connections are spread over the
// parts; a cache line each, so that two processors seldom meet on one.
type counters struct {
	requests, promised, late, pushes, bytesIn, bytesOut atomic.Uint64
	_                                                   [16]byte
}

// Stats reports the counters. It may be called at any time.
func (s *Server) Stats() Stats {
	st := Stats{Engine: s.Engine.Name(), Accepted: s.accepted.Load(), Panics: s.panics.Load(), HandOffs: s.handOffs.Load()}
	if !s.begun.Load() {
		return st
	}
	st.Limits = s.limits
	for i := range s.counts {
		c := &s.counts[i]
		st.Requests += c.requests.Load()
		st.Promised += c.promised.Load()
		st.Late += c.late.Load()
		st.Pushes += c.pushes.Load()
		st.BytesIn += c.bytesIn.Load()
		st.BytesOut += c.bytesOut.Load()
	}
	for i := range st.Ended {
		st.Ended[i] = s.ended[i].Load()
	}
	for i, name := range s.OwnReasons {
		st.Own[i] = OwnEnded{name, s.endedOwn[i].Load()}
	}
	lent := s.buffers.Stats()
	st.Buffers, st.Lent = lent.Lent, lent.LentBytes
	for _, l := range s.started() {
		st.Sleeps += l.counted.sleeps.Load()
		st.Turns += l.counted.turns.Load()
		st.Events += l.counted.events.Load()
	}
	s.each(func(k connRef) {
		if x := k.x.Load(); x != nil {
			st.Late += x.late
			st.Owed += int(x.promises.open)
			st.Waiting += x.waiting
		}
	})
	st.OutputMemory, st.InputMemory, st.InLine = s.output.held.Load(), s.input.held.Load(), int(s.output.waiting.Load())
	st.Paused = int(s.requests.waiting.Load())
	st.Helpers = max(0, int(s.helpers.count.Load())-len(s.started()))
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Open, st.Drained = s.open, s.drained
	return st
}
