package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// Crowd is connections of WebSocket that only listen. Nothing watches them, so that what a
// server pushes wakes nobody: its cost is the server's.
type Crowd struct {
	fds []int
	in  []byte
}

// Grow opens connections until there are n.
func (c *Crowd) Grow(ctx context.Context, addr, path string, n int) error {
	to, err := parseAddr(addr)
	if err != nil {
		return err
	}
	for len(c.fds) < n && err == nil {
		if err = ctx.Err(); err == nil {
			err = c.add(to, path)
		}
	}
	if err != nil {
		return fmt.Errorf("client: connection %d of %d: %w", len(c.fds)+1, n, err)
	}
	return nil
}

func (c *Crowd) add(to syscall.Sockaddr, path string) error {
	fd, err := dial(to)
	if err != nil {
		return err
	}
	c.fds = append(c.fds, fd)
	return upgrade(fd, path)
}

// Len is how many connections there are.
func (c *Crowd) Len() int { return len(c.fds) }

// Close closes the connections.
func (c *Crowd) Close() {
	for _, fd := range c.fds {
		syscall.Close(fd)
	}
	c.fds = nil
}

// Gather reads what each connection has been sent, which must be the message so many times,
// within limit.
func (c *Crowd) Gather(message []byte, times int, limit time.Duration) error {
	want := c.frames(message, times)
	if len(c.in) <= len(want) {
		c.in = make([]byte, len(want)+1)
	}
	till := time.Now().Add(limit)
	for i, fd := range c.fds {
		held := 0
		for held < len(want) {
			n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&c.in[held])), uintptr(len(c.in)-held), syscall.MSG_DONTWAIT, 0, 0)
			switch {
			case errno == syscall.EAGAIN && time.Now().After(till):
				return fmt.Errorf("client: connection %d has %d of %d bytes after %v", i+1, held, len(want), limit)
			case errno == syscall.EAGAIN:
				nap(10 * napTime)
				continue
			case errno != 0:
				return os.NewSyscallError("recv", errno)
			case n == 0:
				return errClosed
			}
			held += int(n)
		}
		if string(c.in[:held]) != string(want) {
			return errors.New("client: a server pushes something else than the message")
		}
	}
	return nil
}

// frames is the message as a server sends it, so many times.
func (c *Crowd) frames(message []byte, times int) (all []byte) {
	for range times {
		if len(message) > longestWS {
			all = binary.BigEndian.AppendUint64(append(all, binaryFrame, shortest+2), uint64(len(message)))
		} else {
			all = appendWSHead(all, binaryFrame, 0, len(message))
		}
		all = append(all, message...)
	}
	return all
}
