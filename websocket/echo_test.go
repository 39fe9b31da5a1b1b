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

// A message in pieces, with control frames in between, is one message; however the bytes
// are split.
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
