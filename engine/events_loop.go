package engine

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// loop serves its share of the connections of an Events server. One goroutine at
// a time runs it; the fields behind shard are that goroutine's. Others reach it
// through the shard's list: whoever has changed something that an owner must look
// at (output to write, a reason to leave) lists the connection once, and wakes the
// loop if it sleeps.
type loop struct {
	shard

	ready  [256]sys.Ready
	next   int // ready[next:found] is to be looked at
	found  int
	batch  []uint64 // batch[turned:] is to be looked at
	turned int
	busy   int // times in a row that there was something to do
	work   int // how much that was since the last sleep, for the policy
	policy sleepPolicy
	yield  yieldPolicy
	turns  int // since counted was told
	events int
	visits uint64
	slow   slowAlarm

	counted struct{ sleeps, turns, events atomic.Uint64 }
}

// loopRead is what a loop reads at a time, and helperRead what a goroutine beside
// it does: there may be many of those.
const (
	loopRead   = 64 << 10
	helperRead = 4 << 10
)

func newLoop(s *Server, i int, fault sys.Fault) (*loop, error) {
	poll, err := sys.NewPoll(fault)
	if err != nil {
		return nil, err
	}
	l := &loop{}
	l.loop, l.srv, l.counts, l.poll, l.rouse = l, s, &s.counts[i%len(s.counts)], poll, func() { poll.Wake() }
	l.chunks.Store(&[]chunk{})
	return l, nil
}

// yieldAfter is how often in a row a loop may find work before it lets others run.
const yieldAfter = 16

// run turns the loop until it is to end, or until somebody else runs it.
func (l *loop) run(d *workspace) {
	for l.round(d) && l.wait() {
	}
}

// listedAtOnce is how many listed connections a loop looks at before it polls again: those
// who ask must not wait for all that a broadcast has listed.
const listedAtOnce = 16

// round looks at what ready and batch hold. It reports false when the loop was
// taken away meanwhile: whoever has it goes on where this one was.
func (l *loop) round(d *workspace) bool {
	for {
		for l.next < l.found {
			r := &l.ready[l.next]
			l.next++
			if key := r.Key(); key != sys.WakeKey {
				if k, ok := l.find(key); ok {
					d.ref = k
					d.ref.onReady(d, r)
					if d.beside {
						return false
					}
				}
			}
		}
		for upTo := min(l.turned+listedAtOnce, len(l.batch)); l.turned < upTo; {
			key := l.batch[l.turned]
			l.turned++
			l.onListed(d, key)
			if d.beside {
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

// wait fills ready and batch. It reports false when the loop is to end.
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
		runtime.Gosched() // others have work for this processor too
	}
	var dirty bool
	if l.batch, dirty = l.collect(l.batch); dirty {
		l.yield.others()
	}
	if l.found = l.poll.Now(l.ready[:]); dirty || l.found > 0 {
		return true
	}
	if l.srv.helpers.busy.Load() > 0 {
		if l.othersRun() {
			return true
		}
	} else if l.yield.yields(l.srv.clock.start) {
		runtime.Gosched()
	}
	if !l.sleep() {
		return !l.ends()
	}
	l.count()
	l.counted.sleeps.Add(1)
	l.policy.slept(l.work, l.srv.how.hand == Auto && l.srv.helpers.busy.Load() > 0)
	l.busy, l.work = 0, 0
	if l.policy.parked {
		l.found = l.poll.Park(l.ready[:])
	} else {
		l.poll.Unpark()
		l.found = l.poll.Block(l.ready[:])
	}
	l.mu.Lock()
	l.asleep = false
	l.mu.Unlock()
	if l.batch, dirty = l.collect(l.batch); dirty {
		l.yield.others()
	}
	return true
}

// othersRun lets other goroutines run, and reports whether there are any that keep the
// processor busy: then the loop looks again before it waits. Go's poller would look for
// what a parked loop waits for only every 10 ms, and a loop that blocks would keep the
// processor from them. Goroutines that compute for long had better call runtime.Gosched.
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

// othersRan is for how long a loop that lets others run is kept from its processor, if they
// do anything.
const othersRan = 2 * time.Microsecond

// count tells others what the loop has done. Not in every turn: it costs as much as
// a small handler.
func (l *loop) count() {
	l.counted.turns.Add(uint64(l.turns))
	l.counted.events.Add(uint64(l.events))
	l.turns, l.events = 0, 0
}

// sleep reports whether the loop may wait: whoever makes a connection dirty from
// now on will wake it.
func (l *loop) sleep() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asleep = len(l.dirty) == 0 && !l.over()
	return l.asleep
}

// ends reports whether the goroutine that runs the loop is to leave it.
func (l *loop) ends() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over() || len(l.dirty) > 0 {
		return false
	}
	l.gone = true
	l.closeIfLast()
	return true
}
