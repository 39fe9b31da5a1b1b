package client

import (
	"cmp"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"unsafe"

	"github.com/hone-go/hone/wire"
)

// conn is one connection. Its requests have slots, and their ids consist of the
// connection's number, a count and the slot: an answer of another connection or of
// an earlier request is not taken for the right one.
type conn struct {
	fd     int
	kind   *kind
	slots  []slot
	free   []uint16
	owed   int64 // requests to send as soon as a slot is free
	sent   int64
	number uint64 // shifted to its place in an id
	count  uint32
	held   []byte // the beginning of an answer
	unsent []byte // what the socket did not take
	index  int64  // among the loop's connections

	// With HTTP, where answers have no ids: the slots of what is outstanding, as a ring,
	// and the first of them in it.
	order  []uint16
	oldest int
	wires  *wires // with TLS, and tls above them
	tls    *tls.Conn
}

// slot is the place of a request that has no answer yet.
type slot struct {
	id    uint64
	since int64 // from when its response time counts
}

// free is no request's id: counts begin with 1.
const free = 0

// longestAnswer is the longest that is read as one. A refusal may be longer than
// the answer that was expected.
const longestAnswer = 64 << 10

// add takes a connected socket over, even when it fails.
func (l *loop) add(fd, number int) error {
	c := conn{fd: fd, kind: &l.fast, number: uint64(number) << 48, index: int64(len(l.conns)), slots: make([]slot, l.plan.Depth)}
	if l.gap == 0 {
		c.owed = math.MaxInt64
	}
	for i := range c.slots {
		c.free = append(c.free, uint16(len(c.slots)-1-i))
	}
	if l.plan.HTTP != nil {
		c.order = make([]uint16, len(c.slots))
	} else if l.plan.WS == nil {
		c.held = make([]byte, 0, len(l.in)-readSize)
	}
	var err error
	switch {
	case l.plan.HTTP != nil && l.plan.HTTP.TLS != nil:
		c.wires, c.tls, err = l.handshake(fd)
	case l.plan.WS != nil:
		err = upgrade(fd, l.plan.WS.Path)
	}
	l.conns = append(l.conns, c)
	return cmp.Or(err, l.arm(&c, syscall.EPOLL_CTL_ADD))
}

// edgeTriggered is EPOLLET without the sign that it has in package syscall.
const edgeTriggered = syscall.EPOLLET & (1<<32 - 1)

// arm registers a connection with the loop's epoll instance, edge-triggered, which
// saves the kernel a second look at every connection; and again when not all has
// been read, so that what is left is reported, too.
func (l *loop) arm(c *conn, op int) error {
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLOUT | edgeTriggered, Fd: int32(c.index)}
	return os.NewSyscallError("epoll_ctl", syscall.EpollCtl(l.epoll, op, c.fd, &ev))
}

// serve does what a connection is ready for.
func (l *loop) serve(c *conn, events uint32) error {
	if len(c.unsent) > 0 {
		if err := c.flush(); err != nil {
			return err
		}
	}
	if events&^syscall.EPOLLOUT == 0 {
		return nil
	}
	read := l.read
	if c.tls != nil {
		read = l.readTLS
	}
	if err := read(c); err != nil {
		return fmt.Errorf("client: connection %d: %w", c.number>>48+1, err)
	}
	return l.send(c)
}

var errClosed = errors.New("the server closed it")

// read reads once and verifies what has come.
func (l *loop) read(c *conn) error {
	held := copy(l.in, c.held)
	in := l.in[held:]
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(c.fd), uintptr(unsafe.Pointer(&in[0])), uintptr(len(in)), syscall.MSG_DONTWAIT, 0, 0)
	switch {
	case errno == syscall.EAGAIN:
		return nil
	case errno != 0:
		return os.NewSyscallError("recv", errno)
	case n == 0:
		return errClosed
	case int(n) == len(in):
		if err := l.arm(c, syscall.EPOLL_CTL_MOD); err != nil {
			return err
		}
	}
	rest, err := l.settle(c, l.in[:held+int(n)])
	if len(rest)+held > 0 {
		c.held = append(c.held[:0], rest...)
	}
	return err
}

// settle takes the whole answers off the front of in.
func (l *loop) settle(c *conn, in []byte) (rest []byte, err error) {
	if l.plan.HTTP != nil {
		return l.settleHTTP(c, in)
	}
	want, at := c.kind.answer, c.kind.answers
	for len(in) > 0 {
		if len(in) >= len(want) && string(in[:at]) == string(want[:at]) {
			right := string(in[at+idSize:len(want)]) == string(want[at+idSize:])
			l.answer(c, binary.BigEndian.Uint64(in[at:]), right)
			in = in[len(want):]
			continue
		}
		if l.plan.WS != nil {
			used, err := l.otherFrame(c, in)
			if err != nil || used == 0 {
				return in, err
			}
			in = in[used:]
			continue
		}
		payload, need, err := wire.Frame(in, max(longestAnswer, len(want)))
		if err != nil {
			return nil, fmt.Errorf("the server sends something that is not a frame: %w", err)
		}
		if need > 0 {
			break
		}
		in = in[wire.HeaderSize+len(payload):]
		if p, err := wire.Parse(payload); err == nil && p.Command == wire.SubmitAck {
			l.answer(c, p.ID, false)
		} else {
			l.wrong++
		}
	}
	return in, nil
}

// answer settles the request with that id. An answer that is wrong ends its request
// as well, so that the others go on.
func (l *loop) answer(c *conn, id uint64, right bool) {
	i := int(id % mostDepth)
	if id == free || i >= len(c.slots) || c.slots[i].id != id {
		l.wrong++
		return
	}
	c.slots[i].id = free
	c.free = append(c.free, uint16(i))
	if !right {
		l.wrong++
	}
	l.pending--
	if right {
		l.answered++
		l.record(c.slots[i].since, l.now)
	}
}

// send writes the requests that c owes, as far as slots are free, with one call.
func (l *loop) send(c *conn) error {
	count := int(min(int64(len(c.free)), c.owed))
	if count == 0 {
		return nil
	}
	out := c.kind.requests[:count*c.kind.size]
	for at := range count {
		last := len(c.free) - 1
		i := c.free[last]
		c.free = c.free[:last]
		c.count++
		s := slot{c.number | uint64(c.count)<<16 | uint64(i), l.now}
		if l.gap > 0 {
			s.since = l.intended(c)
			c.sent++
		}
		c.slots[i] = s
		if l.plan.HTTP != nil {
			c.order[(c.oldest+len(c.slots)-len(c.free)-1)%len(c.order)] = i
			continue
		}
		binary.BigEndian.PutUint64(out[at*c.kind.size+c.kind.asks:], s.id^c.kind.key)
	}
	c.owed -= int64(count)
	if l.gap == 0 {
		l.pending += int64(count)
	}
	if c.tls != nil {
		_, err := c.tls.Write(out)
		return err
	}
	return l.put(c, out)
}

// intended is when the request is due that c sends next.
func (l *loop) intended(c *conn) int64 { return l.moment(c.sent*int64(len(l.conns)) + c.index) }

// put writes what the socket takes and keeps the rest for when it takes more.
func (l *loop) put(c *conn, out []byte) error {
	if len(c.unsent) > 0 {
		c.unsent = append(c.unsent, out...)
		return nil
	}
	n, err := c.write(out)
	if n < len(out) {
		c.unsent = append(c.unsent, out[n:]...)
	}
	return err
}

// flush writes what put has kept.
func (c *conn) flush() error {
	n, err := c.write(c.unsent)
	c.unsent = append(c.unsent[:0], c.unsent[n:]...)
	return err
}

// write writes once.
func (c *conn) write(out []byte) (int, error) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(&out[0])), uintptr(len(out)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case syscall.EAGAIN:
		return 0, nil
	}
	return 0, fmt.Errorf("client: connection %d: %w", c.number>>48+1, os.NewSyscallError("send", errno))
}
