package engine

import (
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// polledPair returns a Poll, and a pair of connected sockets that it does not know yet.
func polledPair(t *testing.T, fault sys.Fault) (poll *sys.Poll, fds [2]int) {
	t.Helper()
	poll, err := sys.NewPoll(fault)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { poll.Close() })
	if fds, err = syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Close(fds[0])
		syscall.Close(fds[1])
	})
	return poll, fds
}

// A peer whose socket is full again, after it has read everything that was written before,
// counts as one that has just read: it must not be closed for the output budget.
func TestReaderIsNoBurdenWhenItsSocketFillsUpAgain(t *testing.T) {
	s := bare(Limits{})
	poll, fds := polledPair(t, nil)
	syscall.SetsockoptInt(fds[0], syscall.SOL_SOCKET, syscall.SO_SNDBUF, 1) // the kernel's minimum: about 4 KiB
	sh := s.bareShard()
	sh.poll = poll
	k := taken(t, sh)
	k.owner().begin(&arrival{}, sys.Socket(fds[0]), nil)
	x := k.held().attach()
	k.s.mu.Unlock()
	push := func() {
		if err := k.conn().Push(make([]byte, 2*s.limits.HighWater)); err != nil {
			t.Fatal(err)
		}
		k.s.mu.Lock()
		k.held().write(x, false)
		k.s.mu.Unlock()
	}
	push()
	push()
	if x.stall.Load() == 0 || x.queue.IsEmpty() {
		t.Fatal("the socket accepted everything: the test proves nothing")
	}
	s.clock.Age(time.Minute)
	s.clock.Read()
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	if !k.held().burdens(x) {
		t.Error("a peer that has read nothing for a minute is no burden")
	}
	for buf := make([]byte, 64<<10); !x.queue.IsEmpty(); k.held().write(x, true) { // until the second push is being written
		if _, err := syscall.Read(fds[1], buf); err != nil {
			t.Fatal(err)
		}
	}
	if k.held().burdens(x) {
		t.Error("a peer that has read all of the first push counts as one that does not read")
	}
}
