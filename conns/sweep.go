package conns

import (
	"context"
	"time"
)

// arm sets the timer for at, unless it is set for an earlier time; mu is held. A timer
// that is set counts as running until its sweep has ended.
func (p *Pool[C]) arm(at time.Duration) {
	if p.ended || at == never || p.due != 0 && p.due <= at {
		return
	}
	p.due = at
	d := max(0, at-p.now())
	if p.timer == nil {
		p.timer = time.AfterFunc(d, p.sweep)
		p.running++
	} else if !p.timer.Reset(d) {
		p.running++
	}
}

// sweep does what is due and sets the timer for what is due next. It also records which
// connections are idle, so that Get and Release need not read a clock.
func (p *Pool[C]) sweep() {
	defer p.leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.due, p.ticking = 0, false
	now := p.now()
	p.sweepIdle(now)
	for _, s := range p.all {
		if s.doomed == 0 && now >= s.expires {
			s.doomed = LifetimeOver // closed when released (pgx #2560)
		}
	}
	p.balance()
	p.arm(p.nextDue())
}

// sweepIdle records which connections are idle, closes those past a timeout and probes
// those that are due; mu is held.
func (p *Pool[C]) sweepIdle(now time.Duration) {
	for i := 0; i < len(p.idle); {
		s := p.idle[i]
		if s.quiet == 0 {
			s.quiet = now
		}
		healthy := len(p.idle) - p.worn
		switch {
		case s.doomed != 0:
			i++
		case now >= s.expires && healthy <= p.config.MinIdle && len(p.all) < p.config.Max && !p.pausing():
			// Stays in use until its replacement is open (vitess #20080).
			s.doomed, s.expires = LifetimeOver, never
			p.worn++
			i++
		case now >= s.expires:
			p.retire(p.takeIdle(i), LifetimeOver, nil)
		case healthy > p.config.MinIdle && now-s.quiet >= p.config.MaxIdleTime:
			p.retire(p.takeIdle(i), IdleTooLong, nil)
		case now-max(s.quiet, s.probed) >= p.config.ProbeAfter && p.probing < p.config.MaxDials:
			p.takeIdle(i)
			p.probing++
			p.running++
			p.count.probes++
			go p.probe(p.ctx, s)
		default:
			i++
		}
	}
}

// nextDue returns when the next sweep has something to do if nothing else happens, or
// never; mu is held.
func (p *Pool[C]) nextDue() time.Duration {
	next := never
	for _, s := range p.all {
		if s.doomed == 0 {
			next = min(next, s.expires)
		}
	}
	after := func(moment, d time.Duration) {
		if d != never {
			next = min(next, moment+d)
		}
	}
	surplus := len(p.idle) - p.worn - p.config.MinIdle
	for _, s := range p.idle {
		if s.doomed != 0 {
			continue
		}
		if surplus > 0 {
			after(s.quiet, p.config.MaxIdleTime)
		}
		if p.probing < p.config.MaxDials {
			after(max(s.quiet, s.probed), p.config.ProbeAfter)
		}
	}
	return next
}

// probe checks an idle connection that nobody else owns.
func (p *Pool[C]) probe(ctx context.Context, s *slot[C]) {
	defer p.leave()
	ctx, cancel := p.timeout(ctx)
	defer cancel()
	err := errExited
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.probing--
		s.probed = p.now()
		if err != nil && s.doomed == 0 {
			p.retire(s, NotAlive, err)
		} else {
			p.comeBack(s)
		}
		p.balance()
	}()
	err = p.config.Probe(ctx, s.conn)
}
