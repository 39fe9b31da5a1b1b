package gateway

import (
	"crypto/subtle"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// session is one numbering of a client's records.
type session struct {
	client  string
	epoch   uint64
	durable atomic.Uint64 // the highest stored sequence number; the committer raises it

	// queue.mu guards the rest.
	accepted uint64 // the highest sequence number that is stored or queued
	link     *link  // the connection that may write; nil: none
	seen     int64  // when the client was last heard of, in unix milliseconds
}

// link is one connection's hold on a session.
type link struct {
	session *session
	conn    framed.Conn
	level   Level
	proof   proof // what the client was let in by
}

// sessions are what the server remembers of its clients; queue.mu guards them.
type sessions struct {
	byClient map[string]*session
}

// connect answers a Conn packet: a hello at first, empty heartbeats later.
func (s *Server) connect(c framed.Call, dst, content []byte) ([]byte, error) {
	conn := c.Conn()
	if _, linked := conn.Value().(*link); linked {
		if len(content) == 0 {
			return dst, nil
		}
		return s.refuse(conn, dst, fmt.Errorf("%w: this connection has a session already", ErrHandshake))
	}
	h, err := parseHello(content)
	if err != nil {
		return s.refuse(conn, dst, err)
	}
	l := &link{conn: conn, level: h.level}
	if l.proof, err = s.authenticate(conn, h); err != nil {
		return s.refuse(conn, dst, err)
	}
	if l.level == Default {
		l.level = s.Durable
	}
	if l.level != Received && l.level != s.Durable {
		return s.refuse(conn, dst, fmt.Errorf("%w: it offers received and %v, not %v", ErrLevel, s.Durable, h.level))
	}
	w, later, err := s.attach(c, l, h)
	switch {
	case err != nil:
		return s.refuse(conn, dst, err)
	case later:
		return dst, nil
	}
	return w.append(dst), nil
}

// refuse ends the connection with the words for err.
func (s *Server) refuse(conn framed.Conn, dst []byte, err error) ([]byte, error) {
	s.count.refused.Add(1)
	conn.Close()
	return dst, refusal(err)
}

// authenticate says whether the connection may speak for the client.
func (s *Server) authenticate(conn framed.Conn, h hello) (p proof, err error) {
	if s.Certificates {
		state := conn.TLS()
		if state == nil || len(state.PeerCertificates) == 0 {
			return p, fmt.Errorf("%w: it has no certificate", ErrUnauthorised)
		}
		leaf := state.PeerCertificates[0]
		if leaf.Subject.CommonName != h.client && !slices.Contains(leaf.DNSNames, h.client) {
			return p, fmt.Errorf("%w: its certificate does not name it", ErrUnauthorised)
		}
	}
	if s.Tokens != nil {
		var ok bool
		if p, ok = s.Tokens.check(h.client, h.token); !ok {
			return p, ErrUnauthorised
		}
	}
	return p, nil
}

// attach gives the session that h asks for to l. A new session is answered later, when
// its epoch is durable: two clients must never have been given the same one.
func (s *Server) attach(c framed.Call, l *link, h hello) (w welcome, later bool, err error) {
	w = welcome{
		level:  l.level,
		window: uint32(max(s.limits.InFlight, 1)),
		most:   uint32(s.most),
		idle:   max(s.limits.IdleTime, 0),
		expiry: s.Expiry,
	}
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return w, false, wire.ShuttingDown
	}
	now := s.now().UnixMilli()
	known := s.sessions.byClient[h.client]
	if h.epoch == 0 {
		next, err := s.sessions.begin(known, h.client, now, s.Clients)
		if err != nil {
			return w, false, err
		}
		l.take(next, now)
		w.epoch = next.epoch
		q.welcome(c.Later(), next, w)
		return w, true, nil
	}
	if err := known.mayResume(h, l.level); err != nil {
		return w, false, err
	}
	if h.next > known.accepted+1 { // at level received: what a crash has lost is lost
		known.accepted = h.next - 1
	}
	l.take(known, now)
	w.epoch, w.last = known.epoch, known.durable.Load()
	return w, false, nil
}

// mayResume says why h may not go on with the session, or nil.
func (known *session) mayResume(h hello, level Level) error {
	switch {
	case known == nil || h.epoch > known.epoch:
		return ErrExpired
	case h.epoch < known.epoch:
		return ErrFenced
	case h.next > known.accepted+1 && level != Received:
		return fmt.Errorf("%w: it has records to %d, and %d were acknowledged", ErrRegressed, known.durable.Load(), h.next-1)
	}
	return nil
}

// begin makes a new session of a client, which ends the one that is known. Epochs follow
// the clock, so that they grow even after the server has forgotten the client.
func (t *sessions) begin(known *session, client string, now int64, most int) (*session, error) {
	next := &session{client: client, epoch: uint64(max(now, 1))}
	if known == nil {
		if len(t.byClient) >= most {
			return nil, fmt.Errorf("%w: %d", ErrTooMany, most)
		}
	} else {
		next.epoch = max(next.epoch, known.epoch+1)
		known.fence()
	}
	t.byClient[client] = next
	return next, nil
}

// take makes l the connection that may write to the session, and no other.
func (l *link) take(known *session, now int64) {
	known.fence()
	known.link, known.seen = l, now
	l.session = known
	l.conn.SetValue(l)
}

// fence ends the connection that may write now.
func (known *session) fence() {
	if known.link != nil {
		known.link.conn.Close()
		known.link = nil
	}
}

// closed notes that a client has left.
func (s *Server) closed(conn framed.Conn, _ engine.Reason) {
	l, ok := conn.Value().(*link)
	if !ok {
		return
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if l.session.link == l {
		l.session.link, l.session.seen = nil, s.now().UnixMilli()
	}
}

// submit accepts one record: its sequence number is the request's id.
func (s *Server) submit(c framed.Call, dst, data []byte) ([]byte, error) {
	conn := c.Conn()
	l, _ := conn.Value().(*link)
	if l == nil {
		return s.refuse(conn, dst, fmt.Errorf("%w: a record came before it", ErrHandshake))
	}
	acked, err := s.queue.accept(c, l, data)
	switch {
	case err == ErrServerClosed: // no word: what is not acknowledged may be stored or not
		c.Later()
		conn.Close()
		return dst, nil
	case err != nil:
		return s.refuse(conn, dst, err)
	case acked == again:
		s.count.duplicates.Add(1)
	}
	return dst, nil
}

// Revoke ends the sessions whose tokens are no longer valid, after Tokens.Reload.
func (s *Server) Revoke() (ended int) {
	if s.Tokens == nil {
		return 0
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	for _, known := range s.sessions.byClient {
		if known.link != nil && !s.Tokens.valid(known.client, known.link.proof) {
			known.fence()
			ended++
		}
	}
	return ended
}

// proof is the hash of the token that a client has shown.
type proof [32]byte

func (p proof) equals(other proof) bool { return subtle.ConstantTimeCompare(p[:], other[:]) == 1 }
