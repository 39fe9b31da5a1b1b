package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/framed"
)

// session is one epoch of a client: a numbering of its records.
type session struct {
	client  string
	epoch   uint64
	durable atomic.Uint64 // the highest stored sequence number; the committer raises it

	// queue.mu guards the rest.
	accepted    uint64 // the highest sequence number that is stored or queued
	queued      int    // bytes in the queue
	pack        uint64 // the number of the pack with its newest record, as queue.taken counts
	link        *link  // the connection that may write; nil: none
	ended       bool   // the client has started a newer session
	dead        bool   // another server has taken the client: drop what is queued here
	seen        int64  // when the client was last connected, by clock.running
	away        bool   // the log says that it was not connected; only recovery uses it
	summed      bool   // sum is known: each record since the first one was numbered without a gap
	sum         uint32 // running checksum of the records up to accepted
	instance    uint64 // of the program that has the session; 0: unknown
	recordsLost bool   // the log has lost acknowledged records of it, and an operator has accepted that

	storedSum uint32 // like sum, up to durable; only the committer and recovery use it
}

func newSession(client string, epoch uint64, seen int64) *session {
	return &session{client: client, epoch: epoch, seen: seen, summed: true}
}

// sums computes the running checksum of a session: CRC-32C over the sequence number and the data
// of each record. It protects against accidents, such as two programs with one name, and not
// against attackers.
type sums struct{ room [8]byte }

func (s *sums) add(sum uint32, seq uint64, data []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.BigEndian.PutUint64(s.room[:], seq)
	return crc32.Update(crc32.Update(sum, table, s.room[:]), table, data)
}

// link is one connection's hold on a session.
type link struct {
	session *session // nil until the hello is granted; queue.mu guards it
	gone    bool     // the connection has ended; queue.mu guards it
	conn    caller
	level   Level
	proof   proof // the token that authenticated the client

	fenced chan struct{} // fence closes it; nil: no record of the connection waits for room. queue.mu guards it
}

// sessions is what the server remembers about its clients; queue.mu guards it.
type sessions struct {
	byClient map[string]*session
	highest  uint64 // epoch that any client ever got
}

// caller is a client's connection, of either kind.
type caller interface {
	TLS() *tls.ConnectionState
	Trust()
	Close()
	End(why error) error // closes, and first sends why's result under id 0
}

// receiver is a connection with everything that a reader's needs.
type receiver interface {
	caller
	Value() any
	SetValue(v any)
	deliver(id uint64, content []byte) error
}

// connect handles a Conn: first the hello of a client or the open of a reader, whose answer comes later, then
// empty heartbeats.
func (s *Server) connect(c framed.Call, dst, content []byte) ([]byte, error) {
	conn := frames{c.Conn()}
	_, err := s.greet(conn, c.Context, content, func() answer { return answer{frames: c.Later()} })
	if err != nil {
		return s.refuse(conn, dst, err)
	}
	return dst, nil
}

// greet handles a Conn over either kind of connection, and reports whether its answer, which later promises,
// comes later.
func (s *Server) greet(conn receiver, client func() context.Context, content []byte, later func() answer) (waits bool, err error) {
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
		h.reply, h.client = later(), client()
		return true, s.open(h)
	}
	l, h, err := s.checkHello(conn, content)
	if err != nil {
		return false, err
	}
	conn.SetValue(l)
	conn.Trust() // what follows takes the log its time, and not the client
	r := request{client: client(), came: time.Now(), link: l, hello: h, reply: later()}
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
	if l.proof, err = s.authenticate(conn, h); err != nil {
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
func certificate(conn caller, name string) (leaf *x509.Certificate, named bool, err error) {
	state := conn.TLS()
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil, false, fmt.Errorf("%w: the connection has no client certificate", ErrUnauthorised)
	}
	leaf = state.PeerCertificates[0]
	return leaf, leaf.Subject.CommonName == name || slices.Contains(leaf.DNSNames, name), nil
}

// authenticate checks the client's certificate and token. It hashes the token of an unknown client too,
// so that its refusal is not faster.
func (s *Server) authenticate(conn caller, h hello) (p proof, err error) {
	if s.Certificates {
		if _, named, err := certificate(conn, h.client); err != nil {
			return p, err
		} else if !named {
			return p, fmt.Errorf("%w: the certificate does not name the client", ErrUnauthorised)
		}
	}
	if s.Tokens != nil {
		p = sha256.Sum256([]byte(h.token))
		if _, ok := s.allow(h.client, p, false); !ok {
			return p, ErrUnauthorised
		}
	}
	return p, nil
}

// allow is Tokens.allow. It logs that a changed file cannot be used.
func (s *Server) allow(name string, shown proof, reads bool) (prefix string, ok bool) {
	prefix, ok = s.Tokens.allow(name, shown, reads)
	if err := s.Tokens.news(); err != nil {
		s.log.Error("the changed file of tokens cannot be used; the tokens before stay in use", "err", err)
	}
	return prefix, ok
}

// request is a hello queued for the committer.
type request struct {
	client context.Context // ends with the client's connection
	came   time.Time
	reply  answer
	link   *link
	hello  hello
	waited bool // for the records of the connection before, in a queue again
	passed bool // on, to the queue

	granted *session // with refused, what was decided last; neither: it is passed on
	refused error
}

// helloTimeout is how old a hello may be where other servers share the log: a client that has lost this
// connection unnoticed may have a session on one of them by then, and the old hello must not take it away. One
// server alone answers hellos in their order, so a newer one wins there. It is shorter than Client.DialTime.
const helloTimeout = 8 * time.Second

// stale reports whether the client no longer waits for an answer.
func (r *request) stale(shared bool) bool {
	return r.link.gone || r.client.Err() != nil || shared && time.Since(r.came) > helloTimeout
}

// checkResume returns why h may not resume the session, or nil.
func (known *session) checkResume(h hello, level Level) error {
	switch {
	case known == nil || h.epoch > known.epoch:
		return ErrExpired
	case h.epoch < known.epoch:
		return ErrFenced
	case h.welcomed && known.instance != 0 && h.instance != known.instance:
		return fmt.Errorf("%w: another program has resumed this session", ErrFenced)
	case known.recordsLost && level != Received:
		return fmt.Errorf("%w: an operator has accepted that records of this session are lost", ErrRegressed)
	case h.next > known.accepted+1 && level != Received:
		return fmt.Errorf("%w: it ends at record %d, and records up to %d were acknowledged", ErrRegressed, known.durable.Load(), h.next-1)
	}
	return nil
}

// granted returns the session for a request: the known one or a new one. An epoch is greater
// than all before, also than those of forgotten clients. queue.mu is held.
func (t *sessions) granted(r *request, now int64, most int) (*session, error) {
	known := t.byClient[r.hello.client]
	if r.hello.epoch != 0 {
		err := known.checkResume(r.hello, r.link.level)
		if err == ErrExpired && r.hello.epoch > t.highest {
			err = fmt.Errorf("%w: it has never given an epoch as high as %d", ErrRegressed, r.hello.epoch)
		}
		return known, err
	}
	if known == nil && len(t.byClient) >= most {
		return nil, fmt.Errorf("%w: %d", ErrTooMany, most)
	}
	t.highest = max(uint64(now), t.highest+1)
	next := newSession(r.hello.client, t.highest, 0)
	next.instance, next.summed = r.hello.instance, r.link.level != Received
	return next, nil
}

// take makes l the only connection that may write to the session.
func (l *link) take(known *session, now int64) {
	known.fence(ErrMoved)
	known.link, known.seen = l, now
	l.session = known
}

// fence closes the connection that may write to the session, and tells the client why, if the
// connection is able to take it.
func (known *session) fence(why error) {
	if l := known.link; l != nil {
		l.conn.End(refusal(why))
		if known.link = nil; l.fenced != nil {
			close(l.fenced)
			l.fenced = nil
		}
	}
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
	_, err := s.take(conn.Value(), c.Context, c.ID(), data, func() answer { return answer{frames: c.Later()} })
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
func (s *Server) take(of any, client func() context.Context, id uint64, data []byte, later func() answer) (waits bool, err error) {
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

// Revoke closes the connections whose tokens are no longer valid, and those of readers whose tokens
// permit something else now: they open again. Call it after Tokens.Reload.
func (s *Server) Revoke() (ended int) {
	if s.Tokens == nil {
		return 0
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	for _, known := range s.sessions.byClient { // a hello that waits is checked again when it is its turn
		if known.link == nil {
			continue
		}
		if s.revoked(known.client, known.link) {
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

func (s *Server) revoked(client string, l *link) bool {
	if s.Tokens == nil {
		return false
	}
	_, ok := s.Tokens.permits(client, l.proof, false)
	return !ok
}

// proof is the hash of the token that a client sent.
type proof [32]byte

func (p proof) equals(other proof) bool { return subtle.ConstantTimeCompare(p[:], other[:]) == 1 }
