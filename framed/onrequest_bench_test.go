package framed

import (
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/wire"
)

// BenchmarkOnRequest is the cost of a request between the engine's read and its write,
// for 64 pipelined ones: without the hook, with an empty one, and both for late replies.
// It uses no socket, so that instructions can be counted (perf stat -e instructions:u).
func BenchmarkOnRequest(b *testing.B) {
	const depth = 64
	var in []byte
	for id := range uint64(depth) {
		in = wire.Append(in, wire.Packet{Command: wire.Submit, ID: id, Content: []byte("thirty-two bytes of some content")})
	}
	inline := func(_ Call, dst, req []byte) ([]byte, error) { return append(dst, req...), nil }
	late := func(c Call, dst, _ []byte) ([]byte, error) {
		c.Later().Send(nil) // fails outside of an engine, but is timed and reported
		return dst, nil
	}
	for _, c := range []struct {
		name   string
		handle HandlerFunc
		hook   func(Request)
	}{
		{"inline/nil", inline, nil},
		{"inline/set", inline, func(Request) {}},
		{"late/nil", late, nil},
		{"late/set", late, func(Request) {}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := &Server{Handler: c.handle, OnRequest: c.hook}
			defer s.Close()
			p, turn := s.init().Protocol, new(engine.Turn)
			b.ReportAllocs()
			for n := 0; n < b.N; n += depth {
				turn.Out = turn.Out[:0]
				if used, _, err := p.Advance(turn, in); used != len(in) || err != nil {
					b.Fatal(used, err)
				}
			}
		})
	}
}
