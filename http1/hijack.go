package http1

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
)

// Hijack gives the socket to the handler, at once and for good, with the bytes that have
// been read and not served. From then on the server neither reads nor closes it.
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
	if a.wroteHeader && !a.wroteHead { // as net/http does: the head goes, and what is buffered does not
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
		from = &unreadFirst{Reader: nc, unread: unread}
	}
	r := bufio.NewReader(from)
	if len(unread) > 0 {
		r.Peek(min(len(unread), r.Size())) // so that Buffered tells of them
	}
	return nc, bufio.NewReadWriter(r, bufio.NewWriter(nc)), nil
}

// unreadFirst reads what the engine has read, and then from the socket.
type unreadFirst struct {
	io.Reader
	unread []byte
}

func (f *unreadFirst) Read(p []byte) (n int, err error) {
	if len(f.unread) > 0 {
		n = copy(p, f.unread)
		f.unread = f.unread[n:]
		return n, nil
	}
	return f.Reader.Read(p)
}

// detach makes the context end with the handler only: the peer is the hijacker's to watch.
func (c *requestContext) detach() {
	c.localAddr() // while the connection knows it
	c.contextMu.Lock()
	defer c.contextMu.Unlock()
	if c.inner == nil {
		c.inner, c.cancel = context.WithCancel(c.base)
	}
}
