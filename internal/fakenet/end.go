package fakenet

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/hone-go/hone/internal/sys"
)

// end is a Conn as a loop has it.
type end struct{ c *Conn }

// End returns the connection for a loop: what may be done with it without waiting.
func (c *Conn) End() sys.End { return end{c} }

// ask asks the connection's fault how much of a call of n bytes it lets through.
func (e end) ask(call sys.Call, n int) (int, error) {
	if e.c.fault == nil || n == 0 {
		return n, nil
	}
	n, err := e.c.fault(call, n)
	switch {
	case errors.Is(err, syscall.EAGAIN) || err == nil && n == 0:
		return 0, sys.ErrAgain
	case err != nil: // it breaks the connection for both ends
		for _, s := range []*stream{e.c.in, e.c.out} {
			s.change(func() { s.reset, s.data = true, nil })
		}
	}
	return n, err
}

func (e end) Read(p []byte) (int, error) {
	n, err := e.ask(sys.CallRead, len(p))
	if err != nil {
		return 0, err
	}
	if n, err = e.c.in.read(p[:n], true); err == io.EOF {
		err = sys.ErrClosed
	}
	return n, err
}

func (e end) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		allowed := 0
		if allowed, err = e.ask(sys.CallWrite, len(p)-n); err == nil {
			allowed, err = e.c.written(e.c.out.write(p[n:n+allowed], true))
			n += allowed
		}
	}
	return n, err
}

func (e end) State() (in, out, broken, hungUp bool) {
	inbound, outbound := e.c.in, e.c.out
	inbound.mu.Lock()
	in = len(inbound.data) > 0 || inbound.finished || inbound.reset
	over := inbound.finished || inbound.reset
	broken = inbound.reset
	inbound.mu.Unlock()
	outbound.mu.Lock()
	defer outbound.mu.Unlock()
	out = len(outbound.data) <= outbound.limit/2 || outbound.left || outbound.reset
	broken = broken || outbound.reset
	return in, out, broken, over && outbound.finished || broken
}

func (e end) Watch(changed func()) {
	for _, s := range []*stream{e.c.in, e.c.out} {
		s.mu.Lock()
		s.watchers = append(s.watchers[:len(s.watchers):len(s.watchers)], changed)
		s.mu.Unlock()
	}
}

func (e end) CloseWrite() error { return e.c.CloseWrite() }

func (e end) ResetOnClose() { e.c.SetLinger(0) }

func (e end) Close() error { return e.c.Close() }

// Unsent leaves out what a peer's kernel holds for it: half of what the stream does.
func (e end) Unsent() int {
	e.c.out.mu.Lock()
	defer e.c.out.mu.Unlock()
	return max(0, len(e.c.out.data)-e.c.out.limit/2)
}

func (e end) Unread() int { return e.c.Unread() }

func (e end) PeerLeft() bool {
	e.c.in.mu.Lock()
	defer e.c.in.mu.Unlock()
	return e.c.in.finished || e.c.in.reset
}

func (e end) LocalAddr() net.Addr { return e.c.local }

func (e end) Lend() net.Conn { return e.c }
