package engine

import (
	"sync"
	"testing"
)

// idleHelpers returns helpers without goroutines: their jobs stay in their channels.
func idleHelpers(s *Server, n int) *helpers {
	c := &s.helpers
	c.init(s.limits.Helpers, &s.goroutines, &s.workspaces, &s.clock)
	for range n {
		c.idle = append(c.idle, &helper{jobs: make(chan job, 1)})
	}
	c.spare = n
	return c
}

// A helper that goes idle after a server's last sweep is dismissed: it has the server sweep once more.
func TestIdleHelperOfAParkedServer(t *testing.T) {
	s := bare(Limits{})
	c := idleHelpers(s, 0)
	for _, parked := range []bool{false, true} {
		s.clock.Park(parked)
		c.idles(&helper{jobs: make(chan job, 1)})
		sweeps := false
		select {
		case <-s.clock.Kicks():
			sweeps = true
		default:
		}
		if sweeps != parked {
			t.Errorf("parked %v: sweeps %v", parked, sweeps)
		}
	}
}

// The helpers of a burst end although one of them is needed all the time.
func TestHelpersGoHome(t *testing.T) {
	s := bare(Limits{})
	c := idleHelpers(s, 3000)
	l := &loop{}
	sweeps := 0
	for ; len(c.idle) > 2 && sweeps < 40; sweeps++ {
		c.serve(job{l: l, key: 1}) // a request between any two sweeps
		c.mu.Lock()
		c.countOffLoop(-1)
		c.idle = append(c.idle, &helper{jobs: make(chan job, 1)})
		c.mu.Unlock()
		c.dismiss(false)
	}
	if len(c.idle) > 2 {
		t.Errorf("%d helpers left after %d sweeps", len(c.idle), sweeps)
	}
	if cap(c.idle) > 4*64 {
		t.Errorf("capacity for %d helpers is kept", cap(c.idle))
	}
	t.Logf("%d sweeps", sweeps)
}

// At most Limits.Helpers serve off the loops; further jobs wait in line in FIFO order.
// Running a loop never waits.
func TestHelpersAreBounded(t *testing.T) {
	s := bare(Limits{Helpers: 2})
	c := idleHelpers(s, 10)
	l := &loop{}
	l.chunks.Store(&[]chunk{})
	for key := range uint64(5) {
		c.serve(job{l: l, key: key + 1})
	}
	if got := 10 - len(c.idle); got != 2 || len(c.line) != 3 {
		t.Fatalf("%d helpers serve and %d jobs wait in line, want 2 and 3", got, len(c.line))
	}
	c.run(job{l: l})
	if got := 10 - len(c.idle); got != 3 {
		t.Errorf("a loop had to wait for a helper")
	}
	for key := uint64(3); key <= 5; key++ {
		if j, more := c.served(); !more || j.key != key {
			t.Errorf("job %d (%v), want %d", j.key, more, key)
		}
	}
	for range 2 {
		if _, more := c.served(); more {
			t.Error("served returned a job although none waits")
		}
	}
	if c.offLoop != 0 {
		t.Errorf("%d helpers still count as serving", c.offLoop)
	}
	for key := range uint64(3) {
		c.serve(job{l: l, key: key + 1})
	}
	c.unbind() // a shutdown's context has ended
	if len(c.line) != 0 || c.offLoop != 3 {
		t.Errorf("%d jobs wait in line and %d run, want 0 and 3", len(c.line), c.offLoop)
	}
}

// With real helpers every job runs once.
func TestHelpersDoEveryJobOnce(t *testing.T) {
	s := bare(Limits{Helpers: 3})
	s.helpers.init(s.limits.Helpers, &s.goroutines, &s.workspaces, &s.clock)
	l := &loop{}
	l.srv = s
	l.chunks.Store(&[]chunk{})
	var jobs sync.WaitGroup
	for key := range uint64(1000) {
		jobs.Go(func() { s.helpers.serve(job{l: l, key: key<<32 | maxSlots}) }) // no connection has such a slot
	}
	jobs.Wait()
	s.helpers.end()
	s.goroutines.Wait()
	if c := &s.helpers; c.offLoop != 0 || len(c.line) != 0 || c.count.Load() != 0 {
		t.Errorf("%d serving, %d waiting, %d goroutines", c.offLoop, len(c.line), c.count.Load())
	}
}
