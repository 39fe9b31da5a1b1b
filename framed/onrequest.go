package framed

import (
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

// observed wraps next to report each request to OnRequest. Without OnRequest it returns
// next itself, so that servers that do not use the hook do not pay for it.
func (p *protocol) observed(next HandlerFunc) HandlerFunc {
	if next == nil || p.onRequest == nil {
		return next
	}
	return func(c Call, dst, req []byte) (content []byte, err error) {
		t := c.turn
		t.State = uint64(time.Since(p.epoch)) // Later copies it into the Reply
		returned := false
		defer func() {
			if !returned && unanswered(t) {
				p.report(c, wire.Internal, nil)
			}
		}()
		content, err = next(c, dst, req)
		returned = true
		switch {
		case err == nil && t.Promised() == 0:
			p.report(c, wire.OK, nil)
		case err != nil && unanswered(t):
			p.report(c, resultOf(err), err)
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

// report calls OnRequest for a request that its handler has answered.
func (p *protocol) report(c Call, result wire.Result, err error) {
	now := time.Now()
	took := now.Sub(p.epoch) - time.Duration(c.turn.State)
	p.onRequest(Request{
		Conn: Conn{c.turn.Conn()}, ID: c.id, Command: c.message.command,
		Began: now.Add(-took), Took: took, Result: result, Err: err,
	})
}

// report calls OnRequest for a request that a late reply has answered, or failed to
// answer because of sent. A request that was answered before was reported then.
func (r *Reply) report(result wire.Result, err, sent error) {
	if sent == engine.ErrSettled {
		return
	}
	if sent != nil {
		err = sent
	}
	now := time.Now()
	took := now.Sub(r.protocol.epoch) - time.Duration(r.began&^answersConn)
	r.protocol.onRequest(Request{
		Conn: r.Conn(), ID: r.id, Command: r.request(),
		Began: now.Add(-took), Took: took, Late: true, Result: result, Err: err,
	})
}
