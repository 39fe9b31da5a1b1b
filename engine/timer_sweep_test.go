package engine

import (
	"testing"
	"time"
)

// A sweep over many connections allocates nothing: on a busy server it runs four times a
// second.
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
	now := s.clock.read() // not later, however slow the test is: verdicts may allocate
	if n := testing.AllocsPerRun(20, func() { s.judgeAll(now, now) }); n != 0 {
		t.Errorf("%v allocations per sweep, want 0", n)
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

// After the clock stood still, because the machine was busy or the process stopped, no
// connection looks older than it is.
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
	s.clock.start = s.clock.start.Add(-time.Hour) // an hour without a sweep until now
	now := s.readLate()
	if age := now - k.s.seen.Load(); age != 0 {
		t.Errorf("a connection with a timestamp from a stopped clock is %d ms old", age)
	}
	s.clock.parked.Store(true) // an idle server does not sweep: its timestamps are right
	s.clock.start = s.clock.start.Add(-time.Minute)
	if age := s.readLate() - k.s.seen.Load(); age < 59_000 {
		t.Errorf("a minute of idleness counts as %d ms", age)
	}
}
