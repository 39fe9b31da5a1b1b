package engine

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/hone-go/hone/engine/internal/input"
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
	inOrder    bool          // no message is served before the promised reply is sent
	goal       goal          // what the owner waits for in the middle of a visit
	turn       turn          // of a TLS handshake
	target     uint32        // value of written to wait for
	wakeUp     chan struct{} // ends the owner's wait; capacity 1; nil until first used
	unfinished bool          // a reply was sent in part, see breakOff
	rare       *rare         // nil for most connections
}

// rare is state that few connections need. The connection's mutex guards it.
type rare struct {
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

// waitsForReply reports whether the next message waits for a reply, see Turn.LaterInOrder. mu held.
func (x *inflight) waitsForReply() bool { return x.inOrder && x.promises.Open() > 0 }

// promised reports whether user code will get the socket. mu held.
func (x *inflight) promised() bool { return x.rare != nil && x.rare.give != nil }

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

// goal is what the owner of a connection waits for in the middle of a visit.
type goal uint8

// turn is what a connection has of Server.turns.
type turn uint8

// watched is a context in use.
type watched struct {
	ctx     context.Context
	end     context.CancelFunc
	visited bool // requested in this visit: not cancelled before the visit ends
}

// wakeOwner ends the owner's wait in the middle of a visit, if it waits. mu held.
func (x *inflight) wakeOwner() {
	if x.goal != noGoal {
		x.goal = noGoal
		x.wakeUp <- struct{}{}
	}
}

// reached reports whether the kernel has accepted what the owner waits for. mu held.
func (x *inflight) reached() bool { return int32(x.written.Load()-x.target) >= 0 }

// noteInput publishes to the sweeper what input the connection holds. The caller is the
// owner.
func (x *inflight) noteInput(in *input.Buffer) {
	if size := uint32(in.Kept()); x.input.Load() != size {
		x.input.Store(size)
	}
}

// starves reports whether the connection waits in line for a budget. mu held, or called
// by the owner.
func (x *inflight) starves() bool { return x.share.Waits() || x.debt.Waits() }

// forgetRare frees rare when there is nothing in it. mu held.
func (x *inflight) forgetRare() {
	if r := x.rare; r.zone == "" && r.give == nil && r.given == nil && r.watched.ctx == nil && r.holds == 0 && r.words == nil {
		x.rare = nil
	}
}

const (
	noGoal  goal = iota
	written      // inflight.target is reached
	arrived      // there is something to read
	turned       // its TLS handshake may go on
)

const (
	noTurn turn = iota
	inLine
	itsTurn
)
