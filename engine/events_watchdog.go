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

// shard.visiting is the visit under way: 1 + its slot, and above it a number that
// grows with every visit; without the slot, none is. Two stores a visit.
const visitSlots = 1<<slotBits - 1

// enterUser begins a call of user code for the connection.
func (k *connRef) enterUser(d *workspace) {
	if d.beside {
		return
	}
	l := k.sh.loop
	l.visits++
	d.visit = l.visits<<slotBits | uint64(uint32(k.key)) + 1
	l.visiting.Store(d.visit)
	if l.srv.watchdog.asleep.Load() {
		l.srv.watchdog.wake()
	}
}

// exitUser ends it, however it ended. When the loop was taken away meanwhile, the
// goroutine must not touch what belongs to whoever runs it.
func (k *connRef) exitUser(d *workspace) {
	if !d.beside && !k.sh.stopVisit(d.visit) {
		d.beside = true
		k.sh.srv.helpers.busy.Add(-1)
	}
}

// stopVisit ends a visit, unless somebody else has.
func (sh *shard) stopVisit(visit uint64) bool {
	return sh.visiting.CompareAndSwap(visit, visit&^visitSlots)
}

// watchdog looks at the loops of a server.
type watchdog struct {
	asleep atomic.Bool // nobody looks: the next visit says so
	kick   chan struct{}
}

const (
	watchTick = time.Millisecond
	watchIdle = 20 // ticks without a visit, after which the watchdog sleeps
)

func (w *watchdog) wake() {
	if w.asleep.CompareAndSwap(true, false) {
		select {
		case w.kick <- struct{}{}:
		default:
		}
	}
}

// watchLoops looks at the loops until stop is closed.
func (s *Server) watchLoops() {
	defer s.goroutines.Done()
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	last := make([]uint64, len(s.loops))
	look := func() (quiet bool) {
		quiet = true
		for i, l := range s.loops {
			visit := l.visiting.Load()
			if visit != last[i] {
				quiet = false
			} else if visit&visitSlots != 0 {
				quiet = false
				l.takeAway(visit)
			}
			last[i] = visit
			l.calmDown()
			quiet = quiet && l.slow.epoch.Load() == 0
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
		s.watchdog.asleep.Store(true)
		if !look() { // a visit that began before it could know
			s.watchdog.asleep.Store(false)
			continue
		}
		tick.Stop()
		select {
		case <-s.stop:
			return
		case <-s.watchdog.kick:
		}
		tick.Reset(watchTick)
	}
}

// takeAway gives the loop of a visit that does not end to another goroutine.
func (l *loop) takeAway(visit uint64) { l.passOn(visit, true) }

// passOn has another goroutine go on with the loop of a visit; slow tells that the visit
// takes longer than anybody has said.
func (l *loop) passOn(visit uint64, slow bool) {
	k, ok := l.find(uint64(visit&visitSlots) - 1)
	if !ok {
		return
	}
	s := k.s
	s.mu.Lock()
	k.key = keyOf(int(visit&visitSlots)-1, s.tenant.Load()&^awayBit)
	// From here on nobody runs the loop, and the connection's owner waits for mu
	// before it gives the connection back.
	if !l.stopVisit(visit) {
		s.mu.Unlock()
		return
	}
	l.srv.handOffs.Add(1)
	l.srv.helpers.busy.Add(1)
	l.srv.helpers.takenAway()
	if slow {
		s.slowVisits = max(minSlowVisits, min(2*s.slowVisits, maxSlowVisits))
		l.alarm()
	}
	k.setAway(true)
	k.writeAway(false)
	s.mu.Unlock()
	l.srv.helpers.run(l)
}

// rescue takes every loop away from the visit that it is in, in all modes: those
// behind a handler that does not return are not stuck with it.
func (s *Server) rescue() {
	for _, l := range s.started() {
		if visit := l.visiting.Load(); visit&visitSlots != 0 {
			l.takeAway(visit)
		}
	}
}

// A connection whose visit was taken from its loop is served beside it until so
// many visits have been fast, more of them each time.
const (
	minSlowVisits = 4
	maxSlowVisits = 128
	fast          = 50 * time.Microsecond
)

// Connections that have not been slow yet cost a tick each to find out. When many
// turn slow at once, the loop raises an alarm: until it is calm again, it serves no
// connection that has not been fast since the alarm.
const (
	alarms   = 3                      // visits taken away that raise an alarm
	alarmGap = 100 * time.Millisecond // with no more than that between two
	calmTime = 500 * time.Millisecond // without a slow visit, after which it ends
)

// slowAlarm is a loop's.
type slowAlarm struct {
	epoch  atomic.Uint32 // 0: none; else which alarm it is
	last   atomic.Int64  // the last slow visit, in nanoseconds since the server began
	alarms int           // in a row; of whoever holds the loop
	epochs uint8
}

// alarm notes that the loop was taken away. The caller holds the loop.
func (l *loop) alarm() {
	now := int64(time.Since(l.srv.clock.start))
	before := l.slow.last.Swap(now)
	if now-before > int64(alarmGap) {
		l.slow.alarms = 0
	}
	if l.slow.alarms++; l.slow.alarms >= alarms && l.slow.epoch.Load() == 0 {
		if l.slow.epochs++; l.slow.epochs == 0 {
			l.slow.epochs++
		}
		l.slow.epoch.Store(uint32(l.slow.epochs))
	}
}

// calmDown ends the alarm of a loop that has had no slow visit for a while.
func (l *loop) calmDown() {
	if l.slow.epoch.Load() != 0 && int64(time.Since(l.srv.clock.start))-l.slow.last.Load() > int64(calmTime) {
		l.slow.epoch.Store(0)
	}
}

// servedBeside reports whether the connection is to be served beside its loop.
func (k *connRef) servedBeside() bool {
	switch k.sh.srv.how.hand {
	case Offload:
		return true
	case Inline:
		return false
	}
	if k.s.slowVisits > 0 {
		return true
	}
	epoch := k.sh.loop.slow.epoch.Load()
	return epoch != 0 && k.s.epoch != uint8(epoch) && !k.sh.srv.helpers.full.Load()
}
