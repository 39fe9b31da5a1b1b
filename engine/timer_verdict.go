package engine

import (
	"github.com/hone-go/hone/engine/internal/input"
	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/ration"
	"github.com/hone-go/hone/engine/internal/timing"
)

// What the sweeper knows of a connection, and what follows from it.

// sweeper checks all connections of a server every period: one goroutine.
type sweeper struct {
	condemned []sentence
	pressed   int // consecutive sweeps with the output budget exceeded, or with a visit waiting for it
	surplus   ration.Surplus
}

// sentence is a verdict to be carried out.
type sentence struct {
	k    connRef
	v    timing.Verdict
	why  Reason
	sure bool // even if the peer has read something
}

// carryOut carries out the verdict, if the connection is still open.
func (c *sentence) carryOut(now timing.Tick) {
	k, ok := c.k.sh.lock(c.k.key)
	if !ok {
		return
	}
	s := k.s
	defer s.mu.Unlock()
	x := k.x.Load()
	if s.dead || k.phase() == life.TakenOver && !(c.why == InputBudget && x.rare.holds > input.Small) {
		return // the connection has ended, or user code has got its socket meanwhile
	}
	switch c.v {
	case timing.Measure:
		if x != nil {
			k.held().hasTaken(x, now)
			if x.unfinished && x.settled() && k.link().IsReceived() {
				k.held().abort(k.reason())
			}
		}
	case timing.Rest:
		k.held().rest(x)
	case timing.Ask:
		k.held().ask()
	case timing.Refuse:
		s.suspect = c.why
		k.held().notify()
	case timing.Abort:
		if c.why == IdleTimeout && !k.held().moments().Owed {
			return // the last reply was sent meanwhile
		}
		asks := (c.why == WriteStall || c.why == OutputBudget) && !c.sure && x != nil && x.stall.Load() != 0
		if !asks || !k.held().hasTaken(x, now) {
			k.held().abort(c.why)
		}
	}
}

// ask sends the protocol's ping.
func (k held) ask() {
	if s := k.s; s.marks.has(isShut) || s.marks.has(isSaid) || k.reason() != 0 {
		return
	}
	ping := k.speaks().ping
	k.sh.counts.pushes.Add(1)
	k.enqueue(k.attach(), [][]byte{ping}, len(ping), true)
}

// rest makes an idle connection free what it does not need.
func (k held) rest(x *inflight) {
	if x != nil && x.g != nil {
		x.promises.Forget() // its owner keeps the rest for life, and must not be woken
		return
	}
	k.s.marks.set(isTired)
	k.notify()
}

// moments returns a snapshot of the connection.
func (k held) moments() timing.Moments {
	s := k.s
	m := timing.Moments{Asks: k.speaks().ping != nil, Phase: k.phase(), Since: s.since.Load(), Seen: s.seen.Load(), Trusted: s.facets.has(isTrusted), Draining: k.sh.srv.endsAll.Load()}
	if x := k.x.Load(); x != nil {
		m.SetFrame(&x.frame)
		m.Stall = x.stall.Load()
		m.Unfinished = x.unfinished
		m.Owed = x.promises.Open() > 0 || x.late > 0 || x.starves()
		m.Trusted = m.Trusted || x.starves()
		if x.g != nil {
			if x.promises.IsLarge() {
				m.RestAfter = restAfter
			}
		} else if x.rare == nil && m.Frame == 0 && !m.Owed && x.waiting == 0 {
			m.RestAfter = restAfter
		}
	}
	return m
}

// restAfter is after how many idle periods a connection rests: half a second by default. A rest must be
// rare compared with the requests before it: detaching an inflight costs 0.3 µs.
const restAfter = 2
