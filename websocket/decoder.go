package websocket

import (
	"encoding/binary"
	"unicode/utf8"
)

// decoder cuts the bytes of one connection into events. It does no I/O and keeps no
// memory: a message that is not complete stays in the reader's buffer, and what a server
// must remember of it between two visits fits into the 64 bits of load and state.
//
// The bytes that are not used are where the work is done, and must be the same ones at
// the next call, with more behind them. The first frame of an open message is at the
// front; its payload is unmasked in place. The payloads of its other frames are moved to
// the left, behind it, as they become complete, so that the message is one slice in the
// end and every byte has moved once. How far that slice reaches is kept where the masking
// key of the first frame was. A text is checked as it arrives, so a frame of one may be
// half served: the head of its rest is then written anew in front of the rest, over what
// has been served.
//
// The zero decoder, with limit set, reads what a server sends.
type decoder struct {
	limit  int  // of a message, in bytes
	server bool // frames must be masked, as clients mask them; else they must not

	at     int    // in[:at] is served but belongs to the open message
	end    int    // a client's: where the payload of the open message ends
	open   open   // what message is open
	within within // what part of the frame at in[at] is served
	window uint8  // permessage-deflate: the base-2 logarithm of the window to send with; 0: not negotiated
	closed bool   // the peer has sent its Close frame
	own    uint32 // the bits of a state that are not the decoder's
}

// open is the message that has begun and is not complete.
type open uint8

const (
	openNone           open = 0
	openText           open = 1 // plus the textState
	openBinary              = openText + open(textStateEnd)
	openCompressedText      = openBinary + 1
	openCompressedData      = openBinary + 2
)

// within says where in a frame the decoder is.
type within uint8

const (
	withinNothing within = iota // a frame begins at in[at]
	withinFirst                 // the first frame of a text, at in[0], is served up to in[at]
	withinNext                  // a later frame is served in part: its rest begins at in[at], with a head of its own
)

// The layout of a state, lowest bits first.
const (
	stateOpen   = 32 // above at
	stateWithin = 36
	stateWindow = 38
	stateClosed = 42
	stateOwn    = 43 // from here on the bits are the caller's
)

// load continues where state has left off. A server's decoder only: a client keeps the
// decoder itself.
func (d *decoder) load(state uint64) {
	d.at = int(uint32(state))
	d.open = open(state >> stateOpen & 15)
	d.within = within(state >> stateWithin & 3)
	d.window = uint8(state >> stateWindow & 15)
	d.closed = state>>stateClosed&1 != 0
	d.own = uint32(state >> stateOwn)
}

// state is all that load must know. The bits from stateOwn on are as load got them.
func (d *decoder) state() uint64 {
	s := uint64(uint32(d.at)) | uint64(d.open)<<stateOpen | uint64(d.within)<<stateWithin |
		uint64(d.window)<<stateWindow | uint64(d.own)<<stateOwn
	if d.closed {
		s |= 1 << stateClosed
	}
	return s
}

// event is what next has found: a whole message, a control frame, or that more bytes are
// needed.
type event struct {
	op         opcode // opText, opBinary, opClose, opPing or opPong; opContinuation: nothing yet
	compressed bool   // the payload is to be inflated; a text is to be checked then
	payload    []byte // aliases in, unmasked; valid until the next call
	used       int    // bytes at the front of in that are done with, once the payload is
	need       int    // nothing yet: how many bytes must arrive before next is called again
}

// next serves the bytes that have not been used, which it may change. With an event that
// is a message or a control frame it is to be called again at once, with in[used:].
//
// A control frame between the frames of a message is an event of its own; it uses nothing,
// because the message is still there. Without an event, need is at least 1 and at most
// what the frame certainly still has; used is 0 but after a Close frame, when whatever
// follows is dropped. A fault ends the connection: the decoder must not be used again.
//
// Of 16 messages of 64 bytes each takes about 25 ns and no allocations (BenchmarkDecode).
func (d *decoder) next(in []byte) (e event, f fault) {
	if op, payload, used, f := d.whole(in); op != opContinuation {
		return event{op: op, payload: payload, used: used}, f
	}
	return d.frame(in)
}

// whole is next for most messages: a short one in one frame, with nothing open. op is
// opContinuation when in does not begin with such a one, which frame is to serve then. Its
// results stay in registers; an event, which has too many fields for that, is copied, and
// that alone took 30 cycles.
func (d *decoder) whole(in []byte) (op opcode, payload []byte, used int, f fault) {
	if d.at != 0 || len(in) < 6 || d.closed || !d.server {
		return opContinuation, nil, 0, 0
	}
	first, n := in[0], int(in[1])-maskBit
	if first != finBit|byte(opText) && first != finBit|byte(opBinary) || uint(n) >= length16 || n > min(d.limit, len(in)-6) {
		return opContinuation, nil, 0, 0
	}
	payload = in[6 : 6+n : 6+n]
	mask(payload, binary.LittleEndian.Uint32(in[2:]))
	if first == finBit|byte(opText) && !utf8.Valid(payload) {
		return opText, nil, 0, faultText
	}
	return opcode(first & opcodeBits), payload, 6 + n, 0
}

// frame is next for whatever is not a short message in one frame.
func (d *decoder) frame(in []byte) (e event, f fault) {
	if d.closed {
		d.at, d.open = 0, openNone
		return event{used: len(in), need: 1}, 0
	}
	for {
		start := d.at
		if d.within == withinFirst {
			start = 0
		}
		frame := in[start:]
		if len(frame) < 2 {
			return event{need: 2 - len(frame)}, 0
		}
		if d.within == withinNothing {
			if f := d.check(frame[0], frame[1]); f != 0 {
				return event{}, f
			}
		}
		head := frameHead(frame[1])
		if len(frame) < head {
			return event{need: head - len(frame) + d.certain(frame[0], frame[1])}, 0
		}
		length, f := frameLength(frame, d.within == withinNothing)
		if f == 0 && d.within == withinNothing {
			f = d.fits(in, head, length, frame[0])
		}
		if f != 0 {
			return event{}, f
		}
		size := head + int(length) // fits: the limits have been asked
		missing := size - len(frame)
		if frame[0]&opControl != 0 {
			if missing > 0 {
				return event{need: missing}, 0
			}
			return d.control(in, frame[:size], head)
		}
		if missing > 0 && !d.checksText(frame[0]) {
			return event{need: missing}, 0
		}
		var done bool
		if frame[0]&opcodeBits != 0 {
			e, done, f = d.first(in, head, size)
		} else {
			e, done, f = d.later(in, head, size)
		}
		if done || f != 0 {
			return e, f
		}
	}
}

// opControl is set in the opcodes of control frames.
const opControl = 8

// frameHead is how long the head of a frame is whose second byte is this.
func frameHead(second byte) int {
	n := 2
	switch second & lengthBits {
	case length16:
		n = 4
	case length64:
		n = 10
	}
	if second&maskBit != 0 {
		n += 4
	}
	return n
}

// frameLength is the length of the payload, with the head complete. A frame as it was
// sent must use the shortest form; what is left of one need not.
func frameLength(frame []byte, sent bool) (n uint64, f fault) {
	switch frame[1] & lengthBits {
	case length16:
		n = uint64(binary.BigEndian.Uint16(frame[2:]))
		if sent && n < length16 {
			return 0, faultLength
		}
	case length64:
		n = binary.BigEndian.Uint64(frame[2:])
		if sent && n <= 0xFFFF || n > 1<<63-1 {
			return 0, faultLength
		}
	default:
		n = uint64(frame[1] & lengthBits)
	}
	return n, 0
}

// check holds the first two bytes of a frame to the protocol.
func (d *decoder) check(first, second byte) fault {
	op := opcode(first & opcodeBits)
	switch {
	case first&reservedBits != 0:
		return faultReserved
	case second&maskBit == 0 && d.server:
		return faultUnmasked
	case second&maskBit != 0 && !d.server:
		return faultMasked
	case op > opBinary && op < opClose || op > opPong:
		return faultOpcode
	case op >= opClose && first&finBit == 0:
		return faultControlFragment
	case op >= opClose && second&lengthBits > mostControl:
		return faultControlLength
	case op == opContinuation && d.open == openNone:
		return faultContinuation
	case (op == opText || op == opBinary) && d.open != openNone:
		return faultInterleaved
	case first&compressedBit != 0 && (d.window == 0 || op != opText && op != opBinary):
		return faultCompressed
	}
	return 0
}

// certain is what a frame, whose head is not complete, certainly has behind the head that
// must be there before anything can be done.
func (d *decoder) certain(first, second byte) int {
	n := int(second & lengthBits)
	if n >= length16 {
		return 0
	}
	if first&opControl == 0 && d.checksText(first) {
		return min(n, 1)
	}
	return n
}

// checksText reports whether the payload of a data frame is served as it arrives, because
// it is text that is not compressed.
func (d *decoder) checksText(first byte) bool {
	if opcode(first&opcodeBits) == opText {
		return first&compressedBit == 0
	}
	return d.open >= openText && d.open < openBinary
}

// Deflate makes what cannot be compressed a little longer, and a message takes more room
// in the reader's buffer than its payload: frames have heads, and control frames come in
// between.
const (
	rawTimes = 4
	rawExtra = 4 << 10
	rawMost  = 1<<31 - 1 // positions are kept in 32 bits, and an int may have no more
)

// fits holds the frame at in[d.at] to the limits: the message's payload with this frame,
// and, as protection from those who send it in very small pieces, what all of it takes in
// the reader's buffer.
func (d *decoder) fits(in []byte, head int, length uint64, first byte) fault {
	limit := uint64(max(d.limit, 0))
	if first&opControl == 0 {
		sum, compressed := length, first&compressedBit != 0
		if d.open != openNone {
			body, end := d.assembled(in)
			sum += uint64(end - body)
			compressed = d.open >= openCompressedText
		}
		most := limit
		if compressed {
			most += limit/8 + 64
		}
		if sum > most {
			return faultTooBig
		}
	}
	if uint64(d.at)+uint64(head)+length > min(rawTimes*limit+rawExtra, rawMost) {
		return faultTooMany
	}
	return 0
}

// control serves a control frame that is complete.
func (d *decoder) control(in, frame []byte, head int) (e event, f fault) {
	payload := d.unmask(frame, head, 0, len(frame))
	e = event{op: opcode(frame[0] & opcodeBits), payload: payload}
	if e.op == opClose {
		if _, _, f := parseClose(payload); f != 0 {
			return event{}, f
		}
		d.closed = true
	}
	d.at += len(frame)
	if d.open == openNone {
		e.used, d.at = d.at, 0
	}
	return e, 0
}

// unmask unmasks frame[head+from:to] and returns it.
func (d *decoder) unmask(frame []byte, head, from, to int) []byte {
	p := frame[head+from : to : to]
	if d.server {
		mask(p, rotated(binary.LittleEndian.Uint32(frame[head-4:]), from))
	}
	return p
}

// first serves what has arrived of the first frame of a message, which is at in[0].
func (d *decoder) first(in []byte, head, size int) (e event, done bool, f fault) {
	from := 0
	if d.within == withinFirst {
		from = d.at - head
	}
	to := min(size, len(in))
	p := d.unmask(in, head, from, to)
	op, fin := opcode(in[0]&opcodeBits), in[0]&finBit != 0
	compressed := in[0]&compressedBit != 0
	switch {
	case op == opText && !compressed:
		text := textWhole
		if d.open != openNone {
			text = textState(d.open - openText)
		}
		text, ok := text.validate(p)
		if !ok || to == size && fin && text != textWhole {
			return event{}, true, faultText
		}
		d.open = openText + open(text)
	case !compressed:
		d.open = openBinary
	case op == opText:
		d.open = openCompressedText
	default:
		d.open = openCompressedData
	}
	d.at, d.within = to, withinNothing
	switch {
	case to < size:
		d.within = withinFirst
		return event{need: soon(size - to)}, true, 0
	case fin:
		return d.message(in, head, size), true, 0
	}
	d.assemble(in, head, size)
	return event{}, false, 0
}

// soon is how many of the missing bytes of a text's frame are waited for before they are
// checked: one, so that something that is not text is refused at once, or of many a few, since a
// reader may take no byte that is not needed, and would read one at a time.
func soon(missing int) int { return max(1, missing/16) }

// later serves what has arrived of the frame at in[d.at], which continues a message.
func (d *decoder) later(in []byte, head, size int) (e event, done bool, f fault) {
	frame := in[d.at:]
	to := min(size, len(frame))
	p := d.unmask(frame, head, 0, to)
	fin := frame[0]&finBit != 0
	if d.open < openBinary {
		text, ok := textState(d.open - openText).validate(p)
		if !ok || to == size && fin && text != textWhole {
			return event{}, true, faultText
		}
		d.open = openText + open(text)
	}
	var kept [mostHead]byte // the payload may be moved to where the head is
	copy(kept[:], frame[:head])
	body, end := d.assembled(in)
	end += copy(in[end:], p)
	if to < size {
		d.keepRest(frame, kept[:head], len(p))
		d.assemble(in, body, end)
		return event{need: soon(size - to)}, true, 0
	}
	d.at, d.within = d.at+size, withinNothing
	if fin {
		return d.message(in, body, end), true, 0
	}
	d.assemble(in, body, end)
	return event{}, false, 0
}

// keepRest writes a head for what is left of a frame in front of it, n bytes further on
// than head, the one that was sent. What is in the way has been moved.
func (d *decoder) keepRest(frame, head []byte, n int) {
	length, _ := frameLength(head, false)
	switch head[1] & lengthBits {
	case length16:
		binary.BigEndian.PutUint16(head[2:], uint16(length-uint64(n)))
	case length64:
		binary.BigEndian.PutUint64(head[2:], length-uint64(n))
	default:
		head[1] -= byte(n)
	}
	if d.server {
		key := head[len(head)-4:]
		binary.LittleEndian.PutUint32(key, rotated(binary.LittleEndian.Uint32(key), n))
	}
	copy(frame[n:], head)
	d.at, d.within = d.at+n, withinNext
}

// assembled is where the payload of the open message, as far as it is served, is.
func (d *decoder) assembled(in []byte) (body, end int) {
	body = frameHead(in[1])
	if !d.server {
		return body, d.end
	}
	return body, int(binary.LittleEndian.Uint32(in[body-4:]))
}

// assemble remembers that in[body:end] is the payload of the open message so far.
func (d *decoder) assemble(in []byte, body, end int) {
	if !d.server {
		d.end = end
		return
	}
	binary.LittleEndian.PutUint32(in[body-4:], uint32(end))
}

// message completes the open message, whose payload is in[body:end].
func (d *decoder) message(in []byte, body, end int) event {
	e := event{op: opcode(in[0] & opcodeBits), payload: in[body:end:end], used: d.at}
	e.compressed = d.open >= openCompressedText
	d.at, d.open = 0, openNone
	return e
}
