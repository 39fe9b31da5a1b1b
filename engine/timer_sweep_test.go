package engine

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine/internal/timing"
)

// A sweep over many connections allocates nothing: on a busy server it runs four times a
// second.
func TestSweepAllocates0(t *testing.T) {
	s := bare(Limits{})
	f := newFlusher(s)
	s.flushers = append(s.flushers, f)
	for i := range 3 * chunkSlots {
		k, why := f.take()
		if why != 0 {
			t.Fatal(why)
		}
		k.s.mu.Lock()
		k.held().setAway(false)
		k.touch()
		if i%2 == 0 {
			k.held().attach()
		}
		k.s.mu.Unlock()
	}
	now := s.clock.Read() // not later, however slow the test is: verdicts may allocate
	if n := testing.AllocsPerRun(20, func() { s.judgeAll(now, now) }); n != 0 {
		t.Errorf("%v allocations per sweep, want 0", n)
	}
}

func BenchmarkSweep(b *testing.B) {
	s := bare(Limits{})
	f := newFlusher(s)
	s.flushers = append(s.flushers, f)
	const conns = 50_000
	for range conns {
		k, why := f.take()
		if why != 0 {
			b.Fatal(why)
		}
		k.held().setAway(false)
		k.touch()
	}
	b.ReportAllocs()
	for b.Loop() {
		now := s.clock.Read()
		s.judgeAll(now, now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/conns, "ns/conn")
}

// After the clock stood still, because the machine was busy or the process stopped, no
// connection looks older than it is.
func TestLateSweepStrikesNobodyEarly(t *testing.T) {
	s := bare(Limits{})
	f := newFlusher(s)
	s.flushers = append(s.flushers, f)
	k, why := f.take()
	if why != 0 {
		t.Fatal(why)
	}
	k.held().setAway(false)
	s.clock.Age(time.Hour)
	s.clock.Read()
	k.touch()
	s.clock.Age(time.Hour) // an hour without a sweep until now
	now := s.readLate()
	if age := now - k.s.seen.Load(); age != 0 {
		t.Errorf("a connection with a timestamp from a stopped clock is %d ms old", age)
	}
	s.clock.Park(true) // an idle server does not sweep: its timestamps are right
	s.clock.Age(time.Minute)
	if age := s.readLate() - k.s.seen.Load(); age < 59_000 {
		t.Errorf("a minute of idleness counts as %d ms", age)
	}
}

// taking owes a late reply to each line "later", and gives the socket away at "take".
type taking struct {
	replies chan Reply
	serve   func(nc net.Conn, unread []byte) ([]byte, bool)
}

func (p taking) Advance(t *Turn, in []byte) (used, need int, err error) {
	for {
		line, _, whole := bytes.Cut(in[used:], []byte("\n"))
		if !whole {
			return used, 1, nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		t.Mark(used)
		used += len(line) + 1
		switch string(line) {
		case "later":
			p.replies <- t.Later()
		case "take":
			t.TakeOver(p.serve)
			return used, 0, nil
		default:
			t.Out = append(t.Out, 'e')
		}
	}
}

func (taking) Refuse(dst, _ []byte, why Reason) []byte { return append(dst, why.String()...) }

// The sweeper condemns a connection that owes a reply for too long before a hand-over. If
// the reply comes before the sentence is carried out, user code has the socket by then:
// the engine enforces no limits, and the requests that follow are answered.
func TestSentenceAfterAHandOver(t *testing.T) {
	for _, e := range append(All(), Events(Inline), Events(Offload)) {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			given, goOn := make(chan struct{}), make(chan struct{})
			p := taking{replies: make(chan Reply, 1), serve: func(nc net.Conn, unread []byte) ([]byte, bool) {
				close(given)
				<-goOn
				if _, err := nc.Write([]byte("TAKEN")); err != nil {
					t.Errorf("user code's write: %v", err)
				}
				return unread, true
			}}
			s := &Server{Protocol: p, Engine: e, Limits: Limits{IdleTime: 100 * time.Millisecond}}
			condemned, carriedOut := false, sync.OnceFunc(func() { close(goOn) })
			s.judged = func(timing.Tick) {
				if condemned {
					carriedOut() // in the sweep before
					return
				}
				for _, c := range s.sweeper.condemned {
					condemned = condemned || c.v == timing.Abort && c.why == IdleTimeout
				}
				if condemned {
					if err := (<-p.replies).Send([]byte("L")); err != nil {
						t.Errorf("the late reply: %v", err)
					}
					<-given
					s.clock.SweepNow()
				}
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- s.Serve(ln) }()
			defer func() { s.Close(); <-served }()
			nc, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			nc.SetDeadline(time.Now().Add(20 * time.Second))
			io.WriteString(nc, "later\ntake\n1\n2\n3\n")
			got := make([]byte, len("LTAKENeee"))
			if n, err := io.ReadFull(nc, got); string(got) != "LTAKENeee" {
				t.Errorf("read %q, %v, want LTAKENeee", got[:n], err)
			}
		})
	}
}

// A suspicion is judged by the clock that stores the timestamps: while the sweeper is
// starved, that clock stands, and an active connection must not look idle.
func TestSuspicionWhileTheClockStands(t *testing.T) {
	s := bare(Limits{})
	k := s.bareConn()
	k.touch()
	s.clock.Age(time.Hour) // without a sweep
	k.touch()
	k.s.suspect = IdleTimeout
	if k.held().reconsider(); k.reason() != 0 {
		t.Errorf("an active connection ends for %v", k.reason())
	}
	now := s.clock.Read()
	k.s.suspect = IdleTimeout
	if k.held().reconsider(); k.reason() != IdleTimeout {
		t.Errorf("a connection that was idle until %d ends for %v", now, k.reason())
	}
}
