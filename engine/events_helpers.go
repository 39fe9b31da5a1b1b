package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine/internal/timing"
)

// job is what a helper does: run a loop, or serve one of its connections.
type job struct {
	l      *loop
	key    uint64     // 0: run the loop
	shakes bool       // a TLS handshake, which Limits.Helpers does not count
	broken *workspace // the workspace of a goroutine that user code ended with runtime.Goexit
}

// helpers are a pool of goroutines that run loops and serve connections off the loops.
// Reusing them saves an allocation per job. While Limits.Helpers of them serve
// connections, further connections with handlers known to be slow wait in line, at the
// cost of a key each. Running a loop never waits, and neither do connections that are not
// known to be slow: see full.
type helpers struct {
	most       int             // Limits.Helpers
	goroutines *sync.WaitGroup // the server's
	workspaces *sync.Pool
	clock      *timing.Clock

	mu      sync.Mutex
	idle    []*helper
	spare   int   // minimum of idle helpers since the last sweep: so many were not needed
	line    []job // jobs that wait for a helper
	offLoop int   // helpers that serve connections off the loops
	unbound bool  // the shutdown's context has ended: no job waits in line
	ended   bool

	full  atomic.Bool  // offLoop has reached the limit; written under mu
	count atomic.Int32 // goroutines
	busy  atomic.Int32 // in user code: they need a processor when it returns
}

type helper struct {
	jobs chan job
	d    workspace
}

func (c *helpers) init(most int, goroutines *sync.WaitGroup, workspaces *sync.Pool, clock *timing.Clock) {
	c.most, c.goroutines, c.workspaces, c.clock = most, goroutines, workspaces, clock
}

// run has a helper do a job at once.
func (c *helpers) run(j job) {
	c.mu.Lock()
	h := c.pick()
	c.mu.Unlock()
	h.jobs <- j
}

// serve has a helper serve a connection, or puts the job in line.
func (c *helpers) serve(j job) {
	c.mu.Lock()
	if c.full.Load() && !c.unbound && !j.shakes {
		c.line = append(c.line, j)
		c.mu.Unlock()
		if k, ok := j.l.lock(j.key); ok {
			k.held().waitInLine()
			k.s.mu.Unlock()
		}
		return
	}
	if !j.shakes {
		c.countOffLoop(1)
	}
	h := c.pick()
	c.mu.Unlock()
	h.jobs <- j
}

// waitInLine has the loop learn of it if the peer breaks the connection while it waits for a helper.
func (k held) waitInLine() {
	if s := k.s; s.facets.has(isHandedOff) {
		s.facets.set(isInLine)
		if k.watchFor(true); s.dead {
			k.list()
		}
	}
}

// claim makes the caller the owner of a connection that was handed off, unless its loop has ended it.
func (k *connRef) claim() (claimed, dead bool) {
	s := k.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if ended, _ := k.standing(); ended || !s.facets.has(isHandedOff) {
		return false, false
	}
	s.facets.clear(isHandedOff | isInLine)
	return true, s.dead
}

// countOffLoop adds n to the helpers that serve connections off the loops. mu held.
func (c *helpers) countOffLoop(n int) {
	c.offLoop += n
	c.full.Store(c.offLoop >= c.most)
}

// takenAway counts a goroutine whose loop was taken away.
func (c *helpers) takenAway() {
	c.mu.Lock()
	c.countOffLoop(1)
	c.mu.Unlock()
}

// pick returns an idle helper, or a new one. mu held.
func (c *helpers) pick() *helper {
	if n := len(c.idle) - 1; n >= 0 {
		h := c.idle[n]
		c.idle[n] = nil
		c.idle = c.idle[:n]
		c.spare = min(c.spare, n)
		return h
	}
	c.spare = 0
	h := &helper{jobs: make(chan job, 1)}
	c.count.Add(1)
	c.goroutines.Add(1)
	go h.work(c)
	return h
}

// unbind starts all jobs in line: their connections are to end, and the handlers that
// they wait for may never return.
func (c *helpers) unbind() {
	c.mu.Lock()
	line := c.line
	c.line, c.unbound = nil, true
	c.mu.Unlock()
	for _, j := range line {
		c.serve(j)
	}
}

// dismiss ends half of the helpers that were not needed since the last call, or all idle
// ones. The sweeper calls it, so the helpers of a burst have ended a dozen sweeps later,
// however busy the server is.
func (c *helpers) dismiss(all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.spare - c.spare/2
	if all {
		n = len(c.idle)
	}
	c.stopIdle(n)
}

// stopIdle ends n idle helpers. mu held.
func (c *helpers) stopIdle(n int) {
	for _, h := range c.idle[:n] {
		close(h.jobs)
	}
	c.idle = slices.Delete(c.idle, 0, n)
	if c.spare = len(c.idle); cap(c.idle) > 4*max(c.spare, 64) {
		c.idle = slices.Clone(c.idle)
	}
}

// end ends all helpers: idle ones now, busy ones after their job.
func (c *helpers) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.stopIdle(len(c.idle))
}

// served returns the next job in line for a helper that has completed its own, if there
// is one.
func (c *helpers) served() (next job, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.line) == 0 {
		c.countOffLoop(-1)
		c.line = nil // free the memory of a long line
		return job{}, false
	}
	next = c.line[0]
	c.line = c.line[1:]
	return next, true
}

// idles makes h idle, unless the helpers have ended. A sweeper that has parked meanwhile must sweep once more.
func (c *helpers) idles(h *helper) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	if c.idle = append(c.idle, h); c.clock.Parked() {
		c.clock.SweepNow()
	}
	return true
}

// work runs jobs until the helper is dismissed.
func (h *helper) work(c *helpers) {
	defer c.goroutines.Done()
	defer c.count.Add(-1)
	for j := range h.jobs {
		for more := true; more; {
			if more = h.do(c, j); more {
				j, more = c.served()
			}
		}
		if !c.idles(h) {
			return
		}
	}
}

// do runs one job, and reports whether it ran, or ended up, off the loop. When user code
// ends the goroutine in the middle of it (runtime.Goexit), another helper continues.
func (h *helper) do(c *helpers, j job) (offLoop bool) {
	d, done := j.broken, false
	defer func() {
		if !done {
			j.broken = d
			c.run(j)
		}
	}()
	switch {
	case d != nil:
		d.ref.owner().resumeAfterExit(d)
	case j.key == 0:
		d = c.workspaces.Get().(*workspace)
	default:
		d = &h.d
		d.offLoop = true
		if d.in == nil {
			d.in = make([]byte, helperRead)
		}
		if k, ok := j.l.find(j.key); ok {
			d.ref = k
			d.ref.owner().serveOffLoop(d)
		}
		if cap(d.turn.Out) > keepOut {
			d.turn.Out = nil // there may be thousands of helpers
		}
	}
	if !d.offLoop {
		j.l.run(d)
	}
	offLoop = !j.shakes && (j.key != 0 || d.offLoop)
	if done = true; j.key == 0 && j.broken == nil {
		if d.offLoop = false; len(d.in) == loopRead { // a smaller buffer means that the visit has waited for input
			c.workspaces.Put(d)
		}
	}
	return offLoop
}

// resumeAfterExit continues after user code has ended the goroutine of a visit.
func (k owner) resumeAfterExit(d *workspace) {
	if ended, _ := k.standing(); ended {
		return // it was in OnClose
	}
	k.fail(Panicked)
	k.s.own.set(isStopped)
	d.dropBuffers()
	k.flush(d, true)
	k.drive(d, false)
}

// fast is a visit that might as well run on the loop.
const fast = 50 * time.Microsecond

// serveOffLoop serves a connection off its loop.
func (k owner) serveOffLoop(d *workspace) {
	busy := &k.sh.srv.helpers.busy
	busy.Add(1)
	defer busy.Add(-1) // also after runtime.Goexit in user code
	switch claimed, dead := k.claim(); {
	case !claimed:
		return
	case dead:
		k.drive(d, false)
		return
	}
	if k.s.own.shakesNext() {
		k.shake(d)
		return
	}
	began := time.Now()
	k.serveKept(d)
	if s, slow := k.s, &k.sh.loop.slow; time.Since(began) < fast {
		s.slowVisits -= min(s.slowVisits, 1)
		s.epoch = slow.Epoch()
	} else if slow.Epoch() != 0 {
		slow.Prolong(time.Since(k.sh.srv.clock.Start()))
	}
	k.drive(d, false)
}
