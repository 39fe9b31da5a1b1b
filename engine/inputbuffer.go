package engine

import "github.com/hone-go/hone/pool"

// inputBuffer holds the received but unserved bytes of one connection. It grows with the
// bytes received, never with a claimed length: it doubles, up to what the current message
// still needs.
type inputBuffer struct {
	base  []byte      // in use while nothing larger is needed
	kept  pool.Buffer // holds a message that does not fit base, or a rest
	start int         // buffer[start:end] is unserved
	end   int
	want  int // bytes that must arrive before the protocol is called again
}

// leastKept is the size below which shrinking a buffer is not worthwhile.
const leastKept = 256

func (b *inputBuffer) buffer() []byte {
	if b.kept.Lent() {
		return b.kept.Bytes()
	}
	return b.base
}

// bytes returns the unserved bytes.
func (b *inputBuffer) bytes() []byte { return b.buffer()[b.start:b.end] }

// space returns where to read to; never empty. Engines that read exactly what is needed
// limit it to want themselves.
func (b *inputBuffer) space(memory *inputBudget) []byte {
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
func (b *inputBuffer) move(memory *inputBudget, to pool.Buffer) {
	b.start, b.end = 0, copy(to.Bytes(), b.bytes())
	b.keep(memory, to)
}

// keep replaces kept by another buffer, or none.
func (b *inputBuffer) keep(memory *inputBudget, other pool.Buffer) {
	if b.kept.Lent() {
		memory.release(b.kept)
	}
	b.kept = other
}

// arrived accounts for n bytes read into space and reports whether to call the protocol.
func (b *inputBuffer) arrived(n int) bool {
	b.end += n
	b.want -= n
	return b.want <= 0
}

// served drops used bytes.
func (b *inputBuffer) served(used, want int) {
	b.start += used
	b.want = want
}

func (b *inputBuffer) len() int { return b.end - b.start }

// ready reports whether the protocol can continue with what is here.
func (b *inputBuffer) ready() bool { return b.end > b.start && b.want <= 0 }

// lend makes base the buffer to read into. A short rest is moved there, so that the next
// read is a large one; a long rest stays where it is and grows.
func (b *inputBuffer) lend(memory *inputBudget, base []byte) {
	b.base = base
	if b.kept.Lent() && b.len() <= len(base)/16 {
		b.start, b.end = 0, copy(base, b.bytes())
		b.keep(memory, pool.Buffer{})
	}
}

// giveBack releases base, and copies the rest to a buffer that fits it.
func (b *inputBuffer) giveBack(memory *inputBudget) {
	rest := b.len()
	if rest == 0 {
		b.forget(memory)
	} else if !b.kept.Lent() || len(b.kept.Bytes()) > 4*max(rest, leastKept) {
		b.move(memory, memory.borrow(rest))
	}
	b.base = nil
}

// put fills an empty buffer.
func (b *inputBuffer) put(memory *inputBudget, p []byte) {
	if b.start, b.end, b.want = 0, 0, 0; len(p) > 0 {
		b.keep(memory, memory.borrow(len(p)))
		b.end = copy(b.kept.Bytes(), p)
	}
}

// forget drops the unserved bytes and releases the buffers.
func (b *inputBuffer) forget(memory *inputBudget) {
	b.start, b.end, b.base = 0, 0, nil
	b.keep(memory, pool.Buffer{})
}

// lose is forget for buffers to which user code may still refer.
func (b *inputBuffer) lose(memory *inputBudget) {
	if b.kept.Lent() {
		memory.lose(b.kept)
	}
	*b = inputBuffer{}
}
