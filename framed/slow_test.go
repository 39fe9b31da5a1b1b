package framed_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

func serveNarrow(t *testing.T, s *framed.Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, s, testrun.Narrow{Listener: ln})
}

// filler returns content whose bytes depend on their position.
func filler(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}

// replies answers every request with content.
func replies(content []byte) framed.HandlerFunc {
	return func(_ framed.Call, dst, _ []byte) ([]byte, error) { return append(dst, content...), nil }
}

// repliesLate does so from its own goroutine, which ends after the server.
func repliesLate(t *testing.T, content []byte) framed.HandlerFunc {
	promised := make(chan framed.Reply, 1<<16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for r := range promised {
			r.Send(content) // its connection may have ended, which these tests are about
		}
	}()
	t.Cleanup(func() {
		close(promised)
		<-done
	})
	return func(c framed.Call, dst, _ []byte) ([]byte, error) {
		promised <- c.Later()
		return dst, nil
	}
}

// eachWay runs test on every engine with inline and with late replies.
func eachWay(t *testing.T, content []byte, test func(t *testing.T, e engine.Engine, h framed.Handler)) {
	t.Helper()
	together.eachWay(t, content, test)
}

func (m manner) eachWay(t *testing.T, content []byte, test func(t *testing.T, e engine.Engine, h framed.Handler)) {
	t.Helper()
	m.run(t, func(t *testing.T, e engine.Engine) {
		t.Run("inline", func(t *testing.T) {
			m.share(t)
			test(t, e, replies(content))
		})
		t.Run("late", func(t *testing.T) {
			m.share(t)
			test(t, e, repliesLate(t, content))
		})
	})
}

// requests returns n of them, numbered from 0.
func requests(n int) (b []byte) {
	for id := range uint64(n) {
		b = append(b, submit(id, "")...)
	}
	return b
}

// liveMemory returns the heap and stack memory in use after a garbage collection. Memory
// allocated during one counts as live, so it takes the lower of two results.
func liveMemory() int64 {
	runtime.GC() // pools keep their victims until the second
	m := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	least := int64(math.MaxInt64)
	for range 2 {
		runtime.GC()
		metrics.Read(m)
		least = min(least, int64(m[0].Value.Uint64()+m[1].Value.Uint64()))
	}
	return least
}

func TestPeersThatNeverReadAreClosedAndCostLittle(t *testing.T) {
	// Twice the hard cap when the queue has just doubled, and its former buffer awaits
	// garbage collection; on a busy machine more of that is visible.
	const peers, most = 20, 3 << 19
	inTurn.eachWay(t, filler(8<<10), func(t *testing.T, e engine.Engine, h framed.Handler) {
		s := &framed.Server{Engine: e, Handler: h, Limits: engine.Limits{StallTime: 300 * time.Millisecond}}
		addr := serve(t, s)
		healthy := dial(t, addr)
		before := liveMemory()
		for range peers {
			dial(t, addr).pour(requests(2000))
		}
		var peak int64
		// A queue has its full size for StallTime, so five looks at it are enough.
		eventuallyEvery(t, 60*time.Millisecond, "all connections are closed", func() bool {
			peak = max(peak, liveMemory()-before)
			begun := time.Now()
			healthy.send(submit(1, ""))
			if got := healthy.packet(); got.ID != 1 || len(got.Content) != 8<<10 {
				t.Fatalf("the healthy peer got %+v", got)
			}
			if took := time.Since(begun); took > patience/2 {
				t.Fatalf("the healthy peer waited %v", took)
			}
			ended := s.Stats().Ended
			return ended[engine.WriteStall]+ended[engine.SlowReader] == peers
		})
		t.Logf("at most %d KiB per peer", peak/peers>>10)
		if peak/peers > most {
			t.Errorf("a peer that does not read costs %d bytes, want %d at most", peak/peers, most)
		}
		if n := s.Stats().Ended[engine.SlowReader]; n > 0 && t.Name()[len(t.Name())-6:] == "inline" {
			t.Errorf("%d connections count as slow readers, but nothing was posted to them", n)
		}
		eventually(t, "only the healthy peer is left, and no output is queued", func() bool {
			now := s.Stats()
			return now.Open == 1 && now.Waiting == 0
		})
	})
}

// A slow reader gets everything, as long as it reads something.
func TestSlowButSteadyReaderGetsEverything(t *testing.T) {
	content := filler(8 << 10)
	waiting.eachWay(t, content, func(t *testing.T, e engine.Engine, h framed.Handler) {
		// It takes longer than StallTime, which is long enough that a busy machine does
		// not cause a stall.
		const n = 130
		s := &framed.Server{Engine: e, Handler: h, Limits: engine.Limits{StallTime: time.Second, HardCap: 4 << 20}}
		p := dial(t, serveNarrow(t, s))
		p.pour(requests(n))
		readSteadily(t, p, n, content, 8<<10, 10*time.Millisecond)
		p.exchangeFiller(n, content)
	})
}

// The kernel may buffer MiB of replies and report writability only when a third of that
// has been sent. A peer that reads all the time must not be closed for it.
func TestSteadyReaderBehindLargeKernelBuffersIsNoStall(t *testing.T) {
	content := filler(63 << 10)
	waiting.eachWay(t, content, func(t *testing.T, e engine.Engine, h framed.Handler) {
		const n = 120
		s := &framed.Server{Engine: e, Handler: h, Limits: engine.Limits{StallTime: 300 * time.Millisecond, HardCap: 16 << 20}}
		p := dial(t, serve(t, s))
		p.pour(requests(n))
		// 2 MiB/s: less than a third of the server's kernel buffer in 300 ms, more than
		// the sixteenth by which the peer's kernel reopens its window.
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		got := 0
		for until := time.Now().Add(900 * time.Millisecond); time.Now().Before(until); {
			<-tick.C
			k, err := io.ReadFull(p.r, make([]byte, 40<<10))
			if got += k; err != nil {
				t.Fatalf("cut off after %d bytes: %v", got, err)
			}
			for why, n := range s.Stats().Ended {
				if n > 0 {
					t.Fatalf("ended for %v while it read 2 MiB/s, after %d bytes", engine.Reason(why), got)
				}
			}
		}
	})
}

// readSteadily reads the replies 0 to n-1 in any order, in small pieces with pauses.
func readSteadily(t *testing.T, p *peer, n int, content []byte, piece int, every time.Duration) {
	t.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var in []byte
	seen := map[uint64]bool{}
	for len(seen) < n {
		<-tick.C
		b := make([]byte, piece)
		k, err := p.Read(b)
		if err != nil {
			t.Fatalf("cut off after %d replies: %v", len(seen), err)
		}
		in = append(in, b[:k]...)
		for {
			payload, need, err := wire.Frame(in, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			if need > 0 {
				break
			}
			got, err := wire.Standard.Parse(payload)
			if err != nil || seen[got.ID] || got.ID >= uint64(n) || !bytes.Equal(got.Content, content) {
				t.Fatalf("reply %d is wrong (%v) or a duplicate", got.ID, err)
			}
			seen[got.ID] = true
			in = in[wire.HeaderSize+len(payload):]
		}
	}
}

// exchangeFiller is exchange for a handler that answers with content.
func (p *peer) exchangeFiller(id uint64, content []byte) {
	p.t.Helper()
	p.send(submit(id, ""))
	if got := p.packet(); got.ID != id || !bytes.Equal(got.Content, content) {
		p.t.Fatalf("got reply %d with %d bytes, want %d with %d", got.ID, len(got.Content), id, len(content))
	}
}

// conns hands the connections of requests to the test.
func conns() (framed.HandlerFunc, <-chan framed.Conn) {
	known := make(chan framed.Conn, 1000)
	return func(c framed.Call, dst, req []byte) ([]byte, error) {
		known <- c.Conn()
		return append(dst, req...), nil
	}, known
}

func TestPushToPeerThatNeverReadsSaysSlowReader(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, known := conns()
		s := &framed.Server{Engine: e, Handler: h}
		addr := serveNarrow(t, s)
		healthy := dial(t, addr)
		healthy.exchange(1, "")
		friend := <-known
		dial(t, addr).send(submit(1, ""))
		deaf := <-known
		news := filler(8 << 10)
		var err error
		for i := uint64(0); err == nil && i < 10_000; i++ {
			err = deaf.Push(i, news)
			if i%16 == 0 {
				if err := friend.Push(i, news); err != nil {
					t.Fatalf("push to the healthy peer: %v", err)
				}
				if got := healthy.packet(); got.Command != wire.Deliver || got.ID != i || !bytes.Equal(got.Content, news) {
					t.Fatalf("the healthy peer got %v %d", got.Command, got.ID)
				}
			}
		}
		if err != engine.SlowReader {
			t.Fatalf("Send to a peer that never reads returned %v, want SlowReader", err)
		}
		if err := deaf.Push(0, news); err != framed.ErrClosed {
			t.Errorf("the Send after that returned %v, want ErrClosed", err)
		}
		ended(t, s, engine.SlowReader, 1)
		healthy.exchange(2, "still here")
		eventually(t, "no output is queued", func() bool { return s.Stats().Waiting == 0 })
	})
}

// HardCap limits what is queued after a reply, not the size of a reply.
func TestOneReplyLargerThanHardCapPasses(t *testing.T) {
	content := filler(2 << 20)
	eachWay(t, content, func(t *testing.T, e engine.Engine, h framed.Handler) {
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: h}))
		p.exchangeFiller(1, content)
		p.exchangeFiller(2, content)
	})
	run(t, func(t *testing.T, e engine.Engine) {
		h, known := conns()
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: h}))
		p.exchange(1, "")
		c := <-known
		for id := range uint64(3) {
			if err := c.Push(id, content); err != nil {
				t.Fatalf("push of 2 MiB: %v", err)
			}
			if got := p.packet(); got.ID != id || !bytes.Equal(got.Content, content) {
				t.Fatalf("got %v %d with %d bytes", got.Command, got.ID, len(got.Content))
			}
		}
	})
}

// The same when something small has just been queued before it: a peer that has read
// everything so far is not a slow reader.
func TestLargeReplyBehindASmallOnePassesWhenThePeerReads(t *testing.T) {
	large := filler(1 << 20)
	run(t, func(t *testing.T, e engine.Engine) {
		h, known := conns()
		s := &framed.Server{Engine: e, Handler: h}
		p := dial(t, serve(t, s))
		p.exchange(1, "")
		c := <-known
		for range testrun.Sized(15, 60) {
			for _, content := range [][]byte{large[:10], large[:10], large} {
				if err := c.Push(1, content); err != nil {
					t.Fatalf("push of %d bytes to a peer that has read everything: %v", len(content), err)
				}
			}
			for _, content := range [][]byte{large[:10], large[:10], large} {
				if got := p.packet(); !bytes.Equal(got.Content, content) {
					t.Fatalf("got %d bytes, want %d", len(got.Content), len(content))
				}
			}
		}
	})
}

func TestAllOutputTogetherIsBoundedAndTheSlowestGo(t *testing.T) {
	const peers, budget = 50, 1 << 20
	content := filler(160 << 10) // more than the kernel buffers
	waiting.eachWay(t, content, func(t *testing.T, e engine.Engine, h framed.Handler) {
		s := &framed.Server{Engine: e, Handler: h, Limits: engine.Limits{TotalOutput: budget, HardCap: 64 << 20}}
		addr := serveNarrow(t, s)
		healthy := dial(t, addr)
		var peak int64
		for range peers {
			dial(t, addr).pour(requests(20))
			healthy.beat(1)
			peak = max(peak, s.Stats().Waiting)
		}
		over := time.Now()
		eventuallyEvery(t, 10*time.Millisecond, "the budget holds, and a connection was closed for it", func() bool {
			healthy.beat(2)
			now := s.Stats()
			peak = max(peak, now.Waiting)
			return now.Ended[engine.OutputBudget] > 0 && now.Waiting <= budget
		})
		t.Logf("%d closed; at most %d KiB queued; within the budget after %v", s.Stats().Ended[engine.OutputBudget], peak>>10, time.Since(over))
		for why, n := range s.Stats().Ended {
			if n > 0 && engine.Reason(why) != engine.OutputBudget {
				t.Errorf("%d ended for %v", n, engine.Reason(why))
			}
		}
	})
}

// The budget evicts peers that do not read. A reply in transit to a peer that reads must
// not count against that peer.
func TestPeersThatReadDoNotPayForTheBudget(t *testing.T) {
	content, rounds := filler(160<<10), 1
	if testrun.All() {
		rounds = 3
	}
	waiting.run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: replies(content), Limits: engine.Limits{TotalOutput: 1 << 20}}
		addr := serveNarrow(t, s)
		longest := pauses(t)
		over := make(chan struct{})
		cutOff := make(chan error, 4)
		for range cap(cutOff) {
			p := dial(t, addr)
			go func() { cutOff <- p.readUntil(over, content) }()
		}
		for range rounds {
			before := s.Stats().Ended[engine.OutputBudget]
			for range 20 {
				dial(t, addr).pour(requests(20))
			}
			eventually(t, "the budget is enforced", func() bool {
				now := s.Stats()
				return now.Ended[engine.OutputBudget] > before && now.Waiting <= 1<<20
			})
		}
		close(over)
		for range cap(cutOff) {
			// A client that gets no CPU time does not read, and closing it is correct.
			if err, away := <-cutOff, longest(); err != nil && away > 100*time.Millisecond {
				t.Logf("a peer: %v; but the machine did not run its goroutines for %v", err, away)
			} else if err != nil {
				t.Errorf("a peer that never stopped reading: %v", err)
			}
		}
	})
}

// pauses measures for how long at a time goroutines of this process are not run.
func pauses(t *testing.T) (longest func() time.Duration) {
	var most atomic.Int64
	var watching sync.WaitGroup
	over := make(chan struct{})
	watching.Go(func() {
		const step = 10 * time.Millisecond
		tick := time.NewTicker(step)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-over:
				return
			case <-tick.C:
				now := time.Now()
				most.Store(max(most.Load(), int64(now.Sub(last)-step)))
				last = now
			}
		}
	})
	t.Cleanup(func() {
		close(over)
		watching.Wait()
	})
	return func() time.Duration { return time.Duration(most.Load()) }
}

// readUntil sends requests and reads the replies, one at a time.
func (p *peer) readUntil(over <-chan struct{}, content []byte) error {
	for id := uint64(0); ; id++ {
		select {
		case <-over:
			return nil
		default:
		}
		if _, err := p.Write(submit(id, "")); err != nil {
			return err
		}
		if got, err := p.tryPacket(); err != nil {
			return err
		} else if got.ID != id || !bytes.Equal(got.Content, content) {
			return errors.New("a wrong reply")
		}
	}
}

// beat exchanges one heartbeat.
func (p *peer) beat(id uint64) {
	p.t.Helper()
	p.send(wire.Standard.Append(nil, wire.Packet{Command: wire.Conn, ID: id}))
	p.want(wire.Standard.Append(nil, wire.Packet{Command: wire.ConnAck, ID: id}))
}

// Requests of a client that does not read replies stay in its own kernel until it has
// read (backpressure).
func TestHighWaterStopsServingUntilThePeerReads(t *testing.T) {
	const n = 1000
	content := filler(8 << 10)
	eachWay(t, content, func(t *testing.T, e engine.Engine, h framed.Handler) {
		var calls atomic.Int64
		counting := framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			calls.Add(1)
			return h.Handle(c, dst, req)
		})
		s := &framed.Server{Engine: e, Handler: counting, Limits: engine.Limits{InFlight: 8, HardCap: 1 << 20}}
		p := dial(t, serveNarrow(t, s))
		p.pour(requests(n))
		served := settled(t, &calls)
		t.Logf("%d of %d requests served to a peer that does not read", served, n)
		if served > 100 {
			t.Errorf("%d requests of %d served to a peer that does not read", served, n)
		}
		seen := map[uint64]bool{}
		for range n {
			got := p.packet()
			if seen[got.ID] || !bytes.Equal(got.Content, content) {
				t.Fatalf("reply %d is wrong or a duplicate", got.ID)
			}
			seen[got.ID] = true
		}
		p.closeWrite()
		p.wantEnd()
		if calls.Load() != n {
			t.Errorf("%d handler calls for %d requests", calls.Load(), n)
		}
	})
}

// settled returns a counter's value after it has not changed for a while.
func settled(t *testing.T, counter *atomic.Int64) int64 {
	t.Helper()
	last, since := int64(-1), time.Now()
	eventually(t, "a counter stops changing", func() bool {
		if now := counter.Load(); now != last {
			last, since = now, time.Now()
		}
		return last > 0 && time.Since(since) > 100*time.Millisecond
	})
	return last
}

// Closing a server does not wait for peers that do not read.
func TestCloseDoesNotWaitForPeersThatDoNotRead(t *testing.T) {
	eachWay(t, filler(8<<10), func(t *testing.T, e engine.Engine, h framed.Handler) {
		s := &framed.Server{Engine: e, Handler: h, Limits: engine.Limits{HardCap: 1 << 20, InFlight: 8, StallTime: -1}}
		addr := serveNarrow(t, s)
		for range 10 {
			dial(t, addr).pour(requests(100))
		}
		eventually(t, "all are served, and output is queued", func() bool {
			now := s.Stats()
			return now.Open == 10 && now.Waiting > 10*1000
		})
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		if err := heard(t, closed, "Close returns"); err != nil && !errors.Is(err, framed.ErrServerClosed) {
			t.Error(err)
		}
		if now := s.Stats(); now.Open != 0 || now.Ended[engine.Forced] != 10 {
			t.Errorf("after Close: %d open, %d forced, want 0 and 10", now.Open, now.Ended[engine.Forced])
		}
	})
}

// A client for whose unfinished message there is no memory gets the refusal "overloaded".
func TestPeerHearsThatThereIsNoRoomForItsMessage(t *testing.T) {
	half := submit(1, string(filler(60<<10)))
	half = half[:len(half)-1]
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{TotalInput: 64 << 10}}
		addr := serve(t, s)
		eventually(t, "a client is refused", func() (refused bool) {
			var peers []*peer
			for range 3 { // the first fills the budget, until it is evicted for that
				p := dial(t, addr)
				<-p.pour(half)
				peers = append(peers, p)
			}
			for _, p := range peers {
				got, err := p.tryPacket()
				refused = refused || err == nil && got.Command == wire.ConnAck && got.Result == wire.Overloaded
				p.Close()
			}
			return refused
		})
	})
}
