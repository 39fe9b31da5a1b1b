package conns_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/conns"
)

// Closing the pools of the article and of silenceper does not wake waiting callers.
func TestCloseWakesAllAndJoins_silenceper(t *testing.T) {
	s := &server{}
	in(t, s, s.config(3), func(t *testing.T, p *conns.Pool[*fake]) {
		idle, lent := get(t, p), get(t, p)
		idle.Release()
		s.dialing(slowly(time.Hour)) // ends with its context
		again := get(t, p)
		var waits []<-chan result
		for range 5 {
			waits = append(waits, later(t.Context(), p))
		}
		warm := make(chan error, 1)
		go func() { warm <- p.Warm(t.Context(), 3) }()
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close with two in use returned %v", err)
		}
		for _, w := range waits {
			if got := settled(t, w); !errors.Is(got.err, conns.ErrClosed) {
				t.Errorf("a waiter got %v", got.err)
			}
		}
		if err := <-warm; !errors.Is(err, conns.ErrClosed) {
			t.Errorf("Warm returned %v", err)
		}
		if _, err := p.Get(t.Context()); !errors.Is(err, conns.ErrClosed) {
			t.Errorf("Get after Close returned %v", err)
		}
		if err := p.Warm(t.Context(), 1); !errors.Is(err, conns.ErrClosed) {
			t.Errorf("Warm after Close returned %v", err)
		}
		closed := make(chan error, 1)
		go func() { closed <- p.Close(t.Context()) }()
		lent.Release()
		synctest.Wait()
		if len(closed) != 0 {
			t.Error("Close does not wait for the last loan")
		}
		again.Discard(nil)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		p.Reset()
		p.Resize(4, 2)
		s.wantCounts(t, 3, 2)
		if st := p.Stats(); st.Closed[conns.PoolClosed] != 1 || st.Closed[conns.Discarded] != 1 || st.DialFailures != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Close waits for every goroutine, including one in a hook.
func TestCloseJoinsHooks(t *testing.T) {
	s := &server{}
	c := s.config(2)
	told := make(chan struct{})
	synctest.Test(t, func(t *testing.T) {
		s.dialing(slowly(time.Minute))
		var hooks atomic.Int64
		c.Hooks.Dialed = func(time.Duration, error) {
			n := hooks.Add(1)
			pass1(time.Duration(n) * time.Second)
			if n == 2 {
				close(told)
			}
		}
		p := conns.New(c)
		wait := later(t.Context(), p)
		later(t.Context(), p)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		select {
		case <-told:
		default:
			t.Error("Close returned before the hook")
		}
		if got := settled(t, wait); !errors.Is(got.err, conns.ErrClosed) {
			t.Error(got.err)
		}
	})
}

// A connection that was being dialed when Reset was called is not lent either: puddle's
// CreateResource misses that case.
func TestResetCatchesDials_puddle(t *testing.T) {
	s := &server{}
	in(t, s, s.config(2), func(t *testing.T, p *conns.Pool[*fake]) {
		l := get(t, p)
		s.dialing(slowly(time.Second))
		wait := later(t.Context(), p)
		pass(500 * time.Millisecond)
		p.Reset() // cancels the dial, and starts another
		s.wantCounts(t, 3, 0)
		s.dialing(func(context.Context) error { pass1(time.Second); return nil }) // cannot be cancelled
		pass(time.Second)
		settled(t, wait).lease.Discard(nil)
		wait = later(t.Context(), p)
		pass(500 * time.Millisecond)
		p.Reset()
		pass(500 * time.Millisecond)
		pending(t, wait)
		s.wantCounts(t, 5, 2)
		l.Release()
		pass(time.Second)
		settled(t, wait).lease.Release()
		if st := p.Stats(); st.Closed[conns.PoolReset] != 2 || st.DialFailures != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestWarm(t *testing.T) {
	s := &server{onDial: slowly(time.Second)}
	in(t, s, s.config(4), func(t *testing.T, p *conns.Pool[*fake]) {
		began := time.Now()
		if err := p.Warm(t.Context(), 3); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		s.wantCounts(t, 3, 0)
		if err := p.Warm(t.Context(), 2); err != nil {
			t.Error(err)
		}
		if err := p.Warm(t.Context(), 100); err != nil {
			t.Error(err)
		}
		s.wantCounts(t, 4, 0)
		get(t, p).Discard(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := p.Warm(ctx, 4); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Warm returned %v", err)
		}
		pass(time.Second)
		get(t, p).Discard(nil)
		s.dialing(func(context.Context) error { return errDown })
		if err := p.Warm(t.Context(), 4); !errors.Is(err, errDown) {
			t.Errorf("Warm returned %v", err)
		}
	})
}

func TestResize(t *testing.T) {
	s := &server{}
	in(t, s, s.config(4), func(t *testing.T, p *conns.Pool[*fake]) {
		a, b, c := get(t, p), get(t, p), get(t, p)
		c.Release()
		p.Resize(1, 0)
		s.wantCounts(t, 3, 1)
		wait := later(t.Context(), p)
		a.Release()
		s.wantCounts(t, 3, 2)
		pending(t, wait)
		b.Release()
		l := settled(t, wait).lease
		if l.Conn() == nil || p.Stats().Open != 1 {
			t.Errorf("%+v", p.Stats())
		}
		wait = later(t.Context(), p)
		p.Resize(2, 1) // for the waiter, then for MinIdle
		settled(t, wait).lease.Release()
		l.Release()
		p.Resize(5, 4)
		synctest.Wait()
		if st := p.Stats(); st.Idle != 4 || st.Max != 5 {
			t.Errorf("%+v", st)
		}
		if !panics(func() { p.Resize(0, 0) }) {
			t.Error("Resize(0, 0) did not panic")
		}
	})
}

func TestHooks(t *testing.T) {
	s := &server{}
	c := s.config(1)
	var mu sync.Mutex
	dialed, failed := 0, 0
	var why []conns.Reason
	c.Hooks.Dialed = func(took time.Duration, err error) {
		if took != time.Second {
			t.Errorf("a dial took %v", took)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed++
		} else {
			dialed++
		}
	}
	c.Hooks.Closed = func(r conns.Reason, err error) {
		mu.Lock()
		defer mu.Unlock()
		why = append(why, r)
	}
	s.dialing(slowly(time.Second))
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		get(t, p).Release()
		p.Reset()
		synctest.Wait()
		s.dialing(func(context.Context) error { pass1(time.Second); return errDown })
		if _, err := p.Get(t.Context()); err == nil {
			t.Error("no error")
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if dialed != 1 || failed != 1 || len(why) != 1 || why[0].String() != "reset" {
			t.Errorf("the hooks got %d dials, %d failures, closes %v", dialed, failed, why)
		}
	})
}

func TestReasonsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for r := conns.Discarded; r <= conns.PoolClosed; r++ {
		if name := r.String(); name == "" || seen[name] {
			t.Errorf("reason %d is called %q", uint8(r), name)
		} else {
			seen[name] = true
		}
	}
	if conns.Reason(99).String() != "Reason(99)" {
		t.Error("an unknown reason has a name")
	}
}
