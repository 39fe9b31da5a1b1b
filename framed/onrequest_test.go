package framed_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

var errOutOfStock = errors.New("out of stock")

// reported is the part of a framed.Request that tests compare.
type reported struct {
	id      uint64
	command wire.Command
	late    bool
	result  wire.Result
	err     error
}

// of extracts the comparable part of r.
func of(r framed.Request) reported {
	return reported{r.ID, r.Command, r.Late, r.Result, r.Err}
}

// TestOnRequestHearsOfEachAnswerOnce: however a handler answers, there is one report,
// with the result that the client got. The client gets the same as without the hook.
func TestOnRequestHearsOfEachAnswerOnce(t *testing.T) {
	unauthorised := fmt.Errorf("who are you: %w", wire.Unauthorised)
	submitted := func(late bool, result wire.Result, err error) reported {
		return reported{1, wire.Submit, late, result, err}
	}
	answer := func(result wire.Result, content string) wire.Packet {
		return wire.Packet{Command: wire.SubmitAck, ID: 1, Result: result, Content: []byte(content)}
	}
	for _, c := range []struct {
		name   string
		handle framed.HandlerFunc
		later  func(r framed.Reply) // what to do with the reply that the handler hands to owe
		want   reported
		told   wire.Packet
		closes bool
	}{
		{"appended", echo, nil, submitted(false, wire.OK, nil), answer(wire.OK, "ask"), false},
		{"returned", func(_ framed.Call, _, req []byte) ([]byte, error) { return req, nil }, nil,
			submitted(false, wire.OK, nil), answer(wire.OK, "ask"), false},
		{"a result", func(_ framed.Call, dst, _ []byte) ([]byte, error) { return dst, unauthorised }, nil,
			submitted(false, wire.Unauthorised, unauthorised), answer(wire.Unauthorised, ""), false},
		{"an error", func(_ framed.Call, dst, _ []byte) ([]byte, error) { return dst, errOutOfStock }, nil,
			submitted(false, wire.Failed, errOutOfStock), answer(wire.Failed, ""), false},
		{"a panic", func(framed.Call, []byte, []byte) ([]byte, error) { panic("on purpose") }, nil,
			submitted(false, wire.Internal, nil), answer(wire.Internal, ""), true},
		{"late", promise(nil), func(r framed.Reply) { r.Send([]byte("fine")) },
			submitted(true, wire.OK, nil), answer(wire.OK, "fine"), false},
		{"late, and again", promise(nil), func(r framed.Reply) { r.Send([]byte("fine")); r.Send([]byte("again")) },
			submitted(true, wire.OK, nil), answer(wire.OK, "fine"), false},
		{"a late error", promise(nil), func(r framed.Reply) { r.Fail(errOutOfStock) },
			submitted(true, wire.Failed, errOutOfStock), answer(wire.Failed, ""), false},
		{"promised, then an error", promise(errOutOfStock), func(r framed.Reply) { r.Send([]byte("too late")) },
			submitted(false, wire.Failed, errOutOfStock), answer(wire.Failed, ""), false},
		{"sent at once", sendAtOnce(func() error { return nil }), nil,
			submitted(true, wire.OK, nil), answer(wire.OK, "at once"), false},
		{"sent at once, then an error", sendAtOnce(func() error { return errOutOfStock }), nil,
			submitted(true, wire.OK, nil), answer(wire.OK, "at once"), false},
		{"sent at once, then a panic", sendAtOnce(func() error { panic("on purpose") }), nil,
			submitted(true, wire.OK, nil), answer(wire.OK, "at once"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, func(t *testing.T, e engine.Engine) {
				for _, hook := range []bool{false, true} {
					reports, owed := make(chan framed.Request, 10), make(chan framed.Reply, 1)
					s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(call framed.Call, dst, req []byte) ([]byte, error) {
						if string(req) == "more" {
							return append(dst, req...), nil
						}
						return c.handle(call, dst, req)
					})}
					s.ConnContext = func(ctx context.Context, _ framed.Conn) context.Context {
						return context.WithValue(ctx, owedKey{}, owed)
					}
					if hook {
						s.OnRequest = func(r framed.Request) { reports <- r }
					}
					began := time.Now()
					p := dial(t, serve(t, s))
					p.send(submit(1, "ask"))
					if c.want.late && c.later != nil {
						c.later(heard(t, owed, "a promise"))
					}
					if told := p.packet(); told.ID != c.told.ID || told.Command != c.told.Command || told.Result != c.told.Result || string(told.Content) != string(c.told.Content) {
						t.Errorf("hook %v: the client got %+v, want %+v", hook, told, c.told)
					}
					if !c.want.late && c.later != nil { // after the handler's answer
						c.later(heard(t, owed, "a promise"))
					}
					if c.closes {
						p.wantEnd()
					} else {
						p.exchange(2, "more")
					}
					if !hook {
						continue
					}
					got := heard(t, reports, "a report")
					if of(got) != c.want {
						t.Errorf("reported %+v, want %+v", of(got), c.want)
					}
					if got.Conn == (framed.Conn{}) || got.Began.Before(began) || got.Took <= 0 || got.Began.Add(got.Took).After(time.Now()) {
						t.Errorf("reported %+v, want a connection, and a time since %v", got, began)
					}
					if !c.closes {
						if more := heard(t, reports, "the next report"); of(more) != (reported{2, wire.Submit, false, wire.OK, nil}) {
							t.Errorf("then reported %+v, want the next request", of(more))
						}
					}
					s.Close()
					if len(reports) > 0 {
						t.Errorf("unexpected report: %+v", of(<-reports))
					}
				}
			})
		})
	}
}

type owedKey struct{}

// promise answers late: it hands the Reply to the test.
func promise(err error) framed.HandlerFunc {
	return func(c framed.Call, dst, _ []byte) ([]byte, error) {
		r, owed := c.Later(), c.Context().Value(owedKey{}).(chan framed.Reply)
		owed <- r
		return dst, err
	}
}

// sendAtOnce answers by a Reply before the handler returns.
func sendAtOnce(then func() error) framed.HandlerFunc {
	return func(c framed.Call, dst, _ []byte) ([]byte, error) {
		if err := c.Later().Send([]byte("at once")); err != nil {
			return dst, err
		}
		return dst, then()
	}
}

// TestOnRequestHearsOfConnectAndOfLostReplies: Connect's answers are reported, heartbeats
// without a handler are not, and requests of a client that has disconnected are.
func TestOnRequestHearsOfConnectAndOfLostReplies(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(1)
		reports := make(chan framed.Request, 10)
		s := &framed.Server{Engine: e, Handler: h, OnRequest: func(r framed.Request) { reports <- r }}
		p := dial(t, serve(t, s))
		p.send(wire.Append(nil, wire.Packet{Command: wire.Conn, ID: 1}))
		p.packet()
		p.send(submit(2, "late"))
		r := heard(t, owed, "a promise")
		none(t, reports, "reported although nothing is answered")
		p.Close()
		r.Conn().Close()
		s.Close()
		if err := r.Send(nil); err != framed.ErrClosed {
			t.Fatalf("Send to a client that has disconnected: %v", err)
		}
		if got, want := of(heard(t, reports, "a report")), (reported{2, wire.Submit, true, wire.OK, framed.ErrClosed}); got != want {
			t.Errorf("reported %+v, want %+v", got, want)
		}

		s = &framed.Server{Engine: e, Handler: h, OnRequest: func(r framed.Request) { reports <- r },
			Connect: framed.HandlerFunc(func(_ framed.Call, dst, _ []byte) ([]byte, error) { return dst, wire.Unauthorised })}
		p = dial(t, serve(t, s))
		p.send(wire.Append(nil, wire.Packet{Command: wire.Conn, ID: 3}))
		p.packet()
		if got, want := of(heard(t, reports, "a report")), (reported{3, wire.Conn, false, wire.Unauthorised, wire.Unauthorised}); got != want {
			t.Errorf("reported %+v, want %+v", got, want)
		}
	})
}

// TestOnRequestHearsOnceOfAClosedConnection: the engine forgets with a connection which
// replies were sent, and yet no request is reported twice.
func TestOnRequestHearsOnceOfAClosedConnection(t *testing.T) {
	batched := func(r framed.Reply) error {
		var b framed.Batch
		b.Add(r, nil)
		b.Fail(r, errOutOfStock)
		b.Send()
		return framed.ErrClosed
	}
	for _, c := range []struct {
		name   string
		before func(framed.Reply) error // while the connection is open; nil: nothing
		err    error                    // of the handler, after that
		after  func(framed.Reply) error // once the connection has ended, twice
		want   reported
	}{
		{"sent twice", nil, nil, func(r framed.Reply) error { return r.Send(nil) }, reported{1, wire.Submit, true, wire.OK, framed.ErrClosed}},
		{"failed twice", nil, nil, func(r framed.Reply) error { return r.Fail(errOutOfStock) }, reported{1, wire.Submit, true, wire.Failed, framed.ErrClosed}},
		{"in batches", nil, nil, batched, reported{1, wire.Submit, true, wire.OK, framed.ErrClosed}},
		{"sent before", func(r framed.Reply) error { return r.Send(nil) }, nil, func(r framed.Reply) error { return r.Send(nil) },
			reported{1, wire.Submit, true, wire.OK, nil}},
		{"answered by an error before", nil, errOutOfStock, func(r framed.Reply) error { return r.Send(nil) },
			reported{1, wire.Submit, false, wire.Failed, errOutOfStock}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, func(t *testing.T, e engine.Engine) {
				owed, reports := make(chan framed.Reply, 1), make(chan framed.Request, 10)
				s := &framed.Server{Engine: e, OnRequest: func(r framed.Request) { reports <- r },
					Handler: framed.HandlerFunc(func(call framed.Call, dst, _ []byte) ([]byte, error) {
						r := call.Later()
						if c.before != nil {
							if err := c.before(r); err != nil {
								t.Error(err)
							}
						}
						owed <- r
						return dst, c.err
					})}
				p := dial(t, serve(t, s))
				p.send(submit(1, "ask"))
				r := heard(t, owed, "a promise")
				if c.before != nil || c.err != nil {
					p.packet()
				}
				s.Close()
				for range 2 {
					if err := c.after(r); err != framed.ErrClosed {
						t.Errorf("sent to a connection that has ended: %v", err)
					}
				}
				if got := of(heard(t, reports, "a report")); got != c.want {
					t.Errorf("reported %+v, want %+v", got, c.want)
				}
				if len(reports) > 0 {
					t.Errorf("and then reported %+v", of(<-reports))
				}
			})
		})
	}
}

// TestOnRequestHearsOnceOfAnErrorAfterALostReply: the server closes under the handler, whose
// late reply is lost, and which says so.
func TestOnRequestHearsOnceOfAnErrorAfterALostReply(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		begun, reports := make(chan struct{}), make(chan framed.Request, 10)
		s := &framed.Server{Engine: e, OnRequest: func(r framed.Request) { reports <- r },
			Handler: framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
				r := c.Later()
				close(begun)
				for c.Conn().Push(0, nil) == nil {
					runtime.Gosched() // until the connection has ended
				}
				return dst, r.Send(nil)
			})}
		p := dial(t, serve(t, s))
		p.send(submit(1, "ask"))
		heard(t, begun, "a handler")
		s.Close()
		if got, want := of(heard(t, reports, "a report")), (reported{1, wire.Submit, true, wire.OK, framed.ErrClosed}); got != want {
			t.Errorf("reported %+v, want %+v", got, want)
		}
		if len(reports) > 0 {
			t.Errorf("and then reported %+v", of(<-reports))
		}
	})
}

// TestOnRequestTimes: a handler's time ends when it returns, a late reply's when it is
// sent, in wall-clock time.
func TestOnRequestTimes(t *testing.T) {
	onFakeTime(t, func(t *testing.T, e engine.Engine) {
		owed := make(chan framed.Reply, 1)
		reports := make(chan framed.Request, 1)
		s := &framed.Server{
			Engine: e, Limits: engine.Limits{IdleTime: -1},
			OnRequest: func(r framed.Request) { reports <- r },
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				if string(req) == "late" {
					owed <- c.Later()
				}
				passes(3 * time.Second)
				return dst, nil
			}),
		}
		ln := serveInMemory(t, s)
		passes(time.Hour) // the server's epoch must not show in the report
		p := ln.dial(t)
		for _, c := range []struct {
			content string
			took    time.Duration
		}{{"now", 3 * time.Second}, {"late", 24 * time.Hour}, {"now", 3 * time.Second}} {
			p.SetDeadline(time.Time{})
			began := time.Now()
			p.send(submit(1, c.content))
			if c.content == "late" {
				r := <-owed
				passes(c.took)
				r.Send(nil)
			}
			p.packet()
			if got := <-reports; got.Took != c.took || !got.Began.Equal(began) {
				t.Errorf("%s: from %v for %v, want from %v for %v", c.content, got.Began, got.Took, began, c.took)
			}
		}
	})
}
