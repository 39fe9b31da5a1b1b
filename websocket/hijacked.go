package websocket

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/hone-go/hone/engine"
)

// hijacked is an engine.Server of the Upgrader's own, with a goroutine per connection, for requests that
// net/http has read: their connections are hijacked and passed to it. It is also the protocol that they
// speak until their request is answered.
type hijacked struct {
	server engine.Server

	mu      sync.Mutex
	started bool
	over    bool
	guests  map[uint64]*guest // by Turn.State: not yet at their first visit
	last    uint64            // state
}

// guest is a request on its way from net/http to the engine.
type guest struct {
	request *upgrade
	came    chan struct{} // closed when it is answered or will never be
}

// hijack takes w's connection from net/http and lets the engine answer the request.
func (u *Upgrader) hijack(w http.ResponseWriter, up *upgrade) {
	h := &u.hijacked
	if !h.start(u.Limits, u.Logger) {
		refusal{http.StatusServiceUnavailable, "the server is shutting down"}.write(w)
		return
	}
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		refusal{http.StatusInternalServerError, "this server gives no connections away"}.write(w)
		return
	}
	unread, _ := rw.Reader.Peek(rw.Reader.Buffered())
	g := &guest{up, make(chan struct{})}
	state := h.expect(g)
	if h.server.ServeConn(nc, h, state, unread) != nil {
		h.take(state)
		return
	}
	<-g.came // the request must not be used after ServeHTTP has returned
}

// expect returns the state of a connection whose request is g.
func (h *hijacked) expect(g *guest) (state uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	h.guests[h.last] = g
	return h.last
}

// take returns the guest with this state, if it has not come yet.
func (h *hijacked) take(state uint64) *guest {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.guests[state]
	delete(h.guests, state)
	return g
}

// start prepares the engine's server. It returns false after Shutdown.
func (h *hijacked) start(limits engine.Limits, logger *slog.Logger) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started || h.over {
		return !h.over
	}
	h.started = true
	h.guests = map[uint64]*guest{}
	h.server.Protocol, h.server.Engine = h, engine.Buffered(0)
	h.server.Limits, h.server.Logger = limits, logger
	return true
}

// shutdown ends the connections and waits for them.
func (h *hijacked) shutdown(ctx context.Context) error {
	h.mu.Lock()
	h.over = true
	started := h.started
	h.mu.Unlock()
	if !started {
		return nil
	}
	return h.server.Shutdown(ctx)
}

// Advance answers the request.
func (h *hijacked) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	g := h.take(t.State)
	defer close(g.came)
	t.Mark(0)
	if err := t.Become(g.request.protocol()); err != nil {
		return 0, 0, err
	}
	g.request.answer(t)
	return 0, 0, nil
}

// Ended is called for a connection that has ended before its request was answered.
func (h *hijacked) Ended(c engine.Conn, state uint64, why engine.Reason) {
	if g := h.take(state); g != nil {
		close(g.came)
	}
}

// Refuse answers the request of a connection that the engine refuses.
func (h *hijacked) Refuse(dst, unserved []byte, why engine.Reason) []byte {
	status := http.StatusServiceUnavailable
	if why == engine.Panicked {
		status = http.StatusInternalServerError
	}
	return appendRefusal(dst, &Refusal{Status: status})
}
