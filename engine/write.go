package engine

import (
	"errors"
	"os"
	"runtime"
	"sync"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/pool"
)

// Output takes one of two ways. The replies of a visit are written by the
// owner, straight from Turn.Out, in one call: the common case, nothing is
// copied. What is posted meanwhile or from elsewhere (late replies, pushes)
// gathers in queue, and whoever holds the right to write takes it along; if
// nobody does, a flusher makes one non-blocking write of it.

// flush writes what a visit has produced, and what was posted during it. It
// reports false when the connection is over.
func (c *session) flush(t *Turn) bool {
	c.mu.Lock()
	c.queue.visiting = false
	switch {
	case c.over:
		c.mu.Unlock()
		t.Out = t.Out[:0] // a borrowed desk must not carry it to somebody else
		return false
	case c.queue.len() == 0 && len(t.Out) == 0:
		c.mu.Unlock()
		return true
	case c.queue.len() == 0 && !c.writing:
		c.writing = true
		c.mu.Unlock()
		err := c.write(t.Out)
		c.tally.bytesOut.Add(uint64(len(t.Out)))
		t.Out = t.Out[:0]
		if err != nil {
			c.writeFailed(err)
			return false
		}
		return c.writeQueue(c.writeCounted) == nil
	}
	c.queue.insert(c.srv, t.Out)
	c.charge(len(t.Out))
	t.Out = t.Out[:0]
	if c.writing {
		c.mu.Unlock() // the writer takes it along
		return true
	}
	c.writing = true
	c.mu.Unlock()
	return c.writeQueue(c.writeCounted) == nil
}

// write is the owner's: it sends p, waiting as long as the sweeper lets it.
func (c *session) write(p []byte) error {
	p, err := c.writeNow(p)
	if err != nil || len(p) == 0 {
		return err
	}
	n := int64(len(p))
	c.waiting.Add(n)
	err = c.writeWaited(p)
	c.waiting.Add(-n)
	return err
}

// writeCounted is write for bytes that are on the accounts already.
func (c *session) writeCounted(p []byte) error {
	p, err := c.writeNow(p)
	if err != nil || len(p) == 0 {
		return err
	}
	return c.writeWaited(p)
}

// writeNow is the owner's write inside a visit of a Parked connection, where
// the descriptor is at hand: what goes without waiting, and the rest.
func (c *session) writeNow(p []byte) (rest []byte, err error) {
	if c.fd == noDescriptor {
		return p, nil
	}
	n, err := sys.Write(uintptr(c.fd), p)
	if err == sys.ErrAgain {
		err = nil
	}
	return p[n:], err
}

// writeWaited writes p through the poller. The stall clock starts anew with
// every chunk that the peer takes.
func (c *session) writeWaited(p []byte) (err error) {
	for len(p) > 0 && err == nil {
		c.unsent.Store(0)
		c.stamp(&c.stall)
		var n int
		n, err = c.nc.Write(p[:min(len(p), writeChunk)])
		p = p[n:]
	}
	c.touch() // whoever takes its time to read is not idle meanwhile
	c.stall.Store(0)
	return err
}

// writeChunk is what a peer must take within Limits.StallTime.
const writeChunk = 32 << 10

// writeFailed ends the connection after a failed write.
func (c *session) writeFailed(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) && c.reason() == 0 {
		c.fail(WriteStall) // not ours: the sweeper says why before it cuts a write off
	}
	c.fail(PeerReset)
	c.mu.Lock()
	c.writing = false
	c.over = true
	c.wake()
	c.mu.Unlock()
	c.nc.SetReadDeadline(past())
}

// writeQueue writes the queue until it is empty, with the right to write in
// hand, and lets go of it. An error of send ends the loop with the right still
// held, except where the connection was cut off.
func (c *session) writeQueue(send func([]byte) error) error {
	for {
		c.mu.Lock()
		if c.queue.held() || c.over {
			c.writing = false
			over := c.over
			c.wake()
			c.mu.Unlock()
			if over {
				return ErrClosed
			}
			return nil
		}
		b := c.queue.take()
		c.mu.Unlock()
		err := send(b.Bytes())
		c.tally.bytesOut.Add(uint64(len(b.Bytes())))
		c.unqueue(b)
		if err != nil {
			c.writeFailed(err)
			return err
		}
	}
}

// unqueue takes b out of the accounts and back to the pool.
func (c *session) unqueue(b pool.Buffer) {
	n := int64(len(b.Bytes()))
	c.waiting.Add(-n)
	c.srv.queued.Add(-n)
	b.Release()
}

// charge puts n bytes that wait for the peer on the accounts.
func (c *session) charge(n int) {
	c.waiting.Add(int64(n))
	c.srv.charge(n)
}

// startVisit remembers what was posted before this visit, so that an ordered
// protocol's replies keep their place.
func (c *session) startVisit() {
	c.mu.Lock()
	c.queue.startVisit()
	c.mu.Unlock()
}

// post queues a late reply or a push.
func (c *session) post(ticket uint64, parts [][]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return ErrClosed
	}
	if c.queue.len() > c.srv.limits.HardCap && !c.relieve() {
		c.mu.Unlock()
		c.abort(SlowReader)
		return SlowReader
	}
	if ticket != noTicket {
		if c.late == nil || !c.late.promises.settle(ticket) {
			c.mu.Unlock()
			return ErrSettled
		}
		c.touch() // the peer's time to ask again begins with the answer; see snapshot
		c.owed.Store(int32(c.late.promises.open))
		c.tally.late.Add(1)
	} else {
		c.tally.pushes.Add(1)
	}
	if n > 0 {
		c.queue.add(c.srv, parts, n)
		c.charge(n)
	}
	kick := !c.queue.held() && !c.writing && !c.dirty
	if kick {
		c.dirty = true
	}
	c.wake()
	c.mu.Unlock()
	if kick {
		c.flusher.add(c)
	}
	return nil
}

// relieve is asked when more is posted than the hard cap; mu is held. A queue that
// only waits for its flusher is not the peer's fault: it is written here and
// now. It reports whether the queue may grow by one more.
func (c *session) relieve() bool {
	if c.writing {
		// Blocked, or just now in a system call: then a little more may gather.
		return c.stall.Load() == 0 && c.queue.len() <= c.srv.limits.hardest()
	}
	if c.queue.visiting || c.raw == nil {
		return c.queue.len() <= c.srv.limits.hardest()
	}
	c.writing = true
	c.mu.Unlock()
	c.flushLate()
	c.mu.Lock()
	return !c.over && c.queue.len() <= c.srv.limits.HardCap
}

// promise owes one more reply.
func (c *session) promise() (ticket uint64, more bool) {
	c.mu.Lock()
	l := c.lateness()
	ticket = l.promises.take()
	c.owed.Store(int32(l.promises.open))
	if l.promises.open == keepTickets+1 {
		c.tired.Store(true)
	}
	c.mu.Unlock()
	return ticket, c.hasRoom()
}

// revoke takes promises back and returns how many of them were still open.
func (c *session) revoke(tickets []uint64) (open int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lateness()
	open = l.promises.revoke(tickets)
	c.owed.Store(int32(l.promises.open))
	c.wake()
	return open
}

// await waits until g holds and reports whether the connection goes on.
func (c *session) await(g goal) bool {
	c.mu.Lock()
	for !c.over && !c.met(g) {
		c.goal = g
		if c.resume == nil {
			c.resume = make(chan struct{}, 1)
		}
		c.mu.Unlock()
		<-c.resume
		c.mu.Lock()
	}
	c.goal = nothing
	on := !c.over
	c.mu.Unlock()
	return on && (g == settled || !c.ending())
}

// met reports whether g holds; mu is held. A pause ends at half of what began
// it, so that reading does not flutter.
func (c *session) met(g goal) bool {
	switch g {
	case room:
		return c.ending() || int(c.owed.Load()) <= c.srv.limits.InFlight/2 && c.waiting.Load() <= int64(c.srv.limits.HighWater/2)
	case settled:
		return c.owed.Load() == 0 && c.queue.len() == 0 && !c.writing
	}
	return true
}

// wake resumes an owner whose goal holds; mu is held.
func (c *session) wake() {
	if c.goal != nothing && (c.over || c.met(c.goal)) {
		c.goal = nothing
		select {
		case c.resume <- struct{}{}:
		default:
		}
	}
}

// lateness is what late replies and pushes need, and no other connection pays
// for: the promises, and a non-blocking write through RawConn whose closure is
// made once, so that a late reply allocates nothing.
type lateness struct {
	promises tickets
	p        []byte // what try is to write, then what it has not written
	err      error
	try      func(fd uintptr) bool
}

// lateness makes the connection's on first use; mu is held.
func (c *session) lateness() *lateness {
	if c.late == nil {
		l := &lateness{}
		l.try = func(fd uintptr) bool {
			var n int
			n, l.err = sys.Write(fd, l.p)
			l.p = l.p[n:]
			return true
		}
		c.late = l
	}
	return c.late
}

// flushLate writes the queue without waiting, with the right to write in hand;
// what the peer does not take at once is left to a goroutine that lives until
// it has.
func (c *session) flushLate() {
	if c.raw == nil {
		c.srv.goroutines.Add(1)
		go c.writeWaiting(pool.Buffer{})
		return
	}
	rest, err := c.writeQueueLate()
	if err == nil && rest.Lent() {
		c.srv.goroutines.Add(1)
		go c.writeWaiting(rest)
	}
}

// writeQueueLate is writeQueue with writes that do not wait. What a buffer still
// holds is returned in rest, with the right to write.
func (c *session) writeQueueLate() (rest pool.Buffer, err error) {
	for {
		c.mu.Lock()
		if c.queue.held() || c.over {
			c.writing = false
			c.wake()
			c.mu.Unlock()
			return rest, nil
		}
		b, w := c.queue.take(), c.lateness()
		c.mu.Unlock()
		w.p, w.err = b.Bytes(), nil
		err = c.raw.Write(w.try)
		if err == nil {
			err = w.err
		}
		if err == sys.ErrAgain {
			done := len(b.Bytes()) - len(w.p)
			c.tally.bytesOut.Add(uint64(done))
			c.waiting.Add(-int64(done))
			c.srv.queued.Add(-int64(done))
			b.SetLen(copy(b.Bytes(), w.p))
			w.p = nil
			return b, nil
		}
		w.p = nil
		c.tally.bytesOut.Add(uint64(len(b.Bytes())))
		c.unqueue(b)
		if err != nil {
			c.writeFailed(err)
			return rest, err
		}
	}
}

// writeWaiting writes what did not go at once, and what is queued meanwhile.
func (c *session) writeWaiting(b pool.Buffer) {
	defer c.srv.goroutines.Done()
	if b.Lent() {
		err := c.writeWaited(b.Bytes())
		c.tally.bytesOut.Add(uint64(len(b.Bytes())))
		c.unqueue(b)
		if err != nil {
			c.writeFailed(err)
			return
		}
	}
	c.writeQueue(c.writeWaited)
}

// flusher writes what was posted to connections whose owners are reading. It
// sleeps while there is nothing to do.
type flusher struct {
	mu     sync.Mutex
	dirty  []*session
	asleep bool
	wake   chan struct{}
}

func (f *flusher) add(c *session) {
	f.mu.Lock()
	f.dirty = append(f.dirty, c)
	asleep := f.asleep
	f.asleep = false
	f.mu.Unlock()
	if asleep {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

func (f *flusher) run(stop <-chan struct{}) {
	var batch []*session
	for {
		f.mu.Lock()
		batch, f.dirty = f.dirty, batch[:0]
		f.asleep = len(batch) == 0
		f.mu.Unlock()
		if len(batch) == 0 {
			select {
			case <-f.wake:
				runtime.Gosched() // whoever posted has more to post: one write for all of it
			case <-stop:
				return
			}
			continue
		}
		for i, c := range batch {
			batch[i] = nil
			c.mu.Lock()
			c.dirty = false
			mine := !c.queue.held() && !c.writing && !c.over
			if mine {
				c.writing = true
			}
			c.mu.Unlock()
			if mine {
				c.flushLate()
			}
		}
	}
}
