package conns

import "fmt"

// Lease is the loan of one connection to one borrower. It is a small value;
// copies are the same loan. Any use after Release or Discard, of the zero Lease
// too, panics: somebody else may have the connection by then.
type Lease[C any] struct {
	conn C
	slot *slot[C]
	loan uint64
}

// Conn is the connection.
func (l Lease[C]) Conn() C {
	if l.slot == nil || l.slot.loan.Load() != l.loan {
		panic("conns: use of a Lease that has ended")
	}
	return l.conn
}

// Reused reports whether the connection was idle or lent before. Its server may
// have closed it unseen: when such a connection fails before the first byte of
// a reply, a request that may be executed twice deserves one more try.
func (l Lease[C]) Reused() bool {
	l.Conn()
	return l.loan > 0
}

// Release gives the connection back, ready for the next request: nobody reads
// from it, no reply is left to be read, and no deadline is set. For AliveAfter
// the pool takes the borrower's word for that.
func (l Lease[C]) Release() {
	p := l.lock()
	s := l.slot
	s.quiet = 0
	if s.doomed == 0 && p.waiting.first == nil && p.ticking && !p.distrust {
		p.idle = append(p.idle, s)
		p.mu.Unlock()
		return
	}
	p.comeBack(s)
	p.balance()
	p.mu.Unlock()
}

// Discard ends the loan and has the connection closed, on another goroutine.
// err is why; Hooks.Closed gets it.
func (l Lease[C]) Discard(err error) { l.discard(Discarded, err) }

func (l Lease[C]) discard(why Reason, err error) {
	p := l.lock()
	p.retire(l.slot, why, err)
	p.balance()
	p.mu.Unlock()
}

// lock ends the loan and leaves the pool locked. A loan that has ended already
// panics: it could be somebody else's that is ended here.
func (l Lease[C]) lock() *Pool[C] {
	if l.slot == nil {
		panic("conns: end of the zero Lease")
	}
	p := l.slot.pool
	p.mu.Lock()
	if l.slot.loan.Load() != l.loan {
		p.mu.Unlock()
		panic("conns: a Lease ended twice")
	}
	l.slot.loan.Store(l.loan + 1)
	return p
}

// check reports whether a connection that has been idle for long may be lent. If
// not, or if Alive panics, the loan has ended.
func (l Lease[C]) check() (good bool) {
	p, s := l.slot.pool, l.slot
	why, err := NotAlive, errPanicked
	defer func() {
		if !good {
			l.discard(why, err)
		}
	}()
	now := p.now()
	if now >= s.expires {
		why, err = LifetimeOver, nil
		return false
	}
	if err = p.config.Alive(s.conn, now-s.quiet); err != nil {
		err = fmt.Errorf("conns: idle connection: %w", err)
	}
	return err == nil
}
