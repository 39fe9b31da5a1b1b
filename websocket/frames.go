package websocket

import "unicode/utf8"

// The kinds of control frames, which only Frames tells apart.
const (
	CloseFrame = Kind(opClose)
	PingFrame  = Kind(opPing)
	PongFrame  = Kind(opPong)
)

// Frames is a client's side of the protocol without a connection, for programs that read and
// write themselves, such as load generators. It offers no extensions, and answers no ping.
type Frames struct {
	// MessageSize is the longest message accepted, in bytes, 1 GiB at most. Zero: 16 MiB.
	// Negative: a panic.
	MessageSize int

	decoder decoder
}

// Next returns the first message or control frame of what a server has sent: its payload aliases
// in, and used is how many bytes at the front of in are free once it has been consumed. A control
// frame between the fragments of a message uses nothing. Kind 0 means that more bytes must arrive.
//
// Next changes in, and the next call must get the same bytes behind those that were used, with
// more after them. After a Close it drops what follows. An error wraps the Code for which to close
// the connection.
func (f *Frames) Next(in []byte) (kind Kind, payload []byte, used int, err error) {
	d := &f.decoder
	if d.limit == 0 {
		d.limit = messageSize("Frames", f.MessageSize, defaultClientSize)
	}
	if d.at == 0 && !d.closed && len(in) > 1 && in[1] < length16 && int(in[1]) <= min(len(in)-2, d.limit) {
		// The most common case, as decoder.whole has it for a server: a third of the time.
		n := int(in[1])
		payload := in[2 : 2+n : 2+n]
		if in[0] == finBit|byte(opBinary) || in[0] == finBit|byte(opText) && utf8.Valid(payload) {
			return Kind(in[0] & opcodeBits), payload, 2 + n, nil
		}
	}
	e, fault := d.next(in)
	if fault != 0 {
		return 0, nil, 0, fault
	}
	return Kind(e.op), e.payload, e.used, nil
}

// AppendFrame appends a client's frame, which is a whole message or a control frame, masked with a
// key of its own.
func AppendFrame(dst []byte, kind Kind, payload []byte) []byte {
	return appendMasked(dst, finBit|byte(kind), payload)
}
