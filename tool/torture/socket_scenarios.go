package torture

import (
	"bytes"
	"context"
	"io"
	"strings"
)

// socketScenarios attack WebSocket.
var socketScenarios = []Scenario{
	{Name: "bad-handshakes", Kinds: WebSocket, Attack: playHandshakes,
		Title: "Handshakes of WebSocket with bad keys, versions, methods and fields."},
	{Name: "bad-frames", Kinds: WebSocket, Attack: playFrames,
		Title: "Frames that are unmasked, too long, fragmented where they must not be, or of no known kind, and bad closes."},
	{Name: "endless-messages", Kinds: WebSocket, Attack: pourAll((*target).Dial, fragmentFloods),
		Title: "Messages without end, in fragments and in one frame."},
	{Name: "control-floods", Kinds: WebSocket, Attack: floodControl,
		Title: "Pings, pongs and empty fragments, as many as the server takes, from peers that read nothing."},
	{Name: "after-close", Kinds: WebSocket, Waits: true, Attack: waits("connections that stay open after a close", (*target).Dial, afterClose),
		Title: "Clients send a close and more frames behind it, and never close the TCP connection."},
	{Name: "slow-messages", Kinds: WebSocket, Waits: true, Attack: waits("messages that trickle", (*target).Dial, slowFragments),
		Title: "Messages trickle, a byte at a time, in one frame and in fragments."},
}

const (
	fragmentSize  = 4 << 10
	bytesUnclosed = 64 << 10
)

// playFrames sends every input on a connection of its own.
func playFrames(ctx context.Context, a *Arena) Finding {
	var all []attempt
	for _, in := range socketInputs() {
		mark := a.mark()
		all = append(all, attempt{
			name: in.name, section: "RFC 6455 §" + in.section, parts: [][]byte{[]byte(in.frames + maskedFrame(finBit|pingOp, mark))},
			enough: func(b []byte) bool {
				s := decodeSocket(heard{bytes: b}, mark)
				return s.ponged || s.closed || s.fault != nil
			},
			judge: func(got heard) (ruling, string) { return in.judge(got, mark) },
		})
	}
	return a.rule(ctx, (*target).Dial, all)
}

// playHandshakes sends every bad handshake.
func playHandshakes(ctx context.Context, a *Arena) Finding {
	headEnds := func(b []byte) bool { return bytes.Contains(b, []byte("\r\n\r\n")) }
	return a.rule(ctx, (*target).Bare, a.requests(socketHandshakes(), headEnds, judgeHandshake))
}

// afterClose sends a close, and more, and never closes the TCP connection.
func afterClose(c *Conn, peer int) error {
	closing := maskedFrame(finBit|closeOp, "\x03\xe8")
	behind := []string{
		"", closing, maskedFrame(finBit|pingOp, "a"),
		strings.Repeat(maskedFrame(finBit|binaryOp, strings.Repeat("a", fragmentSize)), bytesUnclosed/fragmentSize),
	}
	_, _ = io.WriteString(c, closing+behind[peer%len(behind)]) // an error says that the server has closed, which is noticed
	return nil
}

// slowFragments begins a message and goes on with a byte, or with an empty fragment.
func slowFragments(c *Conn, peer int) error {
	begins, rest := maskedHead(finBit|binaryOp, 2, 1000), "a"
	if peer%2 > 0 {
		begins, rest = maskedFrame(binaryOp, "a"), maskedFrame(contOp, "")
	}
	c.rest = []byte(rest)
	_, err := io.WriteString(c, begins)
	return err
}
