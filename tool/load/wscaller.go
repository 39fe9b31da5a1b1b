package load

import (
	"encoding/binary"
	"fmt"
	"io"
)

// wsCaller is a codec separate from package websocket's, so that a bug of the server is not also
// in the generator that verifies it. It matches answers by their order. It masks what it sends
// with unpredictable keys, as a client must.
type wsCaller struct {
	limit   int
	opcode  byte   // of requests
	random  uint64 // the state of the mask generator
	asked   queue[uint64]
	open    bool   // a fragmented message has begun and not ended
	parts   []byte // its fragments so far
	replies []byte // control frames to send
	ignores bool   // unsolicited messages are skipped
	skip    uint64 // bytes of a skipped message still to come
}

// The bits of a frame's first two bytes, and its opcodes.
const (
	finalBit  = 0x80
	reserved  = 0x70
	maskBit   = 0x80
	shortest  = 125 // the longest payload without an extended length, and of a control frame
	length16  = 126
	length64  = 127
	continued = 0x0

	textFrame   = 0x1
	binaryFrame = 0x2
	closeFrame  = 0x8
	pingFrame   = 0x9
	pongFrame   = 0xa
)

func (c *wsCaller) AppendRequest(dst []byte, id uint64, content []byte) []byte {
	c.asked.push(id)
	return c.appendFrame(dst, c.opcode, content)
}

// appendFrame appends a whole frame, masked.
func (c *wsCaller) appendFrame(dst []byte, opcode byte, payload []byte) []byte {
	dst = append(dst, finalBit|opcode)
	switch n := len(payload); {
	case n <= shortest:
		dst = append(dst, maskBit|byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, maskBit|length16), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, maskBit|length64), uint64(n))
	}
	key := uint64(c.key())
	dst = binary.LittleEndian.AppendUint32(dst, uint32(key))
	from := len(dst)
	dst = append(dst, payload...)
	mask(dst[from:], key)
	return dst
}

// key returns SplitMix64's next number, of which 32 bits are used.
func (c *wsCaller) key() uint32 {
	c.random += 0x9e3779b97f4a7c15
	z := c.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return uint32(z >> 32)
}

// mask masks b with a key of four bytes, lowest byte first.
func mask(b []byte, key uint64) {
	key |= key << 32
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^key)
	}
	for i := range b {
		b[i] ^= byte(key >> (8 * i))
	}
}

// AppendReplies appends the pending control frames.
func (c *wsCaller) AppendReplies(dst []byte) []byte {
	dst = append(dst, c.replies...)
	c.replies = c.replies[:0]
	return dst
}

// Ignore skips unsolicited messages from now on.
func (c *wsCaller) Ignore() { c.ignores = true }

// wsFrame is the head of a frame.
type wsFrame struct {
	opcode byte
	final  bool
	size   uint64 // of the payload
	head   int    // size of the head; 0: it is incomplete
}

func (c *wsCaller) Decode(a *Answer, in []byte) (used int, err error) {
	if len(in) == 0 {
		return 0, c.end()
	}
	if c.skip > 0 {
		n := min(c.skip, uint64(len(in)))
		c.skip -= n
		return int(n), nil
	}
	f, err := frameOf(in)
	if err != nil || f.head == 0 {
		return 0, err
	}
	if f.opcode < closeFrame {
		if err := c.expects(f); err != nil {
			return 0, err
		}
		if c.asked.count == 0 && c.ignores {
			c.skip, c.open = f.size, !f.final
			return f.head, nil
		}
	}
	if uint64(len(in)-f.head) < f.size {
		return 0, nil
	}
	used = f.head + int(f.size)
	payload := in[f.head:used]
	switch {
	case f.opcode >= closeFrame:
		return used, c.control(a, f.opcode, payload)
	case !f.final:
		c.open, c.parts = true, append(c.parts, payload...)
		return used, nil
	case c.open:
		c.parts = append(c.parts, payload...)
		payload, c.parts, c.open = c.parts, c.parts[:0], false
	}
	a.ID, a.Content = c.asked.pop(), payload
	return used, nil
}

// frameOf parses the head of a frame, which may be incomplete.
func frameOf(in []byte) (f wsFrame, err error) {
	if len(in) < 2 {
		return f, nil
	}
	f = wsFrame{opcode: in[0] & 0xf, final: in[0]&finalBit != 0, size: uint64(in[1] &^ maskBit)}
	switch {
	case in[0]&reserved != 0:
		return f, badFrame("a frame has reserved bits set (%#02x)", in[0])
	case in[1]&maskBit != 0:
		return f, badFrame("a frame is masked, which only clients may do")
	case f.opcode > binaryFrame && f.opcode < closeFrame || f.opcode > pongFrame:
		return f, badFrame("a frame has the opcode %#x", f.opcode)
	case f.opcode >= closeFrame && (!f.final || f.size > shortest):
		return f, badFrame("a control frame is fragmented, or longer than %d bytes", shortest)
	}
	head, least := 2, uint64(0)
	switch f.size {
	case length16:
		head, least = 4, shortest+1
	case length64:
		head, least = 10, 1<<16
	}
	if len(in) < head {
		return f, nil
	}
	switch head {
	case 4:
		f.size = uint64(binary.BigEndian.Uint16(in[2:]))
	case 10:
		f.size = binary.BigEndian.Uint64(in[2:])
	}
	if f.size < least || f.size>>63 != 0 {
		return f, badFrame("a length of %d takes %d bytes", f.size, head-2)
	}
	f.head = head
	return f, nil
}

// expects returns why a frame of a message is not allowed now; nil when it is.
func (c *wsCaller) expects(f wsFrame) error {
	switch {
	case c.open != (f.opcode == continued):
		return badFrame("a message begins within another, or goes on that has not begun")
	case c.asked.count == 0 && !c.ignores:
		return unasked("WebSocket")
	case c.asked.count > 0 && f.size > uint64(c.limit-len(c.parts)):
		return tooLarge(c.limit)
	}
	return nil
}

// badFrame returns the error for a violation of RFC 6455.
func badFrame(format string, args ...any) error {
	return &Error{
		Kind: Garbage, What: "the server violates RFC 6455 (WebSocket): " + fmt.Sprintf(format, args...),
		Try: "look for a proxy in between, or for a fault of the server's",
	}
}

// mostReplies limits the replies that a server can make us queue.
const mostReplies = 64 << 10

// control handles a control frame.
func (c *wsCaller) control(a *Answer, opcode byte, payload []byte) error {
	switch opcode {
	case pingFrame:
		if len(c.replies) < mostReplies {
			c.replies = c.appendFrame(c.replies, pongFrame, payload)
		}
	case closeFrame:
		return c.closes(a, payload)
	}
	return nil
}

// The close codes that matter here (RFC 6455, 7.4).
const (
	goingAway       = 1001
	protocolError   = 1002
	unsupportedData = 1003
	firstReserved   = 1004
	lastReserved    = 1006
	invalidPayload  = 1007
	messageTooBig   = 1009
	missingOption   = 1010
	serviceRestart  = 1012
	tryAgainLater   = 1013
	lastDefined     = 1014
	firstFree       = 3000
	lastFree        = 4999
)

// closes answers a Close frame, which announces the end of the connection.
func (c *wsCaller) closes(a *Answer, payload []byte) error {
	a.Last = true
	if len(payload) == 0 {
		c.replies = c.appendFrame(c.replies, closeFrame, nil)
		return nil
	}
	if len(payload) == 1 {
		return badFrame("a Close frame has one byte")
	}
	code := binary.BigEndian.Uint16(payload)
	c.replies = c.appendFrame(c.replies, closeFrame, payload[:2])
	if code < 1000 || code >= firstReserved && code <= lastReserved || code > lastDefined && code < firstFree || code > lastFree {
		return badFrame("a Close frame has the code %d", code)
	}
	why := &Error{Kind: Refused, What: fmt.Sprintf("the server closes the connection (%d %q)", code, payload[2:]), Try: "look into the server's log"}
	switch code {
	case goingAway, serviceRestart, tryAgainLater:
		why.Try = "start the server again"
		a.Err = why // the server drains
	case protocolError, unsupportedData, invalidPayload, messageTooBig, missingOption:
		why.Try = "send what the server takes, or raise its limits"
		return why
	}
	return nil
}

// end runs when the server has ended the stream.
func (c *wsCaller) end() error {
	if !c.open && c.skip == 0 {
		return nil
	}
	return &Error{
		Kind: Closed, Err: io.ErrUnexpectedEOF, What: "the server closed a connection in the middle of a message",
		Try: "look into the server's log: it may have died, or its handler has failed",
	}
}
