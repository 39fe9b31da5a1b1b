package conns_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/conns"
	"github.com/hone-go/hone/internal/testrun"
)

// slowly makes every dial take that long, unless its context ends first.
func slowly(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// In the article's pool, a caller with a token dials even when a connection is released a
// moment later. Here a waiter takes whichever comes first.
func TestWaiterTakesWhatComesFirst_goredis3497(t *testing.T) {
	s := &server{}
	in(t, s, s.config(2), func(t *testing.T, p *conns.Pool[*fake]) {
		l := get(t, p)
		conn := l.Conn()
		s.dialing(slowly(time.Second))
		wait := later(t.Context(), p)
		pass(time.Millisecond)
		l.Release()
		got := settled(t, wait)
		if got.err != nil || got.lease.Conn() != conn {
			t.Errorf("waited for its own dial, error %v", got.err)
		}
		got.lease.Release()
		pass(time.Second)
		if st := p.Stats(); st.Idle != 2 { // the dialed connection was kept
			t.Errorf("%+v", st)
		}
	})
}

// When every caller gives up before a dial completes, the dial must still complete, or
// there is never a connection (pgx #1287, #1259).
func TestDialOutlivesItsCaller_pgx1287(t *testing.T) {
	s := &server{onDial: slowly(time.Second)}
	in(t, s, s.config(1), func(t *testing.T, p *conns.Pool[*fake]) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := p.Get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		next := later(t.Context(), p)
		pass(time.Second)
		settled(t, next).lease.Release()
		s.wantCounts(t, 1, 0)
	})
}

// The article's dial has no timeout.
func TestDialTimeout_article003(t *testing.T) {
	s := &server{onDial: slowly(time.Hour)}
	c := s.config(1)
	c.DialTimeout = 0
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		began := time.Now()
		_, err := p.Get(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestDialsAreBounded(t *testing.T) {
	s := &server{onDial: slowly(time.Second)}
	c := s.config(20)
	c.MaxDials = 3
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		warm := make(chan error, 1)
		go func() { warm <- p.Warm(t.Context(), 20) }()
		for range 6 {
			synctest.Wait()
			if st := p.Stats(); st.Dialing != 3 {
				t.Errorf("%d dials at a time, want 3", st.Dialing)
			}
			pass(time.Second)
		}
		pass(time.Second)
		if err := <-warm; err != nil {
			t.Error(err)
		}
	})
}

// When a dial fails, a waiter gets the error or another connection: none is stranded.
func TestFailedDialStrandsNobody(t *testing.T) {
	s := &server{}
	in(t, s, s.config(3), func(t *testing.T, p *conns.Pool[*fake]) {
		l := get(t, p)
		s.dialing(func(context.Context) error { pass1(time.Second); return errDown })
		var waits []<-chan result
		for range 4 {
			waits = append(waits, later(t.Context(), p))
		}
		pass(time.Second)
		// Two dials have failed and something is open: the first two get the error.
		for _, w := range waits[:2] {
			if got := settled(t, w); !errors.Is(got.err, errDown) {
				t.Errorf("the dial's error did not arrive: %v", got.err)
			}
		}
		pending(t, waits[2])
		l.Release()
		l = settled(t, waits[2]).lease
		pending(t, waits[3])
		l.Discard(nil) // now nothing is open: the next failure is reported to all
		pass(10 * time.Second)
		if got := settled(t, waits[3]); !errors.Is(got.err, errDown) {
			t.Errorf("the last one got %v", got.err)
		}
	})
}

func TestBackoffIsSharedAndTriesOnce(t *testing.T) {
	s := &server{onDial: func(context.Context) error { pass1(time.Millisecond); return errDown }}
	in(t, s, s.config(64), func(t *testing.T, p *conns.Pool[*fake]) {
		crowd := func() (told, refused int) {
			var waits []<-chan result
			for range 20 {
				waits = append(waits, later(t.Context(), p))
			}
			pass(2 * time.Millisecond)
			for _, w := range waits {
				err := settled(t, w).err
				if errors.Is(err, conns.ErrBackoff) {
					refused++
				}
				if errors.Is(err, errDown) {
					told++
				}
			}
			return told, refused
		}
		if told, refused := crowd(); told != 20 || refused != 0 {
			t.Errorf("of 20 at first %d got the dial error and %d ErrBackoff", told, refused)
		}
		dials, _ := s.counts()
		if dials != 16 {
			t.Errorf("%d initial dials, want MaxDials", dials)
		}
		if told, refused := crowd(); told != 20 || refused != 20 {
			t.Errorf("of 20 in the backoff %d got the dial error and %d ErrBackoff", told, refused)
		}
		pauses := 0
		for range 400 { // 20 s with a burst every 50 ms
			pass(48 * time.Millisecond)
			before, _ := s.counts()
			crowd()
			after, _ := s.counts()
			if after-before > 1 {
				t.Fatalf("%d dials at the end of a pause, want one", after-before)
			}
			pauses += after - before
		}
		if pauses < 8 || pauses > 16 { // 50 ms doubled up to 5 s, with at most 50 % jitter
			t.Errorf("%d dials in 20 s", pauses)
		}
		s.dialing(nil)
		pass(5 * time.Second)
		get(t, p).Release()
		s.dialing(slowly(time.Second)) // recovered: no longer one by one
		var waits []<-chan result
		for range 10 {
			waits = append(waits, later(t.Context(), p))
		}
		if st := p.Stats(); st.Dialing != 9 || st.InUse != 1 {
			t.Errorf("%+v", st)
		}
		pass(time.Second)
		for _, w := range waits {
			settled(t, w).lease.Release()
		}
	})
}

// During a backoff no caller is refused that can still be served, and the dial at its end
// needs no new caller.
func TestPauseEndsByItself(t *testing.T) {
	s := &server{}
	in(t, s, s.config(2), func(t *testing.T, p *conns.Pool[*fake]) {
		l := get(t, p)
		s.dialing(func(context.Context) error { return errDown })
		if _, err := p.Get(t.Context()); !errors.Is(err, errDown) {
			t.Fatal(err)
		}
		s.dialing(nil)
		wait := later(t.Context(), p)
		pending(t, wait)
		pass(50 * time.Millisecond)
		settled(t, wait).lease.Release()
		l.Release()
		s.wantCounts(t, 3, 0)
	})
}

// A connection that is being closed still counts, and then frees its place for a waiter.
func TestClosingCountsAgainstMax(t *testing.T) {
	s := &server{onClose: func() { pass1(time.Second) }}
	in(t, s, s.config(1), func(t *testing.T, p *conns.Pool[*fake]) {
		began := time.Now()
		get(t, p).Discard(nil)
		if time.Since(began) != 0 {
			t.Error("Discard waits for Close")
		}
		wait := later(t.Context(), p)
		pending(t, wait)
		pass(time.Second)
		settled(t, wait).lease.Release()
	})
	if s.most != 1 {
		t.Errorf("%d connections at a time", s.most)
	}
}

// Misuse is the programmer's: New names the field.
func TestNewPanics(t *testing.T) {
	dial := func(context.Context) (int, error) { return 0, nil }
	for field, c := range map[string]conns.Config[int]{"Dial": {}, "MaxWaiters": {Dial: dial, MaxWaiters: -1}, "AliveAfter": {Dial: dial, AliveAfter: -1}} {
		testrun.WantPanic(t, "conns: Config."+field+" is ", func() { conns.New(c) })
	}
}
