package http1

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine"
)

// protocol serves HTTP/1.1 on an engine.
type protocol struct {
	server   *Server
	http1Off bool // Std.Protocols excludes HTTP/1
	prior    bool // clients may speak HTTP/2 without TLS
	trusts   bool // Limits.AuthTime ends with the first request of a connection
	fast     atomic.Uint64
	visits   sync.Pool // of *visit
	copies   sync.Pool // of buffers for ReadFrom
}

// block is the memory of one request: everything that a handler may keep, in one allocation
// that is never reused. The ResponseWriter, the Body and the context are this block under
// different method sets.
type block struct {
	req    http.Request
	url    url.URL
	server *Server
	conn   engine.Conn
	base   context.Context // of the connection

	mu     sync.Mutex
	answer *answer // nil after the handler has returned

	contextMu sync.Mutex
	turn      *engine.Turn // nil after the handler has returned
	inner     context.Context
	cancel    context.CancelFunc
	local     net.Addr
	late      *LateAnswer // nil: the handler answers before it returns
}

// visit is the state that the requests of one visit share. It is reused for later visits.
type visit struct {
	head   head
	answer answer
	late   engine.Turn  // where a late answer is written
	asked  http.Request // to which it is one
	remote string
	tls    *tls.ConnectionState
	served uint64 // not yet added to protocol.fast
}

// SaysLast is true: an answer with Connection: close is a connection's last.
func (p *protocol) SaysLast() bool { return true }

// GivesWay lets a connection between two requests make room for a new one: clients expect an
// idle connection to be closed at any time.
func (p *protocol) GivesWay() bool { return true }

// Advance serves the requests at the front of in that the fast path can prove equal to
// net/http. At the first one that it cannot, it lends the connection to net/http.
func (p *protocol) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	if p.server.secure.Load() && t.State&stateVisited == 0 {
		if done, err := p.server.chosen(t); done {
			return 0, 0, err
		}
	}
	room := false
	if t.State&stateOwed != 0 {
		if room = t.Room(); !room {
			return 0, 0, nil
		}
		t.State &^= stateOwed
	}
	if t.State&stateHTTP2 != 0 || p.prior && t.State&stateServed == 0 && t.Conn().TLS() == nil {
		if need, is, err := p.server.preface(t, in); is {
			return 0, need, err
		}
	}
	if p.http1Off {
		return 0, 0, engine.ClosedHere // as net/http does
	}
	v := p.visit()
	for {
		rest := in[used:]
		switch v.head.parse(rest) {
		case incomplete:
			need = 1 // a request that net/http refuses may be complete with the next byte
			if 0 < len(rest) && len(rest) < peeked && t.State&stateServed == 0 {
				p.become(t, (*opening)(p))
			}
		case leave:
			if room || t.Room() {
				err = p.server.leave(t, rest)
			}
		case fast:
			size := v.head.size + v.head.length
			if len(rest) < size {
				t.ExpectRest(p.server.requestTime(v.head.length))
				p.server.tell(t, http.StateActive)
				need = size - len(rest)
				break
			}
			if !room && !t.Room() {
				break
			}
			room = false
			t.Mark(used)
			v.served++
			if p.trusts && t.State&stateServed == 0 {
				t.Conn().Trust()
			}
			note(t, rest)
			p.server.tell(t, http.StateActive)
			used, in, err = p.serve(t, v, in, used)
			if err == errSwitched {
				need, err = 0, nil
				break
			}
			if err == nil {
				p.server.tell(t, http.StateIdle)
				if used < len(in) {
					continue
				}
				need = 1
			}
		}
		break
	}
	p.fast.Add(v.served)
	v.remote, v.tls, v.served = "", nil, 0
	p.visits.Put(v)
	return used, need, err
}

// visit returns an unused visit, to be put into p.visits.
func (p *protocol) visit() *visit {
	v, _ := p.visits.Get().(*visit)
	if v == nil {
		v = new(visit)
		v.head.most = max(0, p.server.std.MaxHeaderBytes)
		v.head.spare = spareFields(&p.server.std)
	}
	return v
}

// become switches the connection to another of our protocols, which shares its state.
func (p *protocol) become(t *engine.Turn, other engine.Protocol) {
	state := t.State
	t.Become(other) // fails only outside an engine
	t.State = state
}

// Refuse tells a refused peer why. net/http waits for 4 bytes before every request but the first,
// and closes silently if they do not come.
func (p *protocol) Refuse(dst, unserved []byte, why engine.Reason) []byte {
	if len(unserved) < peeked {
		unserved = nil
	}
	return refusal(dst, unserved, why, p.server.engine.ComeAgain)
}

// opening is the protocol of a connection that has sent fewer bytes than that of its first
// request: net/http answers these.
type opening protocol

// Advance is protocol.Advance, until the connection need not be told from others any more.
func (o *opening) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	p := (*protocol)(o)
	if len(in) >= peeked || t.State&stateServed != 0 {
		p.become(t, p)
		return 0, 0, nil
	}
	return p.Advance(t, in)
}

// SaysLast is true, as for protocol.
func (o *opening) SaysLast() bool { return true }

func (o *opening) Refuse(dst, unserved []byte, why engine.Reason) []byte {
	return refusal(dst, unserved, why, o.server.engine.ComeAgain)
}

// serve answers the complete request at in[at:]. It returns the input as it is after the
// handler, and the offset of its first unserved byte.
func (p *protocol) serve(t *engine.Turn, v *visit, in []byte, at int) (used int, rest []byte, err error) {
	body := at + v.head.size
	used = body + v.head.length
	if v.remote == "" {
		v.remote = addrText(t.Conn())
		if p.server.secure.Load() {
			v.tls = t.Conn().TLS()
		}
	}
	b := &block{server: p.server, conn: t.Conn(), turn: t}
	b.base = p.server.contextOf(b.conn)
	var bare http.Request
	b.req = *bare.WithContext((*requestContext)(b)) // does not copy: WithContext is inlined
	v.head.fill(&b.req, &b.url, in[at:body:body], v.remote)
	b.req.TLS = v.tls
	b.req.Body = http.NoBody
	if v.head.length > 0 {
		b.req.Body = (*requestBody)(b)
	}
	b.answer = &v.answer
	a := b.answer
	a.begin(t, p, b, in, used)
	a.body = in[body:used:used]
	a.wantsClose = v.head.close

	returned := false
	defer func() {
		if !returned {
			err = p.failed(t, v, b, recover())
			used, rest = a.used, a.in
			a.reset()
		}
	}()
	p.handler(&b.req).ServeHTTP((*response)(b), &b.req)
	returned = true
	(*requestContext)(b).end()
	b.mu.Lock()
	err = a.finish()
	b.answer = nil
	b.mu.Unlock()
	used, rest = a.used, a.in
	a.reset()
	return used, rest, err
}

// failed ends a request whose handler panicked with v or ended its goroutine. It sends no
// more of the response than has already been sent.
func (p *protocol) failed(t *engine.Turn, of *visit, b *block, v any) error {
	(*requestContext)(b).end()
	b.mu.Lock()
	b.answer = nil
	b.mu.Unlock()
	if v == http.ErrAbortHandler {
		t.Rollback()
		return engine.ClosedHere
	}
	p.fast.Add(of.served)
	of.served = 0
	if v != nil {
		panic(v) // the engine counts it, logs it and closes the connection
	}
	return engine.Panicked // the value does not matter: the goroutine ends
}

// handler returns the handler for r.
func (p *protocol) handler(r *http.Request) http.Handler {
	std := &p.server.std
	switch {
	case r.RequestURI == "*" && r.Method == http.MethodOptions && !std.DisableGeneralOptionsHandler:
		return http.HandlerFunc(generalOptions)
	case std.Handler != nil:
		return std.Handler
	}
	return http.DefaultServeMux
}

// generalOptions answers "OPTIONS *".
func generalOptions(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "0")
	if r.ContentLength != 0 {
		r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
		io.Copy(io.Discard, r.Body)
	}
}

// addrText is the peer's address in net/http's format.
func addrText(c engine.Conn) string {
	if addr := c.RemoteAddr(); addr.IsValid() {
		return addr.String()
	}
	return "@" // a unix socket
}

// deadline is when Std.WriteTimeout requires the response to be written.
func (p *protocol) deadline() (at time.Time) {
	if d := p.server.std.WriteTimeout; d > 0 {
		at = time.Now().Add(d)
	}
	return at
}
