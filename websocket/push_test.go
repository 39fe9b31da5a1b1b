package websocket

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// Pushes from many goroutines arrive complete, in each sender's order, among the answers.
func TestPushes(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		const senders, each = 8, 200
		conns := make(chan Conn, 1)
		p, _ := upgraded(t, at.serve(&Upgrader{Message: echo, Open: func(c Conn, _ *http.Request) error { conns <- c; return nil }}))
		c := heard(t, conns, "the connection")
		var wg sync.WaitGroup
		for s := range senders {
			wg.Go(func() {
				for i := range each {
					if err := c.Binary([]byte{byte(s)}, binary.BigEndian.AppendUint32(nil, uint32(i))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Go(func() {
			for range each {
				if _, err := p.Write(frame(opText, "asked")); err != nil {
					t.Error(err)
				}
			}
		})
		var next [senders]uint32
		answers := 0
		for range senders*each + each {
			kind, msg := p.message()
			switch {
			case kind == opText && string(msg) == "asked":
				answers++
			case kind == opBinary && len(msg) == 5 && binary.BigEndian.Uint32(msg[1:]) == next[msg[0]]:
				next[msg[0]]++
			default:
				t.Fatalf("got %v %q", kind, msg)
			}
		}
		wg.Wait()
		if answers != each {
			t.Errorf("%d answers, want %d", answers, each)
		}
	})
}

// message reads one of the server's frames.
func (p *peer) message() (opcode, []byte) {
	p.t.Helper()
	var head [10]byte
	if _, err := io.ReadFull(p.r, head[:2]); err != nil {
		p.t.Fatal(err)
	}
	n := int(head[1])
	if head[0]&finBit == 0 || n > length64 {
		p.t.Fatalf("the frame begins with %x", head[:2])
	}
	if n == length16 {
		io.ReadFull(p.r, head[2:4])
		n = int(binary.BigEndian.Uint16(head[2:]))
	} else if n == length64 {
		io.ReadFull(p.r, head[2:10])
		n = int(binary.BigEndian.Uint64(head[2:]))
	}
	msg := make([]byte, n)
	if _, err := io.ReadFull(p.r, msg); err != nil {
		p.t.Fatal(err)
	}
	return opcode(head[0] & opcodeBits), msg
}

// A push made while the handshake is being answered never overtakes the response. The test makes
// this many upgrades on each engine; with HONE_TEST_ALL=1, 100,000 in all.
func TestPushesNeverOvertakeTheResponse(t *testing.T) {
	upgrades := testrun.Sized(200, 100_000/(len(engine.All())+1))
	run(t, func(t *testing.T, at *place) {
		conns := make(chan Conn)
		var pushed atomic.Int64
		u := &Upgrader{Message: echo, Open: func(c Conn, _ *http.Request) error {
			conns <- c // from here on others push to it
			return c.Text([]byte("from Open"))
		}}
		var pushers sync.WaitGroup
		for range 4 {
			pushers.Go(func() {
				for c := range conns {
					if err := c.Text([]byte("raced")); err != nil {
						t.Error(err)
					}
					pushed.Add(1)
				}
			})
		}
		addr := at.serve(u)
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for range upgrades / 4 {
					if err := upgradeAgainstPushes(addr); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		clients.Wait()
		close(conns)
		pushers.Wait()
		if n := pushed.Load(); n != int64(upgrades/4*4) && !t.Failed() {
			t.Errorf("%d pushes", n)
		}
	})
}

// upgradeAgainstPushes upgrades one connection, and reads two pushes after the response.
func upgradeAgainstPushes(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := Dial(ctx, "ws://"+addr, Options{})
	if err != nil {
		return err
	}
	defer func() {
		c.nc.(*net.TCPConn).SetLinger(0) // a reset: there are not enough ports for this many in TIME_WAIT
		c.nc.Close()
	}()
	var got []string
	for range 2 {
		_, msg, err := c.Read(ctx, nil)
		if err != nil {
			return err
		}
		got = append(got, string(msg))
	}
	if slices.Sort(got); got[0] != "from Open" || got[1] != "raced" {
		return fmt.Errorf("got %q", got)
	}
	return nil
}

// A client that does not read is disconnected when too much output waits for it.
func TestSlowReader(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		at.limits.HardCap = 32 << 10
		conns := make(chan Conn, 1)
		u := &Upgrader{Message: echo, Open: func(c Conn, _ *http.Request) error { conns <- c; return nil }}
		ends := tellsEnds(u)
		upgraded(t, at.serve(u))
		c := heard(t, conns, "the connection")
		msg := make([]byte, 16<<10)
		var err error
		for range 10_000 {
			if err = c.Binary(msg); err != nil {
				break
			}
		}
		if !errors.Is(err, engine.SlowReader) {
			t.Errorf("pushed until %v", err)
		}
		if got := heard(t, ends, "the end"); got != (ended{AbnormalClosure, engine.SlowReader}) {
			t.Errorf("Closed got %v", got)
		}
		if err := c.Binary(msg); err != ErrClosed {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// Backpressure: the server stops reading a flood of pings, or of messages with long answers, if
// the client does not read. No visit produces much more output than HighWater.
func TestFloods(t *testing.T) {
	t.Parallel() // it waits
	answer := make([]byte, 10<<10)
	for name, sent := range map[string][]byte{"pings": frame(opPing, string(make([]byte, mostControl))), "messages": frame(opText, "?")} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, at *place) {
				at.limits.StallTime, at.limits.HighWater = 300*time.Millisecond, 16<<10
				u := &Upgrader{Message: func(_ Call, dst, _ []byte) ([]byte, error) { return append(dst, answer...), nil }}
				ends := tellsEnds(u)
				p, _ := upgraded(t, at.serve(u))
				flood := bytes.Repeat(sent, 1000)
				var writer sync.WaitGroup
				writer.Go(func() {
					for {
						if _, err := p.Write(flood); err != nil {
							return
						}
					}
				})
				defer writer.Wait()
				defer p.Close()
				look := time.NewTicker(time.Millisecond)
				defer look.Stop()
				for {
					select {
					case got := <-ends:
						if got.why != engine.WriteStall {
							t.Errorf("Closed got %v", got)
						}
						return
					case <-look.C:
						if most := at.stats().OutputMemory; most > 1<<20 {
							t.Fatalf("output uses %d bytes", most)
						}
					}
				}
			})
		})
	}
}

// Late replies may be sent in any order and from any goroutine.
func TestLate(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		const n = 100
		replies := make(chan Reply, n)
		p, _ := upgraded(t, at.serve(&Upgrader{Message: func(c Call, dst, msg []byte) ([]byte, error) {
			r := c.Later()
			if r.Conn() != c.Conn() {
				t.Error("another connection's reply")
			}
			if i, _ := strconv.Atoi(string(msg)); i%10 == 0 {
				return append(dst, "ignored"...), r.Text(msg)
			}
			replies <- r
			return append(dst, "ignored"...), nil
		}}))
		var all []byte
		for i := range n {
			all = append(all, frame(opText, strconv.Itoa(i))...)
		}
		p.send(all)
		var kept []Reply
		for range n - n/10 {
			kept = append(kept, heard(t, replies, "a message"))
		}
		slices.Reverse(kept)
		for i, r := range kept {
			var err error
			switch i % 3 {
			case 0:
				err = r.Text([]byte("t"))
			case 1:
				err = r.Binary([]byte("b"))
			default:
				err = errors.Join(r.Skip())
			}
			if err != nil {
				t.Error(err)
			}
			if err := r.Skip(); err != engine.ErrSettled {
				t.Errorf("settled twice: %v", err)
			}
		}
		counts := map[string]int{}
		for range n - n/10 - len(kept)/3 + n/10 {
			_, msg := p.message()
			counts[string(msg)]++
		}
		if counts["t"] != 30 || counts["b"] != 30 || counts["90"] != 1 {
			t.Errorf("got %v", counts)
		}
	})
}

// An answer may have the other kind, be another slice, be empty, or be left out.
func TestAnswers(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		long := make([]byte, 70_000)
		p, _ := upgraded(t, at.serve(&Upgrader{Message: func(c Call, dst, msg []byte) ([]byte, error) {
			switch string(msg) {
			case "none":
				return nil, nil
			case "empty":
				return dst, nil
			case "other":
				return []byte("another slice"), nil
			case "binary":
				c.Answer(Binary)
				return append(dst, msg...), nil
			case "long":
				return append(dst, long...), nil
			case "middle":
				return append(dst, long[:200]...), nil
			case "part":
				return append(dst, "cut off"...)[4:], nil
			}
			if len(msg) > 1000 {
				return append(dst, c.Kind().text()...), nil
			}
			return dst, PolicyViolation
		}}))
		for _, ask := range []string{"none", "empty", "other", "binary", "long", "middle", "part", string(make([]byte, 300*5))} {
			p.send(frame(opText, ask))
		}
		p.want(served(opText, ""))
		p.want(served(opText, "another slice"))
		p.want(served(opBinary, "binary"))
		p.want(served(opText, string(long)))
		p.want(served(opText, string(long[:200])))
		p.want(served(opText, "off"))
		p.want(served(opText, "text"))
	})
}

func (k Kind) text() string { return map[Kind]string{Text: "text", Binary: "binary"}[k] }

// Using a Call after Message has returned panics, instead of answering another message.
func TestStaleCall(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		kept := make(chan Call, 2)
		p, _ := upgraded(t, at.serve(&Upgrader{Message: func(c Call, dst, msg []byte) ([]byte, error) {
			kept <- c
			return append(dst, msg...), nil
		}}))
		p.send(frame(opText, "1"))
		p.want(served(opText, "1"))
		c := heard(t, kept, "the call")
		for name, use := range map[string]func(){
			"Conn": func() { c.Conn() }, "Later": func() { c.Later() }, "Context": func() { c.Context() }, "Answer": func() { c.Answer(Text) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s of a call that is over does not panic", name)
					}
				}()
				use()
			}()
		}
	})
}

// A broadcast reaches every open connection.
func TestBroadcast(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		const n = 100
		conns := make(chan Conn, n)
		u := &Upgrader{Message: echo, Compression: &Compression{MinSize: 10}}
		u.Open = func(c Conn, _ *http.Request) error { conns <- c; return nil }
		addr := at.serve(u)
		ctx, cancel := context.WithCancel(t.Context())
		var all []Conn
		var peers []*peer
		for range n {
			p, _ := upgraded(t, addr)
			peers, all = append(peers, p), append(all, heard(t, conns, "a connection"))
		}
		gone := all[7]
		peers[7].Close()
		eventually(t, "one has gone", func() bool { return !gone.RemoteAddr().IsValid() })
		msg := "hello everybody, hello everybody"
		if sent := Broadcast(ctx, slices.Values(all), Prepare(Text, []byte(msg), u.Compression)); sent != n-1 {
			t.Errorf("sent to %d", sent)
		}
		for i, p := range peers {
			if i != 7 {
				p.want(served(opText, msg))
			}
		}
		cancel()
		if sent := Broadcast(ctx, slices.Values(all), Prepared{}); sent >= n-1 {
			t.Errorf("sent to %d although the context has ended", sent)
		}
	})
}
