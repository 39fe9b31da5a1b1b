package engine

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/internal/fakenet"
)

// failing is a listener whose Accept fails some times, and counts its calls.
type failing struct {
	*fakenet.Listener
	fault error
	times int32
	calls atomic.Int32
}

func (l *failing) Accept() (net.Conn, error) {
	if l.calls.Add(1) <= l.times {
		return nil, l.fault
	}
	return l.Listener.Accept()
}

func (l *failing) on(ln *fakenet.Listener) net.Listener {
	l.Listener = ln
	return l
}

// passing is a temporary error.
type passing struct{}

func (passing) Error() string   { return "not now" }
func (passing) Timeout() bool   { return false }
func (passing) Temporary() bool { return true }

// Serve tries again after an error of Accept that passes, after pauses that double.
func TestAcceptErrorsThatPassAreWaitedOut(t *testing.T) {
	const five = (5 + 10 + 20 + 40 + 80) * time.Millisecond
	lacks := func(errno syscall.Errno) error {
		return &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", errno)}
	}
	for _, x := range []struct {
		fault  error
		pauses time.Duration
	}{
		{passing{}, five + 160*time.Millisecond},
		{fmt.Errorf("wrapped: %w", passing{}), five + 160*time.Millisecond},
		{lacks(syscall.EMFILE), five}, // the first of these gives a spare descriptor away
		{lacks(syscall.ENFILE), five},
		{lacks(syscall.ENOBUFS), five},
		{lacks(syscall.ENOMEM), five},
	} {
		t.Run(x.fault.Error(), func(t *testing.T) {
			bubbles(t, func(t *testing.T, e Engine) {
				bad, begun := &failing{fault: x.fault, times: 6}, time.Now()
				r := start(t, e, scripted(echo), Limits{}, bad.on)
				r.dial(t).ask("in the end")
				if took, n := time.Since(begun), bad.calls.Load(); took != x.pauses || n > 8 {
					t.Errorf("six faults took %v and %d calls of Accept, want %v and 8 at most", took, n, x.pauses)
				}
			})
		})
	}
}

// The pause is a second at most, and Close ends it.
func TestCloseEndsThePauseAfterAnAcceptError(t *testing.T) {
	bubbles(t, func(t *testing.T, e Engine) {
		bad := &failing{fault: passing{}, times: 1 << 30}
		r := start(t, e, scripted(echo), Limits{}, bad.on)
		pause(10*time.Minute + 100*time.Millisecond)
		if n := bad.calls.Load(); n < 600 || n > 620 {
			t.Errorf("Accept was called %d times in ten minutes, want once a second", n)
		}
		begun := time.Now()
		r.close()
		if took := time.Since(begun); took > 0 {
			t.Errorf("Serve returned %v after Close", took)
		}
	})
}

// An Events server whose connections are adapters starts no loops, which would block in the kernel.
func TestEventsStartsLoopsForSocketsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ln := &Server{Protocol: scripted(echo), Engine: Events(Auto)}, fakenet.Listen()
		ln.Wrap = func(c *fakenet.Conn) net.Conn { return struct{ net.Conn }{c} }
		served := make(chan error, 1)
		go func() { served <- s.Serve(struct{ net.Listener }{ln}) }()
		nc, _ := ln.Dial()
		c := &client{Conn: nc, t: t, r: bufio.NewReader(nc)}
		c.ask("hello")
		if n := len(s.started()); n > 0 {
			t.Fatalf("%d loops run", n) // otherwise the bubble hangs
		}
		pause(time.Minute)
		c.ask("hello")
		c.Close()
		s.Close()
		<-served
	})
}
