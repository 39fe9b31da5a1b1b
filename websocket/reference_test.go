package websocket

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"unicode/utf8"
)

// seen is one recorded event.
type seen struct {
	op         opcode
	compressed bool
	payload    string
}

// history is everything that reading a stream of frames can produce.
type history struct {
	events []seen
	code   Code // 0: no fault
}

func (h history) equal(o history) bool { return h.code == o.code && slices.Equal(h.events, o.events) }

func (h history) String() string { return fmt.Sprintf("%+v, code %d", h.events, h.code) }

// config configures how to read a stream.
type config struct {
	limit  int
	server bool
	window uint8
}

// readWhole is the reference implementation: it sees the whole stream at once, allocates freely,
// and follows RFC 6455 §5 paragraph by paragraph.
func readWhole(stream []byte, c config) (h history) {
	var (
		open       bool
		first      byte // of the open message
		message    []byte
		begins, at int // positions: of the open message, of the frame
	)
	fail := func(code Code) history { h.code = code; return h }
	for {
		frame := stream[at:]
		if len(frame) < 2 {
			return h
		}
		fin, rsv1, op, masked := frame[0]&0x80 != 0, frame[0]&0x40 != 0, opcode(frame[0]&15), frame[1]&0x80 != 0
		isControl, isData := op == 8 || op == 9 || op == 10, op == 1 || op == 2
		short := int(frame[1] & 0x7f)
		switch {
		case frame[0]&0x30 != 0, masked != c.server, !isControl && !isData && op != 0:
			return fail(ProtocolError)
		case isControl && (!fin || short > 125), isData && open, op == 0 && !open:
			return fail(ProtocolError)
		case rsv1 && (!isData || c.window == 0):
			return fail(ProtocolError)
		}
		body := 2 + map[int]int{126: 2, 127: 8}[short]
		if masked {
			body += 4
		}
		if len(frame) < body {
			return h
		}
		length := uint64(short)
		switch short {
		case 126:
			if length = uint64(binary.BigEndian.Uint16(frame[2:])); length < 126 {
				return fail(ProtocolError)
			}
		case 127:
			if length = binary.BigEndian.Uint64(frame[2:]); length < 1<<16 || length >= 1<<63 {
				return fail(ProtocolError)
			}
		}
		if isData {
			first, message, begins = frame[0], nil, at
		}
		if !isControl {
			most := c.limit
			if first&0x40 != 0 {
				most += c.limit/8 + 64
			}
			if uint64(len(message))+length > uint64(most) {
				return fail(MessageTooBig)
			}
		}
		if !isControl || open {
			if uint64(at-begins+body)+length > uint64(4*c.limit+4096) {
				return fail(PolicyViolation)
			}
		}
		there := min(uint64(len(frame)-body), length)
		payload := bytes.Clone(frame[body : body+int(there)])
		if masked {
			for i := range payload {
				payload[i] ^= frame[body-4+i%4]
			}
		}
		if !isControl && first&0x4f == 1 {
			text := append(bytes.Clone(message), payload...)
			if !couldBeText(text) || fin && there == length && !utf8.Valid(text) {
				return fail(InvalidPayload)
			}
		}
		if there < length {
			return h
		}
		at += body + int(length)
		if isControl {
			if op == 8 {
				if code := badClose(payload); code != 0 {
					return fail(code)
				}
			}
			h.events = append(h.events, seen{op, false, string(payload)})
			if op == 8 {
				return h
			}
			continue
		}
		message, open = append(message, payload...), !fin
		if fin {
			h.events = append(h.events, seen{opcode(first & 15), first&0x40 != 0, string(message)})
		}
	}
}

// badClose is the close code for a Close frame with an invalid payload; 0: it is valid.
func badClose(payload []byte) Code {
	if len(payload) == 0 {
		return 0
	}
	if len(payload) == 1 {
		return ProtocolError
	}
	code := int(payload[0])<<8 | int(payload[1])
	registered := []int{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014}
	if !slices.Contains(registered, code) && (code < 3000 || code > 4999) {
		return ProtocolError
	}
	if !utf8.Valid(payload[2:]) {
		return InvalidPayload
	}
	return 0
}

// couldBeText reports whether some continuation of b is valid UTF-8.
func couldBeText(b []byte) bool {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			break
		}
		b = b[size:]
	}
	if len(b) > 3 {
		return false
	}
	var text [6]byte
	return couldEnd(text[:copy(text[:], b)], 3)
}

// couldEnd reports whether b, followed by up to more bytes, is valid UTF-8. It writes behind b.
func couldEnd(b []byte, more int) bool {
	if utf8.Valid(b) {
		return true
	}
	for _, next := range []byte{0x80, 0x90, 0xA0, 0xBF} {
		if more > 0 && couldEnd(append(b, next), more-1) {
			return true
		}
	}
	return false
}

// reader feeds a decoder as an engine does. A server's decoder is restored for every visit from
// its 64-bit state.
type reader struct {
	t      *testing.T
	c      config
	d      decoder
	state  uint64
	unused []byte // bytes that have not been used
	past   int    // number of bytes used
	need   int    // what the last visit asked for
	h      history
	closed bool
}

func newReader(t *testing.T, c config) *reader {
	r := &reader{t: t, c: c, need: 2}
	r.d = decoder{limit: c.limit, server: c.server, window: c.window}
	r.state = r.d.state() | uint64(0x15A5A5)<<stateOwn
	return r
}

// visit gives the decoder more bytes and collects all events.
func (r *reader) visit(more []byte) {
	t := r.t
	in := append(bytes.Clone(r.unused), more...)
	if r.c.server {
		r.d = decoder{limit: r.c.limit, server: true}
		r.d.load(r.state)
	}
	used := 0
	for rounds := 0; ; rounds++ {
		if rounds > len(in)+1 {
			t.Fatalf("%d events in %d bytes", rounds, len(in))
		}
		e, f := r.d.next(in[used:])
		if f != 0 {
			r.h.code = f.code()
			return
		}
		if e.used < 0 || e.used > len(in)-used {
			t.Fatalf("used %d of %d bytes", e.used, len(in)-used)
		}
		if e.op == opContinuation {
			if e.need < 1 {
				t.Fatalf("no event, and need is %d", e.need)
			}
			used, r.need = used+e.used, e.need
			break
		}
		if e.need != 0 || cap(e.payload) != len(e.payload) {
			t.Fatalf("an event with need %d, and a payload of %d bytes with capacity %d", e.need, len(e.payload), cap(e.payload))
		}
		r.h.events = append(r.h.events, seen{e.op, e.compressed, string(e.payload)})
		r.closed = r.closed || e.op == opClose
		clear(in[used : used+e.used]) // it may be overwritten from now on
		used += e.used
	}
	r.past += used
	r.unused = bytes.Clone(in[used:])
	if r.c.server {
		if r.state = r.d.state(); r.state>>stateOwn != 0x15A5A5 {
			t.Fatalf("the caller's bits of the state became %x", r.state>>stateOwn)
		}
	}
}

// readSplit reads the stream in pieces of the given sizes, repeated; without sizes, at once.
func readSplit(t *testing.T, stream []byte, c config, sizes []byte) history {
	r := newReader(t, c)
	for i := 0; len(stream) > 0 && r.h.code == 0 && !r.closed; i++ {
		n := len(stream)
		if len(sizes) > 0 {
			n = min(1+int(sizes[i%len(sizes)]), n)
		}
		r.visit(stream[:n])
		stream = stream[n:]
	}
	return r.h
}

// readNeeded reads exactly the bytes that are needed, as an engine without a read buffer does:
// when an event is complete, nothing after it has been read.
func readNeeded(t *testing.T, stream []byte, c config) history {
	r := newReader(t, c)
	for r.need <= len(stream) && r.h.code == 0 && !r.closed {
		count, n := len(r.h.events), r.need
		r.visit(stream[:n])
		stream = stream[n:]
		if got := len(r.h.events) - count; got > 1 || got == 1 && r.d.at != len(r.unused) {
			t.Fatalf("reading what was needed read too far: %d events, %d bytes more than the %d that are served", got, len(r.unused), r.d.at)
		}
	}
	if len(stream) > 0 && r.h.code == 0 && !r.closed {
		count, need := len(r.h.events), r.need
		r.visit(stream) // less than what was needed: it may only yield an early fault
		if len(r.h.events) > count {
			t.Fatalf("%d bytes were needed, and an event came with %d", need, len(stream))
		}
	}
	return r.h
}
