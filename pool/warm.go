package pool

import (
	"sync"
	"sync/atomic"
)

// warm holds memory that garbage collections must not free. The memory also goes through
// the sync.Pools of its size class while they have it; a Get comes here only when it
// finds nothing there. So memory can be found in two places, and whoever sets claimed
// owns it.
type warm struct {
	bytes   atomic.Int64 // held, in use or not; changed under mu
	mu      sync.Mutex
	now     uint64 // counts the requests that missed their sync.Pool
	shelves [classes]shelf
}

// shelf is the warm memory of one class.
type shelf struct {
	held  []*memory
	asked uint64 // value of now when it was last needed
}

// set stores m at place. The caller owns m, or m is pinned.
func (s *shelf) set(place int, m *memory) {
	if !m.pinned {
		m.pinned = true
		m.claimed.Store(true)
	}
	s.held[place], m.place = m, place
}

// look is how many entries of a shelf are inspected: most may be in use.
const look = 64

// take claims memory of class c, or returns nil.
func (w *warm) take(c int) *memory {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now++
	s := &w.shelves[c]
	s.asked = w.now
	for n := range min(look, len(s.held)) {
		last := len(s.held) - 1
		m := s.held[last-n]
		if m.claimed.CompareAndSwap(false, true) {
			s.set(last-n, s.held[0]) // look at memory in use last
			s.set(0, m)
			return m
		}
	}
	return nil
}

// pin holds memory that nobody else references, if the budget in bytes allows. It evicts
// sizes that were needed less recently.
func (w *warm) pin(m *memory, budget uint64) {
	c, size := int(m.class), int64(m.size)
	if uint64(size) > budget {
		return
	}
	if over := uint64(w.bytes.Load()+size) > budget; over && !m.fresh {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for uint64(w.bytes.Load()+size) > budget {
		if !w.evict(w.shelves[c].asked) {
			return
		}
	}
	s := &w.shelves[c]
	s.held = append(s.held, nil)
	s.set(len(s.held)-1, m)
	w.bytes.Add(size)
}

// evict drops memory of the least recently needed size, if that was before the given
// time. mu is held.
func (w *warm) evict(before uint64) bool {
	var stalest *shelf
	for i := range w.shelves {
		if s := &w.shelves[i]; len(s.held) > 0 && s.asked < before {
			before, stalest = s.asked, s
		}
	}
	if stalest == nil {
		return false
	}
	last := len(stalest.held) - 1
	m := stalest.held[last]
	w.bytes.Add(-int64(m.size))
	m.place = -1
	stalest.held[last] = nil
	stalest.held = stalest.held[:last]
	return true
}
