package websocket

import (
	"context"
	"iter"
	"runtime"
)

// Broadcast sends p to all conns and returns how many took it: those that have ended, or do
// not read, are left out. Now and then it lets others run, so that the answers of other
// connections do not wait for the whole crowd. It ends early when ctx does.
func Broadcast(ctx context.Context, conns iter.Seq[Conn], p Prepared) (sent int) {
	n := 0
	for c := range conns {
		if n++; n%broadcastSlice == 0 {
			if ctx.Err() != nil {
				return sent
			}
			runtime.Gosched()
		}
		if c.Send(p) == nil {
			sent++
		}
	}
	return sent
}

// broadcastSlice is how many connections Broadcast sends to before it lets others run.
const broadcastSlice = 32
