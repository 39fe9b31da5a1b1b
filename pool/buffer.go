package pool

import (
	"io"
	"slices"
	"unsafe"
)

// Buffer is a buffer on loan from a [Buffers]: a small handle that may be copied. All
// copies refer to the same memory, which has one user at a time, and Release ends all of
// them. The zero Buffer holds nothing.
//
// Using a copy after Release panics, even when the memory has been handed out again: each
// memory block has a 64-bit generation counter, and a Buffer knows its generation. A
// stale copy still keeps that memory from the garbage collector: where a struct holds a
// Buffer, set it to Buffer{} after Release.
type Buffer struct {
	trace   trace
	m       *memory // nil in the zero Buffer
	lending uint64
}

// Lent reports whether b is valid: handed out and not yet released.
func (b Buffer) Lent() bool { return b.m != nil && b.m.account.moves.Load() == b.lending }

// memory returns b's memory and panics if b has been released.
func (b Buffer) memory() *memory {
	if !b.Lent() {
		b.refuse()
	}
	return b.m
}

func (b Buffer) refuse() {
	panic("pool: use of a released or zero Buffer" + b.trace.history())
}

// Bytes returns the content, at the buffer's full capacity. It is valid until the next
// Release, Write, Grow or SetBytes.
func (b Buffer) Bytes() []byte { return b.memory().b }

// SetLen sets the length of the content to n; bytes that this adds hold whatever an
// earlier user left. It panics when n is negative or exceeds the capacity. To use the
// whole buffer: b.SetLen(cap(b.Bytes())).
func (b Buffer) SetLen(n int) {
	m := b.memory()
	if uint(n) > uint(cap(m.b)) {
		panic("pool: SetLen beyond the capacity of the Buffer")
	}
	if n == 0 {
		m.most = max(m.most, len(m.b)) // counts as used even if the content is cut to nothing before Release
	}
	m.b = m.b[:n]
}

// SetBytes makes p the content, where p is the result of appending to Bytes. If append
// has moved the data, the pool takes ownership of p's memory: nobody else may hold it,
// and Release files it under the size class that its capacity fills. It panics when p
// begins inside the buffer, because only whole memory blocks can be reused.
func (b Buffer) SetBytes(p []byte) {
	m := b.memory()
	at, start := uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(unsafe.Pointer(unsafe.SliceData(m.b)))
	switch {
	case at == start || cap(p) == 0:
		b.SetLen(len(p))
	case at > start && at < start+uintptr(cap(m.b)):
		panic("pool: SetBytes with a slice from inside the Buffer")
	default:
		c := loose
		if cap(p) >= minSize && cap(p) <= m.from.max() {
			c = classFilled(cap(p))
		}
		b.swap(m.from.own(p, c))
	}
}

// swap exchanges the bytes of b's memory with those of n, which the caller owns. The
// bytes move and the memory stays, because all copies of b point to b.m.
func (b Buffer) swap(n *memory) {
	m, p := b.m, b.m.from
	p.exchange(m, n)
	if checking {
		b.trace.moved(n)
	}
	n.account.moves.Add(2) // counts n's bytes as handed out and returned
	p.put(n)
}

// Write appends p, growing through the pool. The error is always nil. To pass a Buffer as
// an io.Writer without an allocation, pass the address of a variable that is on the heap
// already: a copy stored in an interface allocates.
func (b Buffer) Write(p []byte) (int, error) {
	m := b.memory()
	n := len(m.b)
	if len(p) > cap(m.b)-n {
		b.grow(len(p))
	}
	m.b = m.b[:n+len(p)]
	copy(m.b[n:], p)
	return len(p), nil
}

// Grow makes room for n more bytes after the content, which may move.
func (b Buffer) Grow(n int) {
	if n < 0 {
		panic("pool: Grow by a negative length")
	}
	m := b.memory()
	if n > cap(m.b)-len(m.b) {
		b.grow(n)
	}
	m.most = max(m.most, len(m.b)+n) // asking for room counts as using it
}

// grow moves the content to memory with room for n more bytes. It doubles the capacity
// while the result is small enough to be pooled.
func (b Buffer) grow(n int) {
	m := b.m
	need := len(m.b) + n
	if need < 0 {
		panic("pool: a Buffer would grow beyond what memory can hold")
	}
	if limit := m.from.max(); need <= limit {
		need = max(need, min(2*cap(m.b), limit))
	} else {
		need = max(need, cap(m.b)+cap(m.b)/4)
	}
	larger := m.from.seek(nil, m.from.class(need), need)
	larger.b = larger.b[:copy(larger.b[:cap(larger.b)], m.b)]
	b.swap(larger)
}

// Release returns the memory to the pool. It panics when the buffer was released before;
// when two goroutines release it at once, one of them panics.
func (b Buffer) Release() {
	m := b.m
	if m == nil || !m.account.moves.CompareAndSwap(b.lending, b.lending+1) {
		b.refuseRelease()
	}
	if checking {
		b.trace.ended(m)
	}
	p := m.from
	if m.class != loose && !m.open && p.Warm == 0 && !checking { // put, inlined for the common case
		p.free[m.class].Put(m)
		return
	}
	p.put(m)
}

// Drop ends the loan like Release, but leaves the memory to the garbage collector: for
// memory to which somebody may still refer, as after a panic.
func (b Buffer) Drop() {
	m := b.m
	if m == nil || !m.account.moves.CompareAndSwap(b.lending, b.lending+1) {
		b.refuseRelease()
	}
	if checking {
		b.trace.ended(m)
	}
	if m.b = nil; m.pinned { // its place among the warm memory gets other bytes
		m.b = make([]byte, m.size)
		m.from.put(m)
	}
}

func (b Buffer) refuseRelease() {
	panic("pool: Release of a released or zero Buffer" + b.trace.history())
}

// Loan returns a read-only view of b. Each call on the view reads the current content,
// and panics once b is released.
func (b Buffer) Loan() Loan {
	b.memory()
	return Loan{b}
}

// Loan is a read-only view of a [Buffer], made by [Buffer.Loan].
type Loan struct{ b Buffer }

// Len returns the length of the content.
func (l Loan) Len() int { return len(l.b.Bytes()) }

// WriteTo writes the content to w. It also panics when the buffer is released while w is
// writing, because what was written is then unknown.
func (l Loan) WriteTo(w io.Writer) (int64, error) {
	p := l.b.Bytes()
	n, err := w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	l.b.memory()
	return int64(n), err
}

// Clone returns a copy of the content, which stays valid after Release.
func (l Loan) Clone() []byte { return slices.Clone(l.b.Bytes()) }
