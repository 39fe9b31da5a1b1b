package pool

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// defaultMax is Buffers.Max when it is not told.
const defaultMax = 1 << 20

// Buffers lends byte buffers of every size. The zero value is ready. Buffers
// must not be copied after first use; all methods are safe for concurrent use,
// a [Buffer] has one user at a time.
//
// Idle memory goes away with the second garbage collection, as in sync.Pool.
// Each class of sizes has its own, so that a small buffer is never served from
// huge memory that it would keep alive (golang/go#23199), and nothing is given
// back for being large, which would make a workload of large buffers allocate
// each of them anew (VictoriaMetrics #8510): what decides is use, see Get.
type Buffers struct {
	// Max is the largest buffer that is pooled; larger ones are made to measure
	// and left to the collector. 0: 1 MiB. More than 64 MiB counts as 64 MiB.
	Max int

	// Warm is how many bytes of idle memory may survive collections; it is held
	// until other sizes need the room. 0: none.
	Warm int

	// Report is told what the check build finds, by whichever goroutine comes upon
	// it. nil: a buffer written to after its Release panics, a leak is only counted.
	// Other builds do not use it.
	Report func(Finding)

	check   bufferCheck
	first   atomic.Uint32                   // the class that Get(0) lends
	free    [classes + 1]sync.Pool          // that of loose memory stays empty
	ends    [stripes][classes]atomic.Uint32 // see underused
	learned sync.Mutex
	ledger  ledger
	warm    warm
}

// memory is what is pooled: bytes, and who has them. It has one owner at a time:
// a Buffer, or the pool.
type memory struct {
	stored
	trace   trace
	account *account
	from    *Buffers
	most    int         // the longest content before it was cut to nothing
	open    bool        // lent by Get(0)
	pinned  bool        // warm has held it: it may be found in several places
	claimed atomic.Bool // whoever sets it has the memory, where it is pinned
}

// stored is what goes along when bytes change their memory.
type stored struct {
	b     []byte // always at its full capacity
	size  int    // the capacity
	place int    // where warm holds it, -1: nowhere; guarded by warm.mu where pinned
	class uint8
	fresh bool // has not come back yet
}

// Get lends a buffer of length n. Its bytes are what an earlier user left; what
// lies between its length and its capacity is the borrower's too.
//
// Get(0) is for content whose size is not known. Its capacity is what nineteen
// of twenty such buffers needed lately, and when one that was hardly used comes
// back four times larger than that, it is dropped (Stats.Underused). An n that
// was asked for is never held against a buffer: it counts as used.
//
// Cost: Get and Release together take twice the time of a bare sync.Pool's, 23 ns
// where that takes 11 (BenchmarkBuffersParallel), and allocate nothing. Memory that
// has to be made costs 0.3 µs and 120 bytes beside its own.
func (p *Buffers) Get(n int) Buffer {
	if n < 0 {
		panic("pool: Get of a negative length")
	}
	c := p.class(n)
	m, _ := p.free[c].Get().(*memory)
	if m == nil || m.pinned {
		m = p.seek(m, c, n)
	}
	m.b = m.b[:n]
	if n == 0 {
		m.open, m.most = true, 0
	}
	b := Buffer{m: m, lending: m.account.moves.Add(1)}
	if checking {
		b.trace.lent(m)
	}
	return b
}

// class is the one that Get(n) lends.
func (p *Buffers) class(n int) int {
	switch {
	case n == 0:
		return int(p.first.Load())
	case n > p.max():
		return loose
	}
	return classFor(n)
}

// max is never more than the largest class.
func (p *Buffers) max() int {
	if p.Max <= 0 {
		return defaultMax
	}
	return min(p.Max, maxSize)
}

// seek takes memory of class c from the pool, or makes it for n bytes. m is what has
// been found already.
func (p *Buffers) seek(m *memory, c, n int) *memory {
	for ; ; m = nil {
		if m == nil {
			if m, _ = p.free[c].Get().(*memory); m == nil {
				break
			}
		}
		if m.pinned && !m.claimed.CompareAndSwap(false, true) {
			continue
		}
		if int(m.class) == c {
			return m
		}
		p.shelve(m) // it was found elsewhere, and has other bytes since
	}
	if c == loose {
		return p.own(make([]byte, n), c)
	}
	if p.Warm > 0 {
		if m := p.warm.take(c); m != nil {
			return m
		}
	}
	return p.own(make([]byte, classSize(c)), c)
}

// own makes memory of bytes that are new to the pool.
func (p *Buffers) own(b []byte, c int) *memory {
	m := &memory{stored: stored{b: b, size: cap(b), place: -1, class: uint8(c), fresh: true}, from: p}
	p.ledger.open(m)
	return m
}

// exchange has m and n, which the caller owns, swap their bytes.
func (p *Buffers) exchange(m, n *memory) {
	if m.pinned || n.pinned {
		p.warm.mu.Lock()
		defer p.warm.mu.Unlock()
	}
	m.stored, n.stored = n.stored, m.stored
	for _, x := range [2]*memory{m, n} {
		x.account.size.Store(int64(x.size))
		if x.place >= 0 {
			p.warm.shelves[x.class].set(x.place, x)
		}
	}
}

// put takes memory back that is not lent any more.
func (p *Buffers) put(m *memory) {
	underused := m.open && p.underused(m)
	m.open = false
	switch {
	case m.class == loose:
		if m.size > p.max() {
			p.ledger.tooLarge.Add(1)
		} else {
			p.ledger.tooSmall.Add(1)
		}
		m.b = nil // a Buffer that is kept must not keep it
		return
	case underused && !m.pinned:
		p.ledger.underused.Add(1)
		m.b = nil
		return
	}
	if checking {
		if m = p.check.swap(m, p); m == nil {
			return
		}
	}
	if p.Warm > 0 && !m.pinned {
		p.warm.pin(m, p.Warm)
	}
	m.fresh = false
	p.shelve(m)
}

// shelve puts m where Get finds it.
func (p *Buffers) shelve(m *memory) {
	c := m.class
	if m.pinned {
		m.claimed.Store(false)
	}
	if c != loose {
		p.free[c].Put(m)
	}
}

// Get(0) counts the lengths that its buffers come to, per class. Each time that
// a class has got learnEvery more, the pool looks at all of them, and forgets
// half: the last hundred or so decide.
const learnEvery = 64

// stripes is in how many places is counted: memory keeps to one, and stays for
// the most part with the processor that used it last.
const stripes = 8

// underused notes how long an open-ended buffer has become, and reports whether
// it is far larger than what such buffers are used for lately.
func (p *Buffers) underused(m *memory) bool {
	used := classFor(min(max(m.most, len(m.b)), maxSize))
	if p.ends[uintptr(unsafe.Pointer(m))/unsafe.Sizeof(*m)%stripes][used].Add(1)%learnEvery == 0 {
		p.learn()
	}
	first := int(p.first.Load())
	return used <= first && int(m.class) >= first+2*octave
}

// learn sets what Get(0) lends to the 95th percentile of what it was used for.
// The mode of all sizes, as bytebufferpool takes it, is too small for many
// of them (bytebufferpool #15).
func (p *Buffers) learn() {
	if !p.learned.TryLock() {
		return // somebody is at it
	}
	defer p.learned.Unlock()
	var ends [classes]uint32
	total := uint32(0)
	for i := range p.ends {
		for c := range p.ends[i] {
			n := p.ends[i][c].Load()
			ends[c] += n
			total += n
			p.ends[i][c].Add(-(n - n/2))
		}
	}
	c, most := 0, classFilled(max(p.max(), minSize))
	for left := total - total/20; c < most && ends[c] < left; c++ {
		left -= ends[c]
	}
	p.first.Store(uint32(c))
}
