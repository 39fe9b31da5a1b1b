package ration

import (
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/pool"
)

// Spares are buffers of connections that were closed while output memory was short. The pool
// would keep each for requests of its own size, which the longer queues of other connections do
// not make: until two garbage collections have passed, all memory would count twice.
type Spares struct {
	isShort func() bool // memory is; nil: always
	count   atomic.Int32
	mu      sync.Mutex
	all     []pool.Buffer
}

// Any reports whether there are spare buffers.
func (s *Spares) Any() bool { return s.count.Load() > 0 }

// Size returns how many buffers there are, and their bytes.
func (s *Spares) Size() (buffers int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.all {
		bytes += int64(cap(b.Bytes()))
	}
	return len(s.all), bytes
}

// Keep takes a buffer, and releases all if memory is not short any more. A nil Spares releases
// the buffer.
func (s *Spares) Keep(b pool.Buffer) {
	if s == nil {
		b.Release()
		return
	}
	s.mu.Lock()
	s.all = append(s.all, b)
	s.count.Add(1)
	s.mu.Unlock()
	if s.isShort != nil && !s.isShort() { // whoever noticed that may have come before
		s.Release()
	}
}

// Take returns a buffer of any size, or none.
func (s *Spares) Take() (b pool.Buffer) {
	if s.count.Load() == 0 {
		return b
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.all) - 1; last >= 0 {
		b, s.all[last] = s.all[last], pool.Buffer{}
		s.all = s.all[:last]
		s.count.Add(-1)
	}
	return b
}

// Release releases all buffers.
func (s *Spares) Release() {
	s.mu.Lock()
	all := s.all
	s.all = nil
	s.count.Store(0)
	s.mu.Unlock()
	for _, b := range all {
		b.Release()
	}
}
