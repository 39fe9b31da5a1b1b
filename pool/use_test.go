package pool

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"weak"
)

// fill gets a buffer of unknown size and writes n bytes, in parts.
func fill(p *Buffers, n int) Buffer {
	b := p.Get(0)
	for part := make([]byte, min(n, max(100, n/8))); n > 0; n -= len(part) {
		b.Write(part[:min(n, len(part))])
	}
	return b
}

// golang/go#23199: after some huge buffers, traffic with only small ones must not keep
// the huge ones alive by using them.
func TestGo23199HugeBuffersAreLetGoInSmallTraffic(t *testing.T) {
	needDrop(t)
	for name, huge := range map[string]int{"some": 8, "so many that Get(0) lends them": 400} {
		t.Run(name, func(t *testing.T) {
			p := Buffers{Max: 8 << 20, Warm: 64 << 10}
			var all []weak.Pointer[byte]
			for range huge / 8 {
				var at [8]Buffer
				for i := range at {
					at[i] = p.Get(0)
					at[i].Grow(4 << 20)
					all = append(all, watch(at[i]))
				}
				for _, b := range at {
					b.Release()
				}
			}
			if !gone(all, func() {
				for range 200 {
					fill(&p, 1<<10).Release()
				}
			}) {
				t.Error("unused huge buffers were not freed")
			}
		})
	}
}

// VictoriaMetrics #8510: a workload that always needs more than some limit must not
// allocate every time.
func TestVictoriaMetrics8510LargeBuffersAreReused(t *testing.T) {
	needReuse(t)
	for name, get := range map[string]func(*Buffers) Buffer{
		"open-ended": func(p *Buffers) Buffer { return fill(p, 100<<10) },
		"sized":      func(p *Buffers) Buffer { return p.Get(100 << 10) },
		"sized, and used for a little": func(p *Buffers) Buffer {
			b := p.Get(100 << 10)
			b.SetLen(10)
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p Buffers
			fill(&p, 100<<10).Release() // does not predict what comes after
			for range 1000 {
				get(&p).Release()
			}
			if s := p.Stats(); s.Misses > 100 || s.Underused != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// VictoriaMetrics #10389: a buffer is dropped if it is far larger than recent content.
func TestVictoriaMetrics10389UnderusedBuffersAreDropped(t *testing.T) {
	needReuse(t)
	var p Buffers
	for range 500 {
		fill(&p, 100<<10).Release()
	}
	before := p.Stats()
	var kept []Buffer
	for range 10 {
		kept = append(kept, p.Get(0)) // large ones, as learnt
	}
	for range 1000 {
		fill(&p, 100).Release()
	}
	for _, b := range kept {
		b.Write(make([]byte, 100))
		b.Release()
	}
	if s := p.Stats(); before.Underused != 0 || s.Underused < uint64(len(kept)) {
		t.Errorf("%d dropped while all were large, then %d of 10", before.Underused, s.Underused)
	}
	if n := cap(p.Get(0).Bytes()); n > 1<<10 {
		t.Errorf("Get(0) still returns a capacity of %d", n)
	}
}

// bytebufferpool #15: with sizes between 1 and 2 KiB its buffers start at 128 bytes, and
// each one has to grow.
func TestBytebufferpool15FirstCapacityFitsMost(t *testing.T) {
	needReuse(t)
	random := rand.New(rand.NewPCG(1, 2))
	var p Buffers
	for range 2000 {
		fill(&p, 1<<10+random.IntN(1<<10)).Release()
	}
	before := p.Stats()
	const more = 1000
	for range more {
		fill(&p, 1<<10+random.IntN(1<<10)).Release()
	}
	after := p.Stats()
	if grown := after.Hits + after.Misses - before.Hits - before.Misses - more; grown > more/5 {
		t.Errorf("%d of %d buffers had to grow", grown, more)
	}
	if n := cap(p.Get(0).Bytes()); n > 2<<10 {
		t.Errorf("Get(0) returns a capacity of %d", n)
	}
}

// A few large buffers do not determine the capacity for all others.
func TestFirstCapacityIgnoresRareSizes(t *testing.T) {
	var p Buffers
	for i := range 4000 {
		n := 500
		if i%40 == 1 {
			n = 50 << 10
		}
		b := p.Get(0)
		if got := cap(b.Bytes()); got > 1<<10 {
			t.Fatalf("Get(0) returns a capacity of %d after %d", got, i)
		}
		b.Write(make([]byte, n))
		b.Release()
	}
}

// Emptying a buffer before Release, as with a bytes.Buffer, does not make it count as
// underused.
func TestEmptiedBuffersCountAsUsed(t *testing.T) {
	needReuse(t)
	var p Buffers
	for range 1000 {
		b := fill(&p, 3<<10)
		b.SetLen(0)
		b.Release()
	}
	b := p.Get(0)
	if n := cap(b.Bytes()); n < 3<<10 {
		t.Errorf("Get(0) returns a capacity of %d", n)
	}
	b.Release()
	for range 1000 {
		fill(&p, 100).Release()
	}
	if n := cap(p.Get(0).Bytes()); n > 1<<10 {
		t.Errorf("Get(0) returns a capacity of %d for content of 100 bytes", n)
	}
}

// grpc #8500: buffers too large for any class went to a pool of their own, which hoarded
// them.
func TestGrpc8500LargerThanMaxIsNeverKept(t *testing.T) {
	p := Buffers{Max: 64 << 10, Warm: 1 << 20}
	var all []weak.Pointer[byte]
	var kept []Buffer
	for range 20 {
		for _, b := range []Buffer{p.Get(100 << 10), fill(&p, 100<<10)} {
			all, kept = append(all, watch(b)), append(kept, b)
			b.Release()
			wantPanic(t, "pool: use of", func() { b.Bytes() })
		}
	}
	runtime.GC()
	for _, w := range all {
		if w.Value() != nil {
			t.Fatal("a buffer above Max was not freed after its Release")
		}
	}
	if s := p.Stats(); s.TooLarge < uint64(len(all)) || s.Lent != 0 || s.LentBytes != 0 {
		t.Errorf("%+v", s)
	}
	runtime.KeepAlive(kept)
}

func TestIdleMemoryIsCollected(t *testing.T) {
	needDrop(t)
	var p Buffers
	var all []weak.Pointer[byte]
	var lent []Buffer
	for range 50 {
		b := p.Get(10 << 10)
		all, lent = append(all, watch(b)), append(lent, b)
	}
	for i, b := range lent {
		b.Release()
		lent[i] = Buffer{}
	}
	if !gone(all, func() {}) {
		t.Error("idle memory was not freed")
	}
	runtime.KeepAlive(lent)
}

// Warm memory stays correct when memory gets other bytes: a buffer has the requested size
// and is not shared, and the budget is kept.
func TestWarmMemoryGrows(t *testing.T) {
	needDrop(t)
	p := Buffers{Warm: 64 << 10}
	random := rand.New(rand.NewPCG(3, 4))
	var lent []Buffer
	for i := range 20_000 {
		if i%5000 == 4999 {
			runtime.GC()
		}
		if len(lent) < 20 {
			n := 1 + random.IntN(3000)
			b := p.Get(n)
			if c := cap(b.Bytes()); c < n || c >= 2*max(n, 256) {
				t.Fatalf("Get(%d) returned a capacity of %d", n, c)
			}
			b.Bytes()[0] = byte(len(lent))
			lent = append(lent, b)
			continue
		}
		at := random.IntN(len(lent))
		if b := lent[at]; random.IntN(2) == 0 {
			b.Grow(random.IntN(6000))
		} else {
			if b.Bytes()[0] != byte(at) {
				t.Fatal("a buffer in use was overwritten")
			}
			b.Release()
			last := len(lent) - 1
			if at < last {
				lent[at] = lent[last]
				lent[at].Bytes()[0] = byte(at)
			}
			lent = lent[:last]
		}
	}
	for _, b := range lent {
		b.Release()
	}
	held := 0
	for c := range p.warm.shelves {
		for place, m := range p.warm.shelves[c].held {
			if held += m.size; m.place != place || int(m.class) != c || !m.pinned {
				t.Errorf("slot %d of class %d has %+v", place, c, m.stored)
			}
		}
	}
	if s := p.Stats(); s.Lent != 0 || int(s.WarmBytes) != held || held > 64<<10 {
		t.Errorf("%d bytes held; %+v", held, s)
	}
}

// Counts survive the memory that they are about, and memory that is garbage-collected
// while in use counts as leaked.
func TestStatsOutliveMemory(t *testing.T) {
	needDrop(t)
	var p Buffers
	for range 10 {
		for range 20 {
			p.Get(1000).Release()
		}
		p.Get(5000) // nobody can release it any more
		runtime.GC()
		runtime.GC()
	}
	runtime.GC()
	s := p.Stats()
	if s.Hits+s.Misses != 210 || s.Misses < 20 || s.Leaked != 10 || s.Lent != 0 || s.LentBytes != 0 {
		t.Errorf("%+v", s)
	}
	if open := len(p.ledger.accounts); open > 4 {
		t.Errorf("%d open accounts", open)
	}
	for range 2000 {
		p.own(nil, loose)
	}
	runtime.GC()
	for range 2000 {
		p.own(nil, loose)
	}
	if open := len(p.ledger.accounts); open > 3000 {
		t.Errorf("%d open accounts: those of freed memory are not closed", open)
	}
}

// borrow gets n buffers of a size at once and releases all.
func borrow(p *Buffers, n, size int) {
	var lent []Buffer
	for range n {
		lent = append(lent, p.Get(size))
	}
	for _, b := range lent {
		b.Release()
	}
}

func TestWarmMemorySurvivesCollections(t *testing.T) {
	needDrop(t)
	p := Buffers{Warm: 64 << 10}
	borrow(&p, 100, 4<<10)
	for round := range 5 {
		if s := p.Stats(); s.WarmBytes != 64<<10 {
			t.Fatalf("%d bytes are warm, want %d", s.WarmBytes, 64<<10)
		}
		for range 3 {
			runtime.GC()
		}
		before := p.Stats()
		borrow(&p, 16, 4<<10)
		if s := p.Stats(); s.Misses != before.Misses {
			t.Fatalf("round %d: %d of 16 warm buffers are gone", round, s.Misses-before.Misses)
		}
	}
}

// Warm memory makes room for sizes that are needed instead, and never exceeds Warm bytes.
func TestWarmMemoryFollowsUse(t *testing.T) {
	needDrop(t)
	p := Buffers{Warm: 64 << 10}
	borrow(&p, 10, 32<<10)
	for range 3 {
		runtime.GC()
		borrow(&p, 16, 4<<10)
	}
	for range 3 {
		runtime.GC()
	}
	before := p.Stats()
	borrow(&p, 16, 4<<10)
	if s := p.Stats(); s.Misses != before.Misses || s.WarmBytes > 64<<10 {
		t.Errorf("%d of 16 were not warm; %+v", s.Misses-before.Misses, s)
	}
}

func TestWarmMemoryIsLentOnce(t *testing.T) {
	p := Buffers{Warm: 16 << 10}
	for range 20 {
		seen := make(map[*byte]bool)
		var lent []Buffer
		for range 8 {
			b := p.Get(4 << 10)
			if seen[&b.Bytes()[0]] {
				t.Fatal("memory was handed out twice")
			}
			seen[&b.Bytes()[0]] = true
			lent = append(lent, b)
		}
		for _, b := range lent {
			b.Release()
		}
		runtime.GC()
	}
}
