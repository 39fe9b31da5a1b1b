package pace

import (
	"sync/atomic"
	"time"
)

// Alarm is a loop's alarm about slow visits. Detecting that a connection is slow costs a tick
// of the watchdog each. When many become slow at once, the loop raises an alarm: until the
// alarm ends, it serves only connections that were fast since it began. Times are since the
// server began. The zero value is no alarm.
type Alarm struct {
	epoch  atomic.Uint32 // 0: no alarm; otherwise its number, a byte
	last   atomic.Int64  // time of the last slow visit, in nanoseconds
	alarms int           // consecutive; this and what follows is owned by whoever runs the loop
	visits uint64        // of the loop when it was last taken away
	epochs uint8
}

const (
	alarms   = 3                      // number of visits taken away that raises an alarm
	alarmGap = 100 * time.Millisecond // maximum gap between two of them, or, on a machine that
	alarmFew = 16                     // delays the watchdog, the maximum number of visits between
	calmTime = 500 * time.Millisecond // time without a slow visit after which the alarm ends
)

// Epoch returns the number of the alarm, 0 while there is none. Any goroutine may call it.
func (a *Alarm) Epoch() uint8 { return uint8(a.epoch.Load()) }

// TakenAway records that the loop, which has made that many visits, was taken away from a
// slow one. The caller owns the loop.
func (a *Alarm) TakenAway(now time.Duration, visits uint64) {
	before := a.last.Swap(int64(now))
	if int64(now)-before > int64(alarmGap) && visits-a.visits > alarmFew {
		a.alarms = 0
	}
	a.visits = visits
	if a.alarms++; a.alarms >= alarms && a.epoch.Load() == 0 {
		if a.epochs++; a.epochs == 0 {
			a.epochs++
		}
		a.epoch.Store(uint32(a.epochs))
	}
}

// Prolong records a slow visit off the loop. Any goroutine may call it.
func (a *Alarm) Prolong(now time.Duration) { a.last.Store(int64(now)) }

// CalmDown ends the alarm of a loop that has had no slow visit for a while. Any goroutine may
// call it.
func (a *Alarm) CalmDown(now time.Duration) {
	if a.epoch.Load() != 0 && int64(now)-a.last.Load() > int64(calmTime) {
		a.epoch.Store(0)
	}
}
