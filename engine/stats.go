package engine

// Stats are a server's counters and gauges. Reading them sums the counters of each event loop.
type Stats struct {
	Engine           string            // name of the engine
	Limits           Limits            // in effect, with defaults; zero before the server serves
	Open             int               // open connections
	Accepted         uint64            // connections served
	Requests         uint64            // messages passed to user code
	Promised         uint64            // of these, deferred with Later
	Late             uint64            // late replies sent
	Pushes           uint64            // pushes queued
	Dropped          uint64            // of these, dropped for slow peers, see Conn.Offer
	BytesIn          uint64            // read from sockets; of TLS, what was decrypted
	BytesOut         uint64            // written to sockets; of TLS, what was encrypted
	Panics           uint64            // panics in user code
	Handshakes       uint64            // TLS handshakes completed
	Resumed          uint64            // of these, with a session of an earlier connection
	HandshakesFailed uint64            // TLS handshakes that have failed, or were not completed
	HandOffs         uint64            // times that a loop moved on without a slow handler, unless that had called Turn.Leave
	Owed             int               // late replies outstanding; during a visit that promises several, up to 7 more
	Waiting          int64             // bytes of unsent output
	InLine           int               // connections whose next visit waits for room in Limits.TotalOutput
	Paused           int               // connections that are not read because of Limits.TotalInFlight
	Buffers          int64             // pooled buffers in use by connections and workspaces
	Lent             int64             // their bytes
	OutputMemory     int64             // bytes that count against Limits.TotalOutput: buffered output and reservations
	InputMemory      int64             // bytes that count against Limits.TotalInput
	Helpers          int               // goroutines off the event loops, for slow handlers
	Sleeps           uint64            // times that event loops went to sleep
	Turns            uint64            // turns of event loops with work, counted in batches of up to 16
	Events           uint64            // work in these turns: socket events, and connections listed by other goroutines
	Drained          Drained           // progress or result of a Shutdown
	Ended            [reasons]uint64   // connections ended or refused, by Reason
	Own              [mostOwn]OwnEnded // the same for the protocol's own reasons, Own first
}

// Stats returns the counters and gauges. It may be called at any time.
func (s *Server) Stats() Stats {
	st := Stats{Engine: s.Engine.Name(), Accepted: s.accepted.Load(), Panics: s.panics.Load(), HandOffs: s.handOffs.Load()}
	if !s.begun.Load() {
		return st
	}
	st.Limits = s.limits
	st.Handshakes, st.Resumed, st.HandshakesFailed = s.shaken.done.Load(), s.shaken.resumed.Load(), s.shaken.failed.Load()
	s.eachShard(func(sh *shard) {
		c := &sh.counts
		st.Requests += c.requests.Load()
		st.Promised += c.promised.Load()
		st.Late += c.late.Load()
		st.Pushes += c.pushes.Load()
		st.Dropped += c.dropped.Load()
		st.BytesIn += c.bytesIn.Load()
		st.BytesOut += c.bytesOut.Load()
		st.Sleeps += c.sleeps.Load()
		st.Turns += c.turns.Load()
		st.Events += c.events.Load()
	})
	for i := range st.Ended {
		st.Ended[i] = s.ended[i].Load()
	}
	for i, name := range s.OwnReasons {
		st.Own[i] = OwnEnded{name, s.endedOwn[i].Load()}
	}
	lent := s.buffers.Stats()
	st.Buffers, st.Lent = lent.Lent, lent.LentBytes
	s.each(func(k connRef) {
		if x := k.x.Load(); x != nil {
			st.Late += x.late
			st.Owed += int(x.promises.Open())
			st.Waiting += x.waiting
		}
	})
	st.OutputMemory, st.InputMemory, st.InLine = s.output.Held(), s.input.Held(), s.output.Waiting()
	st.Paused = s.requests.Waiting()
	st.Helpers = max(0, int(s.helpers.count.Load())-len(s.started()))
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Open, st.Drained = s.open, s.drained
	st.Drained.Idle = int(s.idle.Load())
	s.lateTold = max(s.lateTold, st.Late) // one that has moved from its connection to its shard meanwhile is missing
	st.Late = s.lateTold
	return st
}
