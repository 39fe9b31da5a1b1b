package websocket

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// Frames reads streams as the reference implementation does, in pieces of any size, and what
// AppendFrame makes is read by a server's decoder.
func TestFramesReadWhatAServerSends(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	codes := make(map[Code]int)
	for i := range 2000 {
		c := config{limit: []int{10, 125, 1000, 70000}[random.IntN(4)]}
		stream := randomStream(random, c)
		if i%2 == 0 {
			stream, _ = mutate(random, stream)
		}
		f := Frames{MessageSize: c.limit}
		var got history
		var in []byte
		closed := false
		for rest := bytes.Clone(stream); len(rest) > 0 && got.code == 0 && !closed; {
			n := 1 + random.IntN(len(rest))
			in, rest = append(in, rest[:n]...), rest[n:]
			for {
				kind, payload, used, err := f.Next(in)
				if err != nil && !errors.As(err, &got.code) {
					t.Fatalf("%v has no code", err)
				}
				if err == nil && kind != 0 {
					got.events = append(got.events, seen{opcode(kind), false, string(payload)})
					closed = closed || kind == CloseFrame
				}
				if in = in[used:]; err != nil || kind == 0 {
					break
				}
			}
		}
		if want := readWhole(stream, c); !got.equal(want) {
			t.Fatalf("%x with a limit of %d: read %v, want %v", stream, c.limit, got, want)
		}
		codes[got.code]++
	}
	for _, code := range []Code{0, ProtocolError, InvalidPayload, MessageTooBig} {
		if codes[code] == 0 {
			t.Errorf("no stream ended with code %d", code)
		}
	}
}

func TestAppendFrame(t *testing.T) {
	for _, n := range sizes {
		payload := bytes.Repeat([]byte("0123456789abcdef~"), n/17+1)[:n]
		d := decoder{limit: n, server: true}
		frame := AppendFrame(nil, Binary, payload)
		if e, f := d.next(frame); f != 0 || e.op != opBinary || e.used != len(frame) || !bytes.Equal(e.payload, payload) {
			t.Errorf("%d bytes: %v, %d used of %d", n, f, e.used, len(frame))
		}
	}
}
