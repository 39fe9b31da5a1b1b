package pace

import (
	"sync"
	"sync/atomic"
)

// Bell lists the keys that a runner must look at, and wakes it if it sleeps.
type Bell struct {
	mu      sync.Mutex
	listed  []uint64
	pending atomic.Bool // listed is not empty; written under mu
	asleep  bool
	rouse   func()
}

// Init sets what wakes the runner: a function that does not wait.
func (b *Bell) Init(rouse func()) { b.rouse = rouse }

// Look makes the runner look at a key.
func (b *Bell) Look(key uint64) {
	b.mu.Lock()
	b.listed = append(b.listed, key)
	b.pending.Store(true)
	b.wake()
	b.mu.Unlock()
}

// wake wakes the runner. mu held.
func (b *Bell) wake() {
	if b.asleep {
		b.asleep = false
		b.rouse()
	}
}

// Wake wakes the runner if it sleeps.
func (b *Bell) Wake() {
	b.mu.Lock()
	b.wake()
	b.mu.Unlock()
}

// Mute is for a runner that has ended: nothing wakes it any more.
func (b *Bell) Mute() {
	b.mu.Lock()
	b.rouse = func() {}
	b.mu.Unlock()
}

// Collect swaps the list for batch, and reports whether there was anything.
func (b *Bell) Collect(batch []uint64) ([]uint64, bool) {
	batch = batch[:0]
	if !b.pending.Load() {
		return batch, false
	}
	b.mu.Lock()
	batch, b.listed = b.listed, batch
	b.pending.Store(false)
	b.mu.Unlock()
	return batch, len(batch) > 0
}

// Sleep reports whether the runner may wait, because nothing is listed: from now on the first that
// lists something wakes it. A runner that then decides not to wait calls Awake.
func (b *Bell) Sleep() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asleep = len(b.listed) == 0
	return b.asleep
}

// Awake records that the runner runs again.
func (b *Bell) Awake() {
	b.mu.Lock()
	b.asleep = false
	b.mu.Unlock()
}
