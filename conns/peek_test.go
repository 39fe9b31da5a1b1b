//go:build unix && !aix

package conns_test

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/conns"
)

// Unread bytes, the end of the stream, a reset and an expired deadline are detected in
// the socket itself, without a round trip: a late reply must not reach the next borrower,
// and a server's idle timeout must not fail a request (fasthttp #1875).
func TestSocketsAreLookedAt_fasthttp1875(t *testing.T) {
	before := descriptors(t)
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, client, server net.Conn)
		reuse bool
	}{
		{"as it was", func(*testing.T, net.Conn, net.Conn) {}, true},
		{"unread bytes", func(t *testing.T, client, server net.Conn) { server.Write([]byte("late")) }, false},
		{"end of stream", func(t *testing.T, client, server net.Conn) { server.Close() }, false},
		{"reset", func(t *testing.T, client, server net.Conn) {
			server.(*net.TCPConn).SetLinger(0)
			server.Close()
		}, false},
		{"expired deadline", func(t *testing.T, client, server net.Conn) { client.SetDeadline(time.Unix(1, 0)) }, false},
		{"closed by its borrower", func(t *testing.T, client, server net.Conn) { client.Close() }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			accepted := make(chan net.Conn, 2)
			var dialer net.Dialer
			p := conns.New(conns.Config[net.Conn]{
				Dial: func(ctx context.Context) (net.Conn, error) {
					return dialer.DialContext(ctx, "tcp", ln.Addr().String())
				},
				AlwaysAsk: true,
			})
			var accepting sync.WaitGroup
			accepting.Go(func() {
				defer close(accepted)
				for {
					nc, err := ln.Accept()
					if err != nil {
						return
					}
					accepted <- nc
				}
			})
			l, err := p.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			client, server := l.Conn(), <-accepted
			c.spoil(t, client, server)
			arrived(t, client, c.name)
			l.Release()
			l, err = p.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if (l.Conn() == client) != c.reuse {
				t.Errorf("the same connection: %v", !c.reuse)
			}
			l.Release()
			if err := p.Close(t.Context()); err != nil {
				t.Error(err)
			}
			server.Close()
			ln.Close()
			accepting.Wait()
			for nc := range accepted {
				nc.Close()
			}
		})
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
}

// arrived waits until the client's socket is readable after the server's action, without
// reading a byte.
func arrived(t *testing.T, client net.Conn, what string) {
	switch what {
	case "unread bytes", "end of stream", "reset":
	default:
		return
	}
	raw, err := client.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	client.SetReadDeadline(time.Now().Add(10 * time.Second))
	defer client.SetReadDeadline(time.Time{})
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		return err != syscall.EAGAIN
	})
	if err != nil {
		t.Error(err)
	}
}

// An in-memory pipe has no socket: peek checks nothing and reports no error.
func TestWhatIsNoSocketIsNotLookedAt(t *testing.T) {
	var servers []net.Conn
	p := conns.New(conns.Config[net.Conn]{
		Dial: func(context.Context) (net.Conn, error) {
			client, server := net.Pipe()
			servers = append(servers, server)
			return client, nil
		},
		AlwaysAsk: true,
	})
	for range 3 {
		if err := p.Do(t.Context(), func(context.Context, net.Conn) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := servers[0].Read(make([]byte, 1)); err == nil || len(servers) != 1 {
		t.Errorf("%d dials, and the first connection was not closed", len(servers))
	}
}

// descriptors counts the open descriptors, where the system supports it.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Log("descriptors are not counted: ", err)
	}
	return len(all)
}
