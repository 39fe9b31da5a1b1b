package engine

import (
	"time"

	"github.com/hone-go/hone/engine/internal/admission"
)

// Hand-off. A loop calls handlers itself, because passing each request to another
// goroutine costs more than most handlers. So that a handler that blocks does not stall
// its loop, a watchdog checks the running visits every millisecond while there are any.
// When it finds the same visit twice, it takes the loop away: another goroutine continues
// the loop, and the slow one finishes its visit, returns the connection and leaves the
// loop.

// shard.visiting identifies the running visit: 1 + its slot in the low bits, and above
// them a visit counter; with no slot, none is running. It costs two stores per visit.
const visitSlots = 1<<slotBits - 1

// enterUser begins a call of user code for the connection.
func (k owner) enterUser(d *workspace) {
	if d.offLoop {
		if d.g != nil {
			d.g.inUser.Store(true)
		}
		return
	}
	l := k.sh.loop
	l.visits++
	d.visit = l.visits<<slotBits | uint64(uint32(k.key)) + 1
	l.visiting.Store(d.visit)
	l.srv.watchdog.Wake()
}

// exitUser ends the call, however it ended. When the loop was taken away meanwhile, the
// goroutine must not touch the loop's fields.
func (k owner) exitUser(d *workspace) {
	if d.g != nil {
		d.g.inUser.Store(false)
	} else if !d.offLoop && !k.sh.stopVisit(d.visit) {
		d.offLoop = true
		k.sh.srv.helpers.busy.Add(-1)
	}
}

// stopVisit ends a visit, and reports false if somebody else has ended it.
func (sh *shard) stopVisit(visit uint64) bool {
	return sh.visiting.CompareAndSwap(visit, visit&^visitSlots)
}

// watchLoops checks the loops until the server stops.
func (s *Server) watchLoops() {
	last := make([]uint64, len(s.loops))
	s.watchdog.Run(s.stop, func() (quiet bool) {
		quiet = true
		for i, l := range s.loops {
			visit := l.visiting.Load()
			if visit != last[i] {
				quiet = false
			} else if visit&visitSlots != 0 {
				quiet = false
				l.passOn(visit, true)
			}
			last[i] = visit
			l.slow.CalmDown(time.Since(l.srv.clock.Start()))
			quiet = quiet && l.slow.Epoch() == 0
		}
		return quiet
	})
}

// passOn has another goroutine continue the loop of a visit; slow means that the visit
// was not known to take long.
func (l *loop) passOn(visit uint64, slow bool) {
	k, ok := l.find(uint64(visit&visitSlots) - 1)
	if !ok {
		return
	}
	s := k.s
	s.mu.Lock()
	k.key = keyOf(int(visit&visitSlots)-1, s.tenant.Load()&^awayBit)
	// From here on nobody runs the loop, and the connection's owner waits for mu before
	// it returns the connection.
	if !l.stopVisit(visit) {
		s.mu.Unlock()
		return
	}
	l.srv.helpers.busy.Add(1)
	l.srv.helpers.takenAway()
	if slow {
		l.srv.handOffs.Add(1)
		s.slowVisits = max(minSlowVisits, min(2*s.slowVisits, maxSlowVisits))
		l.slow.TakenAway(time.Since(l.srv.clock.Start()), l.visits)
	}
	k.held().setAway(true)
	k.held().writeAway(false)
	s.mu.Unlock()
	l.srv.helpers.run(job{l: l})
}

// rescue takes every loop away from its running visit, in all modes, so that a handler
// that does not return does not block the loop's other connections.
func (s *Server) rescue() {
	for _, l := range s.started() {
		if visit := l.visiting.Load(); visit&visitSlots != 0 {
			l.passOn(visit, true)
		}
	}
}

// A connection whose visit lost its loop is served off the loop until so many visits have
// been fast, more of them each time.
const (
	minSlowVisits = 4
	maxSlowVisits = 128
)

// handOff moves a connection off its loop, to a helper. The caller is the loop.
func (k owner) handOff() {
	k.sh.loop.yield.Others()
	shakes := k.s.own.shakesNext()
	k.s.mu.Lock()
	waits := shakes && !k.held().takeTurn(false)
	if k.s.facets.set(isHandedOff); waits {
		k.s.facets.set(isInLine)
	}
	k.held().setAway(true)
	k.held().watchFor(true)
	k.s.mu.Unlock()
	if waits {
		return // until giveTurn
	}
	k.sh.srv.helpers.serve(job{l: k.sh.loop, key: k.key, shakes: shakes})
}

// takeTurn reports whether the handshake may compute. If not, the connection waits in line.
func (k held) takeTurn(begun bool) bool {
	x := k.attach()
	if x.turn == noTurn {
		x.turn = inLine
		if k.sh.srv.turns.Take(admission.Host(k.addr().Addr()), k.conn(), begun) {
			x.turn = itsTurn
		}
	}
	return x.turn == itsTurn
}

// endTurn passes the connection's turn, if it has one, to the next in line.
func (k owner) endTurn() {
	k.s.mu.Lock()
	x := k.x.Load()
	passes := x != nil && x.turn == itsTurn
	if passes {
		x.turn = noTurn
	}
	k.s.mu.Unlock()
	for passes {
		next, waits := k.sh.srv.turns.Pass()
		passes = waits && !next.giveTurn()
	}
}

// giveTurn reports whether the connection still waits, and has got the turn. A helper begins with it at
// once: a turn that waits for a loop would be nobody's meanwhile.
func (c Conn) giveTurn() bool {
	k, ok := c.lock()
	if !ok {
		return false
	}
	x, begins := k.x.Load(), false
	waits := !k.s.dead && x != nil && x.turn == inLine
	if waits {
		x.turn = itsTurn
		if begins = k.s.facets.has(isInLine); !begins {
			k.held().notify()
		}
	}
	k.s.mu.Unlock()
	if begins {
		k.sh.srv.helpers.serve(job{l: k.sh.loop, key: k.key, shakes: true})
	}
	return waits
}

// call calls user code under the watchdog.
func (k owner) call(d *workspace, user func()) {
	k.enterUser(d)
	defer k.exitUser(d)
	k.sh.srv.guard(k.conn(), user)
}

// Leave declares that this visit may block: another goroutine takes over the event loop
// at once, and a read buffer that a More before it has emptied is freed. The engine detects
// a visit that blocks anyway, but its loop then stalls for a millisecond or two. Leave costs
// a few microseconds, and nothing on a goroutine engine.
func (t *Turn) Leave() {
	if t.ref != nil {
		t.freeInput()
		t.ref.owner().leaveLoop(t.d)
	}
}

// leaveLoop hands the loop to another goroutine and continues the visit on this one.
func (k owner) leaveLoop(d *workspace) {
	if _, away := k.standing(); !d.offLoop && !away {
		k.sh.loop.passOn(d.visit, false)
	}
}
