package engine_test

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// Large replies do not keep the other connections of their loop waiting: while
// peers take 64 MB each as fast as they come, a ping takes 6 ms at most, or as long
// as it does on an engine with a goroutine for each connection.
func TestLargeRepliesDoNotHoldOthersUp(t *testing.T) {
	const rounds, most = 7, 6 * time.Millisecond
	loops := slices.DeleteFunc(over(overTCP), func(g ground) bool { return !g.isLoop() })
	oneByOne(t, loops, func(t *testing.T, g ground) {
		procs := runtime.GOMAXPROCS(1) // one loop, for all connections
		defer runtime.GOMAXPROCS(procs)
		oracle, loop := newLargeReplies(t, ground{engine.Buffered(0), overTCP}), newLargeReplies(t, g)
		runtime.GOMAXPROCS(8) // and the clients beside it
		var want, got []time.Duration
		for range rounds { // in turns: what else the machine does slows both
			want = append(want, oracle.longestPing(t))
			got = append(got, loop.longestPing(t))
		}
		slices.Sort(want)
		slices.Sort(got)
		// Other work on this machine only adds: a good round shows what the loop does.
		if bound := max(most, want[rounds/2]); got[0] > bound {
			t.Errorf("in %d rounds the longest ping took %v, and %v with a goroutine for each connection; in the best it may be %v", rounds, got, want, bound)
		}
	})
}

// largeReplies is a server with peers that ask for large replies, and one that
// asks for small ones.
type largeReplies struct {
	pinger  *client
	readers []*client
	size    int
}

func newLargeReplies(t *testing.T, g ground) (l largeReplies) {
	const readers = 6
	l.size = 64 << 20
	if underRace() {
		l.size = 1 << 20 // the detector looks at every byte
	}
	large := bytes.Repeat([]byte("."), l.size)
	s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
		if string(line) == "large" {
			t.Out = append(large, t.Out...) // which copies nothing: the handler takes no time
			return nil
		}
		return say(t, "answer")
	}})
	l.pinger = s.dial(t)
	l.pinger.ask("ping", "answer")
	for range readers {
		c := s.dial(t)
		c.ask("ping", "answer")
		l.readers = append(l.readers, c)
	}
	return l
}

// longestPing is what the slowest ping took while every reader took a reply.
func (l largeReplies) longestPing(t *testing.T) (longest time.Duration) {
	var reading sync.WaitGroup
	for _, c := range l.readers {
		c.send("large\n")
		reading.Go(func() { discard(t, c, l.size) })
	}
	done := make(chan struct{})
	go func() { reading.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return longest
		case <-time.After(time.Millisecond):
			begun := time.Now()
			l.pinger.ask("ping", "answer")
			longest = max(longest, time.Since(begun))
		}
	}
}

// underRace reports whether the race detector watches this process.
func underRace() bool {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// discard takes n bytes without copying them, faster than anybody can send.
func discard(t *testing.T, c *client, n int) {
	raw, err := c.Conn.(*net.TCPConn).SyscallConn()
	nowhere := make([]byte, 4<<20)
	for n > 0 && err == nil {
		done := 0
		if e := raw.Read(func(fd uintptr) bool {
			done, _, err = syscall.Recvfrom(int(fd), nowhere, syscall.MSG_TRUNC)
			return err != syscall.EAGAIN
		}); e != nil {
			err = e
		}
		if err == nil && done == 0 {
			err = io.ErrUnexpectedEOF
		}
		n -= done
	}
	if err != nil {
		t.Errorf("taking a large reply: %v", err)
	}
}
