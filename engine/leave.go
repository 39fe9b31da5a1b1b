package engine

import (
	"errors"
	"os"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// finish takes leave of the peer after the last read, for the reason that
// c.why holds by now. own is the connection's desk, or nil where it borrows.
func (c *session) finish(own *desk) {
	switch {
	case c.isOver() || c.reason() == PeerReset:
		return
	case c.give != nil:
		c.giveAway()
		return
	case c.reason() == PeerClosed:
		c.enter(finishing)
		c.await(settled)
		return
	case c.reason() == ShuttingDown:
		d := c.srv.desk(own)
		c.drain(d)
		c.in.giveBack(&c.srv.buffers)
		c.srv.release(own, d, c.reason())
		c.enter(finishing) // what is owed has the drain's time, not a stalled peer's
	default:
		c.enter(closing)
	}
	c.nc.SetReadDeadline(time.Time{})
	if !c.await(settled) {
		return
	}
	c.enter(closing)
	if why := c.reason(); !spoken(why) {
		d := c.srv.desk(own)
		d.spread(&c.srv.buffers)
		d.turn.Out = c.srv.refuse(c.conn(), d.turn.Out[:0], c.in.bytes(), why)
		ok := c.flush(&d.turn)
		d.tidy()
		c.srv.release(own, d, why)
		if !ok {
			return
		}
	}
	c.linger()
}

// spoken reports whether the peer has been told why already, or need not be.
func spoken(why Reason) bool {
	switch why {
	case TooLarge, Malformed, UnknownCommand, Panicked, ClosedHere:
		return true
	}
	return false
}

// drain answers what the kernel still holds: it was sent before we said that
// we are leaving. What is sent from now on is not read: a peer that goes on
// asking does not hold us up.
func (c *session) drain(d *desk) {
	c.in.lend(d.in)
	for left := c.unread(); left > 0; {
		c.nc.SetReadDeadline(time.Now().Add(drainRead))
		p := c.in.space(&c.srv.buffers)
		n, err := c.nc.Read(p[:min(len(p), left)])
		left -= n
		if n > 0 {
			c.tally.bytesIn.Add(uint64(n))
			if c.in.arrived(n) && !c.serve(d) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// unread is how many bytes have arrived and are not read yet: what the kernel
// says, or a guess for what hides its socket.
func (c *session) unread() (n int) {
	if c.raw == nil {
		return drainGuess
	}
	c.raw.Control(func(fd uintptr) { n = sys.Unread(fd) })
	return n
}

const (
	drainRead  = 5 * time.Millisecond // bytes that are there need no waiting
	drainGuess = 64 << 10
)

// linger reads and drops what the peer still sends: closing a socket with
// unread bytes resets it and can destroy the last replies on their way.
func (c *session) linger() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	c.enter(lingering)
	c.in.forget()
	waste := c.srv.buffers.Get(lingerRead)
	defer waste.Release()
	for left := lingerBytes; left > 0; {
		n, err := c.nc.Read(waste.Bytes())
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !c.cut.Load():
			c.nc.SetReadDeadline(time.Time{}) // a nudge that came too late
			if c.cut.Load() {
				return
			}
			left-- // nor is that for ever
		case err != nil:
			return
		}
		left -= n
	}
}

const (
	lingerBytes = 1 << 20 // bounds what a refused peer may still pour in
	lingerRead  = 256     // a crowd of them is to cost little
)

// giveAway hands the socket to user code until it returns.
func (c *session) giveAway() {
	if !c.await(settled) {
		return
	}
	c.enter(takenOver)
	c.mu.Lock()
	c.over = true // the socket is theirs: no push of ours may fall into it
	c.mu.Unlock()
	c.nc.SetReadDeadline(time.Time{}) // whoever hurried us has done so by now
	unread := append([]byte(nil), c.in.bytes()...)
	c.srv.guard(c.conn(), func() { c.give(c.nc, unread) })
}

// end closes the socket, whatever happened, and tells who needs to know.
func (c *session) end() {
	if c.reason() == 0 {
		c.fail(Panicked) // only runtime.Goexit comes here without a reason
	}
	c.mu.Lock()
	c.over = true
	if b := c.queue.take(); b.Lent() {
		c.unqueue(b)
	}
	c.mu.Unlock()
	if c.reason() != Panicked {
		c.in.forget()
	}
	c.nc.Close()
	c.srv.leave(c)
}
