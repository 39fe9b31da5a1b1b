package websocket

// How a message goes out that is no answer within a visit: pushes and late replies.

// push sends a message to the connection.
func (c Conn) push(kind Kind, parts [][]byte) error {
	var head [mostHead]byte
	var room [5][]byte
	n := lengthOf(parts)
	if c.protocol.compresses(n) {
		z := c.protocol.upgrader.Compression
		b := z.borrow()
		deflated := z.deflate(b.bytes, c.protocol.window, parts...)
		defer z.giveBack(b, deflated)
		if len(deflated) < n {
			return c.conn.Push(appendHead(head[:0], byte(kind)|finBit|compressedBit, len(deflated)), deflated)
		}
	}
	return c.conn.Push(append(append(room[:0], appendHead(head[:0], byte(kind)|finBit, n)), parts...)...)
}

// send sends a message as the answer.
func (r Reply) send(kind Kind, parts [][]byte) error {
	var head [mostHead]byte
	var room [5][]byte
	n := lengthOf(parts)
	if r.protocol.compresses(n) {
		z := r.protocol.upgrader.Compression
		b := z.borrow()
		deflated := z.deflate(b.bytes, r.protocol.window, parts...)
		defer z.giveBack(b, deflated)
		if len(deflated) < n {
			return r.reply.Send(appendHead(head[:0], byte(kind)|finBit|compressedBit, len(deflated)), deflated)
		}
	}
	return r.reply.Send(append(append(room[:0], appendHead(head[:0], byte(kind)|finBit, n)), parts...)...)
}

// lengthOf is how long parts are together.
func lengthOf(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}

// compresses reports whether a message of n bytes is to be sent compressed. p may be nil,
// as that of the zero Conn.
func (p *protocol) compresses(n int) bool {
	return p != nil && p.window != 0 && p.upgrader.Compression.worthwhile(n)
}

// sendWindow is p.window, also where there is no protocol.
func (p *protocol) sendWindow() uint8 {
	if p == nil {
		return 0
	}
	return p.window
}

// scratch is a buffer that compressed messages are made in, or decompressed into.
type scratch struct{ bytes []byte }

// mostScratch is how large a scratch may be that is kept.
const mostScratch = 64 << 10

// borrow lends a scratch.
func (c *Compression) borrow() *scratch {
	if s, ok := c.scratches.Get().(*scratch); ok {
		return s
	}
	return new(scratch)
}

// giveBack keeps the buffer that used has grown to.
func (c *Compression) giveBack(s *scratch, used []byte) {
	if s.bytes = used[:0]; cap(used) > mostScratch {
		s.bytes = nil
	}
	c.scratches.Put(s)
}
