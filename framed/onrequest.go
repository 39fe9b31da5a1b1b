package framed

import (
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/wire"
)

// Request describes an answered request to Server.OnRequest.
type Request struct {
	Conn    Conn
	ID      uint64        // chosen by the client
	Command wire.Command  // wire.Submit, or wire.Conn for one that Connect handled
	Began   time.Time     // when its handler was called
	Took    time.Duration // until the handler returned, or its late reply was sent
	Late    bool          // answered by a Reply
	Result  wire.Result   // the code sent to the client
	// Err is what the handler returned or gave to Reply.Fail. For a late reply that
	// could not be sent it says why: ErrClosed, for example.
	Err error
}

// observation is what OnRequest needs of a request until it is answered. Every Reply of the
// request leads to it, so that it is reported once, even after its connection has ended and
// the engine has forgotten which replies were sent.
type observation struct {
	protocol *protocol
	began    time.Duration // since protocol.epoch
	serial   atomic.Uint64 // changes with the report: then another request may use it
}

// observed wraps next to report each request to OnRequest. Without OnRequest it returns
// next itself, so that servers that do not use the hook do not pay for it.
func (p *protocol) observed(next HandlerFunc) HandlerFunc {
	if next == nil || p.onRequest == nil {
		return next
	}
	return func(c Call, dst, req []byte) (content []byte, err error) {
		t, o := c.turn, p.observations.Get().(*observation)
		o.began, c.observation = time.Since(p.epoch), o
		serial, result := o.serial.Load(), wire.Internal // unless next returns
		defer func() {
			if result == wire.OK && t.Promised() == 0 || result != wire.OK && unanswered(t) {
				o.hand(serial, &Request{Conn: Conn{t.Conn()}, ID: c.id, Command: c.message.command, Result: result, Err: err})
			}
		}()
		if content, err = next(c, dst, req); err == nil {
			result = wire.OK
		} else {
			result = resultOf(err)
		}
		return content, err
	}
}

// unanswered cancels the current request's Reply, if there is one, and reports whether
// the request is still unanswered.
func unanswered(t *engine.Turn) bool {
	if t.Promised() == 0 || t.Rollback() {
		return true
	}
	t.Later().Send() // Rollback forgets that a reply was sent: a settled promise records it
	return false
}

// report calls OnRequest for a request that a late reply has answered, or failed to
// answer because of sent.
func (r *Reply) report(result wire.Result, err, sent error) {
	if sent == engine.ErrSettled {
		return
	}
	if sent != nil {
		err = sent
	}
	r.observation.hand(r.serial&^answersConn, &Request{
		Conn: r.Conn(), ID: r.id, Command: r.request(), Late: true, Result: result, Err: err,
	})
}

// hand completes r and gives it to OnRequest, unless the request was reported before.
func (o *observation) hand(serial uint64, r *Request) {
	if !o.serial.CompareAndSwap(serial, serial+1) {
		return
	}
	p, began := o.protocol, o.began
	p.observations.Put(o)
	now := time.Now()
	r.Took = now.Sub(p.epoch) - began
	r.Began = now.Add(-r.Took)
	p.onRequest(*r)
}
