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
	crowd, err := a.Crowd(ctx, pingFloodPeers, (*Arena).Open)
	if err != nil {
		return unknown("%v", err)
	}
	var peers sync.WaitGroup
	taken := make([]int, pingFloodPeers)
	ends := make([]string, pingFloodPeers)
	for i, c := range crowd {
		peers.Go(func() {
			var err error
			taken[i], err = c.send(ctx, floodMost, a.Answer/2, floods[i%len(floods)].blocks())
			switch {
			case isTimeout(err):
				ends[i] = "the server reads no more"
			case err != nil:
				ends[i] = "the server closes"
			default:
				ends[i] = "the server takes all"
			}
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

// afterClose sends a close, and more, and never closes the TCP connection.
func afterClose(c *Conn, peer int) (more string, err error) {
	closing := maskedFrame(finBit|closeOp, "\x03\xe8")
	behind := []string{
		"", closing, maskedFrame(finBit|pingOp, "a"),
		strings.Repeat(maskedFrame(finBit|binaryOp, strings.Repeat("a", fragmentSize)), bytesUnclosed/fragmentSize),
	}
	_, _ = io.WriteString(c, closing+behind[peer%len(behind)]) // an error says that the server has closed, which is noticed
	return "", nil
}

// slowFragments begins a message and goes on with a byte, or with an empty fragment.
func slowFragments(c *Conn, peer int) (more string, err error) {
	begins := maskedHead(finBit|binaryOp, 2, 1000)
	if more = "a"; peer%2 > 0 {
		begins, more = maskedFrame(binaryOp, "a"), maskedFrame(contOp, "")
	}
	_, err = io.WriteString(c, begins)
	return more, err
}
