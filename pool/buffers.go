package pool

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// defaultMax is the default of Buffers.Max.
const defaultMax = 1 << 20

// Buffers is a pool of byte buffers of every size, in size classes. The zero value is
// ready. Buffers must not be copied after first use; all methods are safe for concurrent
// use, while a [Buffer] has one user at a time.
//
// Idle memory is freed by the second garbage collection, as in sync.Pool. Each size class
// has its own free list, so a small request never keeps a huge block alive
// (golang/go#23199). No buffer is dropped only for being large, because a workload of
// large buffers would then allocate each of them anew (VictoriaMetrics #8510): usage
// decides, see Get.
type Buffers struct {
	// Max is the largest buffer that is pooled; larger ones are allocated to size and
	// left to the garbage collector. Zero: 1 MiB. Negative: no limit, which is 64 MiB, as is
	// every larger value.
	Max int

	// Warm is how many bytes of idle memory may survive garbage collections. They stay
	// with their size class until other sizes need the room. Zero: none. Negative: no limit.
	Warm int

	// Report is called with what a build with -tags poolcheck finds, on the goroutine
	// that finds it. Nil: a buffer written to after its Release panics, and a leak is
	// only counted. Other builds ignore it.
	Report func(Finding)

	check   bufferCheck
	first   atomic.Uint32                   // size class that Get(0) returns
	free    [classes + 1]sync.Pool          // the last one, of loose memory, stays empty
	ends    [stripes][classes]atomic.Uint32 // see underused
	learned sync.Mutex
	ledger  ledger
	warm    warm
}

// memory is a block of pooled bytes and its accounting. It has one owner at a time: a
// Buffer or the pool.
type memory struct {
	stored
	trace   trace
	account *account
	from    *Buffers
	most    int         // longest content while it was handed out, before it was cut
	open    bool        // handed out by Get(0)
	pinned  bool        // held by warm too, so it can be found in two places
	claimed atomic.Bool // where pinned: whoever sets it owns the memory
}

// stored is what moves along when memory blocks swap their bytes.
type stored struct {
	b     []byte // always at its full capacity
	size  int    // the capacity
	place int    // index in warm, -1: not held; guarded by warm.mu where pinned
	class uint8
	fresh bool // never released yet
}

// Get returns a buffer of length n. Its bytes hold whatever an earlier user left; the
// capacity beyond the length is the caller's too.
//
// Get(0) is for content of unknown size. Its capacity is the 95th percentile of what such
// buffers needed lately. A buffer that returns more than four times larger than that, and
// hardly used, is dropped (Stats.Underused). Memory that was asked for with n > 0 counts
// as used.
//
// Cost: Get and Release together take 23 ns, twice a bare sync.Pool's 11 ns
// (BenchmarkBuffersParallel), and allocate nothing. A miss costs 0.3 µs and 120 bytes in
// addition to the buffer's memory.
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

// class returns the size class for Get(n).
func (p *Buffers) class(n int) int {
	switch {
	case n == 0:
		return int(p.first.Load())
	case n > p.max():
		return loose
	}
	return classFor(n)
}

// max returns Max, limited to the largest size class.
func (p *Buffers) max() int {
	if p.Max == 0 {
		return defaultMax
	}
	return int(min(uint(p.Max), maxSize)) // a negative one is the largest of all
}

// seek takes memory of class c from the pool, or allocates it for n bytes. m is memory
// that was found already, or nil.
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
		p.shelve(m) // it was found through another class, and has swapped its bytes since
	}
	if c == loose {
		return p.own(make([]byte, n), c)
	}
	if p.Warm != 0 {
		if m := p.warm.take(c); m != nil {
			return m
		}
	}
	return p.own(make([]byte, classSize(c)), c)
}

// own wraps bytes that are new to the pool.
func (p *Buffers) own(b []byte, c int) *memory {
	m := &memory{stored: stored{b: b, size: cap(b), place: -1, class: uint8(c), fresh: true}, from: p}
	p.ledger.open(m)
	return m
}

// exchange swaps the bytes of m and n, which the caller owns.
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

// put returns released memory to the pool.
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
		m.b = nil // a stale Buffer must not keep the bytes alive
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
	if p.Warm != 0 && !m.pinned {
		p.warm.pin(m, uint64(p.Warm))
	}
	m.fresh = false
	p.shelve(m)
}

// shelve puts m on the free list that Get reads.
func (p *Buffers) shelve(m *memory) {
	c := m.class
	if m.pinned {
		m.claimed.Store(false)
	}
	if c != loose {
		p.free[c].Put(m)
	}
}

// learnEvery is how many more lengths a class counts before the pool re-evaluates the
// capacity for Get(0). Each evaluation halves all counts, so the last hundred or so
// buffers decide.
const learnEvery = 64

// stripes is how many copies of the counters there are. A block of memory always uses the
// same stripe, and mostly stays with the processor that used it last.
const stripes = 8

// underused records the final length of an open-ended buffer, and reports whether it is
// far larger than what such buffers are used for lately.
func (p *Buffers) underused(m *memory) bool {
	used := classFor(min(max(m.most, len(m.b)), maxSize))
	if p.ends[uintptr(unsafe.Pointer(m))/unsafe.Sizeof(*m)%stripes][used].Add(1)%learnEvery == 0 {
		p.learn()
	}
	first := int(p.first.Load())
	return used <= first && int(m.class) >= first+2*octave
}

// learn sets the capacity for Get(0) to the 95th percentile of recent use. The mode of
// all sizes, which bytebufferpool uses, is too small for many buffers (bytebufferpool
// #15).
func (p *Buffers) learn() {
	if !p.learned.TryLock() {
		return // another goroutine is already at it
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
