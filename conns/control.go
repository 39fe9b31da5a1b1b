package conns

import (
	"context"
	"fmt"
	"slices"
)

// warmer is a waiting call of Warm.
type warmer struct {
	n    int
	done chan error // capacity 1
}

// Warm dials until n connections are open, but no more than Max, and waits for them. It
// returns the first error of a dial; the pool goes on.
func (p *Pool[C]) Warm(ctx context.Context, n int) error {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return ErrClosed
	}
	w := &warmer{n, make(chan error, 1)}
	p.warming = append(p.warming, w)
	p.warmed(nil)
	p.balance()
	p.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.warming = slices.DeleteFunc(p.warming, func(other *warmer) bool { return other == w })
	return context.Cause(ctx)
}

// warmest returns the largest n of the waiting calls of Warm; mu is held.
func (p *Pool[C]) warmest() int {
	most := 0
	for _, w := range p.warming {
		most = max(most, min(w.n, p.config.Max))
	}
	return most
}

// warmed ends the calls of Warm whose connections are open, or all of them with err; mu
// is held.
func (p *Pool[C]) warmed(err error) {
	if len(p.warming) == 0 {
		return
	}
	open := p.live() - p.dialing
	p.warming = slices.DeleteFunc(p.warming, func(w *warmer) bool {
		if err == nil && open < min(w.n, p.config.Max) {
			return false
		}
		w.done <- err
		return true
	})
}

// Resize changes Max and MinIdle of a pool in use. They mean the same as in Config,
// except that a zero minIdle means none. Excess connections are closed: idle ones now,
// longest idle first, others when they are released.
func (p *Pool[C]) Resize(most, minIdle int) {
	if most < 1 {
		panic("conns: Resize to less than one connection")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config.Max, p.config.MinIdle = most, min(max(0, minIdle), most)
	if p.ended {
		return
	}
	p.retireWorn(p.worn)
	excess := -most
	for _, s := range p.all {
		if s.doomed == 0 {
			excess++
		}
	}
	for ; excess > 0 && len(p.idle) > 0; excess-- {
		p.retire(p.takeIdle(0), PoolResized, nil)
	}
	for _, s := range p.all {
		if excess > 0 && s.doomed == 0 {
			s.doomed = PoolResized
			excess--
		}
	}
	p.warmed(nil)
	p.balance()
	p.arm(p.nextDue())
}

// Reset closes every connection that is open or being dialed: idle ones at once, those in
// use when they are released; dials are cancelled. Use it after a failover, for example.
// The pool stays open.
func (p *Pool[C]) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.cancel()
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.doomAll(PoolReset)
	p.balance()
}

// doomAll closes all connections, now or when they are released; mu is held.
func (p *Pool[C]) doomAll(why Reason) {
	for len(p.idle) > 0 {
		p.retire(p.takeIdle(len(p.idle)-1), why, nil)
	}
	for _, s := range p.all {
		if s.doomed == 0 {
			s.doomed = why
		}
	}
}

// Close shuts the pool down: waiting callers get ErrClosed, idle connections are closed,
// dials are cancelled. It returns nil when the last connection has been released and
// closed and all goroutines of the pool have ended, or an error when ctx ends first. It
// may be called again to go on waiting.
func (p *Pool[C]) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.ended {
		p.ended = true
		p.cancel()
		p.refuse(p.waiting.Len(), ErrClosed)
		p.warmed(ErrClosed)
		p.doomAll(PoolClosed)
		if p.timer != nil && p.timer.Stop() {
			p.running--
		}
		p.settleEnd()
	}
	p.mu.Unlock()
	select {
	case <-p.gone:
		return nil
	default:
	}
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("conns: %d connections not closed yet: %w", p.Stats().Open, context.Cause(ctx))
	}
}

// settleEnd closes gone when the pool has ended; mu is held.
func (p *Pool[C]) settleEnd() {
	if p.ended && p.running == 0 && len(p.all) == 0 {
		select {
		case <-p.gone:
		default:
			close(p.gone)
		}
	}
}
