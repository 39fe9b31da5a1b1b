package engine_test

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/sys"
)

// Large replies do not stall the other connections of their loop: while peers read 32 MiB
// each as fast as they arrive, the loop polls again before it has sent more than a small
// part to each. Counting bytes instead of measuring a ping makes the test independent of
// the machine's load.
func TestLargeRepliesDoNotHoldOthersUp(t *testing.T) {
	// Twice what a connection is sent at a time, because a handler off its loop may write
	// once between two writes of the loop.
	const readers, size, most = 6, 32 << 20, 512 << 10
	loops := slices.DeleteFunc(over(overTCP), func(g ground) bool { return !g.isLoop() })
	oneByOne(t, loops, func(t *testing.T, g ground) {
		large := bytes.Repeat([]byte("."), size)
		procs := runtime.GOMAXPROCS(1) // one loop, for all connections
		defer runtime.GOMAXPROCS(procs)
		ln := &weighing{Listener: listen(t, overTCP)}
		s := serveOn(t, g, ln, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "large" {
				t.Out = append(large, t.Out...) // copies nothing, so that the handler takes no time
				return nil
			}
			return say(t, "answer")
		}}, func(s *engine.Server) {
			// A client that gets no CPU time for a while must not be closed here.
			s.Limits = engine.Limits{StallTime: -1, HardCap: -1, TotalOutput: -1}
		})
		pinger := s.dial(t)
		pinger.SetDeadline(time.Now().Add(4 * patience))
		pinger.ask("ping", "answer")
		runtime.GOMAXPROCS(procs)
		var reading sync.WaitGroup
		for range readers {
			c := s.dial(t)
			c.SetDeadline(time.Now().Add(3 * patience))
			c.send("large\n")
			reading.Go(func() { discard(t, c, size) })
		}
		reading.Wait()
		pinger.ask("ping", "answer")
		if ln.sent.Load() < readers*size {
			t.Fatalf("the listener saw %d bytes sent, want %d: the test proves nothing", ln.sent.Load(), readers*size)
		}
		t.Logf("%d KiB at most", ln.longest.Load()>>10)
		if n := ln.longest.Load(); n > readers*most {
			t.Errorf("a loop sent %d KiB to %d peers before it polled again, want at most %d KiB", n>>10, readers, readers*most>>10)
		}
	})
}

// weighing is a listener that counts the bytes that its event loop sends.
type weighing struct {
	net.Listener
	sent    atomic.Int64
	turn    atomic.Int64 // since a loop last polled
	longest atomic.Int64
}

func (l *weighing) NewPoll() (*sys.Poll, error) {
	return sys.NewPoll(func(c sys.Call, n int) (int, error) {
		switch c {
		case sys.CallWait:
			l.turn.Store(0)
		case sys.CallWrite:
			l.sent.Add(int64(n))
			now := l.turn.Add(int64(n))
			for last := l.longest.Load(); now > last && !l.longest.CompareAndSwap(last, now); last = l.longest.Load() {
			}
		}
		return n, nil
	})
}

// A request that arrives while a loop writes a broadcast is answered after a few of the
// pushes, not after all. The unix socket delivers it before the next push is written.
func TestBroadcastsDoNotHoldRequestsUp(t *testing.T) {
	const crowd, few = 200, 20
	push := []byte("to everybody\n")
	loops := slices.DeleteFunc(over(overUnix), func(g ground) bool { return !g.isInline() }) // one goroutine pushes, then writes
	oneByOne(t, loops, func(t *testing.T, g ground) {
		procs := runtime.GOMAXPROCS(1) // one loop, for all connections
		defer runtime.GOMAXPROCS(procs)
		var pinger atomic.Pointer[client]
		var sent, before atomic.Int32 // pushes written: all, and before the answer to the ping
		ln := &observed{Listener: listen(t, overUnix), write: func(n int) {
			switch {
			case n == len("pong\n"):
				before.Store(sent.Load())
			case n == len(push) && sent.Add(1) == 1:
				io.WriteString(pinger.Load(), "ping\n")
			}
		}}
		var all []engine.Conn // the loop's
		s := serveOn(t, g, ln, lines{serve: func(t *engine.Turn, line []byte) error {
			switch string(line) {
			case "subscribe":
				all = append(all, t.Conn())
				return say(t, "subscribed")
			case "broadcast":
				for _, c := range all {
					c.Push(push)
				}
				return nil
			}
			return say(t, "pong")
		}})
		var clients []*client
		for range crowd {
			c := s.dial(t)
			c.ask("subscribe", "subscribed")
			clients = append(clients, c)
		}
		pinger.Store(s.dial(t))
		s.dial(t).send("broadcast\n")
		for _, c := range clients {
			c.want(string(push))
		}
		pinger.Load().want("pong\n")
		if n := before.Load(); n > few {
			t.Errorf("the ping was answered after %d of %d pushes, want at most %d", n, sent.Load(), few)
		}
	})
}

// observed is a listener that reports the size of each write of its event loops.
type observed struct {
	net.Listener
	write func(n int)
}

func (l *observed) NewPoll() (*sys.Poll, error) {
	return sys.NewPoll(func(c sys.Call, n int) (int, error) {
		if c == sys.CallWrite {
			l.write(n)
		}
		return n, nil
	})
}

// discard reads n bytes without copying them, faster than any server can send.
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
		t.Errorf("reading a large reply: %v", err)
	}
}

// A CPU-bound handler off its loop yields the processor every 50 µs. The loop polls each
// time, or nearly: it does not wait for Go's poller, which would poll every 10 ms.
func TestLoopsLookBesideHandlersThatCompute(t *testing.T) {
	const slices, slice = 200, 50 * time.Microsecond
	oneByOne(t, []ground{{engine.Events(engine.Auto), overTCP}}, func(t *testing.T, g ground) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		ln := &counting{Listener: listen(t, overTCP)}
		looks := make(chan int64, 1)
		s := serveOn(t, g, ln, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "compute" {
				t.Leave()
				before := ln.looks.Load()
				for range slices {
					for began := time.Now(); time.Since(began) < slice; {
					}
					runtime.Gosched()
				}
				looks <- ln.looks.Load() - before
			}
			return say(t, "answer")
		}})
		c := s.dial(t)
		c.ask("compute", "answer")
		if n := <-looks; n < slices/2 {
			t.Errorf("the loop polled %d times in %d pauses", n, slices)
		}
	})
}

// counting is a listener that counts how often its event loops poll.
type counting struct {
	net.Listener
	looks atomic.Int64
}

func (l *counting) NewPoll() (*sys.Poll, error) {
	return sys.NewPoll(func(c sys.Call, n int) (int, error) {
		if c == sys.CallWait {
			l.looks.Add(1)
		}
		return n, nil
	})
}
