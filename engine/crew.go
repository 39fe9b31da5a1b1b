package engine

import (
	"sync"
	"sync/atomic"
	"time"
)

// handOff has a connection served beside its loop. The caller is the loop.
func (k *link) handOff() {
	k.s.mu.Lock()
	k.s.away.Store(true)
	k.arm(true)
	k.s.mu.Unlock()
	k.l.srv.crew.do(task{l: k.l, key: k.key})
}

// task is what a hand does: run a loop, or serve one of its connections.
type task struct {
	l      *loop
	key    uint64 // 0: run the loop
	broken *seat  // what a goroutine has left that was ended in the middle
}

// crew are the goroutines that run loops and serve beside them. They are kept for
// the next task: a goroutine for each would allocate.
type crew struct {
	srv   *Server
	mu    sync.Mutex
	idle  []*hand
	ended bool
	busy  atomic.Int32 // goroutines in user code that run no loop: they need a processor when it returns
}

type hand struct {
	tasks chan task
	seat  seat
}

func (c *crew) do(t task) {
	var h *hand
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		h = c.idle[n-1]
		c.idle[n-1] = nil
		c.idle = c.idle[:n-1]
	}
	c.mu.Unlock()
	if h == nil {
		h = &hand{tasks: make(chan task, 1)}
		c.srv.goroutines.Add(1)
		go h.work(c)
	}
	h.tasks <- t
}

// dismiss sends home the hands that have nothing to do.
func (c *crew) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, h := range c.idle {
		close(h.tasks)
		c.idle[i] = nil
	}
	c.idle = c.idle[:0]
}

// end sends hands home, those that are busy when they have done their task.
func (c *crew) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.dismiss()
}

// idles puts h among those who wait for a task, unless there will be none.
func (c *crew) idles(h *hand) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.idle = append(c.idle, h)
	}
	return !c.ended
}

// work does tasks until it is sent home.
func (h *hand) work(c *crew) {
	defer c.srv.goroutines.Done()
	var d *seat // while a task is done
	var t task
	defer func() {
		if d != nil { // user code has ended this goroutine: somebody else goes on
			c.do(task{l: t.l, key: t.key, broken: d})
		}
	}()
	for t = range h.tasks {
		if d = t.broken; d == nil && t.key == 0 {
			d = c.srv.seats.Get().(*seat)
		} else if d == nil {
			d = &h.seat
			d.off = true
			if d.in == nil {
				d.in = make([]byte, handRead)
			}
		}
		t.do(d)
		if t.key == 0 && t.broken == nil {
			d.off = false
			c.srv.seats.Put(d)
		}
		d = nil
		if !c.idles(h) {
			return
		}
	}
}

func (t task) do(d *seat) {
	if t.broken != nil {
		d.link.mend(d)
	} else if t.key != 0 {
		if k, ok := t.l.find(t.key); ok {
			d.link = k
			d.link.assist(d)
		}
	}
	if !d.off {
		t.l.run(d)
	}
}

// mend goes on where user code has ended the goroutine of a visit.
func (k *link) mend(d *seat) {
	k.flush(&d.turn)
	d.box.forget()
	d.box = inbox{}
	d.spoil()
	k.tend(d, false)
}

// spoil forgets memory that a panic has left in somebody else's hands.
func (d *seat) spoil() {
	d.in, d.turn.Out = make([]byte, len(d.in)), nil
}

// assist serves a connection beside its loop.
func (k *link) assist(d *seat) {
	k.l.srv.crew.busy.Add(1)
	defer k.l.srv.crew.busy.Add(-1) // also of a goroutine that user code has ended
	began := time.Now()
	if x := k.x.Load(); x != nil && x.ready {
		k.serveOn(d)
	} else {
		k.read(d)
	}
	if l, s := k.l, k.s; time.Since(began) < fast {
		s.doubt -= min(s.doubt, 1)
		s.epoch = uint8(l.wary.epoch.Load())
	} else if l.wary.epoch.Load() != 0 {
		l.wary.last.Store(int64(time.Since(l.srv.clock.start)))
	}
	k.tend(d, false)
}
