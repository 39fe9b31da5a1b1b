package engine

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/internal/sys"
)

// loop serves its share of the connections of an Events server. One goroutine at
// a time runs it; the fields up to mu are that goroutine's. Others reach a loop
// through its list of dirty connections: whoever has changed something that the
// owner must look at (output to write, a reason to leave) puts the connection
// there once, and wakes the loop if it sleeps.
type loop struct {
	srv   *Server
	poll  *sys.Poll
	tally *tally
	turn  atomic.Uint64 // the visit under way: its number, and below it 1 + the slot; see watch.go

	ready  [256]sys.Ready
	next   int // ready[next:found] is to be looked at
	found  int
	batch  []uint64 // batch[turned:] is to be attended to
	turned int
	busy   int // times in a row that there was something to do
	work   int // how much that was since the last sleep, for rhythm
	rhythm rhythm
	turns  int // since counted was told
	events int
	visits uint64
	wary   wariness

	counted struct{ sleeps, turns, events atomic.Uint64 }

	mu         sync.Mutex
	dirty      []uint64    // keys
	pending    atomic.Bool // there are some; written under mu
	asleep     bool
	leaving    bool // nothing new is taken in, and the goroutine ends
	gone       bool // it has ended
	closed     bool // the poll is
	open       int
	roomy      int    // no chunk before this one has a free slot
	generation uint32 // of the connection taken in last
	chunks     atomic.Pointer[[]chunk]
}

// seat is what a goroutine needs that serves connections of a loop.
type seat struct {
	turn  Turn
	in    []byte
	box   inbox
	link  link   // the connection that is served, for the turn
	visit uint64 // the loop's turn of it
	// off says that the goroutine runs no loop, or no longer: the watchdog has
	// taken it away.
	off bool
}

// loopRead is what a loop reads at a time, and handRead what a goroutine beside
// it does: there may be many of those.
const (
	loopRead = 64 << 10
	handRead = 4 << 10
)

func newLoop(s *Server, i int, fault sys.Fault) (*loop, error) {
	poll, err := sys.NewPoll(fault)
	if err != nil {
		return nil, err
	}
	l := &loop{srv: s, poll: poll, tally: &s.tallies[i%len(s.tallies)]}
	l.chunks.Store(&[]chunk{})
	return l, nil
}

// yieldAfter is how often in a row a loop may find work before it lets others run.
const yieldAfter = 16

// run turns the loop until it is to end, or until somebody else runs it.
func (l *loop) run(d *seat) {
	for l.round(d) && l.wait() {
	}
}

// round looks at what ready and batch hold. It reports false when the loop was
// taken away meanwhile: whoever has it goes on where this one was.
func (l *loop) round(d *seat) bool {
	for l.next < l.found {
		r := &l.ready[l.next]
		l.next++
		if key := r.Key(); key != sys.WakeKey {
			if k, ok := l.find(key); ok {
				d.link = k
				d.link.report(d, r)
				if d.off {
					return false
				}
			}
		}
	}
	for l.turned < len(l.batch) {
		key := l.batch[l.turned]
		l.turned++
		l.attend(d, key)
		if d.off {
			return false
		}
	}
	return true
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
	dirty := l.collect()
	if l.found = l.poll.Now(l.ready[:]); dirty || l.found > 0 {
		return true
	}
	// Without this the scheduler's monitor finds a loop that never yields, takes
	// its processor away within system calls and gives it back late: a third more
	// time per request.
	runtime.Gosched()
	if !l.sleep() {
		return !l.ends()
	}
	l.count()
	l.counted.sleeps.Add(1)
	l.rhythm.slept(l.work, l.srv.how.hand == Auto && l.srv.crew.busy.Load() > 0)
	l.busy, l.work = 0, 0
	if l.rhythm.parked {
		l.found = l.poll.Park(l.ready[:])
	} else {
		l.poll.Unpark()
		l.found = l.poll.Block(l.ready[:])
	}
	l.mu.Lock()
	l.asleep = false
	l.mu.Unlock()
	l.collect()
	return true
}

// count tells others what the loop has done. Not in every turn: it costs as much as
// a small handler.
func (l *loop) count() {
	l.counted.turns.Add(uint64(l.turns))
	l.counted.events.Add(uint64(l.events))
	l.turns, l.events = 0, 0
}

// collect takes the dirty connections over and reports whether there are any.
func (l *loop) collect() bool {
	l.batch = l.batch[:0]
	if !l.pending.Load() {
		return false
	}
	l.mu.Lock()
	l.batch, l.dirty = l.dirty, l.batch
	l.pending.Store(false)
	l.mu.Unlock()
	return len(l.batch) > 0
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
	if !l.over() {
		return false
	}
	l.gone = true
	l.closeIfLast()
	return true
}

// over reports whether a loop that is to end has nothing left to wait for; mu is
// held.
func (l *loop) over() bool { return l.leaving && (l.open == 0 || l.srv.abandoned.Load()) }

// closeIfLast closes the poll when nobody is left to use it; mu is held.
func (l *loop) closeIfLast() {
	if l.gone && l.open == 0 && !l.closed {
		l.closed = true
		l.poll.Close()
	}
}

// notify puts a connection on the list.
func (l *loop) notify(key uint64) {
	l.mu.Lock()
	l.dirty = append(l.dirty, key)
	l.pending.Store(true)
	l.wake()
	l.mu.Unlock()
}

// wake ends the loop's sleep; mu is held.
func (l *loop) wake() {
	if l.asleep && !l.closed {
		l.asleep = false
		l.poll.Wake()
	}
}

// leave has the loop end: as soon as its last connection has, or at once when
// the server has given up waiting.
func (l *loop) leave() {
	l.mu.Lock()
	l.leaving = true
	l.wake()
	l.mu.Unlock()
}

// rhythm decides how an idle loop waits. Parked in Go's poller it holds no
// thread: one thread can serve several loops, and goroutines beside them get a
// processor at once. Blocked in the kernel it wakes up for less: a fifth to a
// quarter of the time per request at a steady rate. So much to do a wake-up, by
// several loops or for others' replies, favours the first, little the second; a
// single loop without such replies always blocks.
//
// Handlers that were left behind favour the first, too: loops that block keep the
// processors, and such handlers have to wait, thousands of times a second, until
// the scheduler's monitor has taken one away. To change costs a descriptor, hence
// the window.
type rhythm struct {
	parked              bool
	waits, work, beside int
}

const rhythmWindow = 256 // waits

// slept notes what the loop has done between two sleeps, connections that others
// have made dirty and, beside other loops, reports; and whether handlers that were
// left behind were still at it.
func (r *rhythm) slept(work int, beside bool) {
	r.waits++
	r.work += work
	if beside {
		r.beside++
	}
	if r.waits < rhythmWindow {
		return
	}
	switch {
	case r.work >= 4*r.waits, 2*r.beside >= r.waits:
		r.parked = true
	case r.work < 2*r.waits && 4*r.beside < r.waits:
		r.parked = false
	}
	r.waits, r.work, r.beside = 0, 0, 0
}
