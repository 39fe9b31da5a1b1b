package websocket

// Prepared is one message for many connections, whose frame is made once. It is never
// changed and safe for concurrent use. The zero Prepared is an empty text.
type Prepared struct {
	plain    []byte
	deflated []byte // nil: compressing it gains nothing
}

// Prepare makes the frame of a message for Conn.Send. The bytes are copied. With c, which
// may be nil, it is made a second time, compressed, for the connections that have agreed
// on that. A text must be valid UTF-8.
func Prepare(kind Kind, message []byte, c *Compression) Prepared {
	first := byte(kind) | finBit
	p := Prepared{plain: appendFrame(nil, first, message)}
	if c == nil || !c.worthwhile(len(message)) {
		return p
	}
	deflated := c.deflate(nil, mostWindow, message)
	if len(deflated) < len(message) {
		p.deflated = appendFrame(nil, first|compressedBit, deflated)
	}
	return p
}

// frame is what a connection with this window is sent.
func (p Prepared) frame(window uint8) []byte {
	switch {
	case p.deflated != nil && window == mostWindow:
		return p.deflated
	case p.plain == nil:
		return emptyText
	}
	return p.plain
}

var emptyText = []byte{finBit | byte(Text), 0}
