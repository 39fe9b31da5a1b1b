package engine

import (
	"cmp"
	"context"
)

// A context that is cancelled when the peer disconnects, created on demand. The sweeper
// polls the kernel for these connections every period: a loop that does not read from a
// connection does not learn that its peer has closed it.

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
	return t.ref.owner().watch(parent)
}

// watch returns the connection's context, created if there is none. Making and ending one
// runs code of its parent, which may be user code that asks for this connection: neither
// happens with mu held.
func (k owner) watch(parent context.Context) context.Context {
	k.touch() // wakes the sweeper
	ctx, end := context.WithCancel(parent)
	k.s.mu.Lock()
	ctx, end = k.held().adopt(k.held().attach(), ctx, end)
	k.x.Load().rare.watched.visited = true
	k.s.mu.Unlock()
	end()
	return ctx
}

// adopt stores a new context unless the connection has one or is dead. It returns the one to
// use, and what ends the new one if that is not adopted. mu held.
func (k held) adopt(x *inflight, ctx context.Context, end context.CancelFunc) (context.Context, context.CancelFunc) {
	w := &x.rarely().watched
	if w.ctx == nil && !k.s.dead {
		w.ctx, w.end = ctx, end
		return ctx, func() {}
	}
	return cmp.Or(w.ctx, ctx), end
}

// unwatch forgets the context when there is nothing left to do for the peer: at the end of a
// visit, and when a late reply has been sent. It returns what ends the context, to be called
// without mu, or nil.
func (k held) unwatch(x *inflight) (end context.CancelFunc) {
	if r := x.rare; r != nil && r.watched.ctx != nil && !r.watched.visited && x.promises.Open() == 0 {
		end = r.watched.end
		r.watched = watched{}
		x.forgetRare()
	}
	return end
}

// visitUnwatched is called at the end of a visit that has requested the context.
func (k owner) visitUnwatched(t *Turn) {
	var end context.CancelFunc
	k.s.mu.Lock()
	if x := k.x.Load(); x != nil && x.rare != nil {
		t.giveBack(x)
		x.rare.watched.visited = false
		end = k.held().unwatch(x)
	}
	k.s.mu.Unlock()
	if end != nil {
		end()
	}
}

// endContext cancels the context: in another goroutine, because that runs user code.
func (k held) endContext(x *inflight) {
	if x.rare == nil || x.rare.watched.ctx == nil || x.rare.watched.ctx.Err() != nil {
		return
	}
	k.sh.srv.goroutines.Go(x.rare.watched.end)
}

// listen cancels the context of a connection whose peer has disconnected, and reports whether
// there is a context to watch for.
func (k held) listen(x *inflight) (watching bool) {
	if x.rare == nil || x.rare.watched.ctx == nil || x.rare.watched.ctx.Err() != nil {
		return false
	}
	if k.link().HungUp() {
		k.endContext(x)
	}
	return true
}
