package engine

import (
	"testing"
	"time"

	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/ration"
	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/internal/sys"
)

// bare returns a server without background goroutines, for tests with plain values.
func bare(l Limits) *Server {
	s := &Server{limits: l.OrDefaults(), places: new(Places)}
	s.places.join(s)
	s.rules = s.limits.rules()
	s.ordered = s.limits.InFlight == 1
	s.clock.Init()
	s.output.Init(s.limits.TotalOutput, &s.buffers.Spares, &s.clock)
	s.input.Init(s.limits.TotalInput, &s.buffers.Buffers, s.clock.SweepNow)
	s.requests.Init(s.limits.TotalInFlight, &s.clock)
	s.running = make(chan struct{})
	s.spoken.Store(&[]*spoken{newSpoken(nil)})
	s.inflights.New = func() any { return new(inflight) }
	return s
}

// bareShard returns a shard without a runner.
func (s *Server) bareShard() *shard {
	sh := &shard{srv: s}
	sh.Bell.Init(func() {})
	sh.chunks.Store(&[]chunk{})
	return sh
}

// bareConn returns a connection of a bare server without an owner.
func (s *Server) bareConn() *connRef {
	k, why := s.bareShard().take()
	if why != 0 {
		panic(why)
	}
	k.owner().begin(&arrival{}, sys.NoSocket, nil)
	k.s.opened, k.s.weight = true, ration.SmallWeight
	k.s.mu.Unlock()
	return &k
}

func TestStampWakesAParkedClock(t *testing.T) {
	s := bare(Limits{})
	c := s.bareConn()
	s.clock.Age(time.Minute)
	s.clock.Park(true)
	c.touch()
	if age := s.clock.Read() - c.s.seen.Load(); age > 10_000 {
		t.Errorf("stored a timestamp %d ms old: the clock was stale", age)
	}
	if s.clock.Parked() || len(s.clock.Kicks()) != 1 {
		t.Error("the sweeper was not woken although there is something to sweep")
	}
}

// The sweeper reads a connection's timestamps while the connection changes them. A phase
// read with the time of another phase, or without one, would be judged by it.
func TestPhaseIsNeverSeenWithoutItsBeginning(t *testing.T) {
	s := bare(Limits{})
	s.clock.Set(1_000_000)
	for _, p := range []life.Phase{life.Finishing, life.Closing, life.Lingering} {
		for round := range 1_000 {
			c := s.bareConn()
			begun := make(chan struct{})
			go func() {
				<-begun
				c.enter(p)
			}()
			close(begun)
			m := c.locked()
			for m.Phase == life.Serving {
				m = c.locked()
			}
			if v, why, _ := s.rules.Judge(m, 1_000_000); v != timing.Live {
				t.Errorf("round %d: a connection that enters phase %d now gets the verdict %v %v: timestamp %d, now 1000000", round, p, v, why, m.Since)
				break
			}
		}
	}
}

// locked returns moments for a test.
func (k *connRef) locked() timing.Moments {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.held().moments()
}

// A sentence may arrive late: the owner, which knows what happened meanwhile, decides.
func TestLateSentences(t *testing.T) {
	for _, x := range []struct {
		name        string
		why         Reason
		frame, seen timing.Tick // ages in ms; 0: not running
		on          bool
	}{
		{"idle, and it is", IdleTimeout, 0, 200_000, false},
		{"idle, but a handler has just returned", IdleTimeout, 0, 1, true},
		{"frame, and it trickles still", FrameTimeout, 6_000, 1, false},
		{"frame, but it is complete", FrameTimeout, 0, 1, true},
		{"frame, but the next one has just begun", FrameTimeout, 1, 1, true},
	} {
		s := bare(Limits{})
		s.clock.Set(1_000_000)
		c := s.bareConn()
		c.s.seen.Store(1_000_000 - x.seen)
		c.s.mu.Lock()
		if x.frame != 0 {
			s.clock.Set(1_000_000 - x.frame)
			c.held().attach().frame.Begin(&s.clock)
			s.clock.Set(1_000_000)
		}
		c.s.suspect = x.why
		if st := life.Next(c.held().facts(nil)); st != life.StepReconsider {
			t.Errorf("%s: the next step is %d", x.name, st)
		}
		c.held().carryOut(life.StepReconsider, nil)
		c.s.mu.Lock()
		if on := life.Next(c.held().facts(nil)) == life.WaitForBytes; on != x.on {
			t.Errorf("%s: continues to read: %v, want %v (ended for %v)", x.name, on, x.on, c.reason())
		}
		c.s.mu.Unlock()
	}
}

func TestClockAllocates0(t *testing.T) {
	s := bare(Limits{})
	c := s.bareConn()
	m := timing.Moments{Seen: 1, Frame: 1, Size: 100, Stall: 1}
	for name, f := range map[string]func(){
		"judge":   func() { s.rules.Judge(m, 2) },
		"moments": func() { m = c.locked() },
		"stamp":   c.touch,
		"enter":   func() { c.enter(life.Closing) },
		"read":    func() { s.clock.Read() },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

func BenchmarkStamp(b *testing.B) {
	c := bare(Limits{}).bareConn()
	for b.Loop() {
		c.touch()
	}
}
