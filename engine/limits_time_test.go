package engine

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// A connection that does not authenticate in time is refused, whether it is silent, keeps asking, or
// waits for a late reply. One that authenticates stays, whether Trust was called within its visit or
// elsewhere.
func TestAuthTime(t *testing.T) {
	const limit = 5 * time.Second
	virtually(t, scripted(func(t *Turn, message string) error {
		switch message {
		case "prove":
			t.Conn().Trust()
		case "prove later":
			go t.Conn().Trust()
		case "later":
			t.Later()
			return nil
		}
		return echo(t, message)
	}), Limits{AuthTime: limit}, func(r *running) {
		trusted := []*client{r.dial(r.t), r.dial(r.t)}
		trusted[0].ask("prove")
		trusted[1].ask("prove later")
		begun := time.Now()
		silent, busy, waiting := r.dial(r.t), r.dial(r.t), r.dial(r.t)
		waiting.send(message("later"))
		line := "what\n"
		for ; line == "what\n"; pause(100 * time.Millisecond) {
			busy.send(message("what"))
			line, _ = busy.r.ReadString('\n')
		}
		if line != "auth_timeout\n" {
			r.t.Errorf("a connection that keeps asking reads %q", line)
		}
		silent.want("auth_timeout")
		io.Copy(io.Discard, waiting.r) // no refusal, because a reply is owed
		for _, c := range []*client{silent, busy, waiting} {
			c.Close()
		}
		pause(time.Minute)
		for range 3 {
			if e := <-r.ended; e.why != AuthTimeout || e.at.Sub(begun) < limit {
				r.t.Errorf("ended for %v after %v", e.why, e.at.Sub(begun))
			}
		}
		for _, c := range trusted {
			c.ask("still here")
		}
	})
}

// A trusted proxy that sends nothing has FrameTime for its header, as does one that sends half of it;
// afterwards its connection may be idle for IdleTime.
func TestSilentProxyIsClosedAfterFrameTime(t *testing.T) {
	virtually(t, scripted(echo), Limits{}, func(r *running) {
		r.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		const header = "PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\n"
		healthy := r.dial(r.t)
		healthy.send(append([]byte(header), message("hello")...))
		healthy.want("hello")
		for _, sent := range []string{"", header[:20], header[:len(header)-1]} {
			c, begun := r.dial(r.t), time.Now()
			for i := range sent {
				c.send([]byte{sent[i]})
				pause(100 * time.Millisecond)
			}
			c.want("frame_timeout")
			c.wantEnd()
			if took := time.Since(begun); took < 5*time.Second || took > 5*time.Second+2*r.period {
				r.t.Errorf("after %q: refused after %v", sent, took)
			}
			c.Close()
		}
		pause(2 * time.Minute)
		healthy.ask("hello again")
	})
}

// TakeOver waits for owed late replies, beyond StallTime, which is for peers that do not read, and within
// IdleTime: then the connection ends, and nobody gets the socket.
func TestTakeOverAwaitsLateReplies(t *testing.T) {
	for _, comes := range []bool{true, false} {
		bubbles(t, func(t *testing.T, e Engine) {
			replies := make(chan Reply, 1)
			taken := false
			r := start(t, e, scripted(func(t *Turn, message string) error {
				if message != "take" {
					return later(replies)(t, message)
				}
				return t.TakeOver(forGood(func(nc net.Conn, _ []byte) {
					taken = true
					io.WriteString(nc, "taken\n")
				}))
			}), Limits{})
			c, begun := r.dial(t), time.Now()
			c.send(append(message("late"), message("take")...))
			reply := <-replies
			if !comes {
				r.end(IdleTimeout, begun, 3*time.Minute)
				if err := reply.Send(nil); err != ErrClosed || taken {
					t.Errorf("the late reply returned %v; the socket was handed over: %v", err, taken)
				}
				return
			}
			pause(2 * time.Minute)
			r.alive()
			reply.Send([]byte("here\n"))
			c.want("here")
			c.want("taken")
			c.wantEnd()
			c.Close()
			if got := <-r.ended; got.why != ClosedHere {
				t.Errorf("ended for %v", got.why)
			}
		})
	}
}

// asking is a protocol with a ping.
type asking struct{ scripted }

func (*asking) Ping() []byte { return []byte("are you there?\n") }

// A peer that has been silent for half of IdleTime gets a ping, and stays connected when it answers.
func TestPing(t *testing.T) {
	asks := &asking{echo}
	virtually(t, scripted(func(t *Turn, message string) error {
		if message == "become" {
			if err := t.Become(asks); err != nil {
				return err
			}
		}
		return echo(t, message)
	}), Limits{}, func(r *running) {
		const idle = 3 * time.Minute
		lives, dead, other := r.dial(r.t), r.dial(r.t), r.dial(r.t)
		lives.ask("become")
		dead.ask("become")
		begun := time.Now()
		other.ask("one")
		for range 10 {
			silent := time.Now()
			lives.want("are you there?")
			if took := time.Since(silent); took < idle/2 || took > idle/2+2*r.period {
				r.t.Errorf("asked after %v, want %v", took, idle/2)
			}
			lives.ask("yes")
		}
		dead.want("are you there?")
		dead.want("idle_timeout")
		other.want("idle_timeout") // its protocol has no ping
		for range 2 {
			r.endOf(<-r.ended, IdleTimeout, begun, idle+2*time.Second) // neither closes, so they are lingered for
		}
	})
}
