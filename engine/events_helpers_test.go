package engine

import (
	"sync"
	"testing"
)

// idleHelpers are helpers that nobody runs: their jobs stay in their channels.
func idleHelpers(s *Server, n int) *helpers {
	c := &s.helpers
	c.srv = s
	for range n {
		c.idle = append(c.idle, &helper{jobs: make(chan job, 1)})
	}
	c.spare = n
	return c
}

// A crowd of helpers goes home although one of them is needed all the time.
func TestHelpersGoHome(t *testing.T) {
	s := bare(Limits{})
	c := idleHelpers(s, 3000)
	l := &loop{}
	sweeps := 0
	for ; len(c.idle) > 2 && sweeps < 40; sweeps++ {
		c.serve(job{l: l, key: 1}) // somebody asks between any two sweeps
		c.mu.Lock()
		c.beside(-1)
		c.idle = append(c.idle, &helper{jobs: make(chan job, 1)})
		c.mu.Unlock()
		c.dismiss(false)
	}
	if len(c.idle) > 2 {
		t.Errorf("%d helpers are left after %d sweeps", len(c.idle), sweeps)
	}
	if cap(c.idle) > 4*64 {
		t.Errorf("room for %d helpers is kept", cap(c.idle))
	}
	t.Logf("%d sweeps", sweeps)
}

// No more than Limits.Helpers serve beside the loops; what is more waits in line and
// comes in its order. Loops never wait.
func TestHelpersAreBounded(t *testing.T) {
	s := bare(Limits{Helpers: 2})
	c := idleHelpers(s, 10)
	l := &loop{}
	for key := range uint64(5) {
		c.serve(job{l: l, key: key + 1})
	}
	if got := 10 - len(c.idle); got != 2 || len(c.line) != 3 {
		t.Fatalf("%d helpers serve and %d jobs wait, want 2 and 3", got, len(c.line))
	}
	c.run(l)
	if got := 10 - len(c.idle); got != 3 {
		t.Errorf("a loop waits for a helper")
	}
	for key := uint64(3); key <= 5; key++ {
		if j, more := c.served(); !more || j.key != key {
			t.Errorf("job %d (%v), want %d", j.key, more, key)
		}
	}
	for range 2 {
		if _, more := c.served(); more {
			t.Error("a job out of nowhere")
		}
	}
	if c.besides != 0 {
		t.Errorf("%d still count as serving", c.besides)
	}
	for key := range uint64(3) {
		c.serve(job{l: l, key: key + 1})
	}
	c.unbind() // a shutdown has lost its patience
	if len(c.line) != 0 || c.besides != 3 {
		t.Errorf("%d jobs wait, and %d are served, want 0 and 3", len(c.line), c.besides)
	}
}

// Real helpers do every job once, whoever comes first.
func TestHelpersDoEveryJobOnce(t *testing.T) {
	s := bare(Limits{Helpers: 3})
	s.helpers.srv = s
	l := &loop{}
	l.srv = s
	l.chunks.Store(&[]chunk{})
	var jobs sync.WaitGroup
	for key := range uint64(1000) {
		jobs.Go(func() { s.helpers.serve(job{l: l, key: key<<32 | maxSlots}) }) // nobody has such a slot
	}
	jobs.Wait()
	s.helpers.end()
	s.goroutines.Wait()
	if c := &s.helpers; c.besides != 0 || len(c.line) != 0 || c.count.Load() != 0 {
		t.Errorf("%d serve, %d wait, %d goroutines", c.besides, len(c.line), c.count.Load())
	}
}
