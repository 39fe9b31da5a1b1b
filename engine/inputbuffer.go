package engine

import "github.com/hone-go/hone/pool"

// inputBuffer holds the bytes of one connection that have arrived and are not yet
// served. It grows with bytes received, never with a length that was claimed:
// doubling, up to what the current message still wants.
type inputBuffer struct {
	base  []byte      // the buffer in use while nothing larger is needed
	kept  pool.Buffer // the buffer of a message that base cannot hold, or of a rest
	start int         // buffer[start:end] is unserved
	end   int
	want  int // bytes that must arrive before the protocol is asked again
}

// leastKept is how small a buffer may be that is not worth a smaller one.
const leastKept = 256

func (b *inputBuffer) buffer() []byte {
	if b.kept.Lent() {
		return b.kept.Bytes()
	}
	return b.base
}

// bytes is what is unserved.
func (b *inputBuffer) bytes() []byte { return b.buffer()[b.start:b.end] }

// space is where the next bytes go; never empty. Engines that read exactly
// what is wanted cut it to want themselves.
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
		if wanted > size/8 { // else a protocol that asks byte by byte would copy at every one
			size = min(size, b.end+wanted)
		}
		b.move(memory, memory.borrow(size))
		buf = b.buffer()
	}
	return buf[b.end:]
}

// move keeps what is unserved in another buffer.
func (b *inputBuffer) move(memory *inputBudget, to pool.Buffer) {
	b.start, b.end = 0, copy(to.Bytes(), b.bytes())
	b.keep(memory, to)
}

// keep gives kept back for another one, or none.
func (b *inputBuffer) keep(memory *inputBudget, other pool.Buffer) {
	if b.kept.Lent() {
		memory.release(b.kept)
	}
	b.kept = other
}

// arrived accounts for n bytes read into space and reports whether the
// protocol can be asked.
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

// ready reports whether the protocol can go on with what is here.
func (b *inputBuffer) ready() bool { return b.end > b.start && b.want <= 0 }

// lend makes base the buffer to read into. A short rest moves there, so that
// the next read is a large one; a long one stays where it is and grows.
func (b *inputBuffer) lend(memory *inputBudget, base []byte) {
	b.base = base
	if b.kept.Lent() && b.len() <= len(base)/16 {
		b.start, b.end = 0, copy(base, b.bytes())
		b.keep(memory, pool.Buffer{})
	}
}

// giveBack lets go of base, keeping a copy of the rest in a buffer that fits it.
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

// forget drops what is unserved and gives the buffers back.
func (b *inputBuffer) forget(memory *inputBudget) {
	b.start, b.end, b.base = 0, 0, nil
	b.keep(memory, pool.Buffer{})
}

// lose is forget for buffers that somebody may still hold.
func (b *inputBuffer) lose(memory *inputBudget) {
	if b.kept.Lent() {
		memory.lose(b.kept)
	}
	*b = inputBuffer{}
}
