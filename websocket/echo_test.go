package websocket

import (
	"bytes"
	"strings"
	"testing"
)

func TestEcho(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		p, _ := upgraded(t, at.serve(&Upgrader{Message: echo}))
		for _, n := range []int{0, 1, 125, 126, 127, 1000, 65535, 65536} {
			text := strings.Repeat("a", n)
			p.send(frame(opText, text))
			p.want(served(opText, text))
			p.send(frame(opBinary, text))
			p.want(served(opBinary, text))
		}
		p.send(frame(opPing, "hello"))
		p.want(served(opPong, "hello"))
		p.send(frame(opPong, "nobody asked"))
		p.send(frame(opClose, "\x03\xe8bye"))
		p.want(closing(NormalClosure, ""))
		p.wantEnd()
	})
}

// A fragmented message with control frames in between is one message, however the bytes are
// split.
func TestFragments(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		addr := at.serve(&Upgrader{Message: echo})
		all := bytes.Join([][]byte{
			piece(opText, false, "κόσ"), frame(opPing, "1"), piece(opContinuation, false, ""), frame(opPing, "2"),
			piece(opContinuation, true, "με"), frame(opBinary, "\x00"), piece(opBinary, false, ""), piece(opContinuation, true, ""),
		}, nil)
		want := bytes.Join([][]byte{
			served(opPong, "1"), served(opPong, "2"), served(opText, "κόσμε"), served(opBinary, "\x00"), served(opBinary, ""),
		}, nil)
		p, _ := upgraded(t, addr)
		p.send(all)
		p.want(want)
		p, _ = upgraded(t, addr)
		for _, b := range all {
			p.send([]byte{b})
		}
		p.want(want)
		for cut := 1; cut < len(all); cut += 7 {
			p.send(all[:cut])
			p.send(all[cut:])
			p.want(want)
		}
	})
}

// Compressed messages may be fragmented, with control frames in between. One that would be too
// long is refused before it is decompressed completely.
func TestCompressedFragments(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		z := &Compression{MinSize: 1}
		u := &Upgrader{Message: echo, Compression: z, MessageSize: 10_000}
		p, _ := upgraded(t, at.serve(u), "Sec-WebSocket-Extensions: permessage-deflate")
		text := strings.Repeat("κόσμε", 800)
		deflated := z.deflate(nil, mostWindow, []byte(text))
		all := appendMasked(nil, byte(opText)|compressedBit, deflated[:3])
		for i := 3; i < len(deflated); i++ {
			all = append(all, frame(opPing, "")...)
			all = append(all, piece(opContinuation, i == len(deflated)-1, string(deflated[i:i+1]))...)
		}
		all = append(all, frame(opText, "not compressed")...)
		want := append(bytes.Repeat(served(opPong, ""), len(deflated)-3), appendFrame(nil, byte(opText)|finBit|compressedBit, deflated)...)
		want = append(want, served(opText, "not compressed")...)
		p.send(all)
		p.want(want)
		bomb := z.deflate(nil, mostWindow, make([]byte, 10_001))
		p.send(appendMasked(nil, byte(opBinary)|finBit|compressedBit, bomb))
		p.want(closing(MessageTooBig, faultTooBig.String()))
		p.wantEnd()
	})
}
