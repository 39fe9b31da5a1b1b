package websocket

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// TestHostileClients sends damaged streams directly after the handshake requests. Each
// connection is closed with the reference's code, and echoes on other connections stay correct.
// HONE_TEST_HOSTILE is the number of hostile clients.
func TestHostileClients(t *testing.T) {
	total := 100
	if given := os.Getenv("HONE_TEST_HOSTILE"); given != "" {
		var err error
		if total, err = strconv.Atoi(given); err != nil {
			t.Fatal(err)
		}
	}
	run(t, func(t *testing.T, at *place) {
		c := config{limit: 1000, server: true}
		addr := at.serve(&Upgrader{Message: echo, MessageSize: c.limit})
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 3))
		neighbour, _ := upgraded(t, addr)
		codes := map[uint16]int{}
		for i := range total {
			stream, _ := mutate(random, randomStream(random, c))
			want := readWhole(stream, c).code
			got, all := closedAfter(t, addr, stream)
			if codes[uint16(want)]++; want != 0 && got != want {
				t.Fatalf("closed with %d, want %d, after %x; all it sent: %x", got, want, stream, all)
			}
			text := strconv.Itoa(i)
			neighbour.SetDeadline(time.Now().Add(patience))
			neighbour.send(frame(opText, text))
			neighbour.want(served(opText, text))
		}
		t.Logf("by close code %v", codes)
	})
}

// closedAfter sends a stream, half-closes, and returns the code of the server's Close frame, 0
// without one, and everything that the server sent.
func closedAfter(t *testing.T, addr string, stream []byte) (Code, []byte) {
	t.Helper()
	p := dialTCP(t, addr)
	defer p.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		p.Write(append([]byte(asking()), stream...))
		p.Conn.(*net.TCPConn).CloseWrite()
	}()
	p.switched()
	all, err := io.ReadAll(p.r)
	if err != nil {
		t.Fatalf("%v after %x", err, stream)
	}
	<-sent
	d := decoder{limit: 1 << 20}
	for in := bytes.Clone(all); ; {
		e, f := d.next(in)
		switch {
		case f != 0:
			t.Fatalf("the server sent %x: %s", all, f.String())
		case e.op == opClose:
			code, _, _ := parseClose(e.payload)
			return code, all
		case e.op == opContinuation:
			return 0, all
		}
		in = in[e.used:]
	}
}

// An invalid frame is refused at once, however short it is.
func TestShortInvalidFrames(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		at.limits = engine.Limits{FrameTime: time.Hour}
		addr := at.serve(&Upgrader{Message: echo})
		for _, sent := range []string{"\x81\x01x", "\x81\x00", "\x83\x80", "\xc1\x80", "\x09\x80", "\x80\x80"} {
			for _, before := range []string{"", "hello"} {
				p, _ := upgraded(t, addr)
				if before != "" {
					p.send(frame(opText, before))
					p.want(served(opText, before))
				}
				p.send([]byte(sent))
				head := make([]byte, 4)
				if _, err := io.ReadFull(p.r, head); err != nil || head[0] != byte(opClose)|finBit || Code(binary.BigEndian.Uint16(head[2:])) != ProtocolError {
					t.Errorf("%x after %q is answered with %x (%v), want a Close frame with %d", sent, before, head, err, ProtocolError)
				}
			}
		}
	})
}
