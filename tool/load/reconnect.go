package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/tool/load/codec"
)

// A server may close a connection at any time: after an announcement, because the connection was
// idle, because the server drains, or because a handler has failed. The generator then reconnects;
// outstanding requests are sent again where that is safe, else they are counted as failed. It also
// replaces a connection on which an answer is missing. The goroutine that reads the connection
// replaces it, or a separate goroutine if a shared reader reads it.

// closing is how a conn's socket ends. It is reset for the next socket, except for trouble and
// failures, which last until an answer comes.
type closing struct {
	ending    bool   // the socket is to be replaced; nothing is written to it any more
	announced bool   // the server has announced that it will not answer the requests in flight
	polite    bool   // the server is about to close the socket itself
	partial   bool   // the beginning of an answer has come
	timedOut  bool   // an answer is missing
	served    bool   // an answer has come on this socket
	opened    int64  // when it was opened
	resent    uint64 // the last id that was resent on another socket before; later ids are greater

	trouble  *Error // why answers are missing; nil: none is
	since    int64  // when trouble began
	failures int    // consecutive sockets and dials without an answer
}

// beginClosing begins the end of the socket; why is nil if nothing is wrong. c.mu is held.
func (c *conn) beginClosing(why *Error) {
	c.ending = true
	idled := len(c.slots) == len(c.free) && c.run.now()-c.opened >= int64(leastIdle)
	if c.served || idled {
		c.failures = 0
	} else {
		c.failures++
	}
	c.troubled(why)
	if c.writing && c.writeErr == nil {
		c.writerGone = make(chan struct{})
	}
}

// troubled records why answers are missing. c.mu is held.
func (c *conn) troubled(why *Error) {
	if c.trouble == nil {
		c.since = c.run.now()
	}
	if why != nil {
		c.trouble = why
	}
}

// dismiss runs when the server announces the close without an answer. c.mu is held.
func (c *conn) dismiss() {
	var why *Error
	if c.answer.Err != nil {
		why = codec.Explain(c.answer.Err)
		if c.begun && c.counter.window.has(c.run.now()) {
			c.run.drains.Add(1)
		}
	}
	c.polite = true
	c.beginClosing(why)
}

// stopWriting ends the writer's turn. c.mu is held.
func (c *conn) stopWriting() {
	c.writing = false
	if c.writerGone != nil {
		close(c.writerGone)
		c.writerGone = nil
	}
}

// ended runs when reading ends; partial means that an incomplete answer is left. It reports
// whether the socket must be replaced.
func (c *conn) ended(err error, partial bool) bool {
	if c.run.stopping.Load() {
		return false
	}
	now := c.run.now()
	c.mu.Lock()
	wrong := c.endOfStream(err)
	if !c.ending && wrong == nil {
		if c.writeErr != nil {
			err = c.writeErr
		}
		c.partial = partial
		c.beginClosing(c.closed(err))
	}
	c.polite = false
	c.mu.Unlock()
	if c.batch.count > 0 {
		c.counter.record(&c.batch, now)
	}
	if wrong != nil {
		c.run.fail(wrong)
	}
	return wrong == nil
}

// endOfStream settles an answer that the end of the stream completes. c.mu is held.
func (c *conn) endOfStream(err error) *Error {
	if c.ending || !errors.Is(err, io.EOF) {
		return nil
	}
	_, wrong := codec.Next(c.codec, &c.answer, nil)
	if wrong == nil && c.answer.ID != 0 {
		wrong = c.accept(c.run.now())
	}
	if wrong == nil {
		return nil
	}
	e := codec.Explain(wrong)
	if e.Kind == Closed {
		c.beginClosing(e)
		return nil
	}
	return e
}

// closed returns the error for a server that closed the connection; nil if no request was in
// flight, when closing is fine. c.mu is held.
func (c *conn) closed(err error) *Error {
	if len(c.slots) == len(c.free) {
		return nil
	}
	return &Error{
		Kind: Closed, Err: err,
		What: fmt.Sprintf("the server closed connection %d with %d requests unanswered (%v)", c.number+1, len(c.slots)-len(c.free), err),
		Try:  "look into the server's log: it may have died, or limits its clients",
	}
}

// longestClose is how long a server may take to close after announcing it. The side that closes
// first gets the TIME_WAIT, which should be the server.
const longestClose = time.Second

// reconnect replaces the socket that has ended, and reports whether it did. It does not if the run is
// over or has nothing left to send.
func (c *conn) reconnect() bool {
	c.mu.Lock()
	c.settleRest(c.run.now())
	old, polite, writerGone := c.socket.nc, c.polite, c.writerGone
	var words []byte
	if polite && !c.writing {
		words = c.answer.Reply
	}
	c.answer.Reply = nil
	c.mu.Unlock()
	if !c.wanted() {
		return false
	}
	c.run.connections.gone(c.run.now())
	if polite && old.SetDeadline(time.Now().Add(longestClose)) == nil {
		if len(words) > 0 {
			_, _ = old.Write(words) // an error does not matter: the socket is closed next
		}
		rest := make([]byte, leastRead)
		for err := error(nil); err == nil; {
			_, err = old.Read(rest)
		}
	}
	old.Close()
	if writerGone != nil {
		<-writerGone
	}
	nc := c.redial()
	if nc == nil {
		return false
	}
	c.mu.Lock()
	if c.run.stopping.Load() {
		c.mu.Unlock()
		nc.Close()
		return false
	}
	c.socket, c.codec = newSocket(nc), c.run.plan.Target.Codec()
	c.reconnects++
	c.resume(c.run.now())
	c.unlock()
	return true
}

// wanted reports whether the connection still has anything to send.
func (c *conn) wanted() bool {
	pacing := c.run.pacing.Load() > 0 // a late pacer still brings requests after the window's end
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.begun || pacing || len(c.free) < len(c.slots) || c.waiting.Len() > 0 || c.live > 0 || c.run.now() < c.counter.window.till
}

// Backoff before a connection is opened again that had no answer or could not be opened: it
// doubles each time. The first attempt after an answer has no pause. Neither has an attempt after
// the close of an idle connection: the server is fine, and a request that comes due meanwhile
// would have to wait.
const (
	firstPause = 10 * time.Millisecond
	mostPause  = 250 * time.Millisecond
	leastIdle  = 2 * firstPause
)

// redial opens the connection again and retries as often as necessary: the supervisor ends the run
// if no answer comes for too long. It returns nil when the connection is no longer needed.
func (c *conn) redial() net.Conn {
	r := c.run
	for {
		c.mu.Lock()
		failures := c.failures
		c.mu.Unlock()
		if failures > 0 {
			select {
			case <-time.After(min(firstPause<<min(failures-1, 8), mostPause)):
			case <-r.dialing.Done():
			}
		}
		if r.dialing.Err() != nil || !c.wanted() {
			return nil
		}
		ctx, cancel := context.WithTimeout(r.dialing, r.plan.Timeout)
		nc, err := r.plan.Target.Dial(ctx)
		cancel()
		switch {
		case err == nil:
			return nc
		case r.dialing.Err() != nil:
			return nil
		case sys.Exhausted(err) || errors.Is(err, syscall.EADDRNOTAVAIL):
			r.cannotDial(err) // the cause is this machine
			return nil
		}
		c.mu.Lock()
		c.failures++
		c.troubled(dialError(err, r.open.Load(), r.plan.Timeout))
		c.mu.Unlock()
	}
}

// reconnectPolled is reconnect for a connection of a shared reader.
func (c *conn) reconnectPolled() {
	if !c.reconnect() {
		return
	}
	c.held = c.held[:0]
	if !c.reader.watch(c) {
		c.read()
	}
}

// outstanding returns the slots of the requests in flight, in the order in which they were sent.
// c.mu is held.
func (c *conn) outstanding() (places []int) {
	for i := range c.slots {
		if c.slots[i].id != 0 {
			places = append(places, i)
		}
	}
	slices.SortFunc(places, func(a, b int) int { return cmp.Compare(c.slots[a].id, c.slots[b].id) })
	return places
}

// settleRest decides about the requests in flight: those that may be retried are resent, the
// others fail. c.mu is held.
func (c *conn) settleRest(now int64) {
	kind, why := Closed, error(nil)
	if c.trouble != nil {
		why = c.trouble
	}
	if c.timedOut {
		kind, why = Timeout, nil
	}
	for i, place := range c.outstanding() {
		s := c.slots[place]
		again := c.announced || s.id > c.resent && !(i == 0 && c.partial) && c.codec.Repeats(s.id)
		if again && now-s.intended <= c.counter.limit(c.stepAt(place)) {
			if c.counter.window.has(s.intended) {
				c.run.retried.Add(1)
			}
			continue
		}
		c.lose(kind, place, now, why)
	}
}

// resume resends the outstanding requests on a new socket, in order, and then goes on as after any
// answer. c.mu is held, nobody writes.
func (c *conn) resume(now int64) {
	c.closing = closing{opened: now, trouble: c.trouble, since: c.since, failures: c.failures}
	c.writing, c.writeErr = false, nil
	c.out = c.out[:0]
	c.run.connections.back(now)
	if !c.begun {
		return
	}
	if c.counter.window.has(now) {
		c.run.reopened.Add(1)
	}
	for _, place := range c.outstanding() {
		s := &c.slots[place]
		s.written = now
		c.encode(place)
		c.resent = s.id
	}
	c.refill(now)
	if len(c.slots) == len(c.free) {
		c.trouble = nil // nothing is in flight, so no answer is missing
	}
}

// expire gives up requests that have had no answer for the time-out, and returns when to look
// again. It replaces the connection if that cannot go on without the answer, or has received none
// since the request was sent.
func (c *conn) expire(now int64) (next int64) {
	c.mu.Lock()
	next = now + int64(c.run.shortest)
	dark := false
	for place := range c.slots {
		s := c.slots[place]
		if s.id == 0 {
			continue
		}
		timeout := c.counter.limit(c.stepAt(place))
		if s.written > now-timeout {
			next = min(next, s.written+timeout)
			continue
		}
		if !c.ending {
			dark = dark || c.answeredAt <= s.written || !c.codec.Forget(s.id)
		}
		c.lose(Timeout, place, now, nil)
	}
	socket := c.socket
	if dark {
		c.timedOut = true
		c.beginClosing(nil)
	}
	if !c.ending {
		c.refill(now)
	}
	c.unlock()
	if dark {
		socket.cut()
	}
	return next
}

// currentSocket returns the current socket.
func (c *conn) currentSocket() *socket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.socket
}

// outages tracks when no connection was open.
type outages struct {
	mu      sync.Mutex
	all     int
	down    int
	since   int64 // when the last open connection ended
	window  window
	longest int64
}

// gone counts a connection that has ended.
func (o *outages) gone(now int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down++; o.down == o.all {
		o.since = now
	}
}

// back counts a connection that is open again.
func (o *outages) back(now int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end(now)
	o.down--
}

// end counts an outage that is still going on, as far as it lies in the window.
func (o *outages) end(now int64) {
	if o.down == o.all && o.all > 0 {
		o.longest = max(o.longest, min(now, o.window.till)-max(o.since, o.window.from))
	}
}

// opens sets the measured time.
func (o *outages) opens(w window) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.window = w
}

// total returns the longest outage so far.
func (o *outages) total(now int64) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end(now)
	return time.Duration(o.longest)
}
