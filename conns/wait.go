package conns

import (
	"context"
	"time"

	"github.com/hone-go/hone/internal/fifo"
)

// waiter is a waiting call of Get. It has one owner: the pool while it is queued; then
// whoever takes it out of the queue, under the lock, settles it. Settling fills in slot
// or err and puts one token into ready, which has capacity 1, so settling never blocks. A
// waiter whose context has ended is taken out without a token: it wakes by itself.
type waiter[C any] struct {
	place fifo.Member[*waiter[C]]
	done  <-chan struct{} // of its context
	ready chan struct{}
	slot  *slot[C]
	err   error
}

// gone reports whether the waiter has given up. It checks the channel rather than the
// context, which is foreign code.
func (w *waiter[C]) gone() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// nextWaiter takes the first waiter that has not given up out of the queue, or returns
// nil; mu is held. It drops the others on the way: a pool that serves callers who have
// given up makes no progress under load (vitess #20310).
func (p *Pool[C]) nextWaiter() *waiter[C] {
	for w := p.waiting.First(); w != nil; w = p.waiting.First() {
		w.place.Leave()
		if !w.gone() {
			return w
		}
		p.count.passedOver++
	}
	return nil
}

// handOver lends s to the first waiter, if there is one; mu is held.
func (p *Pool[C]) handOver(s *slot[C]) bool {
	w := p.nextWaiter()
	if w == nil {
		return false
	}
	w.slot = s
	w.ready <- struct{}{}
	return true
}

// refuse settles the first n waiters with err; mu is held.
func (p *Pool[C]) refuse(n int, err error) {
	for range n {
		w := p.nextWaiter()
		if w == nil {
			return
		}
		w.err = err
		w.ready <- struct{}{}
	}
}

// enqueue makes the caller a waiter and dials if that helps; mu is held.
func (p *Pool[C]) enqueue(ctx context.Context) (*waiter[C], error) {
	switch {
	case p.ended:
		return nil, ErrClosed
	case p.pausing() && p.live() == 0:
		p.count.refused++
		return nil, &pausedError{p.lastErr}
	case p.waiting.Len()-p.dialing-max(0, p.config.Max-len(p.all)) >= p.config.MaxWaiters:
		p.count.rejected++
		return nil, ErrBusy
	}
	w, _ := p.spare.Get().(*waiter[C])
	if w == nil {
		w = &waiter[C]{ready: make(chan struct{}, 1)}
		w.place.Value = w
	}
	w.done = ctx.Done()
	p.waiting.Push(&w.place)
	p.count.waits++
	p.balance()
	return w, nil
}

// await waits until w is settled or ctx ends.
func (p *Pool[C]) await(ctx context.Context, w *waiter[C]) (Lease[C], error) {
	began := p.now()
	select {
	case <-w.ready:
	case <-w.done:
	}
	if w.gone() {
		p.giveUp(w)
		w.err = context.Cause(ctx)
	}
	s, err := w.slot, w.err
	w.done, w.slot, w.err = nil, nil, nil
	p.spare.Put(w)
	waited := p.now() - began
	p.waited.Add(int64(waited))
	if p.config.Hooks.Waited != nil {
		p.reportWait(s, waited, err)
	}
	if err != nil {
		return Lease[C]{}, err
	}
	return Lease[C]{s.conn, s, s.loan.Load()}, nil
}

// giveUp removes a waiter whose context has ended, and passes on a connection that it was
// given concurrently.
func (p *Pool[C]) giveUp(w *waiter[C]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count.waitTimeouts++
	select {
	case <-w.ready:
	default:
	}
	w.place.Leave()
	if w.slot != nil {
		p.comeBack(w.slot)
		p.balance()
		w.slot = nil
	}
}

// reportWait calls the hook; if that panics, the connection is not leaked.
func (p *Pool[C]) reportWait(s *slot[C], waited time.Duration, err error) {
	returned := false
	defer func() {
		if !returned && s != nil {
			Lease[C]{s.conn, s, s.loan.Load()}.Discard(errPanicked)
		}
	}()
	p.config.Hooks.Waited(waited, err)
	returned = true
}
