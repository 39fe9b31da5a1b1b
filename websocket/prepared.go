package websocket

// Prepared is one message for many connections, encoded once. It is immutable and safe for
// concurrent use. The zero Prepared is an empty text.
type Prepared struct {
	plain    []byte
	deflated []byte // nil: compression gains nothing
	offered  bool   // see Droppable
}

// Droppable returns p as a message that may be dropped for a client that reads too slowly, such
// as a price that the next one replaces. Up to a quarter of Limits.HighWater of such messages
// waits for a client, in their order among all that it is sent; above that the oldest are dropped
// (engine.Stats.Dropped). The client is not disconnected for them as long as it reads: it is
// when it takes nothing for Limits.StallTime. A Reply is never dropped.
func (p Prepared) Droppable() Prepared {
	p.offered = true
	return p
}

// Prepare encodes a message for Conn.Send. It copies the bytes. If c is not nil, it also
// encodes a compressed form, for the connections that have negotiated compression. A text must
// be valid UTF-8.
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

// frame is the form for connections with this window.
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
