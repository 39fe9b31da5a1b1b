package engine

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// readBlocking reads until the connection is to end: Direct and Buffered.
func (c *session) readBlocking(d *desk) {
	exact := c.srv.how.style == direct
	for {
		if c.reason() != 0 {
			return
		}
		p := c.in.space(&c.srv.buffers)
		if exact {
			p = p[:min(len(p), max(1, c.in.want))]
		}
		n, err := c.nc.Read(p)
		if n > 0 {
			c.touch()
			c.tally.bytesIn.Add(uint64(n))
			if !c.arrive(d, n) {
				return
			}
		}
		if err != nil && !c.readOn(err) {
			return
		}
	}
}

// arrive takes n bytes into account and serves what they complete. It reports
// false when the connection is to end.
func (c *session) arrive(d *desk, n int) bool {
	if c.in.arrived(n) {
		return c.serve(d)
	}
	c.startFrame(c.in.want)
	return true
}

// readParked reads until the connection is to end, holding no buffer while
// nothing arrives. The whole of it is one call of RawConn.Read: entering that
// call forgets an edge that Go's poller has already seen, so a second one could
// wait for bytes that are there.
//
// It reports true when the owner is to rest: the connection has been quiet, and
// the stack that its last visit has grown never shrinks below 4 KiB, while a
// fresh goroutine waits on 2 KiB.
func (c *session) readParked() (rest bool) {
	for {
		if c.reason() != 0 {
			return false
		}
		var end error
		err := c.raw.Read(func(fd uintptr) (done bool) {
			end = c.readReady(fd)
			return end != errParked
		})
		if err == nil {
			err = end
		}
		if err == nil || !c.readOn(err) {
			return false
		}
		if c.tired.Load() {
			c.tired.Store(false)
			return true
		}
	}
}

// errParked says that everything that had arrived is served.
var errParked = errors.New("engine: parked")

// readReady serves what has arrived on fd. It answers errParked to wait for
// more, nil when the connection is to end, and a read's error otherwise.
func (c *session) readReady(fd uintptr) error {
	d := c.srv.desks.Get().(*desk)
	c.in.lend(d.in)
	c.fd = int(fd)
	for {
		n, err := 0, os.ErrDeadlineExceeded // a flood must not hide that we are leaving
		if !c.srv.draining.Load() {
			n, err = readSocket(fd, c.in.space(&c.srv.buffers))
		}
		if n > 0 {
			c.touch()
			c.tally.bytesIn.Add(uint64(n))
			if c.arrive(d, n) {
				continue
			}
		}
		c.fd = noDescriptor
		c.in.giveBack(&c.srv.buffers)
		c.srv.returnDesk(d, c.reason())
		return err
	}
}

// readSocket is one read of a ready descriptor. It answers errParked when
// nothing is left, and only then has every FIN been seen: Go's poller reports
// edges, and data and FIN may share one.
func readSocket(fd uintptr, p []byte) (int, error) {
	n, err := sys.Read(fd, p)
	switch err {
	case sys.ErrAgain:
		return 0, errParked
	case sys.ErrClosed:
		return 0, io.EOF
	}
	return n, err
}

// readOn says whether reading goes on after err.
func (c *session) readOn(err error) bool {
	if c.reason() != 0 {
		return false
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		c.fail(c.readFault(err))
		return false
	}
	// Somebody nudged the reader. Only the owner may put the deadline back, and
	// only the owner knows whether the sweeper's suspicion still holds: a handler
	// may have been at work for long, which is not idleness, or the message may
	// have been completed just now.
	suspected := c.awake.Swap(0) != 0
	if c.srv.draining.Load() {
		c.fail(ShuttingDown)
		return false
	}
	if suspected {
		if v, why, _ := c.srv.rules.judge(c.snapshot(c.owed.Load() > 0), c.srv.clock.read()); v > rest {
			c.fail(why)
			return false
		}
	}
	c.nc.SetReadDeadline(time.Time{})
	if c.awake.Load() != 0 || c.srv.draining.Load() || c.reason() != 0 {
		c.nc.SetReadDeadline(past())
	}
	return true
}

// past is a deadline that has been.
func past() time.Time { return time.Unix(1, 0) }

func (c *session) readFault(err error) Reason {
	if why := Reason(c.awake.Load()); why != 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		return why
	}
	if errors.Is(err, io.EOF) {
		return PeerClosed
	}
	return PeerReset
}
