package engine

import "github.com/hone-go/hone/engine/internal/life"

// Conn is a handle to a connection: a small comparable value, safe to keep, to use as a
// map key and to call from any goroutine. After the connection has ended, its methods
// return ErrClosed.
type Conn struct {
	sh  *shard
	key uint64
}

// Close starts to end the connection for the given reason, and returns at once: the
// engine stops reading, flushes the queued output and then closes.
func (c Conn) Close(why Reason) {
	if k, ok := c.lock(); ok {
		k.fail(why)
		k.held().notify()
		k.s.mu.Unlock()
	}
}

// Trust marks the connection as authenticated: it stops the timeout of Limits.AuthTime.
func (c Conn) Trust() {
	if k, ok := c.lock(); ok {
		k.s.facets.set(isTrusted)
		k.s.mu.Unlock()
	}
}

// Distrust takes Trust back: Limits.AuthTime begins now.
func (c Conn) Distrust() {
	if k, ok := c.lock(); ok {
		k.s.facets.clear(isTrusted)
		if k.phase() == life.Serving {
			k.sh.srv.clock.Stamp(&k.s.since)
		}
		k.s.mu.Unlock()
	}
}

// Unsent returns how many bytes of output wait for the kernel to accept them, because the
// peer reads more slowly than it is written to: 0 after the connection has ended. What the
// kernel has accepted does not count, even if the peer has not received it.
func (c Conn) Unsent() int {
	k, ok := c.lock()
	if !ok {
		return 0
	}
	defer k.s.mu.Unlock()
	if x := k.x.Load(); x != nil {
		return int(x.waiting)
	}
	return 0
}

// Value returns what SetValue stored last, or nil. A connection that stores nothing uses
// no memory for it.
func (c Conn) Value() any {
	k, ok := c.lock()
	if !ok {
		return nil
	}
	defer k.s.mu.Unlock()
	if side, i := k.side(); side.values.Load() != nil {
		return side.values.Load()[i]
	}
	return nil
}

// SetValue attaches v to the connection until it ends.
func (c Conn) SetValue(v any) {
	if k, ok := c.lock(); ok {
		side, i := k.side()
		*entry(&side.values, i) = v
		k.s.mu.Unlock()
	}
}

// lock finds and locks the connection, unless it has ended.
func (c Conn) lock() (connRef, bool) {
	if c.sh == nil {
		return connRef{}, false
	}
	return c.sh.lock(c.key)
}

// conn returns the handle of the connection, which may be kept.
func (k *connRef) conn() Conn { return Conn{sh: k.sh, key: k.key} }

// End ends the connection like Close, with words as the final bytes sent to the peer:
// they follow all output posted before, and replace Protocol.Refuse. When the connection
// is already ending, words are dropped, and End returns ErrClosed.
func (c Conn) End(why Reason, words []byte) error {
	k, ok := c.lock()
	if !ok {
		return ErrClosed
	}
	defer k.s.mu.Unlock()
	if k.s.dead || ends(k.reason()) && k.reason() != PeerClosed || k.s.marks.has(isShut) || k.s.marks.has(isSaid) {
		return ErrClosed
	}
	k.held().attach().rarely().words = append([]byte{}, words...)
	k.fail(why)
	k.held().notify()
	return nil
}
