package framed

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hone-go/hone/internal/fifo"
	"github.com/hone-go/hone/wire"
)

// pendingCall is one request and the place for its reply.
//
// It has one owner at any time. While it is in Client.queue or Client.pending, it has
// none; whoever takes it out, under Client.mu, owns it. A caller that gives up and takes
// out its own call knows that nobody else will. Otherwise the reader, or whoever ends the
// connection, takes the call out, fills it in and sends its one token; a caller that
// gives up and finds its call gone waits for that token, which takes no longer than
// copying the reply. So when a caller owns its call again, it holds the only reference,
// no token is pending, and neither dst nor content is used after Call has returned.
type pendingCall struct {
	request wire.Command
	answer  wire.Command // expected command of the reply
	content []byte       // the caller's, until it is copied into the output buffer
	id      uint64       // 0: in the queue
	reply   []byte       // the caller's dst with the reply's content appended
	result  wire.Result
	err     error // why the connection ended before the reply
	settled chan struct{}
	async   *asyncCall // if set, nobody waits for settled; it embeds this call

	place fifo.Member[*pendingCall] // in the queue
}

// reuse puts a call without other references on the free list.
func (c *Client) reuse(call *pendingCall) {
	*call = pendingCall{settled: call.settled}
	c.used.Put(call)
}

// send queues call and admits as many queued calls as there is room for.
func (c *Client) send(call *pendingCall) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.unsent
	}
	call.place.Value = call
	c.queue.Push(&call.place)
	c.admit()
	return nil
}

// admit moves calls from the queue to the writer while there is room; mu is held. Whoever
// makes room calls it, so that no goroutine wakes up only to send.
func (c *Client) admit() {
	for c.queue.Len() > 0 && c.hasRoom() {
		call := c.queue.First()
		call.place.Leave()
		call.id = c.issue(call.request, call.content, call)
		call.content = nil
	}
	c.load.Store(int64(len(c.pending) + c.queue.Len()))
}

func (c *Client) hasRoom() bool {
	return len(c.pending) < c.window && len(c.out)+c.writing <= backlog
}

// issue assigns an id to a request and appends it to the output; mu is held. If call is
// nil, the reply is dropped.
func (c *Client) issue(request wire.Command, content []byte, call *pendingCall) (id uint64) {
	c.issued++
	c.out = wire.Append(c.out, wire.Packet{Command: request, ID: c.issued, Content: content})
	c.pending[c.issued] = call
	c.gathered.Signal()
	return c.issued
}

// beat sends a heartbeat unless a request was sent after since, and returns the last id.
// Without room in the window it sends none: the server owes a reply, so the connection is
// not idle.
func (c *Client) beat(since uint64) (issued uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.issued == since && c.err == nil && c.hasRoom() {
		c.issue(wire.Conn, nil, nil)
		c.load.Add(1)
	}
	return c.issued
}

// abandon takes a call back. mine is false when somebody else has taken it: then its
// token follows. A call that was sent stays in flight, because the server still works on
// it.
func (c *Client) abandon(call *pendingCall) (mine, sent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return false, false // its token follows, see end
	case call.id == 0:
		call.place.Leave()
		c.admit()
		return true, false
	case c.pending[call.id] == call:
		c.pending[call.id] = nil
		return true, true
	}
	return false, false
}

// claim takes the call that p answers out of pending. It returns nil without an error
// when the caller has given up, or when p is a second reply.
func (c *Client) claim(p wire.Packet) (*pendingCall, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call, due := c.pending[p.ID]
	switch {
	case p.ID == 0 || p.ID > c.issued:
		return nil, malformed(p, "with an unknown request id")
	case !due:
		return nil, nil
	case call == nil:
		c.late++
	case call.answer != p.Command:
		return nil, malformed(p, "instead of a "+call.answer.String())
	}
	delete(c.pending, p.ID)
	c.answers++
	c.admit()
	return call, nil
}

// end ends the connection for the given reason; the first reason wins.
func (c *Client) end(why error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err, c.unsent = why, notSent(why)
	if c.back > 0 || errors.Is(why, wire.ShuttingDown) { // the server guarantees that it did not execute what it did not answer
		c.taken = 0
	}
	calls, queued, taken := c.pending, slices.Collect(c.queue.All()), c.taken
	c.pending, c.queue, c.out = nil, fifo.Queue[*pendingCall]{}, nil
	c.load.Store(0)
	c.gathered.Signal()
	c.mu.Unlock()
	close(c.done)
	for id, call := range calls {
		switch {
		case call == nil: // its caller gave up
		case id <= taken:
			call.settle(c, why)
		default:
			call.settle(c, c.unsent)
		}
	}
	for _, call := range queued {
		call.settle(c, c.unsent)
	}
	c.nc.Close()
}

// settle returns the call to its caller; err is why c ended first, if it did.
func (call *pendingCall) settle(c *Client, err error) {
	if call.async != nil {
		call.async.ended(c, err)
		return
	}
	call.err = err
	call.settled <- struct{}{}
}

// broken ends the connection for a reason other than Close.
func (c *Client) broken(why error) { c.end(fmt.Errorf("framed: %w: %w", ErrClosed, why)) }

// oldest returns the id of the request that has been in flight longest, and the id issued
// last. It scans all pending calls: too slow to run per call.
func (c *Client) oldest() (oldest, issued uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest = c.issued + 1
	for id := range c.pending {
		oldest = min(oldest, id)
	}
	return oldest, c.issued
}

// count adds c's counters and gauges to s.
func (c *Client) count(s *MuxStats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.InFlight += len(c.pending)
	s.Waiting += c.queue.Len()
	s.Sent += c.issued
	s.Late += c.late
}

// answered reports whether any request was answered.
func (c *Client) answered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers > 0
}
