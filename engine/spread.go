package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hone-go/hone/engine/internal/life"
)

// Parter is a Protocol whose answers can say that they are a connection's last, as HTTP/1.1's
// can. In Limits.SpreadTime a connection of such a protocol does not end when its turn comes,
// because a request of its peer may be on its way: Conn.Leaving says that its next answer is to
// be the last, and a connection without one ends with that time. SaysLast is called once per
// protocol of a server.
type Parter interface{ SaysLast() bool }

// Leaving reports whether the connection's turn to end has come in a drain: its next answer
// is to be its last.
func (c Conn) Leaving() bool {
	k, ok := c.lock()
	if !ok {
		return false
	}
	defer k.s.mu.Unlock()
	return k.s.facets.has(isLeaving) || k.sh.srv.endsAll.Load()
}

// spreadStep is how often connections are told to leave, and lastWord how long before the end the last ones are: a
// client that asks that often gets a last answer, and does not find a request crossed by the end.
const (
	spreadStep = 20 * time.Millisecond
	lastWord   = 250 * time.Millisecond
)

// spread tells connections to leave, one after the other, for Limits.SpreadTime. It returns
// sooner when the drain has no connection left or no time.
func (s *Server) spread(ctx context.Context) {
	whole := s.limits.SpreadTime
	if whole == 0 {
		return
	}
	var all []Conn
	s.each(func(k connRef) {
		if !k.s.facets.has(isGiven) {
			all = append(all, k.conn())
		}
	})
	order := rand.New(rand.NewPCG(s.accepted.Load(), 0)) // which a simulation can repeat
	order.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tells := whole - min(whole/4, lastWord)
	step := time.NewTicker(spreadStep)
	defer step.Stop()
	for began, told := time.Now(), 0; ; {
		select {
		case <-s.empty:
			return
		case <-ctx.Done():
			return
		case <-s.hurry:
			return
		case <-step.C:
		}
		past := time.Since(began)
		if past >= whole {
			return // the rest ends now
		}
		for ; told < len(all) && float64(told)+0.5 <= float64(len(all))*float64(past)/float64(tells); told++ {
			if k, ok := all[told].lock(); ok {
				k.held().leave()
				k.s.mu.Unlock()
			}
		}
	}
}

// leave tells the connection to leave, unless it ends already.
func (k held) leave() {
	if k.s.dead || k.reason() != 0 || k.s.facets.has(isGiven) {
		return
	}
	k.s.facets.set(isLeaving)
	if !k.speaks().saysLast && k.phase() == life.Serving {
		k.fail(ShuttingDown)
		k.notify()
	}
}
