package torture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

const (
	fragmentSize   = 4 << 10
	floodMost      = 8 << 20 // bytes of control frames on one connection
	abusive        = 40      // connections that abuse closes, at most
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
		got := c.hear(ctx, a.silence(patience), [][]byte{[]byte(in.frames + maskedFrame(finBit|pingOp, mark))}, func(b []byte) bool {
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
	return a.rule(len(inputs), func(i int, patience int) (judged, error) {
		in := &inputs[i]
		found := judged{name: in.name, section: in.rfc()}
		c, err := a.Dial(ctx)
		if err != nil {
			return found, err
		}
		got := c.hear(ctx, a.silence(patience), in.render(a.Host, a.Path, ""), func(b []byte) bool {
			return strings.Contains(string(b), "\r\n\r\n")
		})
		found.ruling, found.words = judgeHandshake(in, got)
		return found, ctx.Err()
	})
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
	var peers sync.WaitGroup
	taken := make([]int, pingFloodPeers)
	ends := make([]string, pingFloodPeers)
	for i := range pingFloodPeers {
		c, err := a.Open(ctx)
		if err != nil {
			return unknown("connection %d of %d: %v", i+1, pingFloodPeers, err)
		}
		f := floods[i%len(floods)]
		peers.Go(func() {
			defer c.Close()
			taken[i], ends[i] = c.pourUnread(ctx, f)
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
		if taken += n; timedOut(err) {
			return taken, "the server reads no more"
		} else if err != nil {
			return taken, "the server closes"
		}
	}
	return taken, "the server takes all"
}

// afterClose sends a close, and more, and never closes the TCP connection.
func afterClose(ctx context.Context, a *Arena) Finding {
	crowd, err := a.Crowd(ctx, min(abusive, a.Few), a.Open)
	if err != nil {
		return unknown("the server accepts %d of %d connections: %v", len(crowd), a.Few, err)
	}
	closing := maskedFrame(finBit|closeOp, "\x03\xe8")
	more := []string{
		"", closing, maskedFrame(finBit|pingOp, "a"),
		strings.Repeat(maskedFrame(finBit|binaryOp, strings.Repeat("a", fragmentSize)), bytesUnclosed/fragmentSize),
	}
	for i, c := range crowd {
		// An error says that the server has closed, which Closings notices.
		_, _ = fmt.Fprint(c, closing, more[i%len(more)])
	}
	return a.closed("connections that stay open after a close", a.Closings(ctx, crowd))
}

// slowFragments begins a message and goes on with a byte, or with an empty fragment.
func slowFragments(_ *Arena, peer int) (beginning, more string) {
	if peer%2 > 0 {
		return maskedFrame(binaryOp, "a"), maskedFrame(contOp, "")
	}
	return maskedHead(finBit|binaryOp, 2, 1000), "a"
}
