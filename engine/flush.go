package engine

// Output of a visit, on both kinds of engine.

// Flush writes and empties Out, and waits until the kernel has accepted it, for as long
// as Limits.StallTime lets the peer read nothing. The error is the Reason for which the
// connection ends; Advance must return it. What was written cannot be rolled back: if the
// message panics now, the connection is reset when the peer has received everything. Use
// Flush to send a large reply with little memory; replies promised by Later do not wait
// for it.
func (t *Turn) Flush() error {
	if t.ref == nil {
		return nil
	}
	return t.ref.owner().flushMid(t)
}

// flush writes the replies of a visit and what was posted meanwhile; said means that they
// end with the protocol's error message. It reports false when the connection is dead.
func (k owner) flush(d *workspace, said bool) bool {
	if d.g != nil {
		return d.g.flush(&d.turn, said)
	}
	return k.flushNow(&d.turn, said)
}

// flushMid is Turn.Flush.
func (k owner) flushMid(t *Turn) error {
	t.freeInput()
	t.yield()
	t.flushed = t.flushed || len(t.Out) > t.mark.out
	t.largest = max(t.largest, len(t.Out))
	s := k.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := k.x.Load(); x != nil && x.g != nil {
		x.g.flushMid(t)
	} else {
		k.held().flushMid(t)
	}
	k.held().streams(t)
	t.Out = t.Out[:0]
	t.mark.out = 0
	if s.dead {
		return k.held().failed(t)
	}
	return nil
}

// sendEarlier flushes the replies to earlier messages, before More waits, because the
// peer may need them to continue. It reports whether it did. The reply to the current
// message stays, so that it can be rolled back.
func (k owner) sendEarlier(t *Turn) (sent bool, err error) {
	if t.mark.out == 0 {
		return false, nil
	}
	answer, flushed := append([]byte(nil), t.Out[t.mark.out:]...), t.flushed
	t.Out = t.Out[:t.mark.out]
	err = k.flushMid(t)
	t.Out, t.flushed = append(t.Out, answer...), flushed
	return true, err
}
