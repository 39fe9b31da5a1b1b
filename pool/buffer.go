package pool

import (
	"io"
	"slices"
	"unsafe"
)

// Buffer is one lending: a small value that may be copied. All copies are the same
// buffer, which has one user at a time, and all of them end with its Release. The
// zero Buffer is not lent.
//
// A copy that is kept after Release panics when it is used, whoever has the memory
// by then: memory counts its lendings in 64 bits, and a Buffer knows which one it
// is. It keeps that memory from the collector, though: where a struct holds a
// Buffer, set it to Buffer{} after Release.
type Buffer struct {
	trace   trace
	m       *memory // nil: the zero Buffer
	lending uint64
}

// Lent reports whether b may be used.
func (b Buffer) Lent() bool { return b.m != nil && b.m.account.moves.Load() == b.lending }

// memory is what b lends.
func (b Buffer) memory() *memory {
	if !b.Lent() {
		b.refuse()
	}
	return b.m
}

func (b Buffer) refuse() {
	panic("pool: use of a Buffer that is not lent: it was released before" + b.trace.history())
}

// Bytes is the content, at the buffer's full capacity. It is valid until the next
// Release, Write, Grow or SetBytes.
func (b Buffer) Bytes() []byte { return b.memory().b }

// SetLen makes the content n bytes long; what is added is what an earlier user
// left. It panics when n is negative or more than the capacity. To use all there
// is: b.SetLen(cap(b.Bytes())).
func (b Buffer) SetLen(n int) {
	m := b.memory()
	if uint(n) > uint(cap(m.b)) {
		panic("pool: SetLen beyond the capacity of the Buffer")
	}
	if n == 0 {
		m.most = max(m.most, len(m.b)) // emptied before Release, it was used all the same
	}
	m.b = m.b[:n]
}

// SetBytes makes p the content, where p is what append made of Bytes. When
// append has moved it, p's memory is the pool's from here on: nobody else may
// hold it, and Release files it under the class that its capacity fills. It
// panics when p begins inside the buffer (only whole memory can be lent again).
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

// swap has b lend the bytes of n, which nobody else has, and gives its own back:
// the bytes change places, as all copies of b know b.m alone.
func (b Buffer) swap(n *memory) {
	m, p := b.m, b.m.from
	p.exchange(m, n)
	if checking {
		b.trace.moved(n)
	}
	n.account.moves.Add(2) // it has been lent, and comes back
	p.put(n)
}

// Write appends p, growing through the pool. The error is always nil. Where an
// io.Writer is wanted, a Buffer in a variable that is on the heap already is best
// passed by its address: a copy in an interface is an allocation.
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

// Grow makes room for n more bytes behind the content, which may move.
func (b Buffer) Grow(n int) {
	if n < 0 {
		panic("pool: Grow by a negative length")
	}
	m := b.memory()
	if n > cap(m.b)-len(m.b) {
		b.grow(n)
	}
	m.most = max(m.most, len(m.b)+n) // asked for is used
}

// grow moves the content to where n more bytes have room. It doubles, as long as
// what it takes is pooled.
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

// Release gives the memory back. It panics when the buffer is not lent; of two
// goroutines that release it at once, one succeeds.
func (b Buffer) Release() {
	m := b.m
	if m == nil || !m.account.moves.CompareAndSwap(b.lending, b.lending+1) {
		b.refuseRelease()
	}
	if checking {
		b.trace.ended(m)
	}
	p := m.from
	if m.class != loose && !m.open && p.Warm == 0 && !checking { // what put would do
		p.free[m.class].Put(m)
		return
	}
	p.put(m)
}

func (b Buffer) refuseRelease() {
	panic("pool: Release of a Buffer that is not lent: it was released before" + b.trace.history())
}

// Loan is a read-only view of a buffer. It sees the buffer
// as it is at each call, and panics once that is released.
func (b Buffer) Loan() Loan {
	b.memory()
	return Loan{b}
}

// Loan is a read-only view of a [Buffer], made by [Buffer.Loan].
type Loan struct{ b Buffer }

// Len is the length of the content.
func (l Loan) Len() int { return len(l.b.Bytes()) }

// WriteTo writes the content to w. It panics, too, when the buffer was released
// while w had it: nobody knows then what was written.
func (l Loan) WriteTo(w io.Writer) (int64, error) {
	p := l.b.Bytes()
	n, err := w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	l.b.memory()
	return int64(n), err
}

// Clone is a copy of the content, which outlives the buffer.
func (l Loan) Clone() []byte { return slices.Clone(l.b.Bytes()) }
