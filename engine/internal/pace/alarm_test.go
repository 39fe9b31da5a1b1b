package pace

import (
	"testing"
	"time"
)

// Three slow visits in a row raise an alarm, which ends half a second after the last one; the
// next alarm has another number, never 0.
func TestAlarm(t *testing.T) {
	var a Alarm
	now, visits := time.Hour, uint64(0)
	slow := func(gap time.Duration, between uint64) {
		now, visits = now+gap, visits+between
		a.TakenAway(now, visits)
	}
	for range 10 { // far apart
		if slow(alarmGap+1, alarmFew+1); a.Epoch() != 0 {
			t.Fatal("visits far apart raise an alarm")
		}
	}
	for _, x := range []struct {
		gap     time.Duration
		between uint64
	}{{alarmGap, 1000}, {time.Minute, alarmFew}} {
		for range 300 {
			now, visits = now+time.Hour, visits+1000
			if slow(x.gap, x.between); a.Epoch() != 0 {
				t.Fatal("the first slow visit raises an alarm")
			}
			if slow(x.gap, x.between); a.Epoch() != 0 {
				t.Fatal("the second slow visit raises an alarm")
			}
			before := a.epochs
			if slow(x.gap, x.between); a.Epoch() == 0 || a.Epoch() == before {
				t.Fatalf("the third slow visit leaves the alarm at %d, after %d", a.Epoch(), before)
			}
			if a.CalmDown(now + calmTime); a.Epoch() == 0 {
				t.Fatal("the alarm ends early")
			}
			a.Prolong(now + 1)
			if a.CalmDown(now + calmTime + 1); a.Epoch() == 0 {
				t.Fatal("the alarm ends although a visit was slow meanwhile")
			}
			if a.CalmDown(now + calmTime + 2); a.Epoch() != 0 {
				t.Fatal("the alarm does not end")
			}
		}
	}
}
