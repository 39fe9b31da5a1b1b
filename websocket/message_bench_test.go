package websocket

import (
	"testing"

	"github.com/hone-go/hone/engine"
)

// BenchmarkAdvance is the protocol's cost per message, without the engine's I/O: a visit echoes
// 16 messages of 64 bytes.
func BenchmarkAdvance(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
		kind opcode
	}{{"1x64", 1, opText}, {"16x64", 16, opText}, {"16x64 binary", 16, opBinary}, {"1x4096", 1, opText}} {
		b.Run(c.name, func(b *testing.B) {
			size := 64
			if c.name == "1x4096" {
				size = 4096
			}
			var sent []byte
			for range c.n {
				sent = append(sent, frame(c.kind, string(make([]byte, size)))...)
			}
			u := &Upgrader{Message: echo}
			u.init()
			p := &u.protocols[0]
			in := make([]byte, len(sent))
			var t engine.Turn
			b.ReportAllocs()
			for b.Loop() {
				copy(in, sent)
				t.Out = t.Out[:0]
				if used, _, err := p.Advance(&t, in); used != len(in) || err != nil {
					b.Fatal(used, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.n), "ns/message")
		})
	}
}
