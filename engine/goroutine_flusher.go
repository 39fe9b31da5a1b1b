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
