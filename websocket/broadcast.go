package websocket

import (
	"context"
	"iter"
	"runtime"
	"time"
)

// Broadcast sends p to all conns and returns how many took it: those that have ended, or do
// not read, are left out. It ends early when ctx does.
//
// It sends to some at a time and pauses in between, for a millisecond, so that the crowd's
// output does not gather in memory and other connections are answered meanwhile: the event
// loops have time to send 32 messages each. Without the pauses an answer waited for the
// whole crowd.
func Broadcast(ctx context.Context, conns iter.Seq[Conn], p Prepared) (sent int) {
	var pause *time.Timer
	n, slice := 0, 32*runtime.GOMAXPROCS(0)
	for c := range conns {
		if n++; n%slice == 0 {
			if pause == nil {
				pause = time.NewTimer(time.Millisecond)
				defer pause.Stop()
			} else {
				pause.Reset(time.Millisecond)
			}
			select {
			case <-pause.C:
			case <-ctx.Done():
				return sent
			}
		}
		if c.Send(p) == nil {
			sent++
		}
	}
	return sent
}
