package ration

import (
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/pool"
)

// Spares are buffers of connections that were closed while output memory was short. The pool
// would keep each for requests of its own size, which the longer queues of other connections do
// not make: until two garbage collections have passed, all memory would count twice. No budget
// counts them, so they take a quarter of it at most.
type Spares struct {
	isShort func() bool // memory is; nil: always
	most    int64       // bytes of all; 0: any number
	count   atomic.Int32
	mu      sync.Mutex
	bytes   int64
	all     []pool.Buffer
}

// largest is what a spare buffer may have: a short reply would keep all of a larger one.
const largest = 64 << 10

// Any reports whether there are spare buffers.
func (s *Spares) Any() bool { return s.count.Load() > 0 }

// Size returns how many buffers there are, and their bytes.
func (s *Spares) Size() (buffers int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all), s.bytes
}

// Keep takes a buffer, and releases all if memory is not short any more. A nil Spares releases
// the buffer, and so does one that has no room for it.
func (s *Spares) Keep(b pool.Buffer) {
	size := int64(cap(b.Bytes()))
	if s == nil || size > largest {
		b.Release()
		return
	}
	s.mu.Lock()
	kept := s.most == 0 || s.bytes+size <= s.most
	if kept {
		s.all = append(s.all, b)
		s.bytes += size
		s.count.Add(1)
	}
	s.mu.Unlock()
	if !kept {
		b.Release()
		return
	}
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
		s.bytes -= int64(cap(b.Bytes()))
		s.count.Add(-1)
	}
	return b
}

// Release releases all buffers.
func (s *Spares) Release() {
	s.mu.Lock()
	all := s.all
	s.all, s.bytes = nil, 0
	s.count.Store(0)
	s.mu.Unlock()
	for _, b := range all {
		b.Release()
	}
}
