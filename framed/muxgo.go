package framed

import (
	"context"
	"errors"

	"github.com/hone-go/hone/internal/fifo"
	"github.com/hone-go/hone/wire"
)

// asyncCall is a call with a callback instead of a waiting goroutine. Like a pendingCall
// it has one owner at any time; while it is in Mux.parked it has none, and whoever takes
// it out, under Mux.mu, owns it.
type asyncCall struct {
	pendingCall
	mux     *Mux
	ctx     context.Context
	message []byte // the caller's content, in case it has to be sent again
	done    func(reply []byte, err error)
	tries   int // how many more times it may be sent

	parking fifo.Member[*asyncCall] // its place in Mux.parked; Mux.mu guards this and the next two
	turn    uint64                  // how often it was parked: identifies what stop cancels
	stop    func() bool             // stops watching ctx
}

// Go is an asynchronous Call: it returns at once, and done gets what Call would return.
// When Go returns an error, the request was certainly not executed, and done is not
// called.
//
// dst and content belong to the call until done is called; reply is dst with the reply's
// content appended. done runs on the goroutine that reads the connection, or on one that
// ends it: other replies wait until it returns. It may call Go. It must not block, must
// not wait for the Mux (a Call or Close in it never returns), and a panic in it is not
// recovered.
//
// Go applies no backpressure: the caller bounds the number of calls in flight. ctx bounds
// how long the call waits for a connection, and is checked before the request is sent
// again; once the request is on a connection, the call ends with the reply or the
// connection, so set StallTime.
//
// Cost: no allocations for a call whose reply fits its dst, if done is allocated once
// (TestMuxGoAllocations).
func (m *Mux) Go(ctx context.Context, dst, content []byte, done func(reply []byte, err error)) error {
	checkSize(content)
	call, _ := m.calls.Get().(*asyncCall)
	if call == nil {
		call = &asyncCall{mux: m}
		call.async = call
	}
	call.message, call.done, call.ctx, call.tries = content, done, ctx, max(1, m.Conns)+moreTries
	call.pendingCall.reply = dst
	err := m.try(call, nil)
	if err != nil {
		m.reuse(call)
	}
	return err
}

func (m *Mux) reuse(call *asyncCall) {
	call.pendingCall = pendingCall{async: call}
	call.ctx, call.message, call.done, call.stop = nil, nil, nil, nil
	m.calls.Put(call)
}

// try gives the call to a connection, or parks it until there is one. err is why the
// previous attempt failed; the result is why it must not be tried again.
func (m *Mux) try(call *asyncCall, err error) error {
	for ; call.tries > 0; call.tries-- { // each iteration hands the call over, or ends with a connection that has ended
		if call.ctx.Err() != nil {
			return notSent(context.Cause(call.ctx))
		}
		c := m.pick()
		if c == nil {
			if c, err = m.park(call); c == nil {
				return err
			}
		}
		call.pendingCall = pendingCall{
			request: wire.Submit, answer: wire.SubmitAck, content: call.message,
			reply: call.pendingCall.reply, async: call,
		}
		if err = c.send(&call.pendingCall); err == nil {
			return nil
		}
		m.leave(c)
	}
	return err
}

// ended completes the call, or retries it if it was certainly not executed on c.
func (call *asyncCall) ended(c *Client, err error) {
	m := call.mux
	if err != nil && errors.Is(err, ErrNotSent) {
		m.leave(c)
		call.tries--
		if err = m.try(call, err); err == nil {
			return
		}
	}
	call.finish(err)
}

// finish calls done. It frees the call first, so that a Go in done can reuse it.
func (call *asyncCall) finish(err error) {
	done, reply := call.done, call.reply
	if err == nil && call.result != wire.OK {
		err = call.result
	}
	call.mux.reuse(call)
	done(reply, err)
}

// park queues the call until there is a connection, or returns one that has appeared.
func (m *Mux) park(call *asyncCall) (*Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.mayWait(); err != nil {
		return nil, err
	}
	if c := m.pick(); c != nil {
		return c, nil
	}
	call.parking.Value = call
	m.parked.Push(&call.parking)
	m.waiting.Add(1)
	call.turn++
	turn := call.turn
	call.stop = context.AfterFunc(call.ctx, func() { m.giveUp(call, turn) })
	return nil, nil
}

// unpark takes a call out of the parked ones; mu is held.
func (m *Mux) unpark(call *asyncCall) {
	call.parking.Leave()
	m.waiting.Add(-1)
	call.stop()
}

// giveUp ends a parked call whose ctx has ended.
func (m *Mux) giveUp(call *asyncCall, turn uint64) {
	m.mu.Lock()
	mine := call.parking.IsQueued() && call.turn == turn
	if mine {
		m.unpark(call)
	}
	m.mu.Unlock()
	if mine {
		call.finish(m.outage(context.Cause(call.ctx)))
	}
}

// resume retries the parked calls.
func (m *Mux) resume() {
	for call := m.nextParked(); call != nil; call = m.nextParked() {
		if err := m.try(call, nil); err != nil {
			call.finish(err)
		} else if m.pick() == nil {
			return // the connection is gone again, and this may be the same call
		}
	}
}

func (m *Mux) nextParked() *asyncCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	call := m.parked.First()
	if call != nil {
		m.unpark(call)
	}
	return call
}
