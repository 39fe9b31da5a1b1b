package wire_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/hone-go/hone/wire"
)

// history is everything that a reader can observe of a stream of frames.
type history struct {
	payloads [][]byte
	left     []byte // the start of an incomplete frame
	err      error
}

func (h history) equal(o history) bool {
	return slices.EqualFunc(h.payloads, o.payloads, bytes.Equal) && bytes.Equal(h.left, o.left) && h.err == o.err
}

// cut takes the frames off the front of buf and returns how many bytes it needs next.
func (h *history) cut(t *testing.T, buf []byte, limit int) (rest []byte, need int) {
	for {
		payload, need, err := wire.Frame(buf, limit)
		switch {
		case err != nil:
			if payload != nil || need != 0 {
				t.Fatalf("Frame returned more than the error %v: payload %v, need %d", err, payload, need)
			}
			h.err = err
			return buf, 0
		case need > 0:
			if payload != nil {
				t.Fatalf("Frame needs %d bytes and returned a payload", need)
			}
			return buf, need
		case len(payload) == 0 || cap(payload) != len(payload) || wire.HeaderSize+len(payload) > limit:
			t.Fatalf("Frame returned a payload of %d bytes, capacity %d, with limit %d", len(payload), cap(payload), limit)
		}
		h.payloads = append(h.payloads, bytes.Clone(payload))
		buf = buf[wire.HeaderSize+len(payload):]
	}
}

// readWhole reads the stream at once.
func readWhole(t *testing.T, stream []byte, limit int) (h history) {
	h.left, _ = h.cut(t, stream, limit)
	return h
}

// readSplit reads the stream in pieces of the given sizes, repeated, and keeps the rest
// of each.
func readSplit(t *testing.T, stream, sizes []byte, limit int) (h history) {
	for i := 0; len(stream) > 0 && h.err == nil; i++ {
		n := min(1+int(sizes[i%len(sizes)]), len(stream))
		h.left, _ = h.cut(t, append(bytes.Clone(h.left), stream[:n]...), limit)
		stream = stream[n:]
	}
	h.left = append(bytes.Clone(h.left), stream...)
	return h
}

// readNeeded reads exactly the bytes that are needed, as an engine without a read buffer
// does: when a frame is complete, nothing of the next one has been read.
func readNeeded(t *testing.T, stream []byte, limit int) (h history) {
	need := wire.HeaderSize
	for need > 0 && need <= len(stream) && h.err == nil {
		var buf []byte
		seen := len(h.payloads)
		buf, stream = append(h.left, stream[:need]...), stream[need:]
		h.left, need = h.cut(t, buf, limit)
		if len(h.payloads) > seen && len(h.left) != 0 {
			t.Fatalf("reading what was needed read %d bytes too far", len(h.left))
		}
	}
	h.left = append(bytes.Clone(h.left), stream...)
	return h
}

func FuzzFrame(f *testing.F) {
	var stream []byte
	for i, c := range commands {
		stream = wire.Append(stream, wire.Packet{Command: c, ID: uint64(i), Content: make([]byte, 10*i)})
	}
	f.Add(stream, []byte{0}, uint16(1000))
	f.Add(stream, []byte{2, 4, 250}, uint16(1000))
	f.Add(stream, []byte{12}, uint16(33))
	f.Add(stream[:len(stream)-1], []byte{3, 0, 0}, uint16(64))
	f.Add([]byte{}, []byte{1}, uint16(9))
	f.Add([]byte{0, 0, 0, 3}, []byte{0}, uint16(9))
	f.Add([]byte{0, 0, 0, 5, 1, 0, 0, 0, 4, 9, 9}, []byte{1}, uint16(9))
	f.Add([]byte{0, 0, 0, 5, 1, 0xff, 0xff, 0xff, 0xff, 9}, []byte{5, 0}, uint16(9))
	f.Add([]byte{0x40, 0, 0, 0, 0}, []byte{0}, uint16(math.MaxUint16))
	f.Fuzz(func(t *testing.T, stream, sizes []byte, bound uint16) {
		limit := 1 + int(bound)
		if len(sizes) == 0 {
			sizes = []byte{0}
		}
		whole := readWhole(t, stream, limit)
		if got := readSplit(t, stream, sizes, limit); !got.equal(whole) {
			t.Errorf("in pieces: %+v\nat once:   %+v", got, whole)
		}
		if got := readNeeded(t, stream, limit); !got.equal(whole) {
			t.Errorf("as needed: %+v\nat once:   %+v", got, whole)
		}
		n := len(whole.left)
		for _, p := range whole.payloads {
			n += wire.HeaderSize + len(p)
		}
		if n != len(stream) {
			t.Errorf("%d bytes of %d accounted for", n, len(stream))
		}
		if whole.err != nil && len(whole.left) >= wire.HeaderSize {
			if _, _, err := wire.Frame(whole.left[:wire.HeaderSize], limit); err != whole.err {
				t.Errorf("from the length alone %v, from the whole stream %v", err, whole.err)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for i, c := range commands {
		p := wire.Packet{Command: c, Result: wire.Result(i), ID: math.MaxUint64 - uint64(i), Content: []byte("content")}
		f.Add(wire.Append(nil, p)[wire.HeaderSize:])
	}
	f.Add([]byte{})
	f.Add([]byte{0x02})
	f.Add([]byte{0x02, 1, 2, 3, 4, 5, 6, 7})
	f.Add([]byte{0x82, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte{0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, payload []byte) {
		p, err := wire.Parse(payload)
		if err != nil {
			if err != wire.Malformed && err != wire.UnknownCommand {
				t.Errorf("Parse returned the error %v", err)
			}
			if !same(p, wire.Packet{}) {
				t.Errorf("Parse returned %+v with the error %v", p, err)
			}
			return
		}
		frame := wire.Append(nil, p)
		again, need, err := wire.Frame(frame, len(frame))
		if err != nil || need != 0 {
			t.Fatalf("Frame of an appended packet: need %d, %v", need, err)
		}
		if !bytes.Equal(again, payload) {
			t.Errorf("append(parse(% x)) = % x", payload, again)
		}
		if q, err := wire.Parse(again); err != nil || !same(p, q) {
			t.Errorf("parse(append(%+v)) = %+v, %v", p, q, err)
		}
	})
}
