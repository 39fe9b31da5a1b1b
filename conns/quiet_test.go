package conns

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// An idle pool with nothing to expire does not wake up: after the one sweep that records
// what is idle, no timer is set.
func TestIdlePoolDoesNotWake(t *testing.T) {
	for name, c := range map[string]Config[int]{
		"nothing to expire": {MaxIdleTime: -1, MaxLifetime: -1},
		"all are MinIdle":   {MaxLifetime: -1, MinIdle: 4},
		"nothing is open":   {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.Dial = func(context.Context) (int, error) { return 1, nil }
				p := New(c)
				if name != "nothing is open" {
					if err := p.Warm(t.Context(), 4); err != nil {
						t.Fatal(err)
					}
				}
				<-time.After(2 * time.Second)
				synctest.Wait()
				p.mu.Lock()
				if p.due != never && p.due > p.now() || p.running != 0 {
					t.Errorf("a timer is set for %v, at %v; %d running", p.due, p.now(), p.running)
				}
				p.mu.Unlock()
				if err := p.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// One timer is set, for the earliest deadline.
func TestTimerIsSetForTheEarliest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config[int]{
			Dial:        func(context.Context) (int, error) { return 1, nil },
			MaxIdleTime: time.Minute, MaxLifetime: 70 * time.Second, Jitter: -1,
		})
		l, err := p.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		due := func(want time.Duration) {
			t.Helper()
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.due.Round(time.Millisecond) != want || p.running != 1 {
				t.Errorf("the timer is set for %v, want %v; %d running", p.due, want, p.running)
			}
		}
		due(70 * time.Second)
		l.Release()
		due(time.Second) // the tick that records that it is idle
		<-time.After(time.Second)
		due(61 * time.Second)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Connections were handed from one expired waiter to the next, while nobody did any work:
// 19 177 goroutines and no I/O (vitess #20310). Here callers give up while the lock is
// held, so that none can remove itself from the queue.
func TestExpiredWaiterIsPassedOver_vitess20310(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config[int]{Dial: func(context.Context) (int, error) { return 1, nil }, Max: 1})
		l, err := p.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 8)
		for range cap(left) {
			go func() {
				_, err := p.Get(ctx)
				left <- err
			}()
		}
		synctest.Wait()
		stays := make(chan error, 1)
		go func() {
			l, err := p.Get(t.Context())
			if err == nil {
				l.Release()
			}
			stays <- err
		}()
		synctest.Wait()

		l.lock()
		cancel()
		p.comeBack(l.slot)
		if p.count.passedOver != 8 || p.waiting.Len() != 0 || len(p.idle) != 0 {
			t.Errorf("%d passed over, %d in the queue, %d idle", p.count.passedOver, p.waiting.Len(), len(p.idle))
		}
		p.mu.Unlock()
		if err := <-stays; err != nil {
			t.Errorf("the waiter that stayed got %v", err)
		}
		for range cap(left) {
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Errorf("a waiter that gave up got %v", err)
			}
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Get checks the lifetime itself when the timer is late.
func TestLifetimeIsCheckedBeforeALoan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		p := New(Config[int]{Dial: func(context.Context) (int, error) { dials++; return dials, nil }})
		if err := p.Warm(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		p.mu.Lock()
		p.idle[0].expires = p.now()
		p.mu.Unlock()
		if err := p.Do(t.Context(), func(_ context.Context, c int) error {
			if c != 2 {
				t.Error("got a connection past its lifetime")
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
