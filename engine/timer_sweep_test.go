package engine

import "testing"

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
	var last tick
	if n := testing.AllocsPerRun(20, func() {
		now := s.clock.read()
		s.judgeAll(last, now)
		last = now
	}); n != 0 {
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
