package websocket

// Messages that are not answered within a visit: pushes and late replies.

// mostParts is the largest number of parts that are sent without first being copied together.
const mostParts = 4

// push sends a message to the connection. It differs from Reply.send only in the call at the
// end: calling through a function value would move the variables here to the heap.
func (c Conn) push(kind Kind, parts [][]byte) error {
	n := lengthOf(parts)
	if p := c.protocol; p.compresses(n) || len(parts) > mostParts {
		b := p.borrow()
		defer p.giveBack(b)
		return c.conn.Push(p.whole(b, kind, n, parts))
	}
	var head [mostHead]byte
	var all [1 + mostParts][]byte
	all[0] = appendHead(head[:0], byte(kind)|finBit, n)
	return c.conn.Push(all[:1+copy(all[1:], parts)]...)
}

// send sends a message as the answer.
func (r Reply) send(kind Kind, parts [][]byte) error {
	n := lengthOf(parts)
	if p := r.protocol; p.compresses(n) || len(parts) > mostParts {
		b := p.borrow()
		defer p.giveBack(b)
		return r.reply.Send(p.whole(b, kind, n, parts))
	}
	var head [mostHead]byte
	var all [1 + mostParts][]byte
	all[0] = appendHead(head[:0], byte(kind)|finBit, n)
	return r.reply.Send(all[:1+copy(all[1:], parts)]...)
}

// whole builds a message's frame in b, compressed if that was negotiated and makes it shorter.
func (p *protocol) whole(b *scratch, kind Kind, n int, parts [][]byte) []byte {
	first := byte(kind) | finBit
	b.bytes = beginFrame(b.bytes[:0], n)
	body := len(b.bytes)
	for _, part := range parts {
		b.bytes = append(b.bytes, part...)
	}
	if p.compresses(n) {
		b.bytes = p.endDeflated(b.bytes, 0, body, first)
	} else {
		b.bytes = endFrame(b.bytes, 0, body, first)
	}
	return b.bytes
}

// lengthOf is the total length of parts.
func lengthOf(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}

// compresses reports whether to compress a message of n bytes. p may be nil, as in the zero
// Conn.
func (p *protocol) compresses(n int) bool {
	return p != nil && p.window != 0 && p.upgrader.Compression.worthwhile(n)
}

// sendWindow is p.window, or 0 if p is nil.
func (p *protocol) sendWindow() uint8 {
	if p == nil {
		return 0
	}
	return p.window
}

// scratch is a buffer for building or decompressing messages.
type scratch struct{ bytes []byte }

// mostScratch is the largest scratch that is kept.
const mostScratch = 64 << 10

// borrow takes a scratch from the free list. p may be nil.
func (p *protocol) borrow() *scratch {
	if p != nil {
		if b, ok := p.upgrader.scratches.Get().(*scratch); ok {
			return b
		}
	}
	return new(scratch)
}

func (p *protocol) giveBack(b *scratch) {
	if cap(b.bytes) > mostScratch {
		b.bytes = nil
	}
	if p != nil {
		p.upgrader.scratches.Put(b)
	}
}
