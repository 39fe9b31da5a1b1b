package websocket

import (
	"encoding/binary"
	"unicode/utf8"
)

// decoder splits the bytes of one connection into events. It does no I/O and owns no memory:
// an incomplete message stays in the reader's buffer, and what a server must remember about
// it between two visits fits into the 64 bits of load and state.
//
// It works in place, on the bytes that are not used yet. The next call must pass the same
// bytes, with more after them. The first frame of an open message is at the front, and its
// payload is unmasked in place. The payloads of its later frames are moved to the left,
// directly after it, as they complete, so that the message is one slice in the end and every
// byte moves once. The length of that slice is stored where the masking key of the first
// frame was. A text is validated as it arrives, so a text frame may be half served: then the
// head of its rest is written anew in front of the rest, over bytes that have been served.
//
// The zero decoder, with limit set, decodes what a server sends.
type decoder struct {
	limit  int  // of a message, in bytes
	server bool // frames must be masked, as clients do; otherwise they must not be

	at     int    // in[:at] is served but still belongs to the open message
	end    int    // client only: where the payload of the open message ends
	open   open   // the kind of the open message
	within within // which part of the frame at in[at] has been served
	window uint8  // permessage-deflate: log2 of the window for sending; 0: not negotiated
	closed bool   // the peer has sent a Close frame
	own    uint32 // the bits of a state that belong to the caller
}

// open is the kind of a message that has begun and is incomplete.
type open uint8

const (
	openNone           open = 0
	openText           open = 1 // plus the textState
	openBinary              = openText + open(textStateEnd)
	openCompressedText      = openBinary + 1
	openCompressedData      = openBinary + 2
)

// within is the decoder's position in a frame.
type within uint8

const (
	withinNothing within = iota // a frame begins at in[at]
	withinFirst                 // the first frame of a text, at in[0], has been served up to in[at]
	withinNext                  // a later frame is partly served: its rest begins at in[at], with a head of its own
)

// The layout of a state, lowest bits first.
const (
	stateOpen   = 32 // after at
	stateWithin = 36
	stateWindow = 38
	stateClosed = 42
	stateOwn    = 43 // the bits from here on are the caller's
)

// load restores what state returned. Only a server's decoder uses it: a client keeps the
// decoder itself.
func (d *decoder) load(state uint64) {
	d.at = int(uint32(state))
	d.open = open(state >> stateOpen & 15)
	d.within = within(state >> stateWithin & 3)
	d.window = uint8(state >> stateWindow & 15)
	d.closed = state>>stateClosed&1 != 0
	d.own = uint32(state >> stateOwn)
}

// state returns everything that load needs. The bits from stateOwn on are those load received.
func (d *decoder) state() uint64 {
	s := uint64(uint32(d.at)) | uint64(d.open)<<stateOpen | uint64(d.within)<<stateWithin |
		uint64(d.window)<<stateWindow | uint64(d.own)<<stateOwn
	if d.closed {
		s |= 1 << stateClosed
	}
	return s
}

// event is the result of next: a complete message, a control frame, or the need for more
// bytes.
type event struct {
	op         opcode // opText, opBinary, opClose, opPing or opPong; opContinuation: no event yet
	compressed bool   // the payload is compressed; a text must be validated after decompression
	payload    []byte // aliases in, unmasked; valid until the next call
	used       int    // bytes at the front of in that are free once the payload has been consumed
	need       int    // no event yet: how many more bytes must arrive before the next call
}

// next serves the bytes that are not used yet and may change them. After a message or a
// control frame, call it again at once, with in[used:].
//
// A control frame between the frames of a message is an event of its own. It uses nothing,
// because the message still lies in front of it. Without an event, need is at least 1 and at
// most what the frame certainly still lacks; used is then 0, except after a Close frame, when
// everything that follows is dropped. A fault ends the connection: the decoder must not be
// used again.
//
// Of 16 messages of 64 bytes, each costs about 25 ns and no allocations (BenchmarkDecode).
func (d *decoder) next(in []byte) (e event, f fault) {
	if op, payload, used, f := d.whole(in); op != opContinuation {
		return event{op: op, payload: payload, used: used}, f
	}
	return d.frame(in)
}

// whole is next for the most common case: a short message in one frame, with no message open.
// If in does not begin with one, op is opContinuation and frame must serve it. The results
// stay in registers; an event has too many fields for that, and copying it alone cost
// 30 cycles.
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

// frame is next for everything other than a short message in one frame.
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
		size := head + int(length) // cannot overflow: the limits have been checked
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

// opControl is the bit that is set in the opcodes of control frames.
const opControl = 8

// frameHead returns the length of the head of a frame with this second byte.
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

// frameLength returns the payload's length; the head is complete. A frame as it was sent must
// use the shortest form; the rest of a partly served one need not.
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

// check validates the first two bytes of a frame.
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

// certain returns how many bytes certainly follow the incomplete head of a frame, beyond the
// part of the head that must arrive before anything can be done.
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

// checksText reports whether the payload of a data frame is validated as it arrives, because
// it is uncompressed text.
func (d *decoder) checksText(first byte) bool {
	if opcode(first&opcodeBits) == opText {
		return first&compressedBit == 0
	}
	return d.open >= openText && d.open < openBinary
}

// Deflate makes incompressible data slightly longer. And a message takes more room in the
// reader's buffer than its payload: frames have heads, and control frames may come between.
const (
	rawTimes = 4
	rawExtra = 4 << 10
	rawMost  = 1<<31 - 1 // positions have 32 bits, and an int may have no more
)

// fits checks the limits for the frame at in[d.at]: the message's payload including this
// frame, and the room that all of it takes in the reader's buffer. The latter protects
// against peers that send very small fragments.
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

// control serves a complete control frame.
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

// soon is how many of a text frame's missing bytes to wait for before validating. One would
// refuse invalid text at once, but a reader that may read no byte that is not needed would
// then read byte by byte. So of many missing bytes it is a fraction.
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
	var kept [mostHead]byte // the payload may be moved over the head
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

// keepRest writes a head for the rest of a partly served frame, n bytes after head, the
// original one. What was there has been moved.
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

// assembled returns the position of the open message's payload, as far as it is served.
func (d *decoder) assembled(in []byte) (body, end int) {
	body = frameHead(in[1])
	if !d.server {
		return body, d.end
	}
	return body, int(binary.LittleEndian.Uint32(in[body-4:]))
}

// assemble records that in[body:end] is the payload of the open message so far.
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
