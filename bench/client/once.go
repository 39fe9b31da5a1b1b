package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// RunOnce carries out a plan with a connection for each request, p.Conns at once: it opens them, each with its
// request, and then reads one answer after the other. What it closes is reset, so that no port waits for its next use.
// There are no response times: an answer waits for those before it.
func RunOnce(ctx context.Context, p Plan) (*Result, error) {
	switch err := p.check(); {
	case err != nil:
		return nil, err
	case p.WS != nil || p.Rate > 0 || p.Depth != 1 || p.HTTP != nil && p.HTTP.TLS != nil:
		return nil, errors.New("client: a connection for each request takes frames or HTTP in the clear, no rate, and a depth of 1")
	}
	to, err := parseAddr(p.Addr)
	if err != nil {
		return nil, err
	}
	o := once{Plan: &p, kind: newKind(p.Content, 1), fds: make([]int, 0, p.Conns), in: make([]byte, readSize)}
	defer o.close()
	var r Result
	for _, part := range []struct {
		of    time.Duration
		begin func()
	}{{p.Warmup, nil}, {p.Window, p.Opened}} {
		if part.begin != nil {
			part.begin()
		}
		start := time.Now()
		for r.Requests = 0; time.Since(start) < part.of; r.Requests += int64(p.Conns) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := o.batch(to); err != nil {
				return nil, err
			}
			r.Answered += int64(p.Conns)
		}
		r.Rate = float64(r.Requests) / time.Since(start).Seconds()
	}
	if p.Closed != nil {
		p.Closed()
	}
	return &r, nil
}

// once is the connections of one batch.
type once struct {
	*Plan
	kind kind
	id   uint64
	fds  []int
	in   []byte
}

// batch opens all connections, and has each request answered.
func (o *once) batch(to syscall.Sockaddr) error {
	for range o.Conns {
		fd, err := dial(to)
		if err != nil {
			return fmt.Errorf("client: %w", err)
		}
		o.fds = append(o.fds, fd)
		request := o.kind.requests
		if o.HTTP != nil {
			request = o.HTTP.Request
		} else {
			o.id++
			binary.BigEndian.PutUint64(request[o.kind.asks:], o.id)
		}
		if _, err := (&wires{fd: fd}).Write(request); err != nil {
			return err
		}
	}
	for i, fd := range o.fds {
		if err := o.answered(fd, o.id-uint64(o.Conns-1-i)); err != nil {
			return fmt.Errorf("client: connection %d: %w", i+1, err)
		}
	}
	return o.close()
}

// answered reads the answer of a connection, which must be the right one and the only one.
func (o *once) answered(fd int, id uint64) error {
	binary.BigEndian.PutUint64(o.kind.answer[o.kind.answers:], id)
	for held := 0; ; {
		n, err := (&wires{fd: fd}).wait(o.in[held:])
		if err != nil {
			return err
		}
		held += n
		size, right := len(o.kind.answer), true
		if o.HTTP != nil {
			if size, right, err = cut(o.in[:held], o.HTTP); err != nil {
				return err
			}
		} else if held >= size {
			right = string(o.in[:held]) == string(o.kind.answer)
		}
		switch {
		case size == 0 || held < size:
		case !right || held > size:
			return fmt.Errorf("the server answers %.60q", o.in[:held])
		default:
			return nil
		}
	}
}

// close resets the connections.
func (o *once) close() (err error) {
	for _, fd := range o.fds {
		reset := syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
		err = errors.Join(err, os.NewSyscallError("setsockopt", reset), os.NewSyscallError("close", syscall.Close(fd)))
	}
	o.fds = o.fds[:0]
	return err
}
