package main

import (
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
)

// store is the keys and their values, in parts so that connections on different processors seldom wait
// for each other.
type store struct {
	most  int64 // bytes of keys and values together, and overhead for each
	bytes atomic.Int64
	seed  maphash.Seed
	parts [64]part
}

type part struct {
	mu     sync.Mutex
	values map[string]*value
	_      [40]byte // to its own cache line
}

type value struct{ text []byte }

// overhead is about what a key takes in addition to its bytes.
const overhead = 100

func newStore(most int64) *store {
	s := &store{most: most, seed: maphash.MakeSeed()}
	for i := range s.parts {
		s.parts[i].values = make(map[string]*value)
	}
	return s
}

// of returns the part that has a key, locked.
func (s *store) of(key []byte) *part {
	p := &s.parts[maphash.Bytes(s.seed, key)%uint64(len(s.parts))]
	p.mu.Lock()
	return p
}

// get appends a value as an answer.
func (s *store) get(dst, key []byte) []byte {
	p := s.of(key)
	defer p.mu.Unlock()
	if v := p.values[string(key)]; v != nil {
		return appendBulk(dst, v.text)
	}
	return append(dst, "$-1\r\n"...)
}

// set copies the value, because it is in the connection's read buffer.
func (s *store) set(dst, key, text []byte) []byte {
	p := s.of(key)
	defer p.mu.Unlock()
	if !p.put(s, key, text) {
		return append(dst, "-OOM the store is full\r\n"...)
	}
	return append(dst, "+OK\r\n"...)
}

// put stores a value, if there is room for it. p is locked.
func (p *part) put(s *store, key, text []byte) bool {
	v := p.values[string(key)]
	more := len(text)
	if v == nil {
		more += len(key) + overhead
	} else {
		more -= cap(v.text)
	}
	if more > 0 && s.bytes.Add(int64(more)) > s.most {
		s.bytes.Add(-int64(more))
		return false
	}
	if v == nil {
		v = new(value)
		p.values[string(key)] = v
	}
	if more > 0 {
		v.text = make([]byte, 0, len(text))
	}
	v.text = append(v.text[:0], text...)
	return true
}

// del returns how many of the keys there were.
func (s *store) del(keys [][]byte) (n int) {
	for _, key := range keys {
		p := s.of(key)
		if v := p.values[string(key)]; v != nil {
			delete(p.values, string(key))
			s.bytes.Add(-int64(len(key) + cap(v.text) + overhead))
			n++
		}
		p.mu.Unlock()
	}
	return n
}

// incr adds one to a number. A key that does not exist is 0.
func (s *store) incr(dst, key []byte) []byte {
	p := s.of(key)
	defer p.mu.Unlock()
	n := int64(0)
	if v := p.values[string(key)]; v != nil {
		var err error
		if n, err = strconv.ParseInt(string(v.text), 10, 64); err != nil || n+1 < n {
			return append(dst, "-ERR value is not an integer or out of range\r\n"...)
		}
	}
	var room [20]byte
	if !p.put(s, key, strconv.AppendInt(room[:0], n+1, 10)) {
		return append(dst, "-OOM the store is full\r\n"...)
	}
	return appendInt(dst, int(n+1))
}
