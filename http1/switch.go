package http1

import (
	"errors"
	"net/http"

	"github.com/hone-go/hone/engine"
)

// errSwitched reports that the connection no longer speaks HTTP, or owes a late answer.
var errSwitched = errors.New("http1: switched")

// Switch makes the connection of w's request speak another protocol after the handler has
// returned, as engine.Turn.Become does: the connection stays on its engine, with all limits. The
// handler must not have written anything before. It appends its whole response, including the
// status line, to Turn.Out, and may set Turn.State; w is as after Hijack. The Turn is valid until
// the handler returns.
//
// If w is neither the fast path's ResponseWriter nor a wrapper of it with an Unwrap method, Switch
// returns errors.ErrUnsupported: on net/http, and while the connection is lent to it. Use Hijack
// then. The fast path serves requests whose Upgrade field is "websocket".
func Switch(w http.ResponseWriter, to engine.Protocol) (*engine.Turn, error) {
	if of := fastPath(w); of != nil {
		return of.switchTo(to)
	}
	return nil, errors.ErrUnsupported
}

// fastPath returns the fast path's ResponseWriter that w is or wraps, or nil.
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

// Leave says that the handler of w's request is about to wait or to compute for long: its event
// loop goes on at once without it, and its read buffer is freed if the body has been read. The first
// Flush does that, too. The engine also detects slow handlers by itself, but until then the loop is
// blocked for a millisecond or two, and the first time the buffer stays. Leave costs a few microseconds,
// and does nothing if w is neither the fast path's ResponseWriter nor a wrapper of it with an Unwrap
// method.
func Leave(w http.ResponseWriter) {
	if of := fastPath(w); of != nil {
		if a := of.begin(); !a.hijacked && a.freeInput() == nil {
			a.turn.Leave()
		}
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
		w.conn.SetValue(nil) // it belongs to the other protocol now
	}
	a.hijacked, a.switched = true, true
	return a.turn, nil
}
