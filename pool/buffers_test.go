package pool

import (
	"bytes"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func TestGet(t *testing.T) {
	var p Buffers
	for _, x := range []struct{ n, capacity int }{
		{0, 256}, {1, 256}, {256, 256}, {257, 384}, {385, 512}, {4 << 10, 4 << 10}, {4<<10 + 1, 6 << 10},
		{33 << 10, 48 << 10}, {1 << 20, 1 << 20}, {1<<20 + 1, 1<<20 + 1},
	} {
		b := p.Get(x.n)
		if got := b.Bytes(); len(got) != x.n || cap(got) != x.capacity {
			t.Errorf("Get(%d) returned length %d, capacity %d, want capacity %d", x.n, len(got), cap(got), x.capacity)
		}
		b.Release()
	}
	wantPanic(t, "pool: Get of a negative length", func() { p.Get(-1) })
}

// Whatever the operations, each buffer has its own memory and its own content.
func TestBuffersKeepContentsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Buffers{Max: 64 << 10, Warm: rapid.SampledFrom([]int{0, 64 << 10}).Draw(t, "warm")}
		type loan struct {
			b    Buffer
			want []byte
		}
		var loans []loan
		size := rapid.OneOf(rapid.IntRange(0, 1000), rapid.IntRange(0, 100<<10))
		mark := byte(0)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			mark++
			if len(loans) == 0 || rapid.IntRange(0, 2).Draw(t, "step") == 0 {
				b := p.Get(size.Draw(t, "n"))
				for i := range b.Bytes() {
					b.Bytes()[i] = mark
				}
				loans = append(loans, loan{b, slices.Clone(b.Bytes())})
				continue
			}
			i := rapid.IntRange(0, len(loans)-1).Draw(t, "which")
			l := &loans[i]
			more := bytes.Repeat([]byte{mark}, size.Draw(t, "more"))
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				l.b.Write(more)
				l.want = append(l.want, more...)
			case 1:
				l.b.SetBytes(append(l.b.Bytes(), more...))
				l.want = append(l.want, more...)
			case 2:
				l.b.Grow(len(more))
				if free := cap(l.b.Bytes()) - len(l.b.Bytes()); free < len(more) {
					t.Fatalf("Grow(%d) left room for %d", len(more), free)
				}
			case 3:
				n := rapid.IntRange(0, len(l.want)).Draw(t, "cut")
				l.b.SetLen(n)
				l.want = l.want[:n]
			default:
				l.b.Release()
				loans = slices.Delete(loans, i, i+1)
			}
			for _, l := range loans {
				if !bytes.Equal(l.b.Bytes(), l.want) {
					t.Fatal("a buffer lost the content that was written to it")
				}
			}
		}
		if s := p.Stats(); s.Lent != int64(len(loans)) {
			t.Fatalf("%d buffers in use, want %d", s.Lent, len(loans))
		}
		for _, l := range loans {
			l.b.Release()
		}
		if s := p.Stats(); s.Lent != 0 || s.LentBytes != 0 || s.WarmBytes > int64(p.Warm) {
			t.Fatalf("after all Releases: %+v", s)
		}
	})
}

// Every use of a Buffer panics after its Release, even when the same memory has been
// handed out again by then (grpc #8023, aibrix #2440).
func TestStaleHandlePanics(t *testing.T) {
	var p Buffers
	stale := p.Get(10)
	loan := stale.Loan()
	stale.Release()
	for _, again := range []string{"free", "lent"} {
		if again == "lent" {
			for range 100 {
				defer p.Get(10).Release()
			}
		}
		for name, use := range map[string]func(){
			"Bytes":        func() { stale.Bytes() },
			"Write":        func() { stale.Write([]byte("x")) },
			"Grow":         func() { stale.Grow(1) },
			"SetLen":       func() { stale.SetLen(0) },
			"SetBytes":     func() { stale.SetBytes(nil) },
			"Loan":         func() { stale.Loan() },
			"Loan.Len":     func() { loan.Len() },
			"Loan.WriteTo": func() { loan.WriteTo(&bytes.Buffer{}) },
			"Loan.Clone":   func() { loan.Clone() },
		} {
			t.Run(name+" while "+again, func(t *testing.T) {
				wantPanic(t, "pool: use of a released or zero Buffer", use)
			})
		}
		wantPanic(t, "pool: Release of a released or zero Buffer", stale.Release)
	}
	wantPanic(t, "pool: Release of a released or zero Buffer", Buffer{}.Release)
}

// All copies of a Buffer see the effect of a call on one of them, even when the content
// moves, and end together; a later loan of the same memory does not affect them.
func TestCopiesAreOneBuffer(t *testing.T) {
	needReuse(t)
	var p Buffers
	a := p.Get(10)
	b := a
	b.SetLen(0)
	b.Write(bytes.Repeat([]byte("x"), 5000))
	a.Write([]byte("y"))
	a.SetBytes(append(a.Bytes(), make([]byte, 100<<10)...))
	if got := b.Bytes(); len(got) != 5001+100<<10 || got[4999] != 'x' || got[5000] != 'y' || &got[0] != &a.Bytes()[0] {
		t.Errorf("a copy has length %d", len(got))
	}
	b.Release()
	wantPanic(t, "pool: use of a released or zero Buffer", func() { a.Bytes() })
	for range 10 {
		if c := p.Get(101 << 10); c.m == a.m && (c == a || a.Lent() || !c.Lent()) {
			t.Error("a stale Buffer refers to a later loan of its memory")
		} else {
			c.Release()
		}
	}
	wantPanic(t, "pool: Release of a released or zero Buffer", a.Release)
}

func TestLent(t *testing.T) {
	var p Buffers
	var b Buffer
	if b.Lent() {
		t.Error("Lent is true for the zero Buffer")
	}
	if b = p.Get(1); !b.Lent() {
		t.Error("Lent is false for a new Buffer")
	}
	if b.Release(); b.Lent() {
		t.Error("Lent is true after Release")
	}
}

func TestReleaseByTwoAtOnce(t *testing.T) {
	var p Buffers
	var succeeded atomic.Int32
	release := func(b Buffer) {
		defer func() {
			if recover() == nil {
				succeeded.Add(1)
			}
		}()
		b.Release()
	}
	lent := make([]Buffer, 5000)
	for i := range lent {
		lent[i] = p.Get(10)
	}
	var all sync.WaitGroup
	var arrived atomic.Int32
	for range 2 {
		all.Go(func() {
			for i, b := range lent {
				arrived.Add(1)
				for spins := 0; arrived.Load() < int32(2*i+2); spins++ { // concurrently
					if spins > 100 {
						runtime.Gosched()
					}
				}
				release(b)
			}
		})
	}
	all.Wait()
	if n := succeeded.Load(); int(n) != len(lent) {
		t.Errorf("%d Releases of %d buffers succeeded", n, len(lent))
	}
	if s := p.Stats(); s.Lent != 0 {
		t.Errorf("%d buffers still in use", s.Lent)
	}
}

func TestSetLen(t *testing.T) {
	var p Buffers
	b := p.Get(10)
	b.SetLen(cap(b.Bytes()))
	if len(b.Bytes()) != 256 {
		t.Errorf("%d bytes, want all 256", len(b.Bytes()))
	}
	wantPanic(t, "pool: SetLen beyond", func() { b.SetLen(257) })
	wantPanic(t, "pool: SetLen beyond", func() { b.SetLen(-1) })
	wantPanic(t, "pool: Grow by a negative", func() { b.Grow(-1) })
	b.Release()
}

// Memory that append has allocated is reused in the class that it fills.
func TestSetBytesAfterAppend(t *testing.T) {
	needReuse(t)
	var p Buffers
	b := p.Get(256)
	grown := append(b.Bytes(), make([]byte, 4750)...) // 5376 bytes
	b.SetBytes(grown)
	at := &grown[0]
	b.Release()
	found := false
	for range 10 { // no other memory of that class exists
		again := p.Get(4 << 10)
		found = found || &again.Bytes()[0] == at
		defer again.Release()
	}
	if !found {
		t.Errorf("%d bytes allocated by append were not reused", cap(grown))
	}
	if s := p.Stats(); s.TooLarge+s.TooSmall != 0 {
		t.Errorf("%+v", s)
	}
	small := p.Get(1)
	small.SetBytes(make([]byte, 100))
	small.Release()
	if s := p.Stats(); s.TooSmall != 1 {
		t.Errorf("foreign memory of 100 bytes was pooled: %+v", s)
	}
}

// mcache pools any slice whose capacity is a class size, and so can hand out the inside
// of memory in use.
func TestMcacheInteriorPointerIsRefused(t *testing.T) {
	var p Buffers
	b := p.Get(4 << 10)
	for _, inside := range [][]byte{b.Bytes()[2048:], b.Bytes()[1:], b.Bytes()[2048:2050:3000]} {
		wantPanic(t, "pool: SetBytes with a slice from inside", func() { b.SetBytes(inside) })
	}
	b.SetBytes(b.Bytes()[:100:100]) // whole memory again, whatever its capacity
	if got := b.Bytes(); len(got) != 100 || cap(got) != 4<<10 {
		t.Errorf("%d bytes of %d", len(got), cap(got))
	}
	b.Release()
}

func TestLoan(t *testing.T) {
	var p Buffers
	b := p.Get(0)
	b.Write([]byte("hello"))
	loan := b.Loan()
	b.Write([]byte(", world"))
	var to bytes.Buffer
	if n, err := loan.WriteTo(&to); n != 12 || err != nil || to.String() != "hello, world" || loan.Len() != 12 {
		t.Errorf("WriteTo: %d, %v, %q", n, err, to.String())
	}
	clone := loan.Clone()
	wantPanic(t, "pool: use of a released or zero Buffer", func() { loan.WriteTo(writer(func() { b.Release() })) })
	if string(clone) != "hello, world" {
		t.Errorf("the clone changed to %q", clone)
	}
}

// writer is an io.Writer that calls a function.
type writer func()

func (w writer) Write(p []byte) (int, error) { w(); return len(p), nil }

func TestGoroutinesShareBuffers(t *testing.T) {
	p := Buffers{Warm: 64 << 10}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			part := bytes.Repeat([]byte{byte(g)}, 300)
			for i := range 300 {
				b := p.Get(i % 2 * 700)
				b.SetLen(0)
				for range i % 40 {
					b.Write(part)
				}
				if got := b.Bytes(); bytes.Count(got, part[:1]) != len(got) {
					t.Error("a buffer in use was overwritten")
				}
				b.Release()
				if i%100 == 0 {
					runtime.GC()
				}
			}
		})
	}
	for range 100 {
		if s := p.Stats(); s.Lent < 0 || s.WarmBytes > 64<<10 {
			t.Errorf("%+v", s)
		}
	}
	all.Wait()
	if s := p.Stats(); s.Lent != 0 || s.LentBytes != 0 || s.Hits+s.Misses < 8*300 {
		t.Errorf("%+v", s)
	}
}

func TestStats(t *testing.T) {
	needReuse(t)
	var p Buffers
	a, b := p.Get(1000), p.Get(2<<20)
	if s := p.Stats(); s.Misses != 2 || s.Hits != 0 || s.Lent != 2 || s.LentBytes != 1<<10+2<<20 {
		t.Errorf("with two in use: %+v", s)
	}
	a.Grow(2000)
	if s := p.Stats(); s.Misses != 3 || s.Lent != 2 || s.LentBytes != 3<<10+2<<20 {
		t.Errorf("after one has grown: %+v", s)
	}
	a.Release()
	b.Release()
	for range 100 {
		p.Get(1000).Release()
	}
	s := p.Stats()
	if s.Hits+s.Misses != 103 || s.Hits < 90 || s.TooLarge != 1 || s.Lent != 0 || s.LentBytes != 0 {
		t.Errorf("after Release: %+v", s)
	}
}

func TestBuffersAllocateNothing(t *testing.T) {
	needReuse(t)
	part := make([]byte, 100)
	for _, n := range []int{0, 100, 4 << 10, 33 << 10, 1<<20 - 100} {
		var p Buffers
		if allocs := testing.AllocsPerRun(1000, func() {
			b := p.Get(n)
			b.Write(part)
			b.Loan().Len()
			b.Release()
		}); allocs != 0 {
			t.Errorf("Get(%d), Write and Release: %v allocations", n, allocs)
		}
		if allocs := testing.AllocsPerRun(100, func() { p.Stats() }); allocs != 0 {
			t.Errorf("Stats: %v allocations", allocs)
		}
	}
}

// A pool may serve several bubbles: it holds no channels or timers.
func TestBuffersInBubbles(t *testing.T) {
	p := Buffers{Warm: 4 << 10}
	for i := range 3 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done := make(chan Buffer)
				go func() {
					b := p.Get(0)
					b.Write([]byte("from a bubble"))
					done <- b
				}()
				b := <-done
				if string(b.Bytes()) != "from a bubble" {
					t.Errorf("%q", b.Bytes())
				}
				b.Release()
			})
		})
	}
}

// Dropped memory is no longer counted, is not handed out again, and cannot be used.
func TestDrop(t *testing.T) {
	for _, warm := range []int{0, 1 << 20} {
		p := &Buffers{Warm: warm}
		p.Get(1000).Release() // is warm from now on
		b := p.Get(1000)
		kept := b.Bytes()
		kept[0] = 'k'
		b.Drop()
		if st := p.Stats(); b.Lent() || st.Lent != 0 || st.LentBytes != 0 || st.Leaked != 0 {
			t.Errorf("after Drop with Warm %d: lent is %v, %+v", warm, b.Lent(), st)
		}
		for range 100 {
			if other := p.Get(1000); &other.Bytes()[0] == &kept[0] {
				t.Fatal("dropped memory was handed out again")
			}
		}
		if kept[0] != 'k' {
			t.Error("dropped memory has changed")
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a second end of the loan does not panic")
				}
			}()
			b.Release()
		}()
	}
}
