package http1

import (
	"errors"
	"net/http"

	"github.com/hone-go/hone/engine"
)

// errSwitched says that the connection no longer speaks HTTP.
var errSwitched = errors.New("http1: switched")

// Switch has the connection of w's request speak another protocol when the handler has
// returned, as engine.Turn.Become does: it stays on its engine, with all limits. The
// handler, which may have written nothing before, writes what the client is to hear to
// Turn.Out, status line and all, and may set Turn.State; w is as after Hijack. The Turn is
// valid until the handler returns.
//
// Where w is not the fast path's, or a wrapper of it with an Unwrap method, Switch returns
// errors.ErrUnsupported: on net/http, and when the connection is lent to it. Hijack serves
// then. The fast path takes requests whose Upgrade field is "websocket".
func Switch(w http.ResponseWriter, to engine.Protocol) (*engine.Turn, error) {
	if of := fastPath(w); of != nil {
		return of.switchTo(to)
	}
	return nil, errors.ErrUnsupported
}

// fastPath is the fast path's ResponseWriter that w is or wraps; nil: none.
func fastPath(w http.ResponseWriter) *response {
	for {
		switch of := w.(type) {
		case *response:
			return of
		case interface{ Unwrap() http.ResponseWriter }:
			w = of.Unwrap()
		default:
			return nil
		}
	}
}

// Leave says that the handler of w's request is about to wait, or to compute for long: its
// event loop goes on without it at once. A handler that takes long is found out anyway, but
// its loop then stands still for a millisecond or two. Leave costs some microseconds, and
// nothing where w is not the fast path's, or a wrapper of it with an Unwrap method.
func Leave(w http.ResponseWriter) {
	if of := fastPath(w); of != nil {
		of.begin().turn.Leave()
		of.mu.Unlock()
	}
}

func (w *response) switchTo(to engine.Protocol) (*engine.Turn, error) {
	a := w.begin()
	defer w.mu.Unlock()
	switch {
	case a.hijacked:
		return nil, http.ErrHijacked
	case a.wroteHeader || a.flushes > 0:
		return nil, errors.New("http1: Switch after a part of the answer was written")
	case len(a.body) > 0:
		return nil, errors.ErrUnsupported
	case a.err != nil:
		return nil, a.err
	}
	if err := a.turn.Become(to); err != nil {
		return nil, err
	}
	w.server.tell(a.turn, http.StateHijacked)
	if w.server.hooks.any() {
		w.conn.SetValue(nil) // it is the other protocol's to use
	}
	a.hijacked, a.switched = true, true
	return a.turn, nil
}
