// Package input holds what connections have received and not served yet, and bounds the memory
// for it.
package input

import "github.com/hone-go/hone/pool"

// Buffer holds the received but unserved bytes of one connection. It grows with the
// bytes received, never with a claimed length: it doubles, up to what the current message
// still needs.
type Buffer struct {
	base  []byte      // in use while nothing larger is needed
	kept  pool.Buffer // holds a message that does not fit base, or a rest
	start int         // buffer[start:end] is unserved
	end   int
	want  int // bytes that must arrive before the protocol is called again
}

// leastKept is the size below which shrinking a buffer is not worthwhile.
const leastKept = 256

func (b *Buffer) buffer() []byte {
	if b.kept.Lent() {
		return b.kept.Bytes()
	}
	return b.base
}

// Use makes base the buffer to read into. b is empty.
func (b *Buffer) Use(base []byte) { b.base = base }

// Want returns how many bytes must arrive before the protocol is called again: 0 or less when
// it can continue.
func (b *Buffer) Want() int { return b.want }

// IsKept reports whether there is a buffer beside base.
func (b *Buffer) IsKept() bool { return b.kept.Lent() }

// Kept returns the capacity of the buffer beside base, 0 if there is none.
func (b *Buffer) Kept() int64 {
	if !b.kept.Lent() {
		return 0
	}
	return int64(cap(b.kept.Bytes()))
}

// Bytes returns the unserved bytes.
func (b *Buffer) Bytes() []byte { return b.buffer()[b.start:b.end] }

// Space returns where to read to; never empty. Engines that read exactly what is needed
// limit it to want themselves.
func (b *Buffer) Space(memory *Budget) []byte {
	if b.start == b.end {
		b.start, b.end = 0, 0
		if b.kept.Lent() {
			b.keep(memory, pool.Buffer{})
		}
	}
	buf := b.buffer()
	wanted := max(1, b.want)
	if free := len(buf) - b.end; b.start > 0 && free < max(wanted, len(buf)/2) {
		b.end = copy(buf, buf[b.start:b.end])
		b.start = 0
	}
	if b.end == len(buf) {
		size := 2 * max(len(buf), leastKept/2)
		if wanted > size/8 { // otherwise a protocol that asks for single bytes would copy every time
			size = min(size, b.end+wanted)
		}
		b.move(memory, memory.borrow(size))
		buf = b.buffer()
	}
	return buf[b.end:]
}

// move copies the unserved bytes to another buffer.
func (b *Buffer) move(memory *Budget, to pool.Buffer) {
	b.start, b.end = 0, copy(to.Bytes(), b.Bytes())
	b.keep(memory, to)
}

// keep replaces kept by another buffer, or none.
func (b *Buffer) keep(memory *Budget, other pool.Buffer) {
	if b.kept.Lent() {
		memory.release(b.kept)
	}
	b.kept = other
}

// Arrived accounts for n bytes read into space and reports whether to call the protocol.
func (b *Buffer) Arrived(n int) bool {
	b.end += n
	b.want -= n
	return b.want <= 0
}

// Served drops used bytes.
func (b *Buffer) Served(used, want int) {
	b.start += used
	b.want = want
}

// Len returns the number of unserved bytes.
func (b *Buffer) Len() int { return b.end - b.start }

// Ready reports whether the protocol can continue with what is here.
func (b *Buffer) Ready() bool { return b.end > b.start && b.want <= 0 }

// Lend makes base the buffer to read into. A short rest is moved there, so that the next
// read is a large one; a long rest stays where it is and grows.
func (b *Buffer) Lend(memory *Budget, base []byte) {
	b.base = base
	if b.kept.Lent() && b.Len() <= len(base)/16 {
		b.start, b.end = 0, copy(base, b.Bytes())
		b.keep(memory, pool.Buffer{})
	}
}

// GiveBack releases base, and copies the rest to a buffer that fits it.
func (b *Buffer) GiveBack(memory *Budget) {
	rest := b.Len()
	if rest == 0 {
		b.Forget(memory)
	} else if !b.kept.Lent() || len(b.kept.Bytes()) > 4*max(rest, leastKept) {
		b.move(memory, memory.borrow(rest))
	}
	b.base = nil
}

// Put fills an empty buffer.
func (b *Buffer) Put(memory *Budget, p []byte) {
	if b.start, b.end, b.want = 0, 0, 0; len(p) > 0 {
		b.keep(memory, memory.borrow(len(p)))
		b.end = copy(b.kept.Bytes(), p)
	}
}

// Forget drops the unserved bytes and releases the buffers.
func (b *Buffer) Forget(memory *Budget) {
	b.start, b.end, b.base = 0, 0, nil
	b.keep(memory, pool.Buffer{})
}

// Lose is forget for buffers to which user code may still refer.
func (b *Buffer) Lose(memory *Budget) {
	if b.kept.Lent() {
		memory.lose(b.kept)
	}
	*b = Buffer{}
}
