package engine

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Histories over TLS, on the engines that have loops. They differ from those in the clear in this:
//   - A client that is not accepted is closed without a refusal, because the server makes no handshake
//     for one. One that was accepted in the place of a silent client, which then was not silent, ends
//     in its handshake, without OnOpen.
//   - A client that has read a close_notify closes: after Turn.Socket no FIN follows. If the model
//     predicts that a client receives everything, a FIN alone is a fault.
//   - A client that closes its sending side in the middle of a record leaves instead: for the server
//     that is a broken connection.

// ways returns a history in the clear and, if the engine has loops, over TLS.
func ways(h history, e Engine) []history {
	if h.secure || e.style != events {
		return []history{h}
	}
	secure := h
	secure.secure = true
	return []history{h, secure}
}

// secureConfig is the server's. Its certificate is always the same.
var secureConfig = sync.OnceValue(func() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	of := new(x509.Certificate)
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
})

// sealing is the TLS of a client. After the handshake crypto/tls works on memory, so that the driver
// decides whether reading and writing wait for the socket.
type sealing struct {
	net.Conn // the socket, in the handshake
	tls      *tls.Conn
	shakes   bool
	fed      []byte // received, and not yet taken by crypto/tls
	space    []byte // for it
	out      []byte // to be sent
	ended    bool   // the server's FIN has come
}

// shake makes the handshake, with TLS 1.2 for every third client.
func (g *guest) shake() {
	config := &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}}
	if g.id%3 == 0 {
		config.MaxVersion = tls.VersionTLS12
	}
	s := &sealing{Conn: g.nc, shakes: true, space: make([]byte, 20<<10)}
	s.tls = tls.Client(s, config)
	deaf, done, err := g.deaf, false, error(nil)
	g.deaf = true // the driver leaves the socket to the handshake
	go func() {
		result := s.tls.Handshake()
		g.note(func() { done, err = true, result })
	}()
	g.await("its handshake", func() bool { return done })
	if g.deaf = deaf; g.l.isOver() {
		return
	}
	g.tls, s.shakes = s, false
	g.await("OnOpen", func() bool { return g.isOpen || err != nil || g.eof })
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.denied = !g.isOpen; !g.denied || g.l.isOver() {
		return
	}
	if g.l.unopened++; !g.l.env.has(TooManyConns) {
		g.l.fail("handshake", "client %d was accepted and has ended before OnOpen: %v", g.id, err)
	}
	g.tls = nil
}

func (s *sealing) Read(p []byte) (int, error) {
	switch {
	case s.shakes:
		return s.Conn.Read(p)
	case len(s.fed) > 0:
		n := copy(p, s.fed)
		s.fed = s.fed[n:]
		return n, nil
	case s.ended:
		return 0, io.EOF
	}
	return 0, os.ErrDeadlineExceeded // crypto/tls goes on after an error that is temporary
}

func (s *sealing) Write(p []byte) (int, error) {
	if s.shakes {
		return s.Conn.Write(p)
	}
	s.out = append(s.out, p...)
	return len(p), nil
}

// SetWriteDeadline is for crypto/tls, which never waits.
func (s *sealing) SetWriteDeadline(time.Time) error { return nil }

// errNoGoodbye is a FIN without a close_notify.
var errNoGoodbye = errors.New("a FIN without a close_notify")

// take receives something, in the clear or over TLS. read reads from the socket, and may wait.
func (g *guest) take(read func([]byte) (int, error)) (n int, err error) {
	p, s := g.heard.space(), g.tls
	if s == nil {
		return read(p)
	}
	for {
		n, err = s.tls.Read(p)
		switch {
		case err == io.EOF && s.ended:
			return n, errNoGoodbye
		case n > 0 && errors.Is(err, os.ErrDeadlineExceeded):
			return n, nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return n, err
		}
		switch n, err = read(s.space); {
		case err == io.EOF:
			s.ended = true
		case n <= 0:
			return 0, err
		}
		s.fed = s.space[:max(n, 0)]
	}
}

// seal returns p as it is sent.
func (g *guest) seal(p []byte) []byte {
	s := g.tls
	if s == nil {
		return p
	}
	if len(p) > 0 {
		s.tls.Write(p)
		g.written.Add(int64(len(p)))
	}
	out := s.out
	s.out = nil
	return out
}

// goodbye sends a close_notify, and reports whether the client may close its sending side.
func (g *guest) goodbye() bool {
	if g.tls != nil && len(g.unsent) == 0 {
		g.tls.tls.CloseWrite()
		g.write(nil)
	}
	return g.tls == nil || len(g.unsent) == 0
}
