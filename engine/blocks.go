package engine

import (
	"math/bits"
	"sync"
)

// block is a pooled buffer. Holding the pointer saves boxing a slice header
// into the pool on every return.
type block struct{ b []byte }

const (
	minBlock = 256
	maxBlock = 128 << 10 // larger ones are made to measure and left to the collector
)

// blocks lends buffers in powers of two.
type blocks struct {
	classes [10]sync.Pool // minBlock<<i
}

func classOf(n int) int {
	if n <= minBlock {
		return 0
	}
	return bits.Len(uint(n-1)) - bits.Len(uint(minBlock-1))
}

// get lends a block whose b is at least n long, at its full capacity.
func (p *blocks) get(n int) *block {
	if n > maxBlock {
		return &block{make([]byte, n)}
	}
	i := classOf(n)
	if v := p.classes[i].Get(); v != nil {
		k := v.(*block)
		k.b = k.b[:cap(k.b)]
		return k
	}
	return &block{make([]byte, minBlock<<i)}
}

// put takes a block back. One that has grown by append goes to the class that
// its capacity fills.
func (p *blocks) put(k *block) {
	n := cap(k.b)
	if n < minBlock || n > maxBlock {
		return
	}
	i := classOf(n)
	if minBlock<<i > n {
		i--
	}
	p.classes[i].Put(k)
}
