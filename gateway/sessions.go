package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/websocket"
	"github.com/hone-go/hone/wire"
)

// connect handles a Conn: first the hello of a client or the open of a reader, whose answer comes later, then
// empty heartbeats.
func (s *Server) connect(c framed.Call, dst, content []byte) ([]byte, error) {
	conn := frames{c.Conn()}
	_, err := s.greet(conn, c.Context, content, func(a *answer) { a.frames = c.Later() })
	if err != nil {
		return s.refuse(conn, dst, err)
	}
	return dst, nil
}

// greet handles a Conn over either kind of connection, and reports whether its answer, which later promises,
// comes later.
func (s *Server) greet(conn receiver, client func() context.Context, content []byte, later func(*answer)) (waits bool, err error) {
	value := conn.Value()
	switch _, reads := value.(*holder); {
	case value != nil && len(content) == 0:
		return false, nil
	case reads:
		return false, fmt.Errorf("%w: this connection reads already", ErrHandshake)
	case value != nil:
		return false, fmt.Errorf("%w: this connection has a session already", ErrHandshake)
	}
	if strings.HasPrefix(string(content), readMagic) {
		h, err := s.admit(conn, content)
		if err != nil {
			return false, err
		}
		conn.SetValue(h)
		conn.Trust() // what follows takes the log its time, and not the client
		later(&h.reply)
		h.client = client()
		return true, s.open(h)
	}
	l, h, err := s.checkHello(conn, content)
	if err != nil {
		return false, err
	}
	conn.SetValue(l)
	conn.Trust() // what follows takes the log its time, and not the client
	r := request{client: client(), came: time.Now(), link: l, hello: h}
	later(&r.reply)
	if !s.queue.ask(func(p *pack) { p.requests = append(p.requests, r) }) {
		conn.Close() // without an answer: the server is ending
	}
	return true, nil
}

// checkHello checks a hello as far as that needs no session.
func (s *Server) checkHello(conn caller, content []byte) (l *link, h hello, err error) {
	if h, err = parseHello(content); err != nil {
		return nil, h, err
	}
	l = &link{conn: conn, level: h.level}
	if l.proof, err = s.authenticate(conn.TLS, h.client, h.token); err != nil {
		return nil, h, err
	}
	if l.level == Default {
		l.level = s.Durable
	}
	if l.level != Received && l.level != s.Durable {
		return nil, h, fmt.Errorf("%w: it offers received and %v; the client asked for %v", ErrLevel, s.Durable, h.level)
	}
	return l, h, nil
}

func (s *Server) refuse(conn caller, dst []byte, err error) ([]byte, error) {
	s.count.add(func(st *Stats) { st.Refused++ })
	conn.Close()
	return dst, refusal(err)
}

// certificate returns the certificate of a connection, and whether that has a name.
func certificate(tlsOf func() *tls.ConnectionState, name string) (leaf *x509.Certificate, named bool, err error) {
	state := tlsOf()
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil, false, fmt.Errorf("%w: the connection has no client certificate", ErrUnauthorised)
	}
	leaf = state.PeerCertificates[0]
	return leaf, leaf.Subject.CommonName == name || slices.Contains(leaf.DNSNames, name), nil
}

// authenticate checks a client's certificate and token, at any door. It hashes the token of an unknown client too,
// so that its refusal is not faster.
func (s *Server) authenticate(tlsOf func() *tls.ConnectionState, client, token string) (p proof, err error) {
	defer func() {
		if err != nil {
			s.count.add(func(st *Stats) { st.Unauthorised++ })
		}
	}()
	if s.Certificates {
		if _, named, err := certificate(tlsOf, client); err != nil {
			return p, err
		} else if !named {
			return p, fmt.Errorf("%w: the certificate does not name the client", ErrUnauthorised)
		}
	}
	if s.Tokens != nil {
		p = sha256.Sum256([]byte(token))
		if _, ok := s.Tokens.permits(client, p, false); !ok {
			return p, ErrUnauthorised
		}
	}
	return p, nil
}

func (s *Server) closed(value any) {
	if value == nil {
		return
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if h, reads := value.(*holder); reads {
		s.readers.left(h, s.readClock())
		return
	}
	l := value.(*link)
	l.gone = true
	if l.session != nil && l.session.link == l {
		l.session.link, l.session.seen = nil, s.readClock()
	}
}

// submit handles a Submit. The request's id is a record's sequence number.
func (s *Server) submit(c framed.Call, dst, data []byte) ([]byte, error) {
	conn := c.Conn()
	_, err := s.take(conn.Value(), c.Context, c.ID(), data, func(a *answer) { a.frames = c.Later() })
	switch {
	case err == ErrServerClosed || err == errGone: // no answer: the record may be stored or not
		c.Later()
		conn.Close()
	case err != nil:
		return s.refuse(frames{conn}, dst, err)
	}
	return dst, nil
}

// take takes the content of a Submit: a client's record, as queue.accept says, or a reader's acknowledgement.
// of is the connection's value.
func (s *Server) take(of any, client func() context.Context, id uint64, data []byte, later func(*answer)) (waits bool, err error) {
	switch of := of.(type) {
	case *holder:
		return false, s.acknowledge(of, data)
	case *link:
		waits, err = s.queue.accept(of, client, id, data, later)
		if err == errDuplicate {
			s.count.add(func(st *Stats) { st.Duplicates++ })
			err = nil
		}
		return waits, err
	}
	return false, fmt.Errorf("%w: the client sent a record before the hello", ErrHandshake)
}

// revoke ends the connections whose tokens are gone, or permit a reader something else now.
func (s *Server) revoke() (ended int) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	for _, known := range s.sessions.byClient { // a hello that waits is checked again when it is its turn
		if known.link != nil && s.revoked(known.client, known.link) {
			known.fence(ErrUnauthorised)
			ended++
		}
	}
	s.readers.mu.Lock()
	defer s.readers.mu.Unlock()
	for h := range s.readers.holders {
		if why := s.Tokens.objection(h); why != nil && !h.gone {
			h.end(why)
			ended++
		}
	}
	return ended
}

func (s *Server) upgrader() *websocket.Upgrader {
	return &websocket.Upgrader{
		Message:     s.message,
		Closed:      func(c websocket.Conn, _ websocket.Code, _ engine.Reason) { s.closed(c.Value()) },
		AuthLater:   true,
		MessageSize: s.limits.FrameSize,
		Limits:      s.Limits,
		Logger:      s.Logger,
	}
}

// message handles one binary message, which is a frame without its length.
func (s *Server) message(c websocket.Call, dst, msg []byte) ([]byte, error) {
	if c.Kind() != websocket.Binary {
		return nil, websocket.UnsupportedData
	}
	p, err := wire.Parse(msg)
	if err != nil {
		return nil, websocket.ProtocolError
	}
	conn, ack, waits := socket{c.Conn()}, wire.ConnAck, false
	later := func(a *answer) { a.other = &socketReply{c.Later(), ack, p.ID} }
	switch p.Command {
	case wire.Conn:
		waits, err = s.greet(conn, c.Context, p.Content, later)
	case wire.Submit:
		ack = wire.SubmitAck
		waits, err = s.take(conn.Value(), c.Context, p.ID, p.Content, later)
		if err == ErrServerClosed || err == errGone {
			return nil, websocket.GoingAway
		}
	default:
		return nil, websocket.ProtocolError
	}
	switch {
	case waits:
		return nil, nil
	case err != nil:
		s.count.add(func(st *Stats) { st.Refused++ })
		why := refusal(err)
		conn.Binary(payload(ack, p.ID, why.Result, why.Content))
		conn.Close()
		return nil, nil
	}
	return append(dst, payload(ack, p.ID, wire.OK, nil)...), nil
}
