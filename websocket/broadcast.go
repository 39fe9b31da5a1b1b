package websocket

import (
	"context"
	"iter"
	"runtime"
	"time"
)

// Broadcast sends p to all conns and returns how many accepted it. It skips connections that
// have ended or whose clients do not read. It stops early if ctx ends.
//
// It sends in batches with a pause of a millisecond in between, so that the output does not
// accumulate in memory and other connections are answered meanwhile: each event loop gets
// time to send 32 messages. Without the pauses, an answer would wait for the whole broadcast.
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
