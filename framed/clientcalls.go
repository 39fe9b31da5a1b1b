package framed

import (
	"errors"
	"fmt"

	"github.com/hone-go/hone/wire"
)

// pendingCall is one request and the place for its answer.
//
// It has one owner at any time. While it is in Client.queue or Client.pending
// that is nobody; whoever takes it out, under Client.mu, owns it. A caller that
// gives up and takes it out itself knows that nobody else ever will. The reader,
// or whoever ends the connection, takes it out, fills it in and sends its one
// token; a caller that gives up and finds it gone waits for that token, which
// takes no longer than the copying. So a caller that has its call back is the
// last to refer to it, no token is left behind, and neither dst nor content is
// touched after Call has returned.
type pendingCall struct {
	request wire.Command
	answer  wire.Command // what the reply has to be
	content []byte       // the caller's, until it is copied behind what waits for the writer
	id      uint64       // 0: in the queue
	reply   []byte       // the caller's dst, longer by the reply's content
	result  wire.Result
	err     error // the connection ended first
	settled chan struct{}
	async   *asyncCall // not nil: nobody waits for settled, and this is its own call

	before, behind *pendingCall // neighbours in the queue
}

// reuse keeps a call that nobody else refers to.
func (c *Client) reuse(call *pendingCall) {
	*call = pendingCall{settled: call.settled}
	c.used.Put(call)
}

// send puts call into the queue, and as many calls from there to the writer as
// there is room for.
func (c *Client) send(call *pendingCall) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.unsent
	}
	c.queue.push(call)
	c.admit()
	return nil
}

// admit moves calls from the queue to the writer while there is room; mu is
// held. Whoever makes room calls it: nobody wakes up only to send.
func (c *Client) admit() {
	for c.queue.first != nil && c.hasRoom() {
		call := c.queue.first
		c.queue.remove(call)
		call.id = c.issue(call.request, call.content, call)
		call.content = nil
	}
	c.load.Store(int64(len(c.pending) + c.queue.length))
}

func (c *Client) hasRoom() bool {
	return len(c.pending) < c.window && len(c.out)+c.writing <= backlog
}

// issue gives a request its id and puts it behind what waits for the writer; mu
// is held. Without a call its answer is dropped.
func (c *Client) issue(request wire.Command, content []byte, call *pendingCall) (id uint64) {
	c.issued++
	c.out = c.dialect.Append(c.out, wire.Packet{Command: request, ID: c.issued, Content: content})
	c.pending[c.issued] = call
	c.gathered.Signal()
	return c.issued
}

// beat sends a heartbeat when nothing was issued since then, and returns the id
// issued last. Where there is no room the server owes an answer, and waits.
func (c *Client) beat(since uint64) (issued uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.issued == since && c.err == nil && c.hasRoom() {
		c.issue(wire.Conn, nil, nil)
		c.load.Add(1)
	}
	return c.issued
}

// abandon takes a call back. It is not mine when somebody else has taken it,
// whose token is then due. One that is sent stays among those that an answer is
// due for: the server still works on it.
func (c *Client) abandon(call *pendingCall) (mine, sent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return false, false // its token is due, see end
	case call.id == 0:
		c.queue.remove(call)
		c.admit()
		return true, false
	case c.pending[call.id] == call:
		c.pending[call.id] = nil
		return true, true
	}
	return false, false
}

// claim takes the call that p answers from those that wait. There is none, and
// no error, when the caller has given up, or p is a second answer.
func (c *Client) claim(p wire.Packet) (*pendingCall, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call, due := c.pending[p.ID]
	switch {
	case p.ID == 0 || p.ID > c.issued:
		return nil, malformed(p, "which nobody asked for")
	case !due:
		return nil, nil
	case call == nil:
		c.late++
	case call.answer != p.Command:
		return nil, malformed(p, "which was to be a "+call.answer.String())
	}
	delete(c.pending, p.ID)
	c.answers++
	c.admit()
	return call, nil
}

// end ends the connection for the reason given; the first reason wins.
func (c *Client) end(why error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err, c.unsent = why, notSent(why)
	if errors.Is(why, wire.ShuttingDown) { // the server's word: what it did not answer, it did not execute
		c.taken = 0
	}
	calls, queue, taken := c.pending, c.queue, c.taken
	c.pending, c.queue, c.out = nil, callQueue{}, nil
	c.load.Store(0)
	c.gathered.Signal()
	c.mu.Unlock()
	close(c.done)
	for id, call := range calls {
		switch {
		case call == nil: // given up
		case id <= taken:
			call.settle(c, why)
		default:
			call.settle(c, c.unsent)
		}
	}
	for call := queue.first; call != nil; {
		behind := call.behind // before the caller has it back
		call.settle(c, c.unsent)
		call = behind
	}
	c.nc.Close()
}

// settle gives the call back to who made it; err is why c ended first, if it did.
func (call *pendingCall) settle(c *Client, err error) {
	if call.async != nil {
		call.async.ended(c, err)
		return
	}
	call.err = err
	call.settled <- struct{}{}
}

// broken ends the connection for a reason that was not ours.
func (c *Client) broken(why error) { c.end(fmt.Errorf("framed: %w: %w", ErrClosed, why)) }

// oldest is the id of the request that has waited longest for its answer, and
// issued the id given last. It visits all that wait: not for every call.
func (c *Client) oldest() (oldest, issued uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest = c.issued + 1
	for id := range c.pending {
		oldest = min(oldest, id)
	}
	return oldest, c.issued
}

// callQueue is calls in the order of their arrival; any may be taken out.
type callQueue struct {
	first, last *pendingCall
	length      int
}

func (q *callQueue) push(call *pendingCall) {
	call.before, call.behind = q.last, nil
	if q.last == nil {
		q.first = call
	} else {
		q.last.behind = call
	}
	q.last = call
	q.length++
}

func (q *callQueue) remove(call *pendingCall) {
	if call.before == nil {
		q.first = call.behind
	} else {
		call.before.behind = call.behind
	}
	if call.behind == nil {
		q.last = call.before
	} else {
		call.behind.before = call.before
	}
	call.before, call.behind = nil, nil
	q.length--
}

// count adds what c has counted and what it holds.
func (c *Client) count(s *MuxStats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.InFlight += len(c.pending)
	s.Waiting += c.queue.length
	s.Sent += c.issued
	s.Late += c.late
}

// answered reports whether any request was.
func (c *Client) answered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers > 0
}
