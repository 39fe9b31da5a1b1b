package gateway

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/framed"
)

// connect handles a Conn: first the hello of a client or the open of a reader, whose answer comes later, then
// empty heartbeats.
func (s *Server) connect(c framed.Call, dst, content []byte) ([]byte, error) {
	conn := c.Conn()
	var err error
	switch value := conn.Value(); {
	case value != nil && len(content) == 0:
	case value != nil:
		err = fmt.Errorf("%w: this connection has a session or reads already", ErrHandshake)
	default:
		err = s.greet(c, conn, content)
	}
	if err != nil {
		return s.refuse(conn, dst, err)
	}
	return dst, nil
}

// greet handles the first Conn of a connection.
func (s *Server) greet(c framed.Call, conn framed.Conn, content []byte) error {
	if strings.HasPrefix(string(content), readMagic) {
		h, err := s.admit(conn, content)
		if err != nil {
			return err
		}
		conn.SetValue(h)
		conn.Trust() // what follows takes the log its time, and not the client
		h.reply.frames, h.client = c.Later(), c.Context()
		return s.open(h)
	}
	l, h, err := s.checkHello(conn, content)
	if err != nil {
		return err
	}
	conn.SetValue(l)
	conn.Trust() // as above
	r := request{client: c.Context(), came: time.Now(), reply: answer{frames: c.Later()}, link: l, hello: h}
	if !s.queue.ask(func(p *pack) { p.requests = append(p.requests, r) }) {
		conn.Close() // without an answer: the server is ending
	}
	return nil
}

// checkHello checks a hello as far as that needs no session.
func (s *Server) checkHello(conn framed.Conn, content []byte) (l *link, h hello, err error) {
	if h, err = parseHello(content); err != nil {
		return nil, h, err
	}
	l = &link{conn: frames{conn}, level: h.level}
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

func (s *Server) refuse(conn framed.Conn, dst []byte, err error) ([]byte, error) {
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

// submit handles a Submit: a client's record, whose sequence number is the request's id, or a reader's acknowledgement.
func (s *Server) submit(c framed.Call, dst, data []byte) ([]byte, error) {
	conn := c.Conn()
	var err error
	switch of := conn.Value().(type) {
	case *holder:
		err = s.acknowledge(of, data)
	case *link:
		err = s.queue.accept(of, c.Context, c.ID(), data, c.Later)
	default:
		err = fmt.Errorf("%w: the client sent a record before the hello", ErrHandshake)
	}
	switch {
	case err == errDuplicate:
		s.count.add(func(st *Stats) { st.Duplicates++ })
	case err == ErrServerClosed || err == errGone: // no answer: the record may be stored or not
		c.Later()
		conn.Close()
	case err != nil:
		return s.refuse(conn, dst, err)
	}
	return dst, nil
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
