package timing

import "sync/atomic"

// Frame is the timer of a message that has begun to arrive. The connection's owner sets it,
// and any goroutine may read it. The zero value does not run.
type Frame struct {
	began  atomic.Uint32 // 0: it does not run
	size   atomic.Uint32 // of the message, as far as known
	within atomic.Uint32 // ticks that it may take; 0: as many as its size allows
}

// Begin starts the timer now.
func (f *Frame) Begin(k *Clock) { k.Stamp(&f.began) }

// Start starts the timer of a message of a size; for a message in progress it keeps running.
func (f *Frame) Start(k *Clock, size int) {
	f.size.Store(uint32(size))
	if f.began.Load() == 0 {
		f.Begin(k)
	}
}

// Allow lets the message take that long, whatever its size.
func (f *Frame) Allow(within Tick) { f.within.Store(within) }

// IsAllowed reports whether Allow was called since Stop.
func (f *Frame) IsAllowed() bool { return f.within.Load() != 0 }

// Stop stops the timer, because the message is complete.
func (f *Frame) Stop() {
	if f.began.Load()|f.within.Load() != 0 {
		f.began.Store(0)
		f.within.Store(0)
	}
}

// Pause stops the timer of a message that is still incomplete.
func (f *Frame) Pause() { f.began.Store(0) }

// Pace pauses the timer of a partial message while we do not read, because that is not the
// peer's fault, and restarts it when we do.
func (f *Frame) Pace(k *Clock, paused bool) {
	switch running := f.began.Load() != 0; {
	case running && paused:
		f.Pause()
	case !running && !paused:
		f.Begin(k)
	}
}

// Wait starts the timer for bytes that a visit waits for, as if it had begun before by what
// the visit has waited already. It returns when the wait begins.
func (f *Frame) Wait(k *Clock, lacks int, waited Tick) (now Tick) {
	now = k.Read()
	f.Begin(k) // wakes the sweeper
	f.size.Store(uint32(lacks))
	f.began.Store(max(1, now-waited))
	return now
}

// Began returns when the message has begun, 0 while the timer does not run.
func (f *Frame) Began() Tick { return f.began.Load() }

// Restamp makes a message that began at shown begin at now.
func (f *Frame) Restamp(shown, now Tick) { f.began.CompareAndSwap(shown, now) }

// SetFrame sets what the rules know of the message.
func (m *Moments) SetFrame(f *Frame) {
	m.Frame, m.Size, m.Within = f.began.Load(), f.size.Load(), f.within.Load()
}
