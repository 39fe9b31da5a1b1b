package conns

import "fmt"

// Lease is the loan of a connection to one borrower. It is a small value; copies are the
// same loan. Using it after Release or Discard panics, and so does using the zero Lease:
// somebody else may have the connection by then.
type Lease[C any] struct {
	conn C
	slot *slot[C]
	loan uint64
}

// Conn returns the connection.
func (l Lease[C]) Conn() C {
	if l.slot == nil || l.slot.loan.Load() != l.loan {
		panic("conns: use of a Lease that has ended")
	}
	return l.conn
}

// Reused reports whether the connection was used or idle before. Its server may have
// closed it in the meantime: when such a connection fails before the first byte of a
// reply, retry the request once if it is idempotent.
func (l Lease[C]) Reused() bool {
	l.Conn()
	return l.loan > 0
}

// Release returns the connection to the pool, ready for the next request: nobody reads
// from it, no reply is pending, and no deadline is set. The pool does not check that
// until AliveAfter has passed.
func (l Lease[C]) Release() {
	p := l.lock()
	s := l.slot
	s.quiet = 0
	if s.doomed == 0 && p.waiting.Len() == 0 && p.ticking && !p.config.AlwaysAsk {
		p.idle = append(p.idle, s)
		p.mu.Unlock()
		return
	}
	p.comeBack(s)
	p.balance()
	p.mu.Unlock()
}

// Discard ends the loan and closes the connection on another goroutine. Hooks.Closed gets
// err as the reason.
func (l Lease[C]) Discard(err error) { l.discard(Discarded, err) }

func (l Lease[C]) discard(why Reason, err error) {
	p := l.lock()
	p.retire(l.slot, why, err)
	p.balance()
	p.mu.Unlock()
}

// lock ends the loan and locks the pool. It panics when the loan has ended already,
// because it would end somebody else's.
func (l Lease[C]) lock() *Pool[C] {
	if l.slot == nil {
		panic("conns: Release or Discard of the zero Lease")
	}
	p := l.slot.pool
	p.mu.Lock()
	if l.slot.loan.Load() != l.loan {
		p.mu.Unlock()
		panic("conns: Release or Discard of a Lease that has ended")
	}
	l.slot.loan.Store(l.loan + 1)
	return p
}

// check reports whether a connection that has been idle for long is healthy. If not, or
// if Alive panics, it ends the loan.
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
	idle := now - s.quiet // up to a tick too low
	if idle < p.config.AliveAfter-p.tick && !p.config.AlwaysAsk {
		return true
	}
	if err = p.config.Alive(s.conn, idle); err != nil {
		err = fmt.Errorf("conns: idle connection: %w", err)
	}
	return err == nil
}
