package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/hone-go/hone/engine"
)

// push pushes events until ctx or the connection ends, and then settles the promise.
func push(ctx context.Context, end engine.Reply, every time.Duration) {
	defer end.Send([]byte("end\n"))
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			if end.Conn().Push(fmt.Appendf(nil, "event %d\n", n)) != nil {
				return
			}
		}
	}
}

// appendBytes appends n bytes of the sequence that get serves, starting at offset at, a
// multiple of 8. No two chunks of the sequence are equal.
func appendBytes(dst []byte, at, n int64) []byte {
	dst = slices.Grow(dst, int(n)+8)
	end := len(dst) + int(n)
	for ; len(dst) < end; at += 8 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(at+8)*0x9E3779B97F4A7C15)
	}
	return dst[:end]
}
