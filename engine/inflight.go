package engine

import (
	"net"
	"sync/atomic"

	"github.com/hone-go/hone/pool"
)

// inflight is what a connection needs while anything is in flight: input that is
// not served, output that waits, replies that are owed. Connections of an event
// loop attach one when they need it and detach it when they have been quiet, so
// an idle one costs a nil pointer; a goroutine connection has its own for life.
type inflight struct {
	g *goroutineConn // whose it is for life; nil on an event loop

	in   inputBuffer // the owner's: input that is not served, between visits
	left int         // the owner's: bytes still to be read in a drain, or to be dropped

	frame   atomic.Uint32 // the unfinished message began
	size    atomic.Uint32 // its size, as far as it is known
	input   atomic.Uint32 // capacity of the buffer that holds unserved input
	stall   atomic.Uint32 // the peer was last seen to take some of the output that waits
	written atomic.Uint32 // bytes that the kernel has accepted, modulo 2^32
	blocked atomic.Bool   // replies of a visit are in front: nothing is read; written under mu

	// All that follows is guarded by the connection's mutex.
	waiting  int64       // bytes of output that wait for the peer
	taken    uint32      // of written, what the peer had acknowledged when it was last looked at
	measured bool        // taken is known since the stall began
	charged  int64       // memory for output that the budget has been told of
	lent     int         // capacity of the buffer that a blocked writer holds
	reserved int64       // of the budget, for the visit that runs
	trial    bool        // it is the connection's first
	began    tick        // it did
	claim    *claim      // in line for the budget, or granted; written by the owner
	front    pool.Buffer // output that is being written; the peer takes none of it for now
	sent     int         // bytes of front that have gone
	took     int         // bytes that the peer has taken since it last stalled
	wide     bool        // for that the kernel may accept more for it
	cut      bool        // the last write ended because it was the others' turn, not because the socket was full
	writing  bool        // a goroutine that may block is writing: all other output queues
	queue    outputQueue
	promises tickets       // late replies outstanding
	told     int32         // of these, what the request budget has been told of, and the permit
	permit   bool          // the request budget lets one request be taken
	place    *claim        // in line for the request budget, or granted; written by the owner
	late     uint64        // late replies that the counters have not been told of
	goal     goal          // what the owner waits for in the middle of a visit
	target   uint32        // of written, for it
	wakeUp   chan struct{} // ends the owner's wait; one slot; nil until the first
	rare     *rare         // nil for most
}

// rare is what few connections need. The connection's mutex guards it.
type rare struct {
	value   any                                     // Conn.SetValue's
	zone    string                                  // of the peer's address
	give    func(net.Conn) (left []byte, back bool) // user code that is to have the socket
	watched watched                                 // Turn.Context's
	given   net.Conn                                // the socket in the hands of user code
	words   []byte                                  // Conn.End's; nil: none
}

// rarely is x.rare, made when there is none. mu held.
func (x *inflight) rarely() *rare {
	if x.rare == nil {
		x.rare = new(rare)
	}
	return x.rare
}

// promised reports whether user code is to have the socket. mu held.
func (x *inflight) promised() bool { return x.rare != nil && x.rare.give != nil }

// attach is the connection's inflight, made when there is none. mu held.
func (k *connRef) attach() *inflight {
	x := k.x.Load()
	if x == nil {
		x = k.sh.srv.inflights.Get().(*inflight)
		x.promises.generation = k.s.tickets
		k.x.Store(x)
	}
	return x
}

// attachUnlocked is attach for an owner that does not hold mu.
func (k *connRef) attachUnlocked() *inflight {
	if x := k.x.Load(); x != nil {
		return x
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.attach()
}

// detach gives the inflight of a quiet connection back. mu held, by the owner. A
// connection that is leaving keeps it: what is left to be read is there.
func (k *connRef) detach() {
	x := k.x.Load()
	if x == nil || x.g != nil || !x.quiet() || x.rare != nil || k.s.own.has(drains) || k.phase() != serving {
		return
	}
	k.recountExactly(x)
	k.visitCharged(x)
	k.s.tickets = x.promises.generation
	k.x.Store(nil)
	k.sh.srv.putInflight(x)
}

// putInflight pools x for another connection of an event loop.
func (s *Server) putInflight(x *inflight) {
	promises := x.promises
	if promises.abandon(); cap(promises.slots) > keepTickets {
		promises = tickets{}
	}
	*x = inflight{promises: promises}
	s.inflights.Put(x)
}

// quiet reports whether nothing is in flight.
func (x *inflight) quiet() bool {
	return x.in.len() == 0 && x.settled() && x.claim == nil && x.place == nil && x.told == 0
}

// settled reports whether nothing is owed and nothing waits for the peer.
func (x *inflight) settled() bool { return x.promises.open == 0 && x.unwritten() }

// unwritten is false while output waits or is being written. See settled.
func (x *inflight) unwritten() bool {
	return !x.front.Lent() && x.queue.empty() && !x.writing
}

// mostGranted is how many messages are served before flow control is asked again
// while nothing is owed and nothing waits: it bounds by how much what others do
// meanwhile can pass a limit.
const mostGranted = 16

// admit is how many messages flow control lets be served before it is asked
// again, which it is too when there is a reason to end. The first of a visit
// tells apart what was posted before it.
func (k *connRef) admit(first bool) int {
	if ends(k.reason()) {
		return 0
	}
	if k.sh.srv.requests.full.Load() && !(first && k.mayOwe() || !first && k.mayOweMore()) {
		return 0
	}
	if first && !(k.s.weight == smallWeight && k.x.Load() == nil) && !k.mayProduce() {
		return 0
	}
	x := k.x.Load()
	if x == nil {
		return mostGranted
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	switch {
	case !k.below(x):
		return 0
	case first && k.sh.srv.ordered:
		x.queue.startVisit() // a reply that came since the visit began is still an earlier one
	}
	if x.promises.open > 0 || x.waiting > 0 {
		return 1
	}
	return mostGranted
}

// below reports whether x is below the limits that pause a connection. mu held.
func (k *connRef) below(x *inflight) bool {
	limits := &k.sh.srv.limits
	return !x.blocked.Load() && !x.starves() && int(x.promises.open) < limits.InFlight && x.waiting < int64(limits.HighWater)
}

// resumes reports whether a pause may end: at half of what began it, so that
// reading does not flutter. mu held.
func (k *connRef) resumes(x *inflight) bool {
	limits := &k.sh.srv.limits
	return !x.blocked.Load() && !x.starves() && int(x.promises.open) <= limits.InFlight/2 && x.waiting <= int64(limits.HighWater/2)
}

// hasRoom reports whether flow control lets the connection go on after a visit.
func (k *connRef) hasRoom() bool {
	x := k.x.Load()
	if x == nil {
		return true
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.below(x)
}

// startVisit remembers what was posted before this visit, so that an ordered
// protocol's replies keep their place.
func (k *connRef) startVisit() {
	k.s.mu.Lock()
	k.attach().queue.startVisit()
	k.s.mu.Unlock()
}

// hold is startVisit for user code. What the visit holds already stays behind its output.
func (k *connRef) hold() {
	k.s.mu.Lock()
	if q := &k.attach().queue; !q.visiting {
		q.startVisit()
	}
	k.s.mu.Unlock()
}

// startFrame starts the clock of the message that has begun to arrive and lacks
// need bytes; a message that goes on keeps its clock.
func (k *connRef) startFrame(in *inputBuffer, need int) {
	if in.len() == 0 {
		return
	}
	x := k.attachUnlocked()
	x.size.Store(uint32(in.len() + need))
	if x.frame.Load() == 0 {
		k.sh.srv.clock.stamp(&x.frame)
	}
}

func (k *connRef) stopFrame() {
	if x := k.x.Load(); x != nil && x.frame.Load() != 0 {
		x.frame.Store(0)
	}
}

// paceFrame stops the clock of a message that we do not read on, which is not the
// peer's to hurry, and starts it anew when we do. mu held, by the owner.
func (k *connRef) paceFrame(x *inflight, in *inputBuffer, paused bool) {
	switch running := x.frame.Load() != 0; {
	case running && paused:
		x.frame.Store(0)
	case !running && !paused && in.len() > 0:
		k.sh.srv.clock.stamp(&x.frame)
	}
}

// countLate tells the counters of late replies before they are written. mu held.
func (k *connRef) countLate(x *inflight) {
	if x.late > 0 {
		k.sh.counts.late.Add(x.late)
		x.late = 0
		k.recountOwed(x)
		k.touch() // the peer's time to ask again begins with the answer
	}
}

// dropOutput throws away what waits for the peer. mu held.
func (k *connRef) dropOutput(x *inflight) {
	for _, b := range [...]pool.Buffer{x.front, x.queue.takeAll()} {
		if b.Lent() {
			b.Release()
		}
	}
	x.front, x.waiting, x.lent = pool.Buffer{}, 0, 0
	k.recountExactly(x)
}

// drop throws away what is in flight, except for the bytes that a blocked writer
// holds: it releases them itself. mu held.
func (k *connRef) drop(x *inflight) {
	k.sh.counts.late.Add(x.late)
	x.late = 0
	k.dropOutput(x)
	x.endContext()
	x.in.forget(&k.sh.srv.input)
	x.promises.abandon()
	if x.permit = false; x.place != nil {
		k.sh.srv.requests.cancel(x.place)
		x.place = nil
	}
	k.recountOwed(x)
	x.stall.Store(0)
	k.visitCharged(x)
	if x.claim != nil {
		k.sh.srv.output.cancel(x.claim)
		x.claim = nil
	}
}
