package conns_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/conns"
)

func TestWaitersAreServedInOrder(t *testing.T) {
	s := &server{}
	in(t, s, s.config(1), func(t *testing.T, p *conns.Pool[*fake]) {
		l := get(t, p)
		var order []int
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				l := get(t, p)
				order = append(order, i)
				l.Release()
			})
			synctest.Wait()
		}
		l.Release()
		all.Wait()
		if len(order) != 20 || !slices.IsSorted(order) {
			t.Errorf("served in the order %v", order)
		}
		s.wantCounts(t, 1, 0)
	})
}

// When many waiters expire, all of them leave the queue, not just the first (vitess
// #16897).
func TestAllExpiredWaitersLeave_vitess16897(t *testing.T) {
	s := &server{}
	in(t, s, s.config(1), func(t *testing.T, p *conns.Pool[*fake]) {
		l := get(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var waits []<-chan result
		for range 10 {
			waits = append(waits, later(ctx, p))
		}
		pass(time.Second)
		for _, w := range waits {
			if got := settled(t, w); !errors.Is(got.err, context.DeadlineExceeded) {
				t.Errorf("got %v", got.err)
			}
		}
		if st := p.Stats(); st.Waiters != 0 || st.WaitTimeouts != 10 || st.WaitTime != 10*time.Second {
			t.Errorf("%+v", st)
		}
		l.Release()
	})
}

// Looking for an idle connection and joining the queue are atomic. Otherwise a connection
// may be released between the two unnoticed; here that would be a deadlock, which the
// bubble reports (vitess #17662).
func TestCheckAndEnqueueIsAtomic_vitess17662(t *testing.T) {
	s := &server{}
	in(t, s, s.config(2), func(t *testing.T, p *conns.Pool[*fake]) {
		var all sync.WaitGroup
		for i := range 32 {
			all.Go(func() {
				for j := range 300 {
					l := get(t, p)
					if (i+j)%64 == 0 {
						l.Discard(nil)
					} else {
						l.Release()
					}
				}
			})
		}
		all.Wait()
		if st := p.Stats(); st.Gets != 32*300 || st.Waiters != 0 {
			t.Errorf("%+v", st)
		}
	})
	if s.most > 2 {
		t.Errorf("%d connections at a time", s.most)
	}
}

// A connection handed to a caller that gives up at that moment goes to the next (redigo
// #520 lost it).
func TestHandOverToLeavingWaiterIsNotLost_redigo520(t *testing.T) {
	s := &server{}
	in(t, s, s.config(1), func(t *testing.T, p *conns.Pool[*fake]) {
		for range 200 {
			l := get(t, p)
			ctx, cancel := context.WithCancel(t.Context())
			leaves, stays := later(ctx, p), later(t.Context(), p)
			l.Release() // hands over to the first
			cancel()    // before or after it has woken
			if got := settled(t, leaves); got.err == nil {
				got.lease.Release()
			}
			settled(t, stays).lease.Release()
		}
		s.wantCounts(t, 1, 0)
	})
}

// The article's Get ignores its context.
func TestGetEndsWithItsContext_article003(t *testing.T) {
	s := &server{}
	in(t, s, s.config(1), func(t *testing.T, p *conns.Pool[*fake]) {
		l := get(t, p)
		errWhy := errors.New("because")
		ctx, cancel := context.WithCancelCause(t.Context())
		wait := later(ctx, p)
		pending(t, wait)
		cancel(errWhy)
		if got := settled(t, wait); !errors.Is(got.err, errWhy) {
			t.Errorf("Get returned %v, want the cause", got.err)
		}
		l.Release()
		if _, err := p.Get(ctx); !errors.Is(err, errWhy) {
			t.Errorf("Get with an ended context returned %v", err)
		}
		s.wantCounts(t, 1, 0)
	})
}

func TestMaxWaiters(t *testing.T) {
	for name, c := range map[string]struct{ most, wait int }{"two": {2, 2}, "nobody": {0, 0}} {
		t.Run(name, func(t *testing.T) {
			s := &server{onDial: func(context.Context) error { pass1(time.Second); return nil }}
			cfg := s.config(2)
			cfg.MaxWaiters, cfg.NoWaiting = c.most, c.most == 0
			in(t, s, cfg, func(t *testing.T, p *conns.Pool[*fake]) {
				// Waiting for one's own dial does not count as a waiter.
				a, b := later(t.Context(), p), later(t.Context(), p)
				var waits []<-chan result
				for range c.wait {
					waits = append(waits, later(t.Context(), p))
				}
				if _, err := p.Get(t.Context()); !errors.Is(err, conns.ErrBusy) {
					t.Errorf("a further caller got %v", err)
				}
				pass(time.Second)
				settled(t, a).lease.Release()
				settled(t, b).lease.Release()
				for _, w := range waits {
					settled(t, w).lease.Release()
				}
				if st := p.Stats(); st.Rejected != 1 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

func TestWaitedHook(t *testing.T) {
	s := &server{}
	c := s.config(1)
	type wait struct {
		waited time.Duration
		failed bool
	}
	var waits []wait
	c.Hooks.Waited = func(d time.Duration, err error) { waits = append(waits, wait{d, err != nil}) }
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		l := get(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := later(ctx, p)
		pass(time.Second)
		settled(t, w)
		l.Release()
		get(t, p).Release()
		if want := []wait{{0, false}, {time.Second, true}}; !slices.Equal(waits, want) {
			t.Errorf("the hook got %v, want %v", waits, want)
		}
	})
}

// 512 callers with deadlines of 2 ms on 8 connections: after the storm, all 8 are idle.
func TestStorm_vitess20310(t *testing.T) {
	storm := func(t *testing.T, p *conns.Pool[*fake], work time.Duration) (served, left int) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 512 {
			all.Go(func() {
				for range 10 {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
					l, err := p.Get(ctx)
					if err == nil && work > 0 {
						pass1(work)
					}
					if err == nil {
						l.Release()
					} else if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					cancel()
					mu.Lock()
					if err == nil {
						served++
					} else {
						left++
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		return served, left
	}
	calm := func(t *testing.T, p *conns.Pool[*fake]) {
		if st := p.Stats(); st.Idle != 8 || st.InUse != 0 || st.Waiters != 0 || st.Dials != 8 {
			t.Errorf("after the storm: %+v", st)
		}
	}
	t.Run("fake time", func(t *testing.T) {
		s := &server{}
		in(t, s, s.config(8), func(t *testing.T, p *conns.Pool[*fake]) {
			served, left := storm(t, p, 500*time.Microsecond)
			if served == 0 || left == 0 {
				t.Errorf("%d served, %d gave up: no storm", served, left)
			}
			calm(t, p)
		})
	})
	t.Run("real time", func(t *testing.T) {
		s := &server{}
		p := conns.New(s.config(8))
		if err := p.Warm(t.Context(), 8); err != nil {
			t.Fatal(err)
		}
		storm(t, p, 0)
		calm(t, p)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
