package wire_test

import (
	"testing"

	"github.com/hone-go/hone/wire"
)

// benchContent is a short message, for which the heads cost most.
const benchContent = "a message of thirty-two bytes..."

// BenchmarkSubmitRoundTrip is the whole work of the codec for one request on both sides:
// encode, split, decode, reply with the same content, split, decode.
func BenchmarkSubmitRoundTrip(b *testing.B) {
	b.ReportAllocs()
	content := []byte(benchContent)
	request, reply := make([]byte, 0, 128), make([]byte, 0, 128)
	var id uint64
	for b.Loop() {
		id++
		request = wire.Append(request[:0], wire.Packet{Command: wire.Submit, ID: id, Content: content})

		payload, _, _ := wire.Frame(request, limit)
		asked, err := wire.Parse(payload)
		if err != nil {
			b.Fatal(err)
		}
		reply = wire.BeginAck(reply[:0], asked.Command, asked.ID)
		reply = append(reply, asked.Content...)
		reply = wire.EndAck(reply, 0, wire.OK)

		payload, _, _ = wire.Frame(reply, limit)
		got, err := wire.Parse(payload)
		if err != nil || got.ID != id {
			b.Fatal(got, err)
		}
	}
}

// BenchmarkServePipelined is the server's part of it, for a buffer of 64 requests at a
// time; ns/op is per request.
func BenchmarkServePipelined(b *testing.B) {
	const depth = 64
	var in []byte
	for i := range depth {
		in = wire.Append(in, wire.Packet{Command: wire.Submit, ID: uint64(i), Content: []byte(benchContent)})
	}
	out := make([]byte, 0, 2*len(in))
	b.ReportAllocs()
	b.SetBytes(int64(len(in) / depth))
	b.ResetTimer()
	rest := in
	for range b.N {
		if len(rest) == 0 {
			rest, out = in, out[:0]
		}
		payload, _, err := wire.Frame(rest, limit)
		if err != nil {
			b.Fatal(err)
		}
		rest = rest[wire.HeaderSize+len(payload):]
		p, err := wire.Parse(payload)
		if err != nil {
			b.Fatal(err)
		}
		start := len(out)
		out = wire.BeginAck(out, p.Command, p.ID)
		out = append(out, p.Content...)
		out = wire.EndAck(out, start, wire.OK)
	}
}

func BenchmarkFrame(b *testing.B) {
	in := wire.Append(nil, wire.Packet{Command: wire.Submit, Content: []byte(benchContent)})
	for name, in := range map[string][]byte{"whole": in, "incomplete": in[:20], "refused": {0x40, 0, 0, 0}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				wire.Frame(in, limit)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, c := range commands {
		b.Run(c.String(), func(b *testing.B) {
			payload := wire.Append(nil, wire.Packet{Command: c, Content: []byte(benchContent)})[wire.HeaderSize:]
			b.ReportAllocs()
			for b.Loop() {
				if _, err := wire.Parse(payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range []wire.Command{wire.Submit, wire.SubmitAck} {
		b.Run(c.String(), func(b *testing.B) {
			p := wire.Packet{Command: c, ID: 1, Content: []byte(benchContent)}
			dst := make([]byte, 0, 128)
			b.ReportAllocs()
			for b.Loop() {
				dst = wire.Append(dst[:0], p)
			}
		})
	}
}

func BenchmarkAck(b *testing.B) {
	dst := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		dst = wire.EndAck(wire.BeginAck(dst[:0], wire.Submit, 1), 0, wire.OK)
	}
}
