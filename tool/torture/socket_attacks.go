package torture

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	fragmentSize   = 4 << 10
	floodMost      = 8 << 20 // bytes of control frames on one connection
	bytesUnclosed  = 64 << 10
	pingFloodPeers = 8
)

// playFrames sends every input on a connection of its own.
func playFrames(ctx context.Context, a *Arena) Finding {
	inputs := socketInputs()
	marks := a.marks(len(inputs))
	return a.rule(len(inputs), func(i int, patience int) (judged, error) {
		in := &inputs[i]
		found := judged{name: in.name, section: "RFC 6455 §" + in.section}
		c, err := a.Open(ctx)
		if err != nil {
			return found, err
		}
		mark := strings.TrimPrefix(marks[i], "/")
		got := c.hear(ctx, time.Duration(patience)*a.Answer, [][]byte{[]byte(in.frames + maskedFrame(finBit|pingOp, mark))}, func(b []byte) bool {
			s := decodeSocket(heard{bytes: b}, mark)
			return s.ponged || s.closed || s.fault != nil
		})
		found.ruling, found.words = in.judge(got, mark)
		return found, ctx.Err()
	})
}

// playHandshakes sends every bad handshake.
func playHandshakes(ctx context.Context, a *Arena) Finding {
	inputs := socketHandshakes()
	headEnds := func(b []byte) bool { return bytes.Contains(b, []byte("\r\n\r\n")) }
	return a.rule(len(inputs), a.playRequests(ctx, inputs, headEnds, judgeHandshake))
}

// fragmentFloods are messages without end.
func fragmentFloods(*Arena) []flood {
	part := strings.Repeat("a", fragmentSize)
	return []flood{
		{"a message in fragments of 4 KiB", maskedFrame(binaryOp, part), maskedFrame(contOp, part), false},
		{"a message in fragments of a byte", maskedFrame(binaryOp, "a"), maskedFrame(contOp, "a"), false},
		{"a frame", maskedHead(finBit|binaryOp, 8, 1<<40), part, false},
	}
}

// floodControl sends control frames and fragments that cost the server time
// and output, and reads nothing meanwhile.
func floodControl(ctx context.Context, a *Arena) Finding {
	floods := []flood{
		{"pings", "", maskedFrame(finBit|pingOp, strings.Repeat("a", 125)), true},
		{"empty pings", "", maskedFrame(finBit|pingOp, ""), true},
		{"pongs", "", maskedFrame(finBit|pongOp, ""), true},
		{"empty fragments", maskedFrame(binaryOp, ""), maskedFrame(contOp, ""), true},
	}
	crowd, err := a.Crowd(ctx, pingFloodPeers, a.Open)
	if err != nil {
		return unknown("%v", err)
	}
	var peers sync.WaitGroup
	taken := make([]int, pingFloodPeers)
	ends := make([]string, pingFloodPeers)
	for i, c := range crowd {
		peers.Go(func() {
			taken[i], ends[i] = c.pourUnread(ctx, floods[i%len(floods)])
			c.Close()
		})
	}
	peers.Wait()
	for i, f := range floods {
		a.Note("%s, %d KiB: %s", f.what, taken[i]>>10, ends[i])
	}
	if ctx.Err() != nil {
		return unknown("the floods did not end in time")
	}
	return survives("%d peers flood it with control frames and empty fragments, up to %d KiB each", pingFloodPeers, slices.Max(taken)>>10)
}

// pourUnread sends a flood and reads nothing until the server takes no more. It says how that ended.
func (c *Conn) pourUnread(ctx context.Context, f flood) (taken int, end string) {
	block := []byte(strings.Repeat(f.block, pourBlock/len(f.block)))
	for next := []byte(f.beginning + f.block); taken < floodMost && ctx.Err() == nil; next = block {
		err := c.SetWriteDeadline(earlier(ctx, c.arena.Answer/2))
		n := 0
		if err == nil {
			n, err = c.Write(next)
		}
		if taken += n; isTimeout(err) {
			return taken, "the server reads no more"
		} else if err != nil {
			return taken, "the server closes"
		}
	}
	return taken, "the server takes all"
}

// afterClose sends a close, and more, and never closes the TCP connection.
func afterClose(ctx context.Context, a *Arena) Finding {
	closing := maskedFrame(finBit|closeOp, "\x03\xe8")
	more := []string{
		"", closing, maskedFrame(finBit|pingOp, "a"),
		strings.Repeat(maskedFrame(finBit|binaryOp, strings.Repeat("a", fragmentSize)), bytesUnclosed/fragmentSize),
	}
	peer := 0
	return a.waits(ctx, "connections that stay open after a close", a.Open, func(c *Conn) error {
		_, _ = io.WriteString(c, closing+more[peer%len(more)]) // an error says that the server has closed, which is noticed
		peer++
		return nil
	})
}

// slowFragments begins a message and goes on with a byte, or with an empty fragment.
func slowFragments(_ *Arena, peer int) (beginning, more string) {
	if peer%2 > 0 {
		return maskedFrame(binaryOp, "a"), maskedFrame(contOp, "")
	}
	return maskedHead(finBit|binaryOp, 2, 1000), "a"
}
