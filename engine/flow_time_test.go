package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/internal/fakenet"
	"github.com/hone-go/hone/internal/sys"
)

// What a peer sends stays with the peer while a handler does not return, and while nobody reads the
// replies: the server reads and holds little of it, and others are served.
func TestFloodIsNotRead(t *testing.T) {
	const little = 2 * fakenet.Buffer
	for _, what := range []string{"block", "fill"} {
		t.Run(what, func(t *testing.T) {
			bubbles(t, func(t *testing.T, e Engine) {
				release := make(chan struct{})
				r := start(t, e, scripted(func(t *Turn, message string) error {
					switch message {
					case "block":
						<-release
					case "fill":
						t.Out = append(t.Out, make([]byte, 8<<10)...)
					}
					return echo(t, message)
				}), Limits{StallTime: -1})
				c, other := r.dial(t), r.dial(t)
				c.send(message(what))
				c.SetWriteDeadline(time.Now().Add(time.Minute))
				if n, err := c.Write(bytes.Repeat(message(what), 1<<18)); !errors.Is(err, os.ErrDeadlineExceeded) || n > little {
					t.Errorf("the server took %d bytes (%v)", n, err)
				}
				if st := r.Stats(); st.BytesIn > little || st.Waiting > 1<<20 {
					t.Errorf("it has read %d bytes, and %d of replies wait", st.BytesIn, st.Waiting)
				}
				if what == "fill" || e != Events(Inline) {
					other.ask("hello")
				}
				close(release)
				c.Close()
			})
		})
	}
}

// No more requests are served than Limits.InFlight allows ahead of their replies. A drain serves all
// that were sent, as replies make room.
func TestInFlightPausesAndResumes(t *testing.T) {
	const most, n = 4, 50
	bubbles(t, func(t *testing.T, e Engine) {
		replies := make(chan Reply, n)
		r := start(t, e, later(replies), Limits{InFlight: most})
		c := r.dial(t)
		c.send(bytes.Repeat(message("please"), n))
		var done chan drained
		for i := range n {
			if i == n/2 {
				done = r.shutdown()
			}
			synctest.Wait()
			if owed := len(replies); i == 0 && owed != most || owed == 0 || owed > most || r.Stats().Owed != owed {
				t.Fatalf("after %d replies %d requests wait for theirs, and %d are counted, want up to %d", i, owed, r.Stats().Owed, most)
			}
			(<-replies).Send([]byte("here\n"))
			c.want("here")
		}
		c.want("shutting_down")
		c.wantEnd()
		c.Close()
		if got := <-done; got.err != nil || got.Drained != (Drained{Clean: 1}) {
			t.Errorf("%+v, want 1 clean", got)
		}
	})
}

// A reply that comes when the next message was seen, and not served yet, stays before it.
func TestReplyDuringAVisitStaysBeforeIt(t *testing.T) {
	bubbles(t, func(t *testing.T, e Engine) {
		replies := make(chan Reply, 1)
		r := start(t, e, &pondering{scripted: func(t *Turn, message string) error {
			if message == "ponder" {
				return echo(t, message)
			}
			return later(replies)(t, message)
		}}, Limits{InFlight: 1})
		c := r.dial(t)
		c.send(message("late"))
		reply := <-replies
		c.send(message("ponder"))
		synctest.Wait()
		reply.Send([]byte("first\n"))
		c.want("first")
		c.want("ponder")
	})
}

// lateOrBig promises a reply to late, answers big with much, and echoes everything else.
func lateOrBig(replies chan Reply) scripted {
	return func(t *Turn, message string) error {
		switch message {
		case "late":
			return later(replies)(t, message)
		case "big":
			return big(t, message)
		}
		return echo(t, message)
	}
}

// A message's time stands still while nobody reads it, because a reply is owed or the peer does not
// read one.
func TestFrameTimeStandsStillWhileNothingIsRead(t *testing.T) {
	for _, why := range []string{"late", "big"} {
		t.Run(why, func(t *testing.T) {
			bubbles(t, func(t *testing.T, e Engine) {
				replies := make(chan Reply, 1)
				r := start(t, e, lateOrBig(replies), Limits{InFlight: 1, IdleTime: -1, StallTime: -1})
				c := r.dial(t)
				c.send(slices.Concat(message(why), message("next"), message("behind")[:5]))
				pause(time.Hour)
				r.alive()
				if why == "late" {
					(<-replies).Send([]byte("here\n"))
					c.want("here")
				} else if _, err := io.ReadFull(c.r, make([]byte, 1<<20)); err != nil {
					t.Fatal(err)
				}
				c.want("next")
				c.send(message("behind")[5:])
				c.want("behind")
				begun := time.Now()
				c.send(message("half")[:3]) // now it passes again
				c.want("frame_timeout")
				c.Close()
				r.end(FrameTimeout, begun, 5*time.Second)
			})
		})
	}
}

// A limit below zero is none, not a very short one.
func TestLimitsBelowZeroAreOff(t *testing.T) {
	off := Limits{
		FrameTime: -1, IdleTime: -1, HighWater: -1, HardCap: -1, StallTime: -1, LingerTime: -1, InFlight: -1,
		TotalOutput: -1, TotalInput: -1, TotalInFlight: -1, Conns: -1, ConnsPerAddress: -1,
	}
	conns := make(chan Conn, 1)
	virtually(t, scripted(func(t *Turn, message string) error {
		switch message {
		case "bad":
			return Malformed
		case "big":
			conns <- t.Conn()
			return big(t, message)
		}
		return echo(t, message)
	}), off, func(r *running) {
		half, idle, refused, deaf := r.dial(r.t), r.dial(r.t), r.dial(r.t), r.dial(r.t)
		half.send(message("half")[:3])
		refused.send(message("bad"))
		refused.want("malformed")
		deaf.send(message("big"))
		c := <-conns
		for range 10 {
			if err := c.Push(make([]byte, 1<<20)); err != nil {
				r.t.Fatal(err)
			}
		}
		pause(24 * time.Hour)
		r.alive()
		half.send(message("half")[3:])
		half.want("half")
		idle.ask("good morning")
		if _, err := io.ReadFull(deaf.r, make([]byte, 11<<20)); err != nil {
			r.t.Error(err)
		}
	})
}

// saboteur makes the n-th call of a kind fail, and all others pass.
type saboteur struct {
	call    sys.Call
	err     error
	partial bool // the call before it moves a single byte
	n       atomic.Int64
}

func (s *saboteur) fault(c sys.Call, n int) (int, error) {
	if c != s.call {
		return n, nil
	}
	switch left := s.n.Add(-1); {
	case left == 0:
		return 0, s.err
	case left == 1 && s.partial:
		return min(n, 1), nil
	}
	return n, nil
}

// A connection may break at any call. It ends with that reason, once, and affects no other; replies
// owed to it are dropped. A socket that cannot be watched any longer is not forgotten.
func TestConnectionBreaksAtAnyCall(t *testing.T) {
	for _, x := range []struct {
		name    string
		call    sys.Call
		err     error
		partial bool
		why     Reason
		least   int // calls
	}{
		{"read", sys.CallRead, syscall.ECONNRESET, false, PeerReset, 6},
		{"write", sys.CallWrite, syscall.EPIPE, false, PeerReset, 6},
		{"write after a byte", sys.CallWrite, syscall.ECONNRESET, true, PeerReset, 6},
		{"registration", sys.CallRegister, syscall.ENOMEM, false, NoDescriptors, 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, e := range []Engine{Events(Auto), Events(Inline), Events(Offload)} {
				whole, n := false, 0
				for (!whole || n < x.least) && !t.Failed() {
					n++
					synctest.Test(t, func(t *testing.T) {
						whole = breaks(t, e, &saboteur{call: x.call, err: x.err, partial: x.partial}, n, x.why)
					})
					if whole && n <= x.least || n > 1000 {
						t.Fatalf("the conversation was whole although call %d should have failed", n)
					}
				}
			}
		})
	}
}

// breaks has a conversation with a fault, and reports whether it was whole.
func breaks(t *testing.T, e Engine, s *saboteur, call int, why Reason) (whole bool) {
	s.n.Store(int64(call))
	replies := make(chan Reply, 1)
	armed := false
	r := start(t, e, lateOrBig(replies), Limits{}, func(ln *fakenet.Listener) net.Listener {
		ln.Faults = func(conn int) sys.Fault {
			if conn == 0 {
				return nil
			}
			return s.fault
		}
		ln.Fault = func(c sys.Call, n int) (int, error) {
			if !armed {
				return n, nil
			}
			return s.fault(c, n)
		}
		return ln
	})
	other := r.dial(t)
	other.ask("hello")
	synctest.Wait()
	armed = true
	c := r.dial(t)
	talk := func(out, want string) bool {
		c.Write([]byte(out))
		synctest.Wait()
		select {
		case reply := <-replies:
			reply.Conn().Push([]byte("first this\n")) // both may be too late
			reply.Send([]byte("here\n"))
		default:
		}
		got := make([]byte, len(want))
		n, err := io.ReadFull(c.r, got)
		if string(got[:n]) != want[:n] {
			t.Errorf("read %.40q, want %.40q", got[:n], want)
		}
		return err == nil
	}
	pieces := string(message("in two pieces"))
	whole = talk(string(message("hello")), "hello\n") && talk(pieces[:5], "") && talk(pieces[5:], "in two pieces\n") &&
		talk(strings.Repeat(string(message("one of many")), 50), strings.Repeat("one of many\n", 50)) &&
		talk(string(message("late")), "first this\nhere\n") &&
		talk(string(message("big")), strings.Repeat("\x00", 1<<20)) && talk(string(message("behind")), "behind\n")
	c.CloseWrite()
	_, err := io.Copy(io.Discard, c.r)
	whole = whole && err == nil
	c.Close()
	pause(time.Minute) // whatever it waits for
	st, ended := r.Stats(), uint64(0)
	for _, n := range st.Ended {
		ended += n
	}
	if ended != 1 || st.Open != 1 || st.Owed != 0 || st.Waiting != 0 || len(r.ended) > 1 {
		t.Errorf("call %d: %d have ended, with %d calls of OnClose; %+v", call, ended, len(r.ended), st)
	}
	if !whole && st.Ended[why] != 1 || whole && st.Ended[PeerClosed] != 1 && s.n.Load() > 0 {
		t.Errorf("whole: %v; ended %v", whole, st.Ended)
	}
	other.ask("still here")
	return whole && s.n.Load() > 0
}

// A second Shutdown has the outcome of the first, and heeds its own context.
func TestTwoShutdowns(t *testing.T) {
	owing(t, func(r *running, c *client, reply Reply) {
		first := r.shutdown()
		synctest.Wait()
		second := r.shutdown()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begun := time.Now()
		if err, took := r.Server.Shutdown(ctx), time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			r.t.Errorf("a Shutdown with a second to go returned %v after %v", err, took)
		}
		reply.Send([]byte("here\n"))
		c.want("here")
		c.want("shutting_down")
		c.Close()
		if one, two := <-first, <-second; one != two || one.err != nil || one.Drained != (Drained{Clean: 1}) {
			r.t.Errorf("%+v and %+v, want the same, 1 clean", one, two)
		}
	})
}

// A visit that waits for input waits as long as the peer keeps Limits.FrameRate, and no
// longer: neither bytes that arrived fast nor the visit's own time count for or against
// the peer.
func TestMoreKeepsTheFrameRate(t *testing.T) {
	const kib, all = 1 << 10, 512 << 10
	upload := func(text string) scripted {
		return func(t *Turn, message string) error {
			if text == "computes before" {
				pause(10 * time.Minute)
			}
			in := t.d.box.Bytes() // after the message, whose bytes scripted has not consumed yet
			used := 2 + len(message)
			for got := len(in) - used; got < all; {
				more, err := t.More(used, 1)
				if err != nil {
					return err
				}
				used = len(more)
				got += used
				if text == "computes between" {
					pause(10 * time.Second)
				}
			}
			if _, err := t.More(used, 0); err != nil {
				return err
			}
			t.Out = append(t.Out, "whole\n"...)
			return errUploaded
		}
	}
	for _, test := range []struct {
		name string
		send func(c *client) // all in total, or less
		cut  time.Duration   // after the last byte; 0: not cut
	}{
		{"steady", func(c *client) {
			for range all / kib {
				pause(time.Second)
				c.send(make([]byte, kib))
			}
		}, 0},
		{"computes before", func(c *client) {
			pause(10*time.Minute + time.Second)
			c.send(make([]byte, all))
		}, 0},
		{"computes between", func(c *client) {
			for range 4 {
				c.send(make([]byte, all/4))
				pause(12 * time.Second)
			}
		}, 0},
		{"silent at once", func(c *client) {}, 5 * time.Second},
		{"fast, then silent", func(c *client) { c.send(make([]byte, all/4*3)) }, 5 * time.Second},
		{"trickles", func(c *client) {
			for range 4 {
				pause(time.Second)
				c.send(make([]byte, 1))
			}
		}, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			virtually(t, upload(test.name), Limits{}, func(r *running) {
				c := r.dial(r.t)
				c.send(message("upload"))
				test.send(c)
				begun := time.Now()
				if test.cut == 0 {
					c.want("whole")
					return
				}
				c.want("frame_timeout")
				c.Close()
				r.end(FrameTimeout, begun, test.cut)
			})
		})
	}
}

// errUploaded ends a visit whose message was consumed already.
var errUploaded = ClosedHere

// First visits that block hold up nobody else for longer than a watchdog needs: who comes later is answered
// within milliseconds, although so few first visits run at once.
func TestSlowFirstVisitsHoldUpNobody(t *testing.T) {
	bubbles(t, func(t *testing.T, e Engine) {
		const slow, quick, most = 4, 40, 8 * time.Millisecond
		r := start(t, e, scripted(func(t *Turn, message string) error {
			if message == "slow" {
				pause(time.Second)
			}
			return echo(t, message)
		}), Limits{})
		var all sync.WaitGroup
		for i := range slow + quick {
			c := r.dial(t)
			all.Go(func() {
				if i < slow {
					c.ask("slow")
					return
				}
				pause(time.Duration(i) * time.Millisecond / 2)
				began := time.Now()
				if c.ask("quick"); time.Since(began) > most {
					t.Errorf("answered after %v, at most %v", time.Since(began), most)
				}
			})
		}
		all.Wait()
	}, Events(Inline))
}
