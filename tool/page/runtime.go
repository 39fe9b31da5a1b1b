package page

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/arl/statsviz"
)

// runtimePage is statsviz, started at the first request: it then samples every second. It
// neither closes nor counts its readers' connections, so runtimePage does.
type runtimePage struct {
	mu     sync.Mutex
	server *statsviz.Server
	conns  map[*runtimeConn]bool
	closed bool
}

const mostRuntimeReaders = 8

// runtimePolicy allows inline styles and scripts, which statsviz needs.
const runtimePolicy = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (p *Page) serveRuntime(w http.ResponseWriter, r *http.Request) {
	server, full := p.runtime.open()
	rest := r.PathValue("rest")
	switch {
	case server == nil:
		http.Error(w, "the page is closing", http.StatusServiceUnavailable)
	case rest == "ws" && full:
		http.Error(w, "too many readers are connected; close another tab", http.StatusServiceUnavailable)
	case rest == "ws":
		server.Ws()(&counted{w, &p.runtime}, r)
	default:
		w.Header().Set("Content-Security-Policy", runtimePolicy)
		asked := r.Clone(r.Context())
		asked.URL.Path = runtimeRoot + "/" + rest
		server.Index()(w, asked)
	}
}

const runtimeRoot = "/runtime"

// open starts it if necessary; nil after Close.
func (p *runtimePage) open() (server *statsviz.Server, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false
	}
	if p.server == nil {
		server, err := statsviz.NewServer(statsviz.Root(runtimeRoot))
		if err != nil { // its options are constants
			panic("page: " + err.Error())
		}
		p.server, p.conns = server, map[*runtimeConn]bool{}
	}
	return p.server, len(p.conns) >= mostRuntimeReaders
}

func (p *runtimePage) close() {
	p.mu.Lock()
	p.closed = true
	server := p.server
	var conns []*runtimeConn
	for c := range p.conns {
		conns = append(conns, c)
	}
	p.mu.Unlock()
	if server != nil {
		server.Close() // never returns an error
	}
	for _, c := range conns {
		c.Close()
	}
}

// counted records the connection that statsviz hijacks.
type counted struct {
	http.ResponseWriter
	page *runtimePage
}

// Hijack hands over the connection with bounded writes.
func (c *counted) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	own := &runtimeConn{Conn: conn, page: c.page}
	c.page.mu.Lock()
	defer c.page.mu.Unlock()
	if c.page.closed {
		conn.Close()
		return nil, nil, net.ErrClosed
	}
	c.page.conns[own] = true
	return own, buffered, nil
}

// runtimeConn closes itself when its reader stalls.
type runtimeConn struct {
	net.Conn
	page *runtimePage
}

// Write writes within writeTime, or closes the connection.
func (c *runtimeConn) Write(b []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(writeTime)) // a failure also fails Write
	n, err := c.Conn.Write(b)
	if err != nil {
		c.Close()
	}
	return n, err
}

// Close closes the connection and stops counting it.
func (c *runtimeConn) Close() error {
	c.page.mu.Lock()
	delete(c.page.conns, c)
	c.page.mu.Unlock()
	return c.Conn.Close()
}
