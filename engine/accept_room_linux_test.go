package engine

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/hone-go/hone/internal/sys"
)

// Connections with unread bytes do not make room, and whoever asks may be the loop that would
// have to read them: it gives up after one look.
func TestUnreadConnectionsDoNotHoldUpTheirLoop(t *testing.T) {
	s := bare(Limits{Conns: 2})
	s.spoken.Store(&[]*spoken{newSpoken(always{})})
	f := newFlusher(s)
	s.flushers = append(s.flushers, f)
	now := s.clock.Read() + 60_000
	s.clock.Set(now)
	for range 2 {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(fds[0])
		defer syscall.Close(fds[1])
		if _, err := syscall.Write(fds[1], []byte("unread")); err != nil {
			t.Fatal(err)
		}
		k, why := f.take()
		if why != 0 {
			t.Fatal(why)
		}
		k.owner().begin(&arrival{}, sys.Socket(fds[0]), nil)
		k.s.opened, k.s.spoken = true, true
		k.held().setAway(false)
		k.s.seen.Store(now - 10_000)
		k.s.mu.Unlock()
	}
	if s.askIdlest(netip.Addr{}) {
		t.Error("a connection with unread bytes makes room")
	}
}
