//go:build !race

// The race detector wakes threads of its own.

package sys

import (
	"syscall"
	"testing"
	"time"
)

// A Poll reports a timer that it watches until the timer is set again.
func TestPollWatchesATimer(t *testing.T) {
	timer := newTimer(t)
	poll, err := NewPoll(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer poll.Close()
	if err := timer.Watch(poll, 7); err != nil {
		t.Fatal(err)
	}
	ready := make([]Ready, 4)
	for range 3 {
		if err := timer.Set(time.Millisecond); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if n := poll.Block(ready); n != 1 || ready[0].Key() != 7 {
				t.Fatalf("%d events", n)
			}
		}
		if err := timer.Set(time.Hour); err != nil {
			t.Fatal(err)
		}
		if n := poll.Now(ready); n != 0 {
			t.Fatalf("%d events of a timer that was set again", n)
		}
	}
}

// A wait that tells the scheduler of its calls wakes the runtime's monitor each time, which
// then looks around until the process is idle again: three context switches a wait
// instead of one. Other work on the machine adds involuntary switches, which do not
// count here.
func TestTimerLetsTheMonitorSleep(t *testing.T) {
	timer := newTimer(t)
	switches := func() int64 {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			t.Fatal(err)
		}
		return int64(used.Nvcsw)
	}
	const waits = 300
	best := 1e9
	for range 3 { // what else the process does adds some, but hardly three times
		before := switches()
		for range waits {
			if err := timer.WaitFor(time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		best = min(best, float64(switches()-before)/waits)
	}
	t.Logf("%.1f voluntary context switches a wait", best)
	if best > 1.8 {
		t.Errorf("%.1f voluntary context switches a wait, want one", best)
	}
}
