package sys

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
)

func newTimer(t testing.TB) *Timer {
	t.Helper()
	timer, err := NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { timer.Close() })
	return timer
}

// Package time overshoots a wait of 200 µs by most of a millisecond, each time. Other
// work on the machine delays a timer as well, but hardly nine times out of ten.
func TestTimerRingsSoonAfterItsMoment(t *testing.T) {
	timer := newTimer(t)
	late := make([]time.Duration, 200)
	for i := range late {
		const want = 200 * time.Microsecond
		begun := time.Now()
		if err := timer.WaitFor(want); err != nil {
			t.Fatal(err)
		}
		if late[i] = time.Since(begun) - want; late[i] < 0 {
			t.Fatalf("fired %v early", -late[i])
		}
	}
	slices.Sort(late)
	t.Logf("late by %v at the 10th percentile, %v at the median, %v at the 99th", late[20], late[100], late[198])
	if runtime.GOOS == "linux" && late[20] > 500*time.Microsecond {
		t.Errorf("late by %v at the 10th percentile, as package time is", late[20])
	}
}

func TestTimerOfThePast(t *testing.T) {
	timer := newTimer(t)
	begun := time.Now()
	for range 1000 {
		if err := timer.WaitFor(-time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("1000 waits took %v, want all to return at once", took)
	}
}

func TestTimerCloseEndsAWait(t *testing.T) {
	timer := newTimer(t)
	ended := make(chan error)
	go func() { ended <- timer.WaitFor(time.Hour) }()
	if err := timer.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("Wait returned %v, want os.ErrClosed", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Wait did not return after Close")
	}
}

func TestTimerAllocatesNothing(t *testing.T) {
	timer := newTimer(t)
	if n := testing.AllocsPerRun(20, func() {
		if err := timer.WaitFor(0); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per wait, want 0", n)
	}
}

// Set takes effect while another goroutine waits.
func TestTimerSetWhileWaiting(t *testing.T) {
	timer, err := NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	defer timer.Close()
	if err := timer.Set(time.Hour); err != nil {
		t.Fatal(err)
	}
	rang := make(chan error, 1)
	for range 100 {
		go func() { rang <- timer.Wait() }()
		if err := timer.Set(-time.Second); err != nil {
			t.Fatal(err)
		}
		if err := <-rang; err != nil {
			t.Fatal(err)
		}
	}
}
