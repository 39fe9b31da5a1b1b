package websocket

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// A client that does not read for a while gets the latest of the droppable messages, in their
// order among the others, all of which it gets; the rest are dropped whole and counted.
func TestDroppable(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		const size, all = 1000, 20_000
		conns := make(chan Conn, 2)
		at.limits = engine.Limits{HighWater: 32 << 10, StallTime: patience}
		addr := at.serve(&Upgrader{Message: func(c Call, dst, msg []byte) ([]byte, error) {
			conns <- c.Conn()
			return nil, nil
		}})
		p, _ := upgraded(t, addr)
		p.send(frame(opText, "begin"))
		c := heard(t, conns, "the connection")
		number := func(i int) []byte { return binary.BigEndian.AppendUint32(make([]byte, 0, size), uint32(i))[:size] }
		text := 0
		for i := range all {
			if err := c.Send(Prepare(Binary, number(i), nil).Droppable()); err != nil {
				t.Fatalf("after %d messages: %v", i, err)
			}
			if i%1000 == 999 { // 20 in all: far below HardCap
				if err := c.Text([]byte(fmt.Sprint(i))); err != nil {
					t.Fatal(err)
				}
				text++
			}
			if n := c.Unsent(); n > 8<<10+20*10+3*(size+4) { // those, texts, and what is being written
				t.Fatalf("%d bytes wait", n)
			}
		}
		p.send(frame(opText, "heard")) // it is read although it does not read
		heard(t, conns, "the message")
		got, last, texts := 0, -1, 0
		for texts < text || last < all-1 {
			op, payload := p.frame()
			switch op {
			case opText:
				texts++
				if want := fmt.Sprint(texts*1000 - 1); string(payload) != want || last > texts*1000-1 {
					t.Fatalf("text %q after number %d, want %s", payload, last, want)
				}
			default:
				i := int(binary.BigEndian.Uint32(payload))
				if len(payload) != size || i <= last || i >= (texts+1)*1000 {
					t.Fatalf("%d bytes with number %d after %d and %d texts", len(payload), i, last, texts)
				}
				got, last = got+1, i
			}
		}
		st := at.stats()
		if dropped := int(st.Dropped); got+dropped != all || dropped == 0 {
			t.Errorf("%d messages arrived and %d were dropped, of %d", got, dropped, all)
		}
		eventually(t, "nothing waits", func() bool { st := at.stats(); return st.Waiting == 0 && c.Unsent() == 0 })
	})
}

// A broadcast of droppable messages to clients that read loses none.
func TestDroppableToReaders(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		conns := make(chan Conn, 1)
		p, _ := upgraded(t, at.serve(&Upgrader{Message: func(c Call, dst, msg []byte) ([]byte, error) {
			conns <- c.Conn()
			return nil, nil
		}}))
		p.send(frame(opText, "begin"))
		c := heard(t, conns, "the connection")
		for i := range 200 {
			content := fmt.Sprint("number ", i)
			if n := Broadcast(context.Background(), slices.Values([]Conn{c}), Prepare(Text, []byte(content), nil).Droppable()); n != 1 {
				t.Fatalf("sent to %d", n)
			}
			p.want(served(opText, content))
		}
		if n := at.stats().Dropped; n != 0 {
			t.Errorf("%d dropped", n)
		}
	})
}

// frame reads a frame of the server.
func (p *peer) frame() (op opcode, payload []byte) {
	p.t.Helper()
	var head [2]byte
	if _, err := io.ReadFull(p.r, head[:2]); err != nil {
		p.t.Fatal(err)
	}
	op = opcode(head[0] & opcodeBits)
	n := int(head[1])
	if n == length16 {
		io.ReadFull(p.r, head[:2])
		n = int(binary.BigEndian.Uint16(head[:]))
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(p.r, payload); err != nil {
		p.t.Fatal(err)
	}
	return op, payload
}

// Ping measures round trips. Answers to other pings, and made-up ones, measure nothing.
func TestPing(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		conns, trips := make(chan Conn, 1), make(chan time.Duration, 10)
		u := &Upgrader{
			Message: func(c Call, dst, msg []byte) ([]byte, error) {
				conns <- c.Conn()
				return nil, nil
			},
			Pong: func(c Conn, d time.Duration) {
				trips <- d
				c.Text([]byte("measured"))
			},
		}
		p, _ := upgraded(t, at.serve(u))
		p.send(frame(opText, "begin"))
		c := heard(t, conns, "the connection")
		p.send(frame(opPong, "nobody asked"))
		p.send(frame(opPong, ""))
		p.send(frame(opPong, "sixteen bytes ..")) // the length of ours
		began := time.Now()
		if err := c.Ping(); err != nil {
			t.Fatal(err)
		}
		op, content := p.frame()
		if op != opPing || len(content) != pingSize {
			t.Fatalf("opcode %d and %q", op, content)
		}
		held := time.Since(began)
		p.send(frame(opPong, string(content)))
		p.want(served(opText, "measured"))
		if d := heard(t, trips, "the round trip"); d <= 0 || d < held-time.Since(began) || d > time.Since(began) {
			t.Errorf("measured %v, want at most %v", d, time.Since(began))
		}
		if len(trips) > 0 {
			t.Errorf("another round trip: %v", <-trips)
		}
		if err := (Conn{}).Ping(); err != ErrClosed {
			t.Errorf("Ping of no connection returned %v", err)
		}
	})
}
