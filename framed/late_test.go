package framed_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// postponed is a request whose reply is owed.
type postponed struct {
	framed.Reply
	id   uint64
	text string
}

// postponing leaves requests that begin with "late" to the test, and answers the others
// at once.
func postponing(n int) (framed.HandlerFunc, chan postponed) {
	owed := make(chan postponed, n)
	return func(c framed.Call, dst, req []byte) ([]byte, error) {
		if bytes.HasPrefix(req, []byte("late")) {
			owed <- postponed{c.Later(), c.ID(), string(req)}
			return append(dst, "ignored"...), nil
		}
		return append(dst, req...), nil
	}, owed
}

func TestLateRepliesFinishOutOfOrder(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const n = 100
		h, owed := postponing(n)
		s := &framed.Server{Engine: e, Handler: h}
		p := dial(t, serve(t, s))
		var out []byte
		for id := range uint64(n) {
			out = append(out, submit(id, fmt.Sprint("late ", id))...)
		}
		p.send(append(out, submit(n, "inline")...))
		p.want(ack(n, "inline"))
		all := make([]postponed, n)
		for i := range all {
			all[n-1-i] = heard(t, owed, "a handler")
		}
		for _, r := range all { // in reverse order
			if err := r.Send([]byte("done " + r.text)); err != nil {
				t.Fatal(err)
			}
			p.want(ack(r.id, "done "+r.text))
		}
		p.send(bytes.Replace(out, []byte("late"), []byte("LATE"), -1)) // the connection is still usable
		for id := range uint64(n) {
			p.want(ack(id, fmt.Sprint("LATE ", id)))
		}
		if st := s.Stats(); st.Late != n || st.Owed != 0 {
			t.Errorf("counted %d late replies and %d owed, want %d and 0", st.Late, st.Owed, n)
		}
	})
}

func TestLateReplyAfterTheEndAnswersErrClosed(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(2)
		closed := make(chan engine.Reason, 1)
		s := &framed.Server{Engine: e, Handler: h, OnClose: func(_ framed.Conn, why engine.Reason) { closed <- why }}
		p := dial(t, serve(t, s))
		p.send(append(submit(1, "late"), submit(2, "late")...))
		r1, r2 := heard(t, owed, "a handler"), heard(t, owed, "a handler")
		p.reset()
		if why := heard(t, closed, "OnClose"); why != engine.PeerReset {
			t.Errorf("closed for %v, want %v", why, engine.PeerReset)
		}
		for range 2 {
			if err := r1.Send([]byte("too late")); err != framed.ErrClosed {
				t.Errorf("Send returned %v, want ErrClosed", err)
			}
			if err := r2.Fail(wire.Failed); err != framed.ErrClosed {
				t.Errorf("Fail returned %v, want ErrClosed", err)
			}
		}
		if err := (framed.Reply{}).Send(nil); err != framed.ErrClosed {
			t.Errorf("Send of the zero Reply returned %v, want ErrClosed", err)
		}
		eventually(t, "nothing is owed", func() bool { st := s.Stats(); return st.Owed == 0 && st.Open == 0 })
	})
}

func TestLateReplyMayBeSentBeforeTheHandlerReturns(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			r := c.Later()
			if err := r.Send(req); err != nil {
				return nil, err
			}
			if err := r.Send(req); err != engine.ErrSettled {
				return nil, fmt.Errorf("a second Send: %w", err)
			}
			return append(dst, "ignored"...), nil
		})}))
		var out []byte
		for id := range uint64(100) {
			out = append(out, submit(id, fmt.Sprint(id))...)
		}
		p.send(out)
		for id := range uint64(100) { // from one goroutine, hence in order
			p.want(ack(id, fmt.Sprint(id)))
		}
		p.closeWrite()
		p.wantEnd()
	})
}

func TestFailCarriesTheCode(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(1)
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: h}))
		for err, want := range map[error]wire.Result{
			wire.Unauthorised: wire.Unauthorised,
			fmt.Errorf("the token: %w", wire.Overloaded): wire.Overloaded,
			wire.Result(200): 200,
			io.EOF:           wire.Failed,
			wire.OK:          wire.Failed,
		} {
			p.send(submit(5, "late"))
			if err := heard(t, owed, "a handler").Fail(err); err != nil {
				t.Fatal(err)
			}
			p.want(frame(wire.SubmitAck, 5, want, ""))
		}
	})
}

func TestErrorTakesThePromiseBack(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		kept := make(chan framed.Reply, 1)
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			kept <- c.Later()
			return append(dst, "partial"...), wire.Unauthorised
		})}
		p := dial(t, serve(t, s))
		p.send(submit(1, "a"))
		p.want(frame(wire.SubmitAck, 1, wire.Unauthorised, ""))
		if err := heard(t, kept, "a handler").Send([]byte("late")); err != engine.ErrSettled {
			t.Errorf("Send after the handler's error returned %v, want ErrSettled", err)
		}
		if st := s.Stats(); st.Owed != 0 || st.Late != 0 {
			t.Errorf("counted %d owed and %d late replies, want none", st.Owed, st.Late)
		}
		p.closeWrite() // nothing is owed, so it ends
		p.wantEnd()
	})
}

// TestErrorAfterTheLateReplyIsNoSecondAnswer: a sent reply cannot be taken back, so the
// error causes no second one.
func TestErrorAfterTheLateReplyIsNoSecondAnswer(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			if err := c.Later().Send([]byte("done")); err != nil {
				t.Error(err)
			}
			return dst, wire.Unauthorised
		})}))
		p.send(append(submit(1, ""), submit(2, "")...))
		p.closeWrite()
		p.want(ack(1, "done"))
		p.want(ack(2, "done"))
		p.wantEnd()
	})
}

func TestPanicTakesThePromiseBack(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		kept := make(chan framed.Reply, 1)
		closed := make(chan engine.Reason, 1)
		s := &framed.Server{
			Engine: e,
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				kept <- c.Later()
				panic("a handler's")
			}),
			OnClose: func(_ framed.Conn, why engine.Reason) { closed <- why },
		}
		p := dial(t, serve(t, s))
		p.send(submit(1, "a"))
		p.want(frame(wire.SubmitAck, 1, wire.Internal, "")) // not delayed by the promise
		err := heard(t, kept, "a handler").Send([]byte("late"))
		if err != engine.ErrSettled && err != framed.ErrClosed {
			t.Errorf("Send after the handler's panic returned %v, want ErrSettled or ErrClosed", err)
		}
		p.wantEnd()
		p.Close()
		if why := heard(t, closed, "OnClose"); why != engine.Panicked {
			t.Errorf("closed for %v, want %v", why, engine.Panicked)
		}
	})
}

// TestPanicAfterTheLateReplyIsNoSecondAnswer: the connection still ends, without a second
// reply to the request.
func TestPanicAfterTheLateReplyIsNoSecondAnswer(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			if err := c.Later().Send([]byte("done")); err != nil {
				t.Error(err)
			}
			panic("a handler's")
		})}
		p := dial(t, serve(t, s))
		p.send(submit(1, ""))
		p.want(ack(1, "done"))
		for {
			r, err := p.tryPacket()
			if err == io.EOF {
				break
			}
			if err != nil || r.Command == wire.SubmitAck {
				t.Fatalf("after the answer: %+v, %v, want no second answer and the end", r, err)
			}
		}
		p.Close()
		ended(t, s, engine.Panicked, 1)
	})
}

func TestLaterTwiceForOneRequestIsTheProgrammersMistake(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		said := make(chan any, 1)
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			r := c.Later()
			defer func() {
				said <- recover()
				r.Send([]byte("once"))
			}()
			c.Later()
			return nil, nil
		})}))
		p.send(submit(1, ""))
		if v, ok := heard(t, said, "a handler").(string); !ok || !strings.HasPrefix(v, "framed: ") {
			t.Errorf("the second Later panicked with %q, want a panic that names the package", v)
		}
		p.want(ack(1, "once"))
	})
}

func TestConnPacketMayBeAnsweredLate(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		connect, owed := postponing(2)
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Connect: connect}))
		p.send(frame(wire.Conn, 1, 0, "late key"))
		p.send(frame(wire.Conn, 2, 0, "late other"))
		p.send(submit(3, "meanwhile"))
		p.want(ack(3, "meanwhile"))
		key, other := heard(t, owed, "Connect"), heard(t, owed, "Connect")
		if err := other.Fail(wire.Unauthorised); err != nil {
			t.Fatal(err)
		}
		p.want(frame(wire.ConnAck, 2, wire.Unauthorised, ""))
		if err := key.Send([]byte("welcome")); err != nil {
			t.Fatal(err)
		}
		p.want(frame(wire.ConnAck, 1, wire.OK, "welcome"))
	})
}

func TestReplyKnowsItsConn(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			r := c.Later()
			if r.Conn() != c.Conn() {
				return nil, wire.Failed
			}
			r.Conn().Push(9, []byte("push"))
			r.Send([]byte("reply"))
			return nil, nil
		})}))
		p.send(submit(1, ""))
		p.want(frame(wire.Deliver, 9, 0, "push"))
		p.want(ack(1, "reply"))
	})
}

// A visit may take more tickets than it promises replies. The rest are returned however
// it ends; otherwise the connection would wait for replies that are never sent.
func TestPromisesThatWereNotMadeAreNotOwed(t *testing.T) {
	for name, end := range map[string]func(){
		"returns": func() {},
		"panics":  func() { panic("on purpose") },
		"exits":   runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, e engine.Engine) {
				const n = 5
				owed := make(chan framed.Reply, n)
				s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
					if c.ID() < n {
						owed <- c.Later()
						return dst, nil
					}
					end()
					return dst, nil
				})}
				p := dial(t, serve(t, s))
				var out []byte
				for id := range uint64(n + 1) {
					out = append(out, submit(id, "ask")...)
				}
				p.send(out)
				for range n {
					heard(t, owed, "a promise").Send(nil)
				}
				p.closeWrite() // nothing is owed, so it ends
				io.Copy(io.Discard, p.r)
				eventually(t, "nothing is open or owed", func() bool { st := s.Stats(); return st.Open+st.Owed == 0 })
			})
		})
	}
}
