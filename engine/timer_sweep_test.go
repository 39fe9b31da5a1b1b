package engine

import (
	"testing"
	"time"
)

// A sweep over a crowd allocates nothing: it happens four times a second while
// anything else does.
func TestSweepAllocates0(t *testing.T) {
	s := bare(Limits{})
	f := newFlusher(s, 0)
	s.flushers = append(s.flushers, f)
	for i := range 3 * chunkSlots {
		k, err := f.take()
		if err != nil {
			t.Fatal(err)
		}
		k.s.mu.Lock()
		k.setAway(false)
		k.touch()
		if i%2 == 0 {
			k.attach()
		}
		k.s.mu.Unlock()
	}
	now := s.clock.read() // and no later, however slow the test is: verdicts may allocate
	if n := testing.AllocsPerRun(20, func() { s.judgeAll(now, now) }); n != 0 {
		t.Errorf("%v allocations a sweep, want 0", n)
	}
}

func BenchmarkSweep(b *testing.B) {
	s := bare(Limits{})
	f := newFlusher(s, 0)
	s.flushers = append(s.flushers, f)
	const conns = 50_000
	for range conns {
		k, err := f.take()
		if err != nil {
			b.Fatal(err)
		}
		k.setAway(false)
		k.touch()
	}
	b.ReportAllocs()
	for b.Loop() {
		now := s.clock.read()
		s.judgeAll(now, now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/conns, "ns/conn")
}

// A clock that stood still, because the machine was busy or the process stopped, makes
// no connection look older than it is.
func TestLateSweepStrikesNobodyEarly(t *testing.T) {
	s := bare(Limits{})
	f := newFlusher(s, 0)
	s.flushers = append(s.flushers, f)
	k, err := f.take()
	if err != nil {
		t.Fatal(err)
	}
	k.setAway(false)
	s.clock.start = s.clock.start.Add(-time.Hour)
	s.clock.read()
	k.touch()
	s.clock.start = s.clock.start.Add(-time.Hour) // nobody swept meanwhile, and only now
	now := s.readLate()
	if age := now - k.s.seen.Load(); age != 0 {
		t.Errorf("a connection that was stamped while the clock stood still is %d ms old", age)
	}
	s.clock.parked.Store(true) // an idle server does not sweep: its stamps are right
	s.clock.start = s.clock.start.Add(-time.Minute)
	if age := s.readLate() - k.s.seen.Load(); age < 59_000 {
		t.Errorf("a minute of idleness counts as %d ms", age)
	}
}
