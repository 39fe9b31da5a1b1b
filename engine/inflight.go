package engine

import (
	"net"
	"sync/atomic"

	"github.com/hone-go/hone/engine/internal/input"
	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/outbox"
	"github.com/hone-go/hone/engine/internal/ration"
	"github.com/hone-go/hone/engine/internal/ticket"
	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/pool"
)

// inflight is the state of a connection while anything is in flight: unserved input,
// unsent output, replies owed. Connections of an event loop attach one when they need it
// and detach it when they have been quiet, so an idle one costs a nil pointer; a
// goroutine connection has its own for life.
type inflight struct {
	g *goroutineConn // its connection, for life; nil on an event loop

	in   input.Buffer // the owner's: unserved input between visits
	left int          // the owner's: bytes left to read in a drain, or to discard

	frame   timing.Frame  // of the message that has begun to arrive
	input   atomic.Uint32 // capacity of the buffer that holds unserved input
	stall   atomic.Uint32 // when the peer was last seen to read some of the unsent output
	written atomic.Uint32 // bytes that the kernel has accepted, modulo 2^32
	blocked atomic.Bool   // replies of a visit are in front: stop reading; written under mu

	// The connection's mutex guards everything below.
	waiting    int64        // bytes of unsent output
	taken      uint32       // of written, what the peer had acknowledged at the last check
	measured   bool         // taken is known since the stall began
	lent       int          // capacity of the buffer that a blocked writer holds
	share      ration.Share // of the output budget
	front      pool.Buffer  // output that is being written; the socket is full
	sent       int          // bytes of front that are written
	took       int          // bytes that the peer has read since it last stalled
	wide       bool         // a fast reader: the kernel may accept more for it
	cut        bool         // the last write ended for fairness, not because the socket was full
	writing    bool         // a goroutine that may block is writing: all other output is queued
	ended      bool         // what is in flight is dropped and no longer counted
	queue      outbox.Queue
	promises   ticket.Set    // late replies owed
	debt       ration.Debt   // of the request budget
	late       uint64        // late replies not yet in the counters
	goal       goal          // what the owner waits for in the middle of a visit
	turn       turn          // of a TLS handshake
	target     uint32        // value of written to wait for
	wakeUp     chan struct{} // ends the owner's wait; capacity 1; nil until first used
	unfinished bool          // a reply was sent in part, see breakOff
	rare       *rare         // nil for most connections
}

// rare is state that few connections need. The connection's mutex guards it.
type rare struct {
	value   any                                     // of Conn.SetValue
	zone    string                                  // of the peer's address
	give    func(net.Conn) (left []byte, back bool) // user code that will get the socket
	watched watched                                 // of Turn.Context
	given   net.Conn                                // the socket while user code has it
	words   []byte                                  // of Conn.End; nil: none
	holds   int                                     // of Conn.HoldInput
}

// rarely returns x.rare, created if there is none. mu held.
func (x *inflight) rarely() *rare {
	if x.rare == nil {
		x.rare = new(rare)
	}
	return x.rare
}

// promised reports whether user code will get the socket. mu held.
func (x *inflight) promised() bool { return x.rare != nil && x.rare.give != nil }

// attach returns the connection's inflight, created if there is none.
func (k held) attach() *inflight {
	x := k.x.Load()
	if x == nil {
		x = k.sh.srv.inflights.Get().(*inflight)
		x.promises.StartAt(k.s.tickets)
		k.x.Store(x)
	}
	return x
}

// attachUnlocked is attach for an owner that does not hold mu.
func (k owner) attachUnlocked() *inflight {
	if x := k.x.Load(); x != nil {
		return x
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.held().attach()
}

// detach frees the inflight of a loop's connection that is quiet. The caller is the owner. A
// connection that is ending keeps it, because it counts what is left to read.
func (k held) detach() {
	x := k.x.Load()
	if x == nil || !x.quiet() || x.rare != nil || x.unfinished || k.s.own.has(drains) || k.phase() != life.Serving {
		return
	}
	x.share.Recount(&k.sh.srv.output, k.memory(x))
	x.share.EndVisit(&k.sh.srv.output)
	k.s.tickets = x.promises.Generation()
	k.x.Store(nil)
	k.sh.srv.putInflight(x)
}

// putInflight pools x for another connection of an event loop.
func (s *Server) putInflight(x *inflight) {
	*x = inflight{promises: x.promises.Recycled()}
	s.inflights.Put(x)
}

// quiet reports whether nothing is in flight.
func (x *inflight) quiet() bool {
	return x.in.Len() == 0 && x.settled() && !x.share.IsClaiming() && x.debt.IsZero()
}

// settled reports whether no reply is owed and no output is unsent.
func (x *inflight) settled() bool { return x.promises.Open() == 0 && x.unwritten() }

// unwritten reports that no output is queued or being written. See settled.
func (x *inflight) unwritten() bool {
	return !x.front.Lent() && x.queue.IsEmpty() && !x.writing
}

// mostGranted is how many messages are served before flow control is checked again while
// no reply is owed and nothing is unsent: it bounds how far concurrent posts can exceed a
// limit.
const mostGranted = 16

// admit returns how many messages flow control allows before it must be checked again,
// which also happens when there is a reason to end. The first call of a visit separates
// what was posted before the visit.
func (k owner) admit(first bool) int {
	if ends(k.reason()) {
		return 0
	}
	full := k.sh.srv.requests.IsFull()
	if full && first && !k.mayOwe() {
		return 0
	}
	if first && !(k.s.weight == ration.SmallWeight && k.x.Load() == nil) && !k.mayProduce() {
		return 0
	}
	x := k.x.Load()
	if x == nil {
		return mostGranted
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	switch {
	case !k.held().below(x) || full && !first && x.promises.Open() > 0:
		return 0
	case first && k.sh.srv.ordered:
		x.queue.StartVisit() // a reply that was posted since the visit began still precedes its output
	}
	if x.promises.Open() > 0 || x.waiting > 0 {
		return 1
	}
	return mostGranted
}

// below reports whether x is below the limits that pause reading.
func (k held) below(x *inflight) bool {
	limits := &k.sh.srv.limits
	return !x.blocked.Load() && !x.starves() && int(x.promises.Open()) < limits.InFlight && x.waiting < int64(limits.HighWater)
}

// resumes reports whether a pause may end: at half of the limit, as hysteresis.
func (k held) resumes(x *inflight) bool {
	limits := &k.sh.srv.limits
	return !x.blocked.Load() && !x.starves() && int(x.promises.Open()) <= limits.InFlight/2 && x.waiting <= int64(limits.HighWater/2)
}

// hasRoom reports whether flow control lets the connection continue after a visit.
func (k owner) hasRoom() bool {
	x := k.x.Load()
	return x == nil || k.isBelow(x)
}

func (k *connRef) isBelow(x *inflight) bool {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.held().below(x)
}

// startVisit records what was posted before this visit, so that an ordered protocol's
// replies stay in order. Once it has begun, what was posted stays behind the visit's output.
func (k owner) startVisit() {
	k.s.mu.Lock()
	if q := &k.held().attach().queue; !q.IsVisiting() {
		q.StartVisit()
	}
	k.s.mu.Unlock()
}

// startFrame starts the timer of the message that has begun to arrive and lacks need bytes.
func (k owner) startFrame(in *input.Buffer, need int) {
	if in.Len() > 0 {
		k.attachUnlocked().frame.Start(&k.sh.srv.clock, in.Len()+need)
	}
}

func (k owner) stopFrame() {
	if x := k.x.Load(); x != nil {
		x.frame.Stop()
	}
}

// countLate updates the counters of late replies before they are written.
func (k held) countLate(x *inflight) {
	if x.late > 0 {
		k.sh.counts.late.Add(x.late)
		x.late = 0
		x.debt.Recount(&k.sh.srv.requests, x.promises.Open())
		k.touch() // the idle timeout starts with the reply
	}
}

// dropOutput drops the unsent output.
func (k held) dropOutput(x *inflight) {
	spares := k.sh.srv.output.WhenShort()
	if x.front.Lent() {
		spares.Keep(x.front)
	}
	x.queue.DropAll(spares)
	x.front, x.waiting, x.lent = pool.Buffer{}, 0, 0
	if k.s.secured {
		k.layer().Drop()
	}
	x.share.Recount(&k.sh.srv.output, k.memory(x))
}

// drop drops everything in flight, except for the bytes that a blocked writer holds: it
// releases them itself.
func (k held) drop(x *inflight) {
	k.sh.counts.late.Add(x.late)
	x.late = 0
	k.dropOutput(x)
	k.endContext(x)
	x.in.Forget(&k.sh.srv.input)
	if x.rare != nil {
		k.sh.srv.input.Add(int64(-x.rare.holds))
		x.rare.holds = 0
	}
	x.promises.Abandon()
	x.debt.Drop(&k.sh.srv.requests)
	x.stall.Store(0)
	x.share.Drop(&k.sh.srv.output)
}
