package load

import (
	"errors"
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/tool/load/codec"
)

// reader reads from some of the sockets of a closed loop: one goroutine, one buffer, and one read
// per event. That is a tenth cheaper than a goroutine for each connection. Open loops use a
// goroutine for each connection, because a busy reader would delay the pacers; so do TLS and
// systems without a poller.
type reader struct {
	run   *run
	poll  *sys.Poll
	conns []atomic.Pointer[conn] // by number
	in    []byte
	ready [64]sys.Ready

	heartbeat atomic.Pointer[heartbeat]
}

// startReaders starts one reader for each counter, or none if the system has no poller.
func (r *run) startReaders() {
	if !sys.Polls || r.paced {
		return
	}
	for range r.counters {
		poll, err := sys.NewPoll(nil)
		if err != nil {
			break // too few descriptors: opening the connections reports that
		}
		r.readers = append(r.readers, &reader{
			run: r, poll: poll, in: make([]byte, defaultRead), conns: make([]atomic.Pointer[conn], r.plan.Conns),
		})
	}
	for _, rd := range r.readers {
		r.goroutines.Go(rd.read)
	}
}

// take makes the reader read from c, and reports whether it can.
func (rd *reader) take(c *conn) bool {
	if c.socket.raw == nil {
		return false
	}
	c.reader = rd
	if !rd.watch(c) {
		c.reader = nil
	}
	return c.reader != nil
}

// watch adds c's socket to the poller.
func (rd *reader) watch(c *conn) bool {
	rd.conns[c.number].Store(c) // publishes earlier writes to c to the reader
	return watched(rd.poll, c.socket.raw, c.number)
}

// watched adds a socket to a poller, if possible.
func watched(poll *sys.Poll, raw syscall.RawConn, key uint64) (added bool) {
	err := raw.Control(func(fd uintptr) { added = poll.Add(sys.Socket(fd), sys.In, key) == nil })
	return err == nil && added
}

// read is the reader's goroutine.
func (rd *reader) read() {
	alone := len(rd.run.readers) == 1
	for !rd.run.stopping.Load() {
		n := 0
		if !alone || !rd.run.begun.Load() {
			n = rd.poll.Park(rd.ready[:]) // yields if it has to wait
		} else if n = rd.poll.Now(rd.ready[:]); n == 0 {
			runtime.Gosched() // see package engine: without it the scheduler retakes the processor
			rd.poll.Unpark()
			n = rd.poll.Block(rd.ready[:])
		}
		for i := range n {
			switch key := rd.ready[i].Key(); key {
			case sys.WakeKey:
			case beatKey:
				rd.heartbeat.Load().rang()
			default:
				rd.readFrom(rd.conns[key].Load())
			}
		}
		if n == len(rd.ready) {
			runtime.Gosched() // lets the supervisor run
		}
	}
}

// readFrom reads once from c.
func (rd *reader) readFrom(c *conn) {
	held := len(c.held)
	if 2*held > len(rd.in) {
		rd.in = make([]byte, 2*len(rd.in)) // a long answer; memory grows with the bytes received
	}
	copy(rd.in, c.held)
	n, err := c.socket.tryRead(rd.in[held:])
	switch {
	case errors.Is(err, sys.ErrAgain):
		return
	case err != nil:
		rd.leave(c)
		if c.ended(err, held > 0) {
			rd.run.goroutines.Go(c.reconnectPolled)
		}
		return
	}
	in := rd.in[:held+n]
	used, closing, err := c.arrived(in, rd.run.now())
	if err != nil {
		rd.leave(c)
		rd.run.fail(codec.Explain(err))
		return
	}
	if closing {
		rd.leave(c)
		rd.run.goroutines.Go(c.reconnectPolled)
		return
	}
	c.held = append(c.held[:0], in[used:]...)
}

// leave removes c from the poller.
func (rd *reader) leave(c *conn) {
	// If it fails, the socket is closed, and closing removed it from the poller.
	_ = c.socket.raw.Control(func(fd uintptr) { _ = rd.poll.Remove(sys.Socket(fd)) })
}

// tryRead reads what has arrived, without blocking. The end of the stream is io.EOF.
func (s *socket) tryRead(p []byte) (int, error) {
	s.in = p
	return s.hasRead(s.raw.Control(s.readNow))
}
