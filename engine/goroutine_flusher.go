package engine

import "runtime"

// Late replies and pushes on a goroutine engine: while the owner reads, a flusher writes
// them without blocking; a temporary goroutine writes what the peer does not accept at
// once.

// flusher writes the posted output of its share of the connections. It sleeps while there
// is nothing to do.
type flusher struct {
	shard
	batch []uint64
	kick  chan struct{}
}

func newFlusher(s *Server) *flusher {
	f := &flusher{kick: make(chan struct{}, 1)}
	f.srv = s
	f.chunks.Store(&[]chunk{})
	f.Bell.Init(func() {
		select {
		case f.kick <- struct{}{}:
		default:
		}
	})
	return f
}

// sendPosted writes posted output until the server stops.
func (f *flusher) sendPosted() {
	for {
		more := false
		if f.batch, more = f.Collect(f.batch); !more {
			if !f.Sleep() {
				continue
			}
			select {
			case <-f.kick:
				runtime.Gosched() // whoever posted may post more: batch it into one write
			case <-f.srv.stop:
				return
			}
			continue
		}
		for _, key := range f.batch {
			if k, ok := f.lock(key); ok {
				k.s.marks.clear(isDirty)
				if x := k.x.Load(); !k.s.dead && !x.writing {
					k.held().write(x, false)
					k.held().resume(x)
				}
				k.s.mu.Unlock()
			}
		}
	}
}

// startWriter starts a goroutine that writes the front buffer, and what is queued
// meanwhile. mu held.
func (g *goroutineConn) startWriter() {
	if g.writing {
		return
	}
	g.writing = true
	srv := g.ref.sh.srv
	srv.goroutines.Go(func() {
		if !g.relock() {
			return
		}
		g.writing = false
		for !g.ref.s.dead && !g.writing && g.goal == noGoal && g.nextFront() {
			if !g.writeFront() {
				return
			}
		}
		g.wakeOwner() // an owner that waits in a visit continues to write
		g.ref.held().resume(&g.inflight)
		g.ref.s.mu.Unlock()
	})
}
