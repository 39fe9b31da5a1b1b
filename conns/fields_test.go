package conns_test

import (
	"context"
	"testing"
	"time"

	"github.com/hone-go/hone/conns"
	"github.com/hone-go/hone/internal/testrun"
)

// A negative limit is no limit, and a negative time is off.
func TestNoLimits(t *testing.T) {
	s := &server{onDial: func(context.Context) error { pass1(time.Second); return nil }}
	c := s.config(-1)
	c.MaxDials, c.ProbeAfter = -1, -1
	c.Probe = func(context.Context, *fake) error { t.Error("a probe"); return nil }
	in(t, s, c, func(t *testing.T, p *conns.Pool[*fake]) {
		var all []<-chan result
		for range 200 {
			all = append(all, later(t.Context(), p))
		}
		pass(time.Second)
		for _, r := range all {
			defer settled(t, r).lease.Release()
		}
		s.wantCounts(t, 200, 0)
		get(t, p).Release()
		pass(time.Hour)
	})
}

// The largest value of each field works, and keeps its meaning.
func TestLargestValues(t *testing.T) {
	testrun.EachLargest(t, func(t *testing.T, c *conns.Config[*fake]) {
		s, asked := &server{}, 0
		c.Dial, c.Close = s.dial, s.close
		c.Alive = func(*fake, time.Duration) error { asked++; return nil }
		in(t, s, *c, func(t *testing.T, p *conns.Pool[*fake]) {
			a, b := get(t, p), get(t, p)
			a.Release()
			b.Release()
			pass(time.Minute)
			get(t, p).Release()
			if want := c.AliveAfter == 0; (asked == 1) != want {
				t.Errorf("Alive was called %d times after a minute", asked)
			}
			if dials, _ := s.counts(); c.MinIdle == 0 && dials != 2 {
				t.Errorf("%d dials", dials)
			}
		})
	})
}
