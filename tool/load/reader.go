package load

import (
	"errors"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/hone-go/hone/internal/sys"
)

// reader reads for some of the sockets of a closed loop: one goroutine, one
// buffer, and one read for each time that something has arrived. That is a tenth
// cheaper than a goroutine for each connection, as open loops have it, where a
// reader that has much to do would hold up the pacers; TLS has it too, and systems
// without a poll.
type reader struct {
	run   *run
	poll  *sys.Poll
	conns []atomic.Pointer[conn] // by number
	in    []byte
	ready [64]sys.Ready
}

// startReaders starts one reader for each shard, none where there can be none.
func (r *run) startReaders() {
	if !sys.Polls || r.paced {
		return
	}
	for range r.shards {
		poll, err := sys.NewPoll(nil)
		if err != nil {
			break // too few descriptors, which the connections will say
		}
		r.readers = append(r.readers, &reader{
			run: r, poll: poll, in: make([]byte, usualRead), conns: make([]atomic.Pointer[conn], r.plan.Conns),
		})
	}
	for _, rd := range r.readers {
		r.goroutines.Go(rd.read)
	}
}

// take has c read from now on, and reports whether it can.
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

// watch has c's socket reported.
func (rd *reader) watch(c *conn) bool {
	rd.conns[c.number].Store(c) // what was written to c before is seen by who is told of it
	added := false
	err := c.socket.raw.Control(func(fd uintptr) { added = rd.poll.Add(sys.Socket(fd), sys.In, c.number) == nil })
	return err == nil && added
}

// read is the reader's goroutine.
func (rd *reader) read() {
	alone := len(rd.run.readers) == 1
	for !rd.run.stopping.Load() {
		n := 0
		if !alone || !rd.run.begun.Load() {
			n = rd.poll.Park(rd.ready[:]) // which yields when it has to wait
		} else if n = rd.poll.Now(rd.ready[:]); n == 0 {
			runtime.Gosched() // see package engine: without it the scheduler takes its processor away
			rd.poll.Unpark()
			n = rd.poll.Block(rd.ready[:])
		}
		for i := range n {
			if key := rd.ready[i].Key(); key != sys.WakeKey {
				rd.readFrom(rd.conns[key].Load())
			}
		}
		if n == len(rd.ready) {
			runtime.Gosched() // whoever supervises has his moments
		}
	}
}

// readFrom reads once.
func (rd *reader) readFrom(c *conn) {
	held := len(c.held)
	if 2*held > len(rd.in) {
		rd.in = make([]byte, 2*len(rd.in)) // a long answer: memory grows with what has come
	}
	copy(rd.in, c.held)
	n, err := c.socket.tryRead(rd.in[held:])
	switch {
	case errors.Is(err, sys.ErrAgain):
		return
	case err != nil:
		rd.leave(c)
		if c.ended(err, held > 0) {
			rd.run.goroutines.Go(c.renewPolled)
		}
		return
	}
	in := rd.in[:held+n]
	used, parting, err := c.arrived(in, rd.run.now())
	if err != nil {
		rd.leave(c)
		rd.run.fail(decodeError(err))
		return
	}
	if parting {
		rd.leave(c)
		rd.run.goroutines.Go(c.renewPolled)
		return
	}
	c.held = append(c.held[:0], in[used:]...)
}

// leave reads no more from c.
func (rd *reader) leave(c *conn) {
	// When it fails the socket is closed, and so out of the poll.
	_ = c.socket.raw.Control(func(fd uintptr) { _ = rd.poll.Remove(sys.Socket(fd)) })
}

// tryRead reads what has arrived, without waiting. The end of the stream is
// io.EOF.
func (s *socket) tryRead(p []byte) (int, error) {
	s.in = p
	if err := s.raw.Control(s.readNow); err != nil {
		return 0, err
	}
	if errors.Is(s.readErr, sys.ErrClosed) {
		return 0, io.EOF
	}
	return s.got, s.readErr
}
