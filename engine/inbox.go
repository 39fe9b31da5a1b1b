package engine

// inbox holds the bytes of one connection that have arrived and are not yet
// served. It grows with bytes received, never with a length that was claimed:
// doubling, up to what the current message still wants.
type inbox struct {
	base  []byte // the buffer in use while nothing larger is needed
	kept  *block // the buffer of a message that base cannot hold, or of a rest
	start int    // buffer[start:end] is unserved
	end   int
	want  int // bytes that must arrive before the protocol is asked again
}

func (b *inbox) buffer() []byte {
	if b.kept != nil {
		return b.kept.b
	}
	return b.base
}

// bytes is what is unserved.
func (b *inbox) bytes() []byte { return b.buffer()[b.start:b.end] }

// space is where the next bytes go; never empty. Engines that read exactly
// what is wanted cut it to want themselves.
func (b *inbox) space(blocks *blocks) []byte {
	buf := b.buffer()
	if b.start == b.end {
		b.start, b.end = 0, 0
		if b.kept != nil {
			b.drop(blocks)
			buf = b.base
		}
	}
	wanted := max(1, b.want)
	if free := len(buf) - b.end; b.start > 0 && free < max(wanted, len(buf)/2) {
		b.end = copy(buf, buf[b.start:b.end])
		b.start = 0
	}
	if b.end == len(buf) {
		size := 2 * max(len(buf), minBlock/2)
		if wanted > size/8 { // else a protocol that asks byte by byte would copy at every one
			size = min(size, b.end+wanted)
		}
		b.grow(blocks, size)
		buf = b.kept.b
	}
	return buf[b.end:]
}

func (b *inbox) grow(blocks *blocks, size int) {
	larger := blocks.get(size)
	copy(larger.b, b.bytes())
	b.end -= b.start
	b.start = 0
	if b.kept != nil {
		blocks.put(b.kept)
	}
	b.kept = larger
}

// arrived accounts for n bytes read into space and reports whether the
// protocol can be asked.
func (b *inbox) arrived(n int) bool {
	b.end += n
	b.want -= n
	return b.want <= 0
}

// served drops used bytes.
func (b *inbox) served(used, want int) {
	b.start += used
	b.want = want
}

func (b *inbox) len() int { return b.end - b.start }

// lend makes base the buffer to read into. A short rest moves there, so that
// the next read is a large one; a long one stays where it is and grows.
func (b *inbox) lend(base []byte, blocks *blocks) {
	b.base = base
	if b.kept != nil && b.len() <= len(base)/16 {
		rest := copy(base, b.bytes())
		b.drop(blocks)
		b.start, b.end = 0, rest
	}
}

// giveBack lets go of base, keeping a copy of the rest in a buffer that fits it.
func (b *inbox) giveBack(blocks *blocks) {
	rest := b.bytes()
	switch {
	case len(rest) == 0:
		if b.kept != nil {
			b.drop(blocks)
		}
		b.start, b.end = 0, 0
	case b.kept == nil || cap(b.kept.b) > 4*max(len(rest), minBlock):
		fits := blocks.get(len(rest))
		copy(fits.b, rest)
		if b.kept != nil {
			blocks.put(b.kept)
		}
		b.kept = fits
		b.start, b.end = 0, len(rest)
	}
	b.base = nil
}

// forget drops what is unserved.
func (b *inbox) forget(blocks *blocks) {
	b.start, b.end = 0, 0
	b.giveBack(blocks)
}

func (b *inbox) drop(blocks *blocks) {
	blocks.put(b.kept)
	b.kept = nil
}
