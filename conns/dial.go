package conns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"
)

const firstBackoff = 50 * time.Millisecond

var errExited = errors.New("conns: Dial or Probe ended its goroutine")

// pausedError is ErrBackoff together with the error that caused the backoff.
type pausedError struct{ last error }

func (e *pausedError) Error() string   { return ErrBackoff.Error() + ": " + e.last.Error() }
func (e *pausedError) Unwrap() []error { return []error{ErrBackoff, e.last} }

// live returns the number of connections that are open or being dialed, without those
// being closed; mu is held.
func (p *Pool[C]) live() int { return len(p.all) - p.closing }

// pausing reports whether the pool is in backoff; mu is held.
func (p *Pool[C]) pausing() bool { return p.failures > 0 && p.now() < p.retryAt }

// balance starts the dials that waiters, MinIdle and Warm need. It is called after every
// change of demand or capacity; mu is held.
func (p *Pool[C]) balance() {
	if p.ended {
		return
	}
	ahead := max(0, p.config.MinIdle-(len(p.idle)-p.worn)-p.probing)
	want := max(p.waiting.Len()+ahead-p.dialing, p.warmest()-p.live())
	if want <= 0 {
		return
	}
	if p.pausing() {
		p.arm(p.retryAt)
		return
	}
	room := p.config.Max - len(p.all)
	if room <= 0 {
		if p.dialing+p.closing == 0 {
			p.retireWorn(1) // there is no room to open the replacement first
		}
		return
	}
	room = min(room, p.config.MaxDials-p.dialing)
	if p.failures > 0 {
		room = min(room, 1-p.dialing)
	}
	for range min(want, room) {
		s := &slot[C]{pool: p, place: len(p.all), expires: never}
		p.all = append(p.all, s)
		p.dialing++
		p.count.dials++
		p.running++
		go p.dial(p.ctx, s)
	}
}

// dial opens s and hands it to the first waiter: the caller that caused the dial may have
// been served or have given up (pgx #1287).
func (p *Pool[C]) dial(ctx context.Context, s *slot[C]) {
	defer p.leave()
	ctx, cancel := p.timeout(ctx)
	defer cancel()
	began := p.now()
	var c C
	err := errExited
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("conns: Dial panicked: %v\n%s", v, debug.Stack())
		}
		took := p.now() - began
		p.dialed(s, c, err)
		if p.config.Hooks.Dialed != nil {
			p.config.Hooks.Dialed(took, err)
		}
	}()
	c, err = p.config.Dial(ctx)
}

// dialed handles the result of a dial.
func (p *Pool[C]) dialed(s *slot[C], c C, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialing--
	if err != nil {
		p.remove(s)
		if s.doomed == 0 { // otherwise the pool cancelled it
			p.dialFailed(fmt.Errorf("conns: dial: %w", err))
		}
		p.balance()
		return
	}
	p.failures, p.lastErr = 0, nil
	s.conn = c
	if s.doomed == 0 {
		if life := p.config.MaxLifetime; life != never {
			s.expires = p.now() + life - time.Duration(p.config.Jitter*rand.Float64()*float64(life))
			p.arm(s.expires)
		}
		p.retireWorn(1)
	}
	p.comeBack(s)
	p.warmed(nil)
	p.balance()
}

// dialFailed starts the backoff and reports the error to waiters; mu is held. While
// anything is open, only the first waiter gets it: a released connection may still serve
// the others.
func (p *Pool[C]) dialFailed(err error) {
	p.count.dialFailures++
	p.lastErr = err
	if p.config.MaxBackoff > 0 && !p.pausing() {
		pause := min(p.config.MaxBackoff, firstBackoff<<min(p.failures, 20))
		p.failures++
		p.retryAt = p.now() + pause/2 + rand.N(pause/2+1)
	}
	p.retireWorn(p.worn)
	p.warmed(err)
	if p.live() == 0 {
		p.refuse(p.waiting.Len(), err)
	} else {
		p.refuse(1, err)
	}
}

// retire closes s on a new goroutine; mu is held, and nobody owns s. Its permit is free
// when Close has returned.
func (p *Pool[C]) retire(s *slot[C], why Reason, err error) {
	s.doomed = why
	p.count.closed[why]++
	p.closing++
	p.running++
	go p.shut(s, why, err)
}

// retireWorn closes up to n idle connections that are past their lifetime; mu is held.
func (p *Pool[C]) retireWorn(n int) {
	for i := 0; i < len(p.idle) && n > 0 && p.worn > 0; {
		if p.idle[i].doomed == 0 {
			i++
			continue
		}
		s := p.takeIdle(i)
		p.retire(s, s.doomed, nil)
		n--
	}
}

// shut closes s and frees its permit.
func (p *Pool[C]) shut(s *slot[C], why Reason, err error) {
	defer p.leave()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closing--
		p.remove(s)
		p.balance()
	}()
	p.config.Close(s.conn)
	if p.config.Hooks.Closed != nil {
		p.config.Hooks.Closed(why, err)
	}
}

// remove frees the permit of s; mu is held.
func (p *Pool[C]) remove(s *slot[C]) {
	last := len(p.all) - 1
	p.all[s.place] = p.all[last]
	p.all[s.place].place = s.place
	p.all[last] = nil
	p.all = p.all[:last]
}

// leave is called at the end of every goroutine of the pool.
func (p *Pool[C]) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.settleEnd()
}
