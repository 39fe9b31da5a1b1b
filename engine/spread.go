package engine

import (
	"context"
	"math"
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

// spreadStep is how often connections are told to leave.
const spreadStep = 20 * time.Millisecond

// spread tells connections to leave, one after the other, for Limits.SpreadTime. It returns
// sooner when the drain has no connection left or no time.
func (s *Server) spread(ctx context.Context) {
	whole := s.limits.SpreadTime
	if whole == 0 {
		return
	}
	p := s.planExodus(int(s.accepted.Load() % chunkSlots)) // which a simulation can repeat
	step := time.NewTicker(spreadStep)
	defer step.Stop()
	for began := time.Now(); ; {
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
		p.tell(int(math.Round(float64(p.conns) * float64(past) / float64(whole)))) // the last one, too, before the end
	}
}

// exodus is the order in which the connections of a server leave. As no connection comes after the start
// of a drain, a walk over all slots meets each once.
type exodus struct {
	chunks []place
	conns  int // at the start
	told   int // of these
	seed   int // which slot of each chunk is the first
	walked int // slots
}

// place is a chunk's first slot.
type place struct {
	sh    *shard
	first int
}

// planExodus plans the walk.
func (s *Server) planExodus(seed int) *exodus {
	p := &exodus{seed: seed}
	s.mu.Lock()
	p.conns = s.open - s.given
	s.mu.Unlock()
	s.eachShard(func(sh *shard) {
		for i := range *sh.chunks.Load() {
			p.chunks = append(p.chunks, place{sh, i * chunkSlots})
		}
	})
	return p
}

// stride is the distance between two slots of a chunk that leave one after the other: odd, so that the walk
// meets all, and by the golden ratio, so that it scatters neighbours, who came together.
const stride = 633

// tell walks on until so many connections were told to leave.
func (p *exodus) tell(most int) {
	for ; p.told < most && p.walked < len(p.chunks)*chunkSlots; p.walked++ {
		c, round := p.chunks[p.walked%len(p.chunks)], p.walked/len(p.chunks)
		if k, ok := c.sh.at(c.first + (p.seed+round*stride)%chunkSlots); ok {
			if k.held().leave() {
				p.told++
			}
			k.s.mu.Unlock()
		}
	}
}

// leave tells the connection to leave, unless it ends already.
func (k held) leave() bool {
	if k.s.dead || k.reason() != 0 || k.s.facets.has(isGiven) {
		return false
	}
	k.s.facets.set(isLeaving)
	if !k.speaks().saysLast && k.phase() == life.Serving {
		k.fail(ShuttingDown)
		k.notify()
	}
	return true
}
