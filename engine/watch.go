package engine

import (
	"sync/atomic"
	"time"
)

// Hand-off. A loop calls handlers itself, since passing each request to another
// goroutine costs more than most handlers do. So that one which blocks does not
// stop its loop, a watchdog looks at the visits that are under way, every
// millisecond while there are any. A visit that it finds twice has its loop
// taken away: another goroutine goes on with the loop, the stuck one finishes its
// visit, returns the connection and runs no loop any more.

// A loop's turn is the visit under way: 1 + its slot, and above it a number that
// grows with every visit; without the slot, none is. Two stores a visit.
const turnSlots = 1<<slotBits - 1

// enter begins a call of user code for the connection.
func (k *link) enter(d *seat) {
	if d.off {
		return
	}
	l := k.l
	l.visits++
	d.visit = l.visits<<slotBits | uint64(uint32(k.key)) + 1
	l.turn.Store(d.visit)
	if l.srv.watch.asleep.Load() {
		l.srv.watch.wake()
	}
}

// exit ends it, however it ended. When the loop was taken away meanwhile, the
// goroutine must not touch what belongs to whoever runs it.
func (k *link) exit(d *seat) {
	if !d.off && !k.l.stop(d.visit) {
		d.off = true
		k.l.srv.crew.busy.Add(-1)
	}
}

// stop ends a turn, unless somebody else has.
func (l *loop) stop(turn uint64) bool {
	return l.turn.CompareAndSwap(turn, turn&^turnSlots)
}

// watch is the watchdog of a server.
type watch struct {
	asleep atomic.Bool // nobody looks: the next visit says so
	kick   chan struct{}
}

const (
	watchTick = time.Millisecond
	watchIdle = 20 // ticks without a visit, after which the watchdog sleeps
)

func (w *watch) wake() {
	if w.asleep.CompareAndSwap(true, false) {
		select {
		case w.kick <- struct{}{}:
		default:
		}
	}
}

// watchOver looks at the loops until stop is closed.
func (s *Server) watchOver() {
	defer s.goroutines.Done()
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	last := make([]uint64, len(s.loops))
	look := func() (quiet bool) {
		quiet = true
		for i, l := range s.loops {
			turn := l.turn.Load()
			if turn != last[i] {
				quiet = false
			} else if turn&turnSlots != 0 {
				quiet = false
				l.takeAway(turn)
			}
			last[i] = turn
			l.calmDown()
		}
		return quiet
	}
	idle := 0
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		if !look() {
			idle = 0
			continue
		}
		if idle++; idle < watchIdle {
			continue
		}
		idle = 0
		s.watch.asleep.Store(true)
		if !look() { // a visit that began before it could know
			s.watch.asleep.Store(false)
			continue
		}
		tick.Stop()
		select {
		case <-s.stop:
			return
		case <-s.watch.kick:
		}
		tick.Reset(watchTick)
	}
}

// takeAway gives the loop of a visit that does not end to another goroutine.
func (l *loop) takeAway(turn uint64) {
	k, ok := l.find(uint64(turn&turnSlots) - 1)
	if !ok {
		return
	}
	s := k.s
	s.mu.Lock()
	k.key = keyOf(int(turn&turnSlots)-1, s.generation.Load())
	// From here on nobody runs the loop, and the connection's owner waits for mu
	// before it gives the connection back.
	if !l.stop(turn) {
		s.mu.Unlock()
		return
	}
	l.srv.handOffs.Add(1)
	l.srv.crew.busy.Add(1)
	s.doubt = max(minDoubt, min(2*s.doubt, maxDoubt))
	l.alarm()
	s.away.Store(true)
	if x := k.x.Load(); x != nil && !s.over {
		k.write(x, false)
	}
	k.arm(true)
	s.mu.Unlock()
	l.srv.crew.do(task{l: l})
}

// rescue takes every loop away from the visit that it is in, in all modes: those
// behind a handler that does not return are not stuck with it. It reports whether
// there were any.
func (s *Server) rescue() (any bool) {
	for _, l := range s.started() {
		if turn := l.turn.Load(); turn&turnSlots != 0 {
			l.takeAway(turn)
			any = true
		}
	}
	return any
}

// A connection whose visit was taken from its loop is served beside it until so
// many visits have been fast, more of them each time.
const (
	minDoubt = 4
	maxDoubt = 128
	fast     = 50 * time.Microsecond
)

// Connections that have not been slow yet cost a tick each to find out. When many
// do so at once, the loop becomes wary: it serves no connection any more that has
// not shown to be fast since then.
const (
	alarms   = 3                      // visits taken away that make a loop wary
	alarmGap = 100 * time.Millisecond // with no more than that between two
	calmTime = 500 * time.Millisecond // without a slow visit, after which it is no longer
)

// wariness is a loop's.
type wariness struct {
	epoch  atomic.Uint32 // 0: not wary; else which alarm it was
	last   atomic.Int64  // the last slow visit, in nanoseconds since the server began
	alarms int           // in a row; of whoever holds the loop
	epochs uint8
}

// alarm notes that the loop was taken away. The caller holds the loop.
func (l *loop) alarm() {
	now := int64(time.Since(l.srv.clock.start))
	before := l.wary.last.Swap(now)
	if now-before > int64(alarmGap) {
		l.wary.alarms = 0
	}
	if l.wary.alarms++; l.wary.alarms >= alarms && l.wary.epoch.Load() == 0 {
		if l.wary.epochs++; l.wary.epochs == 0 {
			l.wary.epochs++
		}
		l.wary.epoch.Store(uint32(l.wary.epochs))
	}
}

// calmDown ends the wariness of a loop that has had no slow visit for a while.
func (l *loop) calmDown() {
	if l.wary.epoch.Load() != 0 && int64(time.Since(l.srv.clock.start))-l.wary.last.Load() > int64(calmTime) {
		l.wary.epoch.Store(0)
	}
}

// handsOff reports whether a connection is to be served beside the loop.
func (l *loop) handsOff(s *slot) bool {
	switch l.srv.how.hand {
	case Offload:
		return true
	case Inline:
		return false
	}
	epoch := l.wary.epoch.Load()
	return s.doubt > 0 || epoch != 0 && s.epoch != uint8(epoch)
}
