package http1

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
)

// Hijack hands the socket to the handler for good, with the bytes that were read but not
// served. From then on the server neither reads from it nor closes it.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a := w.begin()
	defer w.mu.Unlock()
	if a.hijacked {
		return nil, nil, http.ErrHijacked
	}
	if a.err != nil {
		return nil, nil, a.err
	}
	(*requestContext)(w).detach()
	if a.wroteHeader && !a.wroteHead { // as net/http does: it sends the head and drops the buffered body
		a.writeHead(nil)
	}
	unread := append(bytes.Clone(a.body), a.in[a.used:]...)
	nc, err := a.turn.Socket()
	if err != nil {
		a.fail(err)
		return nil, nil, err
	}
	a.hijacked = true
	w.server.tell(a.turn, http.StateHijacked)
	var from io.Reader = nc
	if len(unread) > 0 {
		from = io.MultiReader(bytes.NewReader(unread), nc)
	}
	r := bufio.NewReader(from)
	if len(unread) > 0 {
		r.Peek(min(len(unread), r.Size())) // so that Buffered reports them
	}
	return nc, bufio.NewReadWriter(r, bufio.NewWriter(nc)), nil
}

// detach makes the context end only with the handler: after a hijack, noticing that the peer
// has left is the handler's task.
func (c *requestContext) detach() {
	c.localAddr() // while the connection still knows it
	c.contextMu.Lock()
	defer c.contextMu.Unlock()
	if c.inner == nil {
		c.inner, c.cancel = context.WithCancel(c.base)
	}
}
