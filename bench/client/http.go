package client

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// HTTP is what to ask a server of HTTP/1.1. Answers come in the order of their requests.
type HTTP struct {
	Request []byte // sent as it is, head and body
	Status  int    // of every answer
	Body    []byte // of every answer, which must say its Content-Length
	// TLS is how to speak TLS. Zero: in the clear. Handshakes are over before the
	// warm-up begins.
	TLS *tls.Config
}

// The longest head of an answer.
const longestHead = 8 << 10

var errNoLength = errors.New("the server sends an answer without Content-Length, which this client cannot cut")

// pattern is an answer as the server has sent it before: the next one is compared with it
// byte for byte, except for its date. So a usual answer costs two comparisons.
type pattern struct {
	answer   []byte
	from, to int // of the date; both 0 without one
}

// matches reports whether in begins with the same answer.
func (p *pattern) matches(in []byte) bool {
	n := len(p.answer)
	return n > 0 && len(in) >= n && string(in[:p.from]) == string(p.answer[:p.from]) && string(in[p.to:n]) == string(p.answer[p.to:])
}

// learn takes a right answer as the pattern.
func (p *pattern) learn(answer []byte) {
	p.answer = bytes.Clone(answer)
	const name = "\r\nDate: "
	if at := bytes.Index(answer, []byte(name)); at >= 0 {
		p.from = at + len(name)
		p.to = p.from + max(0, bytes.IndexByte(answer[p.from:], '\r'))
	}
}

// settleHTTP takes the whole answers off the front of in.
func (l *loop) settleHTTP(c *conn, in []byte) (rest []byte, err error) {
	for len(in) > 0 {
		size, right := len(l.usual.answer), true
		if !l.usual.matches(in) {
			if size, right, err = cut(in, l.plan.HTTP); err != nil {
				return nil, err
			}
			if size == 0 {
				break
			}
			if right && l.usual.answer == nil {
				l.usual.learn(in[:size])
			}
		}
		in = in[size:]
		if len(c.free) == len(c.slots) {
			l.wrong++ // nobody has asked
			continue
		}
		at := c.order[c.oldest]
		c.oldest = (c.oldest + 1) % len(c.order)
		l.answer(c, c.slots[at].id, right)
	}
	return in, nil
}

// cut measures the first answer in in, and says whether it is the one that was asked for.
// A size of 0 says that there is more to come.
func cut(in []byte, want *HTTP) (size int, right bool, err error) {
	end := bytes.Index(in, []byte("\r\n\r\n"))
	switch {
	case end < 0 && len(in) > longestHead:
		return 0, false, errors.New("the server sends a head without an end")
	case end < 0:
		return 0, false, nil
	}
	status, length := 0, -1
	for i, line := range strings.Split(string(in[:end]), "\r\n") {
		if i == 0 {
			proto, text, _ := strings.Cut(line, " ")
			if text, _, _ = strings.Cut(text, " "); proto == "HTTP/1.1" {
				status, _ = strconv.Atoi(text) // 0 is nobody's
			}
			continue
		}
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return 0, false, fmt.Errorf("the server sends a strange Content-Length: %w", err)
			}
		}
	}
	end += len("\r\n\r\n")
	switch {
	case status == 0:
		return 0, false, fmt.Errorf("the server sends something that is not an answer: %.40q", in)
	case length < 0:
		return 0, false, errNoLength
	case length > longestAnswer+len(want.Body):
		return 0, false, fmt.Errorf("the server announces %d bytes", length)
	case len(in) < end+length:
		return 0, false, nil
	}
	return end + length, status == want.Status && bytes.Equal(in[end:end+length], want.Body), nil
}

// wires is a connection's socket as crypto/tls wants it: reading never waits, once the
// handshake is over, and writing keeps what the socket does not take.
type wires struct {
	loop    *loop
	conn    *conn
	fd      int
	ready   bool // the handshake is over
	drained bool // nothing was left in the socket when it was last read
}

// nothingYet ends a read of what is not there. crypto/tls goes on after a time-out.
var nothingYet error = os.ErrDeadlineExceeded

func (w *wires) Read(p []byte) (int, error) {
	if w.drained {
		return 0, nothingYet
	}
	if !w.ready {
		return w.wait(p)
	}
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(w.fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), syscall.MSG_DONTWAIT, 0, 0)
	switch {
	case errno == syscall.EAGAIN:
		return 0, nothingYet
	case errno != 0:
		return 0, os.NewSyscallError("recv", errno)
	case n == 0:
		return 0, errClosed
	}
	w.drained = int(n) < len(p)
	return int(n), nil
}

// wait reads during the handshake. A socket with a time-out is not resumed by the kernel
// when a signal has interrupted it.
func (w *wires) wait(p []byte) (n int, err error) {
	for range 1000 {
		if n, err = syscall.Read(w.fd, p); err != syscall.EINTR {
			break
		}
	}
	if err == nil && n == 0 {
		err = errClosed
	}
	return max(0, n), err
}

func (w *wires) Write(p []byte) (int, error) {
	if w.ready {
		return len(p), w.loop.put(w.conn, p)
	}
	n, err := syscall.Write(w.fd, p)
	return n, os.NewSyscallError("write", err)
}

func (w *wires) Close() error                     { return nil } // the loop closes the socket
func (w *wires) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (w *wires) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (w *wires) SetDeadline(time.Time) error      { return nil }
func (w *wires) SetReadDeadline(time.Time) error  { return nil }
func (w *wires) SetWriteDeadline(time.Time) error { return nil }

// handshake makes fd a connection of TLS, within dialTime for each step.
func (l *loop) handshake(fd int) (*wires, *tls.Conn, error) {
	w := &wires{loop: l, fd: fd}
	secure := tls.Client(w, l.plan.HTTP.TLS)
	if err := secure.Handshake(); err != nil {
		return nil, nil, fmt.Errorf("TLS handshake: %w", err)
	}
	w.ready = true
	return w, secure, nil
}

// readTLS reads all that there is and verifies it.
func (l *loop) readTLS(c *conn) error {
	c.wires.drained = false
	for {
		held := copy(l.in, c.held)
		n, err := c.tls.Read(l.in[held:])
		if n > 0 {
			rest, err := l.settle(c, l.in[:held+n])
			if c.held = append(c.held[:0], rest...); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, nothingYet):
			return nil
		case errors.Is(err, io.EOF):
			return errClosed
		case err != nil:
			return err
		}
	}
}
