package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// Crowd is connections that only listen. Nothing watches them, so that what a
// server pushes wakes nobody: its cost is the server's.
type Crowd struct {
	fds []int
	in  []byte
}

// Grow opens connections until there are n; begin is what each says and is told at first: see Upgraded and Streamed.
func (c *Crowd) Grow(ctx context.Context, addr string, n int, begin func(fd int) error) error {
	to, err := parseAddr(addr)
	if err != nil {
		return err
	}
	for len(c.fds) < n && err == nil {
		if err = ctx.Err(); err == nil {
			err = c.add(to, begin)
		}
	}
	if err != nil {
		return fmt.Errorf("client: connection %d of %d: %w", len(c.fds)+1, n, err)
	}
	return nil
}

func (c *Crowd) add(to syscall.Sockaddr, begin func(fd int) error) error {
	fd, err := dial(to)
	if err != nil {
		return err
	}
	c.fds = append(c.fds, fd)
	return begin(fd)
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

// Gather reads what each connection has been sent, which must be want, within limit.
func (c *Crowd) Gather(want []byte, limit time.Duration) error {
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

// Upgraded begins a connection of WebSocket; its messages come as ServerFrame.
func Upgraded(path string) func(fd int) error {
	return func(fd int) error { return upgrade(fd, path) }
}

// ServerFrame is a binary message as a server sends it.
func ServerFrame(message []byte) []byte {
	if len(message) > longestWS {
		return append(binary.BigEndian.AppendUint64([]byte{binaryFrame, shortest + 2}, uint64(len(message))), message...)
	}
	return append(appendWSHead(nil, binaryFrame, 0, len(message)), message...)
}

// Streamed begins a response that does not end; its parts come as Chunk. first is the first of them.
func Streamed(path string, first []byte) func(fd int) error {
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: localhost:8080\r\nAccept: text/event-stream\r\n\r\n")
	return func(fd int) error {
		w := &wires{fd: fd}
		if _, err := w.Write(request); err != nil {
			return err
		}
		var answer [4 << 10]byte
		for held := 0; held < len(answer); {
			n, err := w.Read(answer[held:])
			if err != nil {
				return err
			}
			held += n
			head, body, whole := bytes.Cut(answer[:held], []byte("\r\n\r\n"))
			switch {
			case !whole || len(body) < len(Chunk(first)):
			case !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) || !bytes.Equal(body, Chunk(first)):
				return fmt.Errorf("the server does not begin a stream: %.200q", answer[:held])
			default:
				return nil
			}
		}
		return errors.New("the server sends a head without an end")
	}
}

// Chunk is a part of a response that is flushed by itself.
func Chunk(part []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(part), part) }
