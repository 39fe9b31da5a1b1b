package torture

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/hone-go/hone/websocket"
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
			name: in.name, section: "6455 §" + in.section, parts: [][]byte{[]byte(in.frames + maskedFrame(finBit|pingOp, mark))},
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

// socketInput is what is sent on a WebSocket connection, before a ping with a mark.
type socketInput struct {
	name    string
	section string // of RFC 6455
	frames  string
	want    reaction
}

// reaction is what a server does with frames.
type reaction uint8

const (
	mustFail   reaction = iota // it closes; going on is wrong
	shouldFail                 // it closes; going on is lenient
	mayWait                    // it closes or waits for more bytes; going on is wrong
	mustGoOn                   // it answers the ping behind the frames
	mayDecline                 // the same, unless its service refuses the message
)

// The first byte of a frame.
const (
	finBit   = 0x80
	contOp   = 0
	textOp   = byte(websocket.Text)
	binaryOp = byte(websocket.Binary)
	closeOp  = byte(websocket.CloseFrame)
	pingOp   = byte(websocket.PingFrame)
	pongOp   = byte(websocket.PongFrame)
)

// maskedFrame returns a masked frame with that first byte and the shortest form of its length.
func maskedFrame(first byte, payload string) string {
	width := 0
	switch {
	case len(payload) > 0xFFFF:
		width = 8
	case len(payload) > 125:
		width = 2
	}
	return maskedHead(first, width, uint64(len(payload))) + masked(payload)
}

const maskKey = "\x01\x02\x03\x04"

// maskedHead returns the head of a masked frame, whose length has that many bytes of its own.
func maskedHead(first byte, width int, length uint64) string {
	head := []byte{first, 0x80 | byte(length)}
	switch width {
	case 2:
		head[1] = 0x80 | 126
		head = binary.BigEndian.AppendUint16(head, uint16(length))
	case 8:
		head[1] = 0x80 | 127
		head = binary.BigEndian.AppendUint64(head, length)
	}
	return string(head) + maskKey
}

// masked returns a payload masked with the key.
func masked(payload string) string {
	b := []byte(payload)
	for i := range b {
		b[i] ^= maskKey[i%len(maskKey)]
	}
	return string(b)
}

// socketInputs returns our own list, derived from RFC 6455.
func socketInputs() []socketInput {
	text, ping := maskedFrame(finBit|textOp, "hello"), maskedFrame(finBit|pingOp, "a")
	long := strings.Repeat("a", 126)
	closing := func(payload string) string { return maskedFrame(finBit|closeOp, payload) }
	return []socketInput{
		{"an unmasked text", "5.1", "\x81\x05hello", mustFail},
		{"an unmasked ping", "5.1", "\x89\x01a", mustFail},
		{"an unmasked close", "5.1", "\x88\x00", mustFail},
		{"the first reserved bit", "5.2", maskedFrame(finBit|0x40|textOp, "hello"), shouldFail},
		{"the second reserved bit", "5.2", maskedFrame(finBit|0x20|textOp, "hello"), shouldFail},
		{"the third reserved bit", "5.2", maskedFrame(finBit|0x10|pingOp, "a"), shouldFail},
		{"the opcode 3", "5.2", maskedFrame(finBit|3, "hello"), shouldFail},
		{"the opcode 11", "5.2", maskedFrame(finBit|11, "a"), shouldFail},
		{"a ping of 126 bytes", "5.5", maskedFrame(finBit|pingOp, long), mustFail},
		{"a pong of 70,000 bytes", "5.5", maskedFrame(finBit|pongOp, strings.Repeat("a", 70_000)), mustFail},
		{"a close of 126 bytes", "5.5", closing("\x03\xe8" + long[2:]), mustFail},
		{"a ping in two fragments", "5.5", maskedFrame(pingOp, "a") + maskedFrame(finBit|contOp, "b"), mustFail},
		{"a continuation of nothing", "5.4", maskedFrame(finBit|contOp, "a"), mustFail},
		{"a message within a message", "5.4", maskedFrame(textOp, "a") + text, mustFail},
		{"a length of 2^63", "5.2", maskedHead(finBit|binaryOp, 8, 1<<63) + masked("hello"), mayWait},
		{"a length of 2^64 - 1", "5.2", maskedHead(finBit|binaryOp, 8, 1<<64-1) + masked("hello"), mayWait},
		{"a length of 2^63 - 1", "5.2", maskedHead(finBit|binaryOp, 8, 1<<63-1) + masked("hello"), mayWait},
		{"a length of 2^32 + 5", "5.2", maskedHead(finBit|binaryOp, 8, 1<<32+5) + masked("hello"), mayWait},
		{"a length of 5 in two bytes", "5.2", maskedHead(finBit|textOp, 2, 5) + masked("hello"), shouldFail},
		{"a length of 5 in eight bytes", "5.2", maskedHead(finBit|textOp, 8, 5) + masked("hello"), shouldFail},
		{"a text that is not UTF-8", "8.1", maskedFrame(finBit|textOp, "\xff\xfe"), shouldFail},
		{"a text that ends within a letter", "8.1", maskedFrame(textOp, "a\xc3") + maskedFrame(finBit|contOp, ""), shouldFail},
		{"a close with half a code", "5.5.1", closing("\x03"), mustFail},
		{"a close with the code 1005", "7.4.1", closing("\x03\xed"), mustFail},
		{"a close with the code 0", "7.4.2", closing("\x00\x00"), mustFail},
		{"a close with the code 65535", "7.4.2", closing("\xff\xff"), mustFail},
		{"a close whose reason is not UTF-8", "5.5.1", closing("\x03\xe8\xff"), mustFail},
		{"a message behind a close", "5.5.1", closing("\x03\xe8") + text, mustFail},
		{"two closes", "5.5.1", closing("\x03\xe8") + closing("\x03\xe9"), mustFail},
		{"an empty close", "5.5.1", closing(""), mustFail},
		{"HTTP instead of frames", "5.2", "GET / HTTP/1.1\r\n\r\n", mustFail},
		{"a pong that nobody asked for", "5.5.3", maskedFrame(finBit|pongOp, "a"), mustGoOn},
		{"a ping of 125 bytes", "5.5", maskedFrame(finBit|pingOp, long[:125]), mustGoOn},
		{"a ping between fragments", "5.4", maskedFrame(binaryOp, "a") + ping + maskedFrame(finBit|contOp, "b"), mayDecline},
		{"empty fragments", "5.4", maskedFrame(binaryOp, "") + maskedFrame(contOp, "") + maskedFrame(finBit|contOp, ""), mayDecline},
	}
}

// socketHeard is what came back on a WebSocket connection.
type socketHeard struct {
	ponged bool           // the ping with the mark was answered
	closed bool           // a close came, or the connection ended
	code   websocket.Code // of the close
	fault  error          // in the server's frames
}

// decodeSocket reads a server's frames.
func decodeSocket(got heard, mark string) socketHeard {
	s := socketHeard{closed: got.closed, code: websocket.NoStatus}
	frames := websocket.Frames{MessageSize: mostHeard}
	in := []byte(string(got.bytes)) // which decoding changes
	for {
		kind, payload, used, err := frames.Next(in)
		if err != nil {
			s.fault, s.closed = err, in[0] == finBit|closeOp
			return s
		}
		if kind == 0 {
			return s
		}
		in = in[used:]
		switch kind {
		case websocket.PongFrame:
			s.ponged = s.ponged || string(payload) == mark
		case websocket.CloseFrame:
			s.closed = true
			if len(payload) >= 2 {
				s.code = websocket.Code(binary.BigEndian.Uint16([]byte(payload)))
			}
			return s
		}
	}
}

// judge says what a server did with frames, behind which stands a ping with the mark.
func (in *socketInput) judge(got heard, mark string) (ruling, string) {
	s := decodeSocket(got, mark)
	words := "closes"
	if s.code != websocket.NoStatus {
		words = fmt.Sprintf("closes with the code %d", s.code)
	}
	declined := s.code == websocket.UnsupportedData || s.code == websocket.PolicyViolation || s.code == websocket.InvalidPayload
	switch {
	case s.fault != nil && s.closed:
		return lenient, fmt.Sprintf("closes with a broken frame (%v)", s.fault)
	case s.fault != nil:
		return wrong, fmt.Sprintf("sends a broken frame (%v)", s.fault)
	case in.want >= mustGoOn && s.ponged:
		return right, "goes on"
	case in.want == mustGoOn && s.closed, in.want == mayDecline && s.closed && !declined:
		return wrong, words + " a connection that keeps to the protocol"
	case s.ponged && in.want == shouldFail:
		return lenient, "goes on"
	case s.ponged:
		return wrong, "goes on, and answers the ping behind it"
	case s.closed:
		return right, words
	case in.want == mayWait:
		return right, "waits"
	}
	return wrong, fmt.Sprintf("neither goes on nor closes in %s", elapsed(got.took))
}

// socketHandshakes returns handshakes that a server should refuse, as inputs whose right answer is
// any but the status 101.
func socketHandshakes() []httpInput {
	const (
		upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n"
		version = "Sec-WebSocket-Version: 13\r\n"
		key     = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	)
	get := func(lines string) string { return "GET {path} HTTP/1.1\r\nHost: {host}\r\n" + lines + "\r\n" }
	refused := rights{refuse: true, lenient: 1}
	accepted := rights{refuse: true, serve: 1}
	return []httpInput{
		{"no key", "6455 §4.2.1", get(upgrade + version), refused},
		{"an empty key", "6455 §4.2.1", get(upgrade + version + "Sec-WebSocket-Key:\r\n"), refused},
		{"a key of 15 bytes", "6455 §4.2.1", get(upgrade + version + "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAA\r\n"), refused},
		{"a key that is not base64", "6455 §4.2.1", get(upgrade + version + "Sec-WebSocket-Key: !!!!!!!!!!!!!!!!!!!!!!==\r\n"), refused},
		{"two keys", "6455 §11.3.1", get(upgrade + version + key + strings.Replace(key, "dG", "dH", 1)), refused},
		{"a key of 70,000 letters", "6455 §4.2.1", get(upgrade + version + "Sec-WebSocket-Key: {big}\r\n"), refused},
		{"no version", "6455 §4.2.1", get(upgrade + key), refused},
		{"the version 12", "6455 §4.2.1", get(upgrade + key + "Sec-WebSocket-Version: 12\r\n"), refused},
		{"the versions 12 and 13", "6455 §11.3.5", get(upgrade + key + "Sec-WebSocket-Version: 12\r\n" + version), refused},
		{"the method POST", "6455 §4.1", strings.Replace(get(upgrade+version+key), "GET", "POST", 1), refused},
		{"HTTP/1.0", "6455 §4.1", strings.Replace(get(upgrade+version+key), "HTTP/1.1", "HTTP/1.0", 1), refused},
		{"no Upgrade", "6455 §4.2.1", get("Connection: Upgrade\r\n" + version + key), refused},
		{"an Upgrade to websocket2", "6455 §4.2.1", get(strings.Replace(upgrade, "websocket", "websocket2", 1) + version + key), refused},
		{"no Connection", "6455 §4.2.1", get("Upgrade: websocket\r\n" + version + key), refused},
		{"Connection: close", "6455 §4.2.1", get("Upgrade: websocket\r\nConnection: close\r\n" + version + key), refused},
		{"a body", "9112 §6", get(upgrade+version+key+"Content-Length: 5\r\n") + "hello", accepted},
		{"3,000 fields", "9110 §5.4", get(upgrade + version + key + "{many}\r\n"), accepted},
		{"an extension of ;;;", "6455 §9.1", get(upgrade + version + key + "Sec-WebSocket-Extensions: ;;;\r\n"), accepted},
		{"a subprotocol of 70,000 letters", "6455 §11.3.4", get(upgrade + version + key + "Sec-WebSocket-Protocol: {big}\r\n"), accepted},
	}
}

// judgeHandshake says what a server did with a handshake.
func judgeHandshake(in *httpInput, got heard, _ string) (ruling, string) {
	head, _, found := strings.Cut(string(got.bytes), "\r\n\r\n")
	status, _, _ := strings.Cut(head, "\r\n")
	switch {
	case strings.HasPrefix(status, "HTTP/1.1 101") && in.serve == 0:
		return lenient, "accepts the handshake"
	case strings.HasPrefix(status, "HTTP/1."):
		return right, "answers " + status
	case found || len(got.bytes) > 0:
		return wrong, "sends " + errNotHTTP.Error()
	case got.closed:
		return right, "closes without an answer"
	}
	return wrong, fmt.Sprintf("neither answers nor closes in %s", elapsed(got.took))
}
