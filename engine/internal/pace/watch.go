package pace

import (
	"sync/atomic"
	"time"
)

// Watch looks at something every millisecond while there is anything to see.
type Watch struct {
	asleep atomic.Bool // the next Wake must wake it
	kick   chan struct{}
}

const (
	watchTick = time.Millisecond
	watchIdle = 20 // ticks without anything to see after which it sleeps
)

// Init prepares the watch.
func (w *Watch) Init() { w.kick = make(chan struct{}, 1) }

// Wake is called when there is something to see. It costs a load.
func (w *Watch) Wake() {
	if w.asleep.Load() {
		w.wakeUp()
	}
}

func (w *Watch) wakeUp() {
	if w.asleep.CompareAndSwap(true, false) {
		select {
		case w.kick <- struct{}{}:
		default:
		}
	}
}

// Run calls look, which reports whether there was nothing to see, until stop is closed.
func (w *Watch) Run(stop <-chan struct{}, look func() (quiet bool)) {
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	idle := 0
	for {
		select {
		case <-stop:
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
		w.asleep.Store(true)
		if !look() { // something may have begun before asleep was set
			w.asleep.Store(false)
			continue
		}
		tick.Stop()
		select {
		case <-stop:
			return
		case <-w.kick:
		}
		tick.Reset(watchTick)
	}
}
