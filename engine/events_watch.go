package engine

import (
	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/internal/sys"
)

// What the poll reports of a connection, and whether the loop serves it.

// release arms the connection for what it waits for, returns it to its loop if it was
// away, and unlocks it. Whatever happened while it was away was seen under the same hold
// of mu.
func (k held) release() {
	k.watchFor(false)
	k.setAway(false) // last: from here on the loop accesses the owner's fields
	k.s.mu.Unlock()
}

// watchFor updates the poll's interest for a connection that is away or on its loop.
func (k held) watchFor(away bool) {
	s, x := k.s, k.x.Load()
	want := sys.Interest(0)
	switch phase := k.phase(); {
	case s.dead || !s.opened:
	case away && s.facets.has(isInLine):
		want = sys.Once
	case away && x != nil && x.goal == arrived:
		want = sys.In | sys.Once
	case away || phase == life.Finishing || phase == life.Closing:
	case phase == life.Serving && (s.own.has(drains) && !x.frame.IsAllowed() || x != nil && (x.in.Ready() || x.blocked.Load())):
	case phase == life.Serving && k.servedOffLoop():
		want = sys.In | sys.Once
	default:
		want = sys.In
	}
	if x != nil && x.front.Lent() && !s.dead {
		want |= sys.Out
	}
	if want == s.want && (s.marks.has(isListed) || want == 0) {
		return
	}
	var err error
	switch {
	case want == 0:
		if s.marks.has(isListed) { // even with no interest, epoll would keep reporting hang-ups
			err = k.sh.poll.Remove(s.socket)
		}
		s.marks.clear(isListed)
	case s.marks.has(isListed):
		err = k.sh.poll.Change(s.socket, want, k.key)
	default:
		err = k.sh.poll.Add(s.socket, want, k.key)
		if err == nil {
			s.marks.set(isListed)
		}
	}
	s.want = want
	if err != nil {
		k.fail(NoDescriptors)
		s.dead = true
		if k.list(); x != nil {
			x.wakeOwner()
		}
	}
}

// writeAway writes queued output while the connection is off its loop.
func (k held) writeAway(again bool) {
	if x := k.x.Load(); x != nil && !k.s.dead {
		k.write(x, again)
	}
	k.watchFor(true)
}

// leaveLine returns a connection that has died in line, or is to end before its handshake, to its loop,
// which ends it: its place and its descriptor must not wait for a helper. It reports whether there is one.
// The caller is the loop.
func (k held) leaveLine() bool {
	s := k.s
	if !s.facets.has(isInLine) || !s.dead && (!s.own.shakesNext() || s.suspect == 0 && k.reason() == 0) {
		return false
	}
	k.s.facets.clear(isHandedOff | isInLine)
	k.setAway(false)
	return true
}

// servedOffLoop reports whether to serve the connection off its loop.
func (k *connRef) servedOffLoop() bool {
	if k.s.own.shakesNext() {
		x := k.x.Load()
		return x != nil && x.in.Ready() // its first message is here
	}
	switch k.sh.srv.how.hand {
	case Offload:
		return true
	case Inline:
		return false
	}
	if k.s.slowVisits > 0 {
		return true
	}
	epoch := k.sh.loop.slow.Epoch()
	return epoch != 0 && k.s.epoch != epoch && !k.sh.srv.helpers.full.Load()
}
