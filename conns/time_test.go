package conns_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/conns"
)

// The article's pool prunes inside Get, at the caller's expense, and not at all without
// traffic; fasthttp kept idle connections up to twice as long (#308).
func TestIdleConnectionsCloseByThemselves_fasthttp308(t *testing.T) {
	s := &server{}
	c := s.config(5)
	c.MaxIdleTime = 0
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		if err := p.Warm(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		for range 100 { // one suffices for this traffic
			pass(880 * time.Millisecond)
			get(t, p).Release()
		}
		s.wantCounts(t, 5, 0)
		pass(3 * time.Second)
		s.wantCounts(t, 5, 4)
		pass(89 * time.Second)
		s.wantCounts(t, 5, 5)
		if st := p.Stats(); st.Closed[conns.IdleTooLong] != 5 {
			t.Errorf("%v", st.Closed)
		}
	})
}

// Each connection's lifetime is drawn once, and they differ (pgx #1437, where the jitter
// had no effect).
func TestLifetimeJitterFixedAtBirth_pgx1437(t *testing.T) {
	const n, life = 200, time.Hour
	s := &server{}
	c := s.config(n)
	c.MaxLifetime, c.Jitter = life, 0.5
	var mu sync.Mutex
	var ages []float64
	began := time.Time{}
	c.Hooks.Closed = func(why conns.Reason, _ error) {
		mu.Lock()
		defer mu.Unlock()
		if why == conns.LifetimeOver {
			ages = append(ages, time.Since(began).Minutes())
		}
	}
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		began = time.Now()
		if err := p.Warm(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		// If the jitter were drawn at every check, it would be drawn 3 600 times here,
		// and the shortest would win.
		for range 3600 {
			pass(time.Second)
			p.Stats()
		}
		mu.Lock()
		defer mu.Unlock()
		if len(ages) != n {
			t.Fatalf("%d of %d closed", len(ages), n)
		}
		sum, least := 0.0, math.Inf(1)
		for _, a := range ages {
			sum, least = sum+a, min(least, a)
		}
		if mean := sum / n; least < 29.9 || mean < 42 || mean > 48 {
			t.Errorf("lifetimes of %.1f minutes on average, %.1f at least, want about 45 and at least 30", mean, least)
		}
	})
}

// A connection that is never idle for long still reaches its maximum age (pgx #2560).
func TestLifetimeEndsOnAHotPool_pgx2560(t *testing.T) {
	s := &server{}
	c := s.config(1)
	c.MaxLifetime, c.Jitter = time.Minute, -1
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		for range 1000 {
			l := get(t, p)
			if age := time.Since(l.Conn().born); age > time.Minute {
				t.Fatalf("got a connection of age %v", age)
			}
			pass1(500 * time.Millisecond)
			l.Release()
		}
		s.wantCounts(t, 9, 8) // 500 s; each for a minute and the last loan
	})
}

// A pool that is refilled only at the next tick is empty until then: 20 s (pgx #1164).
func TestMinIdleIsRefilledAtOnce_pgx1164(t *testing.T) {
	s := &server{}
	c := s.config(10)
	c.MinIdle, c.MaxIdleTime = 3, time.Minute
	c.Probe = func(context.Context, *fake) error { return nil } // makes sweeps frequent
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		s.wantCounts(t, 3, 0)
		l := get(t, p)
		s.wantCounts(t, 4, 0)
		l.Discard(nil)
		s.wantCounts(t, 4, 1)
		p.Reset()
		s.wantCounts(t, 7, 4)
		pass(10 * time.Minute) // MinIdle connections have no idle timeout
		s.wantCounts(t, 7, 4)
		s.dialing(func(context.Context) error { return errDown })
		p.Reset()
		pass(20 * time.Second)
		s.dialing(nil)
		pass(5 * time.Second) // refilled without a caller
		if st := p.Stats(); st.Idle != 3 {
			t.Errorf("%+v", st)
		}
	})
}

// Closing before dialing reduces capacity for as long as the dial takes (vitess #20080).
func TestRefreshDialsBeforeClosing_vitess20080(t *testing.T) {
	for name, most := range map[string]int{"room for all": 8, "room for one": 5, "no room": 4} {
		t.Run(name, func(t *testing.T) {
			s := &server{}
			c := s.config(most)
			c.MinIdle, c.MaxLifetime, c.Jitter = 4, time.Hour, -1
			in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
				synctest.Wait()
				s.dialing(slowly(2 * time.Second))
				pass(59 * time.Minute)
				for range 120 {
					pass(time.Second)
					if st := p.Stats(); most > 4 && st.Idle < 4 {
						t.Errorf("%d are idle during the refresh, want 4", st.Idle)
					}
				}
				s.wantCounts(t, 8, 4)
			})
			if s.most > most {
				t.Errorf("%d connections at a time, want at most %d", s.most, most)
			}
		})
	}
}

// Until its replacement is open the old connection is used, and closed on release.
func TestOldServesDuringRefresh(t *testing.T) {
	s := &server{}
	c := s.config(8)
	c.MinIdle, c.MaxLifetime, c.Jitter = 1, time.Hour, -1
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		synctest.Wait()
		s.dialing(slowly(time.Minute))
		pass(time.Hour + time.Second)
		began := time.Now()
		l := get(t, p)
		if time.Since(began) != 0 || l.Conn().id != 1 {
			t.Errorf("waited %v for connection %d", time.Since(began), l.Conn().id)
		}
		l.Release()
		s.wantCounts(t, 2, 1)
	})
}

// When the replacement cannot be dialed, the old connection is closed anyway.
func TestRefreshThatFailsClosesTheOld(t *testing.T) {
	s := &server{}
	c := s.config(4)
	c.MinIdle, c.MaxLifetime, c.Jitter = 2, time.Hour, -1
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		synctest.Wait()
		s.dialing(func(context.Context) error { return errDown })
		pass(time.Hour + time.Second)
		if st := p.Stats(); st.Open != 0 {
			t.Errorf("%+v", st)
		}
		s.dialing(nil)
		pass(10 * time.Second)
		if st := p.Stats(); st.Idle != 2 {
			t.Errorf("%+v", st)
		}
	})
}

// Connections that MinIdle no longer needs are closed without a replacement.
func TestResizeDuringRefresh(t *testing.T) {
	s := &server{}
	c := s.config(8)
	c.MinIdle, c.MaxLifetime, c.Jitter = 4, time.Hour, -1
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		synctest.Wait()
		s.dialing(slowly(time.Minute))
		pass(time.Hour + time.Second)
		s.wantCounts(t, 8, 0)
		p.Resize(8, 0)
		s.wantCounts(t, 8, 4)
	})
}

// A probe does not change the order of idle connections; otherwise it would keep too many
// in use.
func TestProbeIsNoUse(t *testing.T) {
	s := &server{}
	c := s.config(2)
	c.Probe = func(context.Context, *fake) error { return nil }
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		a, b := get(t, p), get(t, p)
		last := b.Conn()
		a.Release()
		pass(10 * time.Second)
		b.Release()
		pass(25 * time.Second)
		if n := p.Stats().Probes; n != 1 {
			t.Fatalf("%d probes so far, want 1", n)
		}
		l := get(t, p)
		if l.Conn() != last {
			t.Error("got the probed connection, not the one used last")
		}
		l.Release()
	})
}

// Pings that delay requests add up to minutes when a server is down (moov #506). Probes
// run in the background.
func TestProbesAreInTheBackground_moov506(t *testing.T) {
	s := &server{}
	var mu sync.Mutex
	dead, probed := map[int]bool{}, map[int]bool{}
	c := s.config(4)
	c.MaxIdleTime = 10 * time.Minute
	c.Probe = func(ctx context.Context, c *fake) error {
		mu.Lock()
		probed[c.id] = true
		gone := dead[c.id]
		mu.Unlock()
		if gone {
			return slowly(time.Hour)(ctx) // unresponsive: ends with DialTimeout
		}
		return nil
	}
	c.DialTimeout = 2 * time.Second
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		if err := p.Warm(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		wantProbed := func(n int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if len(probed) != n {
				t.Errorf("probed so far: %v, want %d", probed, n)
			}
		}
		pass(29 * time.Second)
		wantProbed(0)
		pass(2 * time.Second)
		wantProbed(4)
		mu.Lock()
		dead[1], dead[2] = true, true
		mu.Unlock()
		pass(30 * time.Second)
		began := time.Now()
		a, b := get(t, p), get(t, p)
		if time.Since(began) != 0 || dead[a.Conn().id] || dead[b.Conn().id] {
			t.Error("a probe delayed a borrower, or its connection was lent")
		}
		a.Release()
		b.Release()
		pass(2 * time.Second)
		s.wantCounts(t, 4, 2)
		if st := p.Stats(); st.Closed[conns.NotAlive] != 2 || st.Idle != 2 {
			t.Errorf("%+v", st)
		}
		pass(11 * time.Minute) // a probe does not count as use: the idle timeout still applies
		s.wantCounts(t, 4, 4)
	})
}

// The pool does not check a connection that was used a moment ago at the borrower's
// expense (the article's TestOnBorrow does), but one that was idle for long.
func TestAliveIsAskedAfterSilence_article003(t *testing.T) {
	s := &server{}
	asked := 0
	var bad error
	c := s.config(3)
	c.Alive = func(_ *fake, idle time.Duration) error {
		asked++
		if idle < 8*time.Second || idle > 20*time.Second {
			t.Errorf("Alive was called after %v", idle)
		}
		return bad
	}
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		if err := p.Warm(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			get(t, p).Release()
		}
		if asked != 0 {
			t.Errorf("Alive was called %d times in traffic", asked)
		}
		pass(10 * time.Second)
		get(t, p).Release()
		get(t, p).Release()
		if asked != 1 {
			t.Errorf("Alive was called %d times after idleness, want 1", asked)
		}
		pass(10 * time.Second)
		bad = errors.New("end of stream")
		get(t, p).Release() // three fail the check, a fourth is dialed
		s.wantCounts(t, 4, 3)
		if st := p.Stats(); st.Closed[conns.NotAlive] != 3 || st.Idle != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestAliveAlways(t *testing.T) {
	s := &server{}
	asked := 0
	c := s.config(1)
	c.AlwaysAsk = true
	c.Alive = func(*fake, time.Duration) error { asked++; return nil }
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		for range 10 {
			get(t, p).Release()
		}
		if asked != 9 { // all except the first loan, which is a new connection
			t.Errorf("Alive was called %d times", asked)
		}
	})
}
