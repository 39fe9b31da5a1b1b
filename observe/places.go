package observe

import (
	"container/list"
	"net"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// defaultConns is the most connections of a Guard's server, and descriptorShare is the
// part of the process's descriptors that they may use if that is less: the rest belongs
// to the service.
const (
	defaultConns    = 256
	descriptorShare = 8
)

func maxConns(asked int) int {
	if asked > 0 {
		return asked
	}
	files, ok := sys.DescriptorLimit()
	if !ok {
		return defaultConns
	}
	return int(max(1, min(defaultConns, files/descriptorShare)))
}

const (
	askTime = time.Second            // in which an honest client sends its first request
	endTime = 100 * time.Millisecond // to wait until a closed connection has freed its descriptor
)

// places bounds the connections of an http.Server. When all places are taken, a
// connection that waits for a request makes room for a new one. First go those that have
// never sent a request, then those between two requests, the longest waiting first.
// Connections whose request is being answered stay. All choices take constant time.
type places struct {
	most int

	mu     sync.Mutex
	taken  map[net.Conn]*place
	silent list.List // of *place: no request yet, the oldest first
	idle   list.List // of *place: between two requests, the longest idle first
}

// place is one connection's. places.mu guards it.
type place struct {
	conn  net.Conn
	in    *list.List    // nil unless it waits for a request
	at    *list.Element // of in
	since time.Time     // it waits
	freed chan struct{} // nil unless it was closed to make room; closed when it has ended
}

// changed is the server's ConnState hook. For a new connection it is called before the
// next one is accepted.
func (p *places) changed(nc net.Conn, state http.ConnState) {
	if !reflect.ValueOf(nc).Comparable() {
		return // an adapter's that cannot be a key: it goes uncounted
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		if !p.makeRoom() {
			nc.Close() // its goroutine finds it closed, and ends
			return
		}
		t := &place{conn: nc}
		p.taken[nc] = t
		t.wait(&p.silent)
	case http.StateIdle:
		if t := p.taken[nc]; t != nil && t.freed == nil {
			t.wait(&p.idle)
		}
	case http.StateActive:
		if t := p.taken[nc]; t != nil {
			t.ready()
		}
	case http.StateClosed, http.StateHijacked:
		if t := p.taken[nc]; t != nil {
			t.ready()
			if t.freed != nil {
				close(t.freed)
			}
			delete(p.taken, nc)
		}
	}
}

// wait records that the connection waits for a request. places.mu is held.
func (t *place) wait(in *list.List) {
	t.ready()
	t.since, t.in = time.Now(), in
	t.at = in.PushBack(t)
}

// ready ends the wait. places.mu is held.
func (t *place) ready() {
	if t.in != nil {
		t.in.Remove(t.at)
		t.in = nil
	}
}

// makeRoom closes connections until there is a place, and reports whether there is one.
// mu is held, and released while a connection ends.
func (p *places) makeRoom() bool {
	for len(p.taken) >= p.most {
		t := p.oldest()
		if t == nil {
			return false
		}
		t.ready()
		t.freed = make(chan struct{})
		innermost(t.conn).Close() // below TLS, whose Close may wait for the peer
		p.mu.Unlock()
		patience := time.NewTimer(endTime)
		select {
		case <-t.freed:
		case <-patience.C: // a request has arrived just now, and its handler is slow
		}
		patience.Stop()
		p.mu.Lock()
		delete(p.taken, t.conn)
	}
	return true
}

// oldest returns the connection to close for a new one, or nil. One that was accepted
// just now may be an honest client whose request is on its way. mu is held.
func (p *places) oldest() *place {
	silent, idle := p.silent.Front(), p.idle.Front()
	switch {
	case silent != nil && (idle == nil || time.Since(silent.Value.(*place).since) > askTime):
		return silent.Value.(*place)
	case idle != nil:
		return idle.Value.(*place)
	}
	return nil
}

// innermost returns the connection below TLS and the like.
func innermost(nc net.Conn) net.Conn {
	for range 8 { // bounded, because a layer may wrap itself
		outer, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		nc = outer.NetConn()
	}
	return nc
}

// Server returns an http.Server for h with at most MaxConns connections and a timeout for
// everything that it waits for. It adds no access control to h: see Handler.
func (g *Guard) Server(h http.Handler) *http.Server {
	p := &places{most: maxConns(g.MaxConns), taken: map[net.Conn]*place{}}
	return &http.Server{
		Handler:                      h,
		DisableGeneralOptionsHandler: true, // the guard answers OPTIONS * too
		ReadHeaderTimeout:            readTime,
		ReadTimeout:                  readTime,
		WriteTimeout:                 writeTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               headBytes,
		ConnState:                    p.changed,
	}
}
