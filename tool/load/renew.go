package load

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"
)

// A server that closes a connection after an answer, and has said so, is within
// its rights. The connection is opened again: what was outstanding is sent once
// more, what came due meanwhile follows, and in a closed loop the next request
// begins when there is something to send it on. Whoever reads the connection
// replaces it, or a goroutine of its own while a reader reads others.

// part begins the end of the socket. c.mu is held.
func (c *conn) part() {
	c.parting = true
	if c.writing && c.writeErr == nil {
		c.writerGone = make(chan struct{})
	}
}

// stopWriting is the last act of the one who writes. c.mu is held.
func (c *conn) stopWriting() {
	c.writing = false
	if c.writerGone != nil {
		close(c.writerGone)
		c.writerGone = nil
	}
}

// finished is called when nothing can be read any more, and reports whether that
// was announced. If not, the run ends.
func (c *conn) finished(err error) bool {
	if !errors.Is(err, io.EOF) {
		c.lost(err)
		return false
	}
	now := c.run.now()
	c.mu.Lock()
	c.answer = Answer{}
	_, wrong := c.caller.Decode(&c.answer, nil)
	if wrong == nil && c.answer.ID != 0 {
		wrong = c.accept()
	}
	announced := c.parting
	c.mu.Unlock()
	if c.batch.count > 0 {
		c.shard.record(&c.batch, now)
	}
	switch {
	case wrong != nil:
		c.run.fail(decodeError(wrong))
		return false
	case !announced:
		c.lost(err)
	}
	return announced
}

// farewell is how long a server may take to close what it has announced to close.
// Whoever closes first keeps the port for a minute, so it should be the server.
const farewell = time.Second

// renew puts another socket in the place of the one that has ended, and reports
// whether it did: not when the run is over, or has no more use for it.
func (c *conn) renew() bool {
	pacing := c.run.pacing.Load() > 0 // a pacer that is late still brings requests behind the window's end
	c.mu.Lock()
	writerGone := c.writerGone
	wanted := pacing || len(c.free) < len(c.slots) || c.waiting.count > 0 || c.run.now() < c.shard.window.till
	c.mu.Unlock()
	if !wanted {
		return false
	}
	old := c.socket.nc
	if old.SetReadDeadline(time.Now().Add(farewell)) == nil {
		rest := make([]byte, leastRead)
		for err := error(nil); err == nil; {
			_, err = old.Read(rest)
		}
	}
	old.Close()
	if writerGone != nil {
		<-writerGone
	}
	ctx, cancel := context.WithTimeout(c.run.dialing, c.run.plan.Timeout)
	defer cancel()
	nc, err := c.run.plan.Target.Dial(ctx)
	if err != nil {
		c.run.cannotDial(err)
		return false
	}
	c.mu.Lock()
	if c.run.stopping.Load() {
		c.mu.Unlock()
		nc.Close()
		return false
	}
	c.socket, c.caller = newSocket(nc), c.run.plan.Target.Caller()
	c.parted++
	c.resume(c.run.now())
	out := c.claim()
	c.mu.Unlock()
	if out != nil {
		c.write(out)
	}
	return true
}

// renewPolled is renew for a connection that a reader reads.
func (c *conn) renewPolled() {
	if !c.renew() {
		return
	}
	c.held = c.held[:0]
	if !c.reader.watch(c) {
		c.run.goroutines.Add(1)
		c.read()
	}
}

// resume sends on a new socket what is outstanding, in its order, and then as
// after any answer. c.mu is held, nobody writes.
func (c *conn) resume(now int64) {
	c.writing, c.writeErr, c.parting = false, nil, false
	c.out = c.out[:0]
	if c.shard.window.has(now) {
		c.run.reopened.Add(1)
	}
	var again []*slot
	for i := range c.slots {
		if c.slots[i].id != 0 {
			again = append(again, &c.slots[i])
		}
	}
	slices.SortFunc(again, func(a, b *slot) int { return cmp.Compare(a.id, b.id) })
	for _, s := range again {
		s.written = now
		c.out = c.caller.AppendRequest(c.out, s.id, c.content(int(s.id&mostDepth)))
	}
	c.refill(now)
}

// currentSocket is the socket of this moment.
func (c *conn) currentSocket() *socket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.socket
}
