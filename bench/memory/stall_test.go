//go:build linux

package memory

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/wire"
)

// TestStallRule has peers that never read closed within 1.2 times stall-time, and none of
// those that read steadily.
func TestStallRule(t *testing.T) {
	const stallTime, steadily = 10 * time.Second, 2 * time.Minute
	if !*all {
		t.Skip("takes two minutes; give -args -all")
	}
	hone := build(t)
	ctx, cancel := context.WithTimeout(t.Context(), steadily+time.Minute)
	defer cancel()
	ask := slices.Concat(slices.Repeat([][]byte{wire.Append(nil, wire.Packet{Command: wire.Submit, ID: 1, Content: []byte("reply 60000")})}, 100)...)
	var tests sync.WaitGroup
	for _, engine := range []string{"events", "buffered"} {
		s := start(ctx, t, hone, engine)
		var closed, lost []time.Duration
		var mu sync.Mutex
		var peers sync.WaitGroup
		for range 50 { // never read
			c := dialWith(ctx, t, s.addr, 4096)
			c.Write(ask)
			peers.Go(func() {
				begun := time.Now()
				for intact(c) && ctx.Err() == nil {
					pause(ctx, 50*time.Millisecond)
				}
				mu.Lock()
				closed = append(closed, time.Since(begun))
				mu.Unlock()
			})
		}
		for i := range 20 { // read steadily
			buffer, rate := 4096, 1<<10
			if i%2 == 1 {
				buffer, rate = 65536, 16<<10
			}
			c := dialWith(ctx, t, s.addr, buffer)
			c.Write(ask)
			peers.Go(func() {
				begun := time.Now()
				some := make([]byte, rate/4)
				for time.Since(begun) < steadily {
					if _, err := io.ReadFull(c, some); err != nil {
						mu.Lock()
						lost = append(lost, time.Since(begun))
						mu.Unlock()
						return
					}
					pause(ctx, 250*time.Millisecond)
				}
			})
		}
		tests.Go(func() {
			peers.Wait()
			slices.Sort(closed)
			t.Logf("%s: those that never read were closed after %v to %v", engine, closed[0], closed[len(closed)-1])
			if last := closed[len(closed)-1]; closed[0] < stallTime || last > stallTime*12/10 {
				t.Errorf("%s: closed after %v to %v, want %v to 1.2 times that", engine, closed[0], last, stallTime)
			}
			if len(lost) > 0 {
				t.Errorf("%s: %d of 20 steady readers were closed, after %v", engine, len(lost), lost)
			}
		})
	}
	tests.Wait()
}

// dialWith dials with a receive buffer that is set before the window is told.
func dialWith(ctx context.Context, t *testing.T, addr string, buffer int) *net.TCPConn {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, buffer) })
		return err
	}}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	return c.(*net.TCPConn)
}

// intact asks the kernel, which knows of a reset before anybody reads.
func intact(c *net.TCPConn) (ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		pending, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
		ok = err == nil && pending == 0
	})
	return ok
}
