package engine

import (
	"context"
	"syscall"

	"github.com/hone-go/hone/internal/sys"
)

// A context that is cancelled when the peer disconnects, created on demand. The sweeper
// polls the kernel for these connections every period: a loop that does not read from a
// connection does not learn that its peer has closed it.

// watched is a context in use.
type watched struct {
	ctx     context.Context
	end     context.CancelFunc
	visited bool // requested in this visit: not cancelled before the visit ends
}

// Context returns a context that is cancelled when the peer closes its side or the
// connection breaks, within about a second; when the connection ends; and when this visit
// has ended and no reply is owed any more (Later). It carries the values of parent, such
// as Server.Context. Without a plain socket, and on systems other than Linux, a
// disconnect is only detected when the connection is read. It costs about a microsecond
// and some allocations, and nothing when not called. Outside an engine it returns parent.
func (t *Turn) Context(parent context.Context) context.Context {
	if t.ref == nil {
		return parent
	}
	t.watched = true
	return t.ref.watch(parent)
}

// watch returns the connection's context, created if there is none.
func (k *connRef) watch(parent context.Context) context.Context {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	r := k.attach().rarely()
	if r.watched.ctx == nil {
		r.watched.ctx, r.watched.end = context.WithCancel(parent)
		if k.s.dead {
			r.watched.end()
		}
	}
	r.watched.visited = true
	k.touch() // wakes the sweeper
	return r.watched.ctx
}

// unwatch cancels the context when there is nothing left to do for the peer: at the end
// of a visit, and when a late reply has been sent. mu held.
func (k *connRef) unwatch(x *inflight) {
	if r := x.rare; r != nil && r.watched.ctx != nil && !r.watched.visited && x.promises.open == 0 {
		r.watched.end()
		r.watched = watched{}
		x.forgetRare()
	}
}

// visitUnwatched is called at the end of a visit that has requested the context.
func (k *connRef) visitUnwatched(t *Turn) {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	if x := k.x.Load(); x != nil && x.rare != nil {
		t.giveBack(x)
		x.rare.watched.visited = false
		k.unwatch(x)
	}
}

// endContext cancels the context at once. mu held.
func (x *inflight) endContext() {
	if x.rare != nil && x.rare.watched.ctx != nil {
		x.rare.watched.end()
	}
}

// forgetRare frees rare when there is nothing in it. mu held.
func (x *inflight) forgetRare() {
	if r := x.rare; r.value == nil && r.zone == "" && r.give == nil && r.given == nil && r.watched.ctx == nil {
		x.rare = nil
	}
}

// listen cancels the context of a connection whose peer has disconnected, and reports
// whether there is a context to watch for. mu held.
func (k *connRef) listen(x *inflight) (watching bool) {
	if x.rare == nil || x.rare.watched.ctx == nil || x.rare.watched.ctx.Err() != nil {
		return false
	}
	if k.hungUp(x) {
		x.rare.watched.end()
	}
	return true
}

// hungUp reports whether the peer has closed its side or broken the connection. mu held.
func (k *connRef) hungUp(x *inflight) (left bool) {
	if x.g == nil {
		return k.s.socket != sys.NoSocket && sys.HungUp(uintptr(k.s.socket))
	}
	if nc := innermost(x.g.nc); isSocket(nc) {
		if raw := rawConn(nc.(syscall.Conn)); raw != nil {
			raw.Control(func(fd uintptr) { left = sys.HungUp(fd) })
		}
	}
	return left
}
