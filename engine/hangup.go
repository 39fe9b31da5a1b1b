package engine

import (
	"context"
	"syscall"

	"github.com/hone-go/hone/internal/sys"
)

// A context that ends when the peer leaves, for those who ask for it. The sweeper asks the
// kernel about them every period: a loop that does not read from a connection does not
// hear that its peer has closed it.

// watched is a context that somebody has asked for.
type watched struct {
	ctx     context.Context
	end     context.CancelFunc
	visited bool // in this visit: it does not end before it
}

// Context ends when the peer has closed its side or broken the connection, about a second
// later at most; when the connection ends; and when this visit has ended and nothing more
// is owed to the peer (Later). It carries the values of parent, such as Server.Context. Of peers behind something that hides its socket, and elsewhere than on
// Linux, the end is heard of only when the connection is read. It costs about a
// microsecond and some allocations, and nothing to those who do not ask. Outside an engine
// it is parent.
func (t *Turn) Context(parent context.Context) context.Context {
	if t.ref == nil {
		return parent
	}
	t.watched = true
	return t.ref.watch(parent)
}

// watch is the connection's context, made when there is none.
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
	k.touch() // and the sweeper is awake
	return r.watched.ctx
}

// unwatch ends the context when there is nothing more to do for the peer: at the end of a
// visit, and when a late reply has been sent. mu held.
func (k *connRef) unwatch(x *inflight) {
	if r := x.rare; r != nil && r.watched.ctx != nil && !r.watched.visited && x.promises.open == 0 {
		r.watched.end()
		r.watched = watched{}
		x.forgetRare()
	}
}

// visitUnwatched is what a visit that has asked for the context calls at its end.
func (k *connRef) visitUnwatched(t *Turn) {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	if x := k.x.Load(); x != nil && x.rare != nil {
		t.giveBack(x)
		x.rare.watched.visited = false
		k.unwatch(x)
	}
}

// endContext ends the context at once. mu held.
func (x *inflight) endContext() {
	if x.rare != nil && x.rare.watched.ctx != nil {
		x.rare.watched.end()
	}
}

// forgetRare lets go of rare when there is nothing in it. mu held.
func (x *inflight) forgetRare() {
	if r := x.rare; r.value == nil && r.zone == "" && r.give == nil && r.given == nil && r.watched.ctx == nil {
		x.rare = nil
	}
}

// listen ends the context of a connection whose peer has left, and reports whether there
// is one to listen for. mu held.
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
