package engine

import (
	"runtime"
	"time"

	"github.com/hone-go/hone/engine/internal/pace"
	"github.com/hone-go/hone/internal/sys"
)

// loop serves its share of the connections of an Events server. One goroutine at a time
// runs it and owns the fields after shard. Other goroutines reach it through the shard's
// list: whoever changes something that an owner must handle (output to write, a reason to
// end) lists the connection once, and wakes the loop if it sleeps.
type loop struct {
	shard

	ready  [256]sys.Ready
	next   int // ready[next:found] is to be handled
	found  int
	batch  []uint64 // batch[turned:] is to be handled
	turned int
	busy   int // consecutive turns with something to do
	work   int // amount of work since the last sleep, for the policy
	policy pace.Sleep
	yield  pace.Yield
	turns  int // not in counts yet
	events int
	visits uint64
	slow   pace.Alarm
}

// yieldAfter is how many consecutive turns a loop may find work before it yields to other
// goroutines.
const yieldAfter = 16

// run runs the loop until it ends, or until another goroutine takes it over.
func (l *loop) run(d *workspace) {
	for l.round(d) && l.wait() {
	}
}

// listedAtOnce is how many listed connections a loop handles before it polls again:
// requests must not wait for all connections that a broadcast has listed.
const listedAtOnce = 16

// round handles ready and batch. It reports false when the loop was taken away meanwhile:
// the new owner continues where this one was.
func (l *loop) round(d *workspace) bool {
	for {
		for l.next < l.found {
			r := &l.ready[l.next]
			l.next++
			if key := r.Key(); key != sys.WakeKey {
				if k, ok := l.find(key); ok {
					d.ref = k
					d.ref.onReady(d, r)
					if d.offLoop {
						return false
					}
				}
			}
		}
		for upTo := min(l.turned+listedAtOnce, len(l.batch)); l.turned < upTo; {
			key := l.batch[l.turned]
			l.turned++
			l.onListed(d, key)
			if d.offLoop {
				return false
			}
		}
		if l.turned == len(l.batch) {
			return true
		}
		l.next, l.found = 0, l.poll.Now(l.ready[:])
		l.events += l.found
	}
}

// wait fills ready and batch. It reports false when the loop must end.
func (l *loop) wait() bool {
	if l.work += len(l.batch); len(l.srv.loops) > 1 {
		l.work += l.found
	}
	l.turns++
	l.events += l.found + len(l.batch)
	l.next, l.turned = 0, 0
	if l.busy++; l.busy >= yieldAfter {
		l.busy = 0
		l.count()
		runtime.Gosched() // let other goroutines use this processor
	}
	var dirty bool
	if l.batch, dirty = l.Collect(l.batch); dirty {
		l.yield.Others()
	}
	if l.found = l.poll.Now(l.ready[:]); dirty || l.found > 0 {
		return true
	}
	if l.srv.helpers.busy.Load() > 0 {
		if l.othersRun() {
			return true
		}
	} else if l.yield.Yields(l.srv.clock.Start()) {
		runtime.Gosched()
	}
	if !l.Sleep() {
		return true
	}
	if l.leaving.Load() && l.ends() {
		return false
	}
	l.count()
	l.counts.sleeps.Add(1)
	l.policy.Slept(l.work, l.srv.how.hand == Auto && l.srv.helpers.busy.Load() > 0)
	l.busy, l.work = 0, 0
	if l.policy.Parked {
		l.found = l.poll.Park(l.ready[:])
	} else {
		l.poll.Unpark()
		l.found = l.poll.Block(l.ready[:])
	}
	l.Awake()
	if l.batch, dirty = l.Collect(l.batch); dirty {
		l.yield.Others()
	}
	return true
}

// othersRun yields, and reports whether other goroutines keep the processor busy: then the
// loop polls again instead of waiting. The runtime's poller would notice what a parked loop
// waits for only every 10 ms, and a loop that blocks would keep the processor from them.
func (l *loop) othersRun() bool {
	for range 3 {
		began := time.Now()
		runtime.Gosched()
		if time.Since(began) > othersRan {
			return true
		}
	}
	return false
}

// othersRan is the least time that a yield takes when another goroutine runs meanwhile.
const othersRan = 2 * time.Microsecond

// count publishes the loop's counters. Not in every turn: it costs as much as a small
// handler.
func (l *loop) count() {
	l.counts.turns.Add(uint64(l.turns))
	l.counts.events.Add(uint64(l.events))
	l.turns, l.events = 0, 0
}

// ends reports whether the goroutine that runs the loop must leave it.
func (l *loop) ends() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over() && l.Sleep() {
		l.gone = true
		l.closeIfLast()
	}
	return l.gone
}

// onListed handles a connection in the shard's list. The caller is the loop.
func (l *loop) onListed(d *workspace, key uint64) {
	k, ok := l.lock(key)
	if !ok {
		return
	}
	k.s.marks.clear(isDirty)
	if _, away := k.standing(); away && !k.held().leaveLine() {
		k.held().writeAway(false)
		k.s.mu.Unlock()
		return
	}
	k.s.mu.Unlock()
	d.ref = k
	d.ref.owner().drive(d, false)
}
