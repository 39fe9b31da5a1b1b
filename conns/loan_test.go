package conns_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/conns"
)

func TestLoanDoesNotAllocate(t *testing.T) {
	s := &server{}
	p := conns.New(conns.Config[*fake]{Dial: s.dial, Close: s.close})
	use := func(context.Context, *fake) error { return nil }
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() { p.Do(ctx, use) }); n != 0 {
		t.Errorf("a loan allocates %v times", n)
	}
	if err := p.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestLastInIsFirstOut(t *testing.T) {
	s := &server{}
	in(t, s, s.config(3), func(t *testing.T, p *conns.Pool[*fake]) {
		a, b := get(t, p), get(t, p)
		last := b.Conn()
		a.Release()
		b.Release()
		l := get(t, p)
		if l.Conn() != last {
			t.Error("got the connection that has been idle for longer")
		}
		l.Release()
		s.wantCounts(t, 2, 0)
	})
}

// After an error, the pool of the article returns a nil connection, and accepts it back.
func TestFailedDialLendsNothing_article003(t *testing.T) {
	s := &server{onDial: func(context.Context) error { return errDown }}
	in(t, s, s.config(1), func(t *testing.T, p *conns.Pool[*fake]) {
		l, err := p.Get(t.Context())
		if !errors.Is(err, errDown) {
			t.Errorf("Get returned %v, want the dial's error", err)
		}
		if !panics(func() { l.Conn() }) || !panics(l.Release) || !panics(func() { l.Discard(nil) }) {
			t.Error("the zero Lease did not panic")
		}
		if st := p.Stats(); st.Open != 0 || st.Idle != 0 || st.DialFailures != 1 {
			t.Errorf("after a failed dial: %+v", st)
		}
	})
}

// On a second Put, the pool of the article deadlocks, or lends one connection to two
// borrowers.
func TestDoubleReleasePanics_article003(t *testing.T) {
	s := &server{}
	in(t, s, s.config(2), func(t *testing.T, p *conns.Pool[*fake]) {
		first := get(t, p)
		first.Release()
		second := get(t, p) // the same connection, another loan
		for name, f := range map[string]func(){
			"Release": first.Release,
			"Discard": func() { first.Discard(nil) },
			"Conn":    func() { first.Conn() },
			"Reused":  func() { first.Reused() },
		} {
			if !panics(f) {
				t.Errorf("%s after the end of a loan did not panic", name)
			}
		}
		second.Conn() // still valid after all of that
		second.Discard(nil)
		if !panics(second.Release) {
			t.Error("Release after Discard did not panic")
		}
		get(t, p).Release()
	})
}

// The article's pool leaks tokens when Dial, TestOnBorrow or the borrower panics.
func TestPanicReturnsThePermit_article003(t *testing.T) {
	s := &server{}
	explode := false
	c := s.config(1)
	c.AlwaysAsk = true
	c.Alive = func(*fake, time.Duration) error {
		if explode {
			panic("Alive")
		}
		return nil
	}
	c.MaxBackoff = -1
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		if !panics(func() { p.Do(t.Context(), func(context.Context, *fake) error { panic("borrower") }) }) {
			t.Error("the borrower's panic was swallowed")
		}
		get(t, p).Release()
		s.wantCounts(t, 2, 1) // the connection was not reused

		explode = true
		if !panics(func() { p.Get(t.Context()) }) {
			t.Error("the panic of Alive was swallowed")
		}
		explode = false
		get(t, p).Release()
		s.wantCounts(t, 3, 2)

		get(t, p).Discard(nil)
		s.dialing(func(context.Context) error { panic("Dial") })
		if _, err := p.Get(t.Context()); err == nil {
			t.Error("a panic of Dial returned no error")
		}
		s.dialing(func(context.Context) error { runtime.Goexit(); return nil })
		if _, err := p.Get(t.Context()); err == nil {
			t.Error("a Dial that ended its goroutine returned no error")
		}
		s.dialing(nil)
		get(t, p).Release()

		var all sync.WaitGroup
		all.Go(func() {
			p.Do(t.Context(), func(context.Context, *fake) error { runtime.Goexit(); return nil })
		})
		all.Wait()
		get(t, p).Release()
	})
}

// The article's caller returns a connection after a failed read, and its workers end with
// the first error, until none is left.
func TestFailedLoanIsNotLentAgain_article003(t *testing.T) {
	s := &server{}
	var mu sync.Mutex
	var why []error
	c := s.config(1)
	c.Hooks.Closed = func(r conns.Reason, err error) {
		mu.Lock()
		defer mu.Unlock()
		why = append(why, fmt.Errorf("%v: %w", r, err))
	}
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		errRead := errors.New("short read")
		seen := map[*fake]bool{}
		for range 3 {
			err := p.Do(t.Context(), func(_ context.Context, c *fake) error {
				if seen[c] {
					t.Error("a connection that failed was lent again")
				}
				seen[c] = true
				return errRead
			})
			if !errors.Is(err, errRead) {
				t.Errorf("Do returned %v", err)
			}
		}
		s.wantCounts(t, 3, 3)
		if st := p.Stats(); st.Closed[conns.Discarded] != 3 {
			t.Errorf("counted %v", st.Closed)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(why) != 3 || !errors.Is(why[0], errRead) {
			t.Errorf("the hook got %v", why)
		}
	})
}

func TestErrKeepConn(t *testing.T) {
	s := &server{}
	in(t, s, s.config(1), func(t *testing.T, p *conns.Pool[*fake]) {
		errNoKey := errors.New("no such key")
		err := p.Do(t.Context(), func(context.Context, *fake) error { return errors.Join(conns.ErrKeepConn, errNoKey) })
		if !errors.Is(err, errNoKey) {
			t.Errorf("Do returned %v", err)
		}
		s.wantCounts(t, 1, 0)
	})
}

func TestReused(t *testing.T) {
	s := &server{}
	in(t, s, s.config(2), func(t *testing.T, p *conns.Pool[*fake]) {
		first := get(t, p)
		if first.Reused() {
			t.Error("a new connection counts as reused")
		}
		second := settled(t, later(t.Context(), p)).lease
		if second.Reused() {
			t.Error("a connection dialed for its waiter counts as reused")
		}
		first.Release()
		if again := get(t, p); !again.Reused() {
			t.Error("a connection that was lent before counts as new")
		} else {
			again.Discard(nil)
		}
		if err := p.Warm(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if idle := get(t, p); !idle.Reused() {
			t.Error("a connection that was idle counts as new")
		} else {
			idle.Release()
		}
		second.Release()
	})
}

// The article's MaxIdle of 100 for 2 000 workers costs a dial for every tenth request, as
// in redigo #301 and golang/go #13801. This pool has no MaxIdle.
func TestNoDialsOnceWarm_redigo301(t *testing.T) {
	const workers, rounds = 200, 30
	s := &server{onDial: func(context.Context) error { pass1(3 * time.Millisecond); return nil }}
	c := s.config(workers)
	c.MaxIdleTime = 20 * time.Second
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				for j := range rounds {
					err := p.Do(t.Context(), func(context.Context, *fake) error {
						pass1(time.Duration(1+(i*7+j*13)%5) * time.Millisecond)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		dials, closed := s.counts()
		if dials > workers || closed != 0 {
			t.Errorf("%d requests took %d dials and %d closes", workers*rounds, dials, closed)
		}
		if st := p.Stats(); st.Gets != workers*rounds || st.Dials != int64(dials) || st.Idle != dials {
			t.Errorf("%+v", st)
		}
	})
}

// pass1 advances fake time for one goroutine of several.
func pass1(d time.Duration) { <-time.After(d) }

// The counters of the article's pool are fields that anybody may read and change without
// a lock. Here the race detector checks.
func TestStatsWhileWorking_article003(t *testing.T) {
	s := &server{}
	in(t, s, s.config(4), func(t *testing.T, p *conns.Pool[*fake]) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 200 {
					l := get(t, p)
					if st := p.Stats(); st.InUse < 1 || st.InUse > 4 || st.Open > 4 || st.Idle+st.InUse != st.Open {
						t.Errorf("while one is in use: %+v", st)
					}
					l.Release()
				}
			})
		}
		all.Wait()
	})
	if s.most > 4 {
		t.Errorf("%d connections at a time", s.most)
	}
}

// A pool that holds its lock while it dials or closes blocks everybody (silenceper/pool).
// Here Dial, Close, Alive, Probe and a hook block at the same time, and the pool still
// lends.
func TestUserCodeBlocksNobodyElse_silenceper(t *testing.T) {
	s := &server{}
	var block chan struct{}
	stuck := func() { <-block }
	c := s.config(6)
	var aliveBlocks, probeBlocks, hookBlocks atomic.Bool
	c.Alive = func(*fake, time.Duration) error {
		if aliveBlocks.Swap(false) {
			stuck()
		}
		return nil
	}
	c.ProbeAfter = 10 * time.Second
	c.Probe = func(context.Context, *fake) error {
		if probeBlocks.Swap(false) {
			stuck()
		}
		return nil
	}
	hookBlocks.Store(true)
	c.Hooks.Waited = func(time.Duration, error) {
		if hookBlocks.Swap(false) {
			stuck()
		}
	}
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		block = make(chan struct{})
		hooked := later(t.Context(), p)
		if err := p.Warm(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		probeBlocks.Store(true)
		pass(12 * time.Second) // the first to be probed blocks there
		aliveBlocks.Store(true)
		checked := later(t.Context(), p)
		s.closing(stuck)
		get(t, p).Discard(nil)
		synctest.Wait()
		s.dialing(func(context.Context) error { stuck(); return nil })
		warm := make(chan error, 1)
		go func() { warm <- p.Warm(t.Context(), 6) }()
		synctest.Wait()
		get(t, p).Release()
		if st := p.Stats(); st.Closing != 1 || st.Dialing != 1 || st.Probing != 1 || st.InUse != 2 {
			t.Errorf("%+v", st)
		}
		s.closing(nil)
		s.dialing(nil)
		close(block)
		settled(t, hooked).lease.Release()
		settled(t, checked).lease.Release()
		if err := <-warm; err != nil {
			t.Error(err)
		}
	})
}
