package pool

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

// submit is a request as a server would pool it.
type submit struct {
	id      uint64
	payload []byte
}

func TestObjects(t *testing.T) {
	var o Objects[submit]
	x := o.Get()
	x.id = 7
	o.Put(x)
	if y := o.Get(); y != x && y.id != 0 {
		t.Errorf("a new object has id %d", y.id)
	}
	made := Objects[submit]{New: func() *submit { return &submit{id: 9} }}
	if x := made.Get(); x.id != 9 {
		t.Errorf("New was not called: id %d", x.id)
	}
	wantPanic(t, "pool: Put of nil into Objects", func() { o.Put(nil) })
	none := Objects[submit]{New: func() *submit { return nil }}
	wantPanic(t, "pool: New returned nil", func() { none.Get() })
}

// A pooled request that is not reset in Put keeps its frame alive until the request is
// reused.
func TestPutLetsGoOfWhatWasReferenced(t *testing.T) {
	o := Objects[submit]{Reset: func(s *submit) { *s = submit{} }}
	l := Local[submit]{Reset: func(s *submit) { *s = submit{} }}
	for name, pool := range map[string]interface {
		Get() *submit
		Put(*submit)
	}{"Objects": &o, "Local": &l} {
		x := pool.Get()
		x.payload = make([]byte, 4<<10)
		frame := weak.Make(&x.payload[0])
		pool.Put(x)
		runtime.GC()
		if frame.Value() != nil {
			t.Errorf("%s: the payload was not freed", name)
		}
		runtime.KeepAlive(x)
	}
}

// As package fmt does since golang/go#23199: an object that has grown large is not kept.
func TestKeepDropsWhatHasGrown(t *testing.T) {
	resets := 0
	small := func(s *submit) bool { return cap(s.payload) <= 64<<10 }
	count := func(*submit) { resets++ }
	o := Objects[submit]{Keep: small, Reset: count}
	l := Local[submit]{Keep: small, Reset: count}
	for name, pool := range map[string]interface {
		Get() *submit
		Put(*submit)
	}{"Objects": &o, "Local": &l} {
		resets = 0
		large := pool.Get()
		large.payload = make([]byte, 65<<10)
		pool.Put(large)
		for range 10 {
			if pool.Get() == large {
				t.Errorf("%s: the large object was kept", name)
			}
		}
		if resets != 0 {
			t.Errorf("%s: a dropped object was reset", name)
		}
	}
}

// After a failed decode the request goes back to the pool; after a panic in a handler it
// must not, because its state is unknown.
func TestWith(t *testing.T) {
	for name, x := range map[string]struct {
		f    func(*submit)
		back bool
	}{
		"returns": {func(s *submit) { s.id = 1 }, true},
		"panics":  {func(s *submit) { s.id = 1; panic("pool: on purpose") }, false},
		"Goexit":  {func(s *submit) { s.id = 1; runtime.Goexit() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			back := false
			o := Objects[submit]{Keep: func(s *submit) bool { back = true; return s.id == 1 }}
			var done sync.WaitGroup
			done.Go(func() {
				defer func() { recover() }()
				o.With(x.f)
			})
			done.Wait()
			if back != x.back {
				t.Errorf("put back: %v, want %v", back, x.back)
			}
		})
	}
}

func TestObjectsWhoseResetPanicsAreDropped(t *testing.T) {
	o := Objects[submit]{Reset: func(s *submit) { panic("pool: on purpose") }}
	x := o.Get()
	x.id = 3
	wantPanic(t, "pool: on purpose", func() { o.Put(x) })
	for range 10 {
		if o.Get() == x {
			t.Fatal("the object was reused")
		}
	}
}

// An object with a channel or a timer belongs to a bubble, and so does its pool
// (cockroach #167120, tailscale #20693).
func TestObjectsWithChannelsInBubbles(t *testing.T) {
	type waiter struct {
		ready chan int
		timer *time.Timer
	}
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			o := Objects[waiter]{New: func() *waiter {
				return &waiter{make(chan int, 1), time.NewTimer(time.Hour)}
			}}
			for i := range 20 {
				o.With(func(w *waiter) {
					w.timer.Reset(time.Minute)
					go func() { w.ready <- i }()
					<-w.timer.C
					if got := <-w.ready; got != i {
						t.Errorf("got %d, want %d", got, i)
					}
				})
			}
		})
	}
}

func TestObjectsAllocateNothing(t *testing.T) {
	needReuse(t)
	o := Objects[submit]{Reset: func(s *submit) { *s = submit{} }}
	l := Local[submit]{Reset: func(s *submit) { *s = submit{} }}
	use := func(s *submit) { s.id++ }
	for name, f := range map[string]func(){
		"Get, Put": func() { o.Put(o.Get()) },
		"With":     func() { o.With(use) },
		"Local":    func() { l.Put(l.Get()) },
	} {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestLocal(t *testing.T) {
	for _, x := range []struct{ max, keeps int }{{0, 32}, {3, 3}} {
		l := Local[submit]{Max: x.max}
		var all []*submit
		for range 40 {
			all = append(all, l.Get())
		}
		for _, s := range all {
			l.Put(s)
		}
		for i := range x.keeps {
			if got := l.Get(); got != all[x.keeps-1-i] {
				t.Fatalf("Max %d: Get %d did not return the last object put", x.max, i)
			}
		}
		if fresh := l.Get(); len(l.free) != 0 || fresh == nil {
			t.Errorf("Max %d: %d free objects", x.max, len(l.free))
		}
		for i, s := range l.free[:x.keeps] {
			if s != nil {
				t.Errorf("Max %d: slot %d still refers to an object in use", x.max, i)
			}
		}
	}
	var l Local[submit]
	wantPanic(t, "pool: Put of nil into Local", func() { l.Put(nil) })
}
