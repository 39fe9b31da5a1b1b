package framed_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/fakenet"
	"github.com/hone-go/hone/wire"
)

// onFakeTime is run in a bubble of fake time.
func onFakeTime(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	t.Helper()
	runPlain(t, func(t *testing.T, e engine.Engine) {
		synctest.Test(t, func(t *testing.T) { test(t, e) })
	})
}

// memoryListener accepts connections in memory.
type memoryListener struct{ *fakenet.Listener }

func (l memoryListener) dial(t *testing.T) *peer {
	t.Helper()
	nc, err := l.Dial()
	if err != nil {
		t.Fatal(err)
	}
	p := peerOf(t, nc)
	p.SetDeadline(time.Time{})
	return p
}

// serveInMemory is serve on a memoryListener.
func serveInMemory(t *testing.T, s *framed.Server) memoryListener {
	t.Helper()
	ln := memoryListener{fakenet.Listen()}
	ln.Limit = 512 // what a peer has not read, the server still has
	serveOn(t, s, ln)
	return ln
}

// passes advances time.
func passes(d time.Duration) { <-time.After(d) }

// The limits of time refuse with a code of their own, and so does a drain.
func TestEndsHaveTheirCodes(t *testing.T) {
	onFakeTime(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		ln := serveInMemory(t, s)
		half, idle := ln.dial(t), ln.dial(t)
		half.send(submit(1, "half")[:9])
		idle.exchange(1, "hello")
		half.wantRefusal(wire.TooSlow)
		idle.wantRefusal(wire.Idle)
		half.Close()
		idle.Close()
		for n := uint64(0); n < 30; n++ { // a heartbeat keeps a connection open
			if n == 0 {
				idle = ln.dial(t)
			}
			passes(2 * time.Minute)
			idle.send(frame(wire.Conn, n, 0, ""))
			idle.want(frame(wire.ConnAck, n, wire.OK, ""))
		}
		fresh := ln.dial(t)
		synctest.Wait() // it is accepted
		done := shutdown(t.Context(), s)
		for _, p := range []*peer{idle, fresh} {
			p.wantRefusal(wire.ShuttingDown)
			p.Close()
		}
		drained(t, done, 2)
	})
}

// A client without an accepted Conn in time is refused and disconnected, whatever else it
// sends. One that has authenticated stays, and without Connect there is no limit.
func TestConnectMustBeAcceptedInTime(t *testing.T) {
	onFakeTime(t, func(t *testing.T, e engine.Engine) {
		late := make(chan framed.Reply, 1)
		s := &framed.Server{Engine: e, Limits: engine.Limits{AuthTime: time.Minute}, Handler: framed.HandlerFunc(echo),
			Connect: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				switch string(req) {
				case "ann":
					return dst, nil
				case "late":
					late <- c.Later()
					return dst, nil
				}
				return dst, wire.Unauthorised
			})}
		ln := serveInMemory(t, s)
		connect := func(credentials string) *peer {
			p := ln.dial(t)
			p.send(frame(wire.Conn, 1, 0, credentials))
			return p
		}
		ann, stranger, mute := connect("ann"), connect("bob"), ln.dial(t)
		ann.want(frame(wire.ConnAck, 1, wire.OK, ""))
		slow := connect("late")
		heard(t, late, "Connect is called").Send(nil)
		slow.want(frame(wire.ConnAck, 1, wire.OK, ""))
		stranger.want(frame(wire.ConnAck, 1, wire.Unauthorised, ""))
		stranger.exchange(2, "who asks?")
		denied := connect("late")
		heard(t, late, "Connect is called").Fail(wire.Unauthorised)
		denied.want(frame(wire.ConnAck, 1, wire.Unauthorised, ""))
		for _, p := range []*peer{stranger, mute, denied} {
			p.wantRefusal(wire.TooSlow)
			p.Close() // otherwise it would linger
		}
		ended(t, s, engine.AuthTimeout, 3)
		ann.exchange(2, "still here")
		slow.exchange(2, "still here")
	})
}

// Without Connect, AuthTime would close every connection: it is off.
func TestAuthTimeWithoutConnectIsOff(t *testing.T) {
	onFakeTime(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Limits: engine.Limits{AuthTime: time.Second}, Handler: framed.HandlerFunc(echo)}
		p := serveInMemory(t, s).dial(t)
		p.send(submit(1, "one"))
		p.want(ack(1, "one"))
		passes(time.Minute)
		p.send(submit(2, "two"))
		p.want(ack(2, "two"))
	})
}
