package engine

import "testing"

// BenchmarkLateReply is the cost of a late reply in addition to its request, for 64 of
// them in a visit and without the write: sent one by one, or together. "none" is the
// visit alone.
func BenchmarkLateReply(b *testing.B) {
	const each = 64
	head, content := make([]byte, 14), make([]byte, 16)
	for _, way := range []string{"none", "one by one", "together"} {
		b.Run(way, func(b *testing.B) {
			s := bare(Limits{})
			d := &workspace{ref: *s.bareConn()}
			k := &d.ref
			var turn Turn
			var replies []Reply
			var out []byte
			var ends []int
			b.ReportAllocs()
			for n := 0; n < b.N; n += each {
				turn.begin(d)
				replies, out, ends = replies[:0], out[:0], ends[:0]
				for range each {
					turn.Room()
					turn.Mark(0)
					switch way {
					case "one by one":
						if err := turn.Later().Send(head, content); err != nil {
							b.Fatal(err)
						}
					case "together":
						replies = append(replies, turn.Later())
						out = append(append(out, head...), content...)
						ends = append(ends, len(out))
					}
				}
				turn.end(0)
				if sent := k.conn().SendAll(replies, out, ends, nil); sent != len(replies) {
					b.Fatalf("%d of %d sent", sent, len(replies))
				}
				k.s.mu.Lock()
				if x := k.x.Load(); x != nil {
					turn.giveBack(x)
					k.held().dropOutput(x)
				}
				k.s.mu.Unlock()
			}
		})
	}
}
