package http1

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hone-go/hone/engine"
)

// TLS is the engine's business, as for every protocol: HTTP/1.1 over it is served as
// without it. A connection on which the client has chosen HTTP/2 is net/http's from its
// first byte on: a second http.Server speaks HTTP/2 on what the engine has decrypted.

// tlsStater is a connection that has agreed on TLS.
type tlsStater interface {
	ConnectionState() tls.ConnectionState
}

// tlsLoan is a loan of which net/http learns what Request.TLS is to be.
type tlsLoan struct{ *loan }

func (l tlsLoan) ConnectionState() tls.ConnectionState {
	return l.nc.(tlsStater).ConnectionState()
}

// ListenAndServeTLS listens on Std.Addr, or port 443, and serves as ServeTLS.
func (s *Server) ListenAndServeTLS(certFile, keyFile string) error {
	ln, err := s.listen(":https")
	if err != nil {
		return err
	}
	return s.ServeTLS(ln, certFile, keyFile)
}

// ServeTLS serves HTTP/1.1 and HTTP/2 over TLS, as net/http does: with the certificate of
// those files, or of Std.TLSConfig where both are empty. Std.Protocols says which of the
// two; an empty Std.TLSNextProto switches HTTP/2 off, and functions in it are not called.
func (s *Server) ServeTLS(ln net.Listener, certFile, keyFile string) error {
	s.init()
	config := &tls.Config{}
	if s.std.TLSConfig != nil {
		config = s.std.TLSConfig.Clone()
	}
	config.NextProtos = spokenNames(config.NextProtos, protocols(&s.std))
	if certFile != "" || keyFile != "" || len(config.Certificates) == 0 && config.GetCertificate == nil && config.GetConfigForClient == nil {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			ln.Close()
			return fmt.Errorf("http1: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if inner := config.GetConfigForClient; inner != nil {
		config.GetConfigForClient = (&offering{names: config.NextProtos, inner: inner}).config
	}
	return s.Serve(tls.NewListener(ln, config))
}

// offering offers names in configurations that are made for each client, as tlsfiles does,
// and that offer nothing.
type offering struct {
	names []string
	inner func(*tls.ClientHelloInfo) (*tls.Config, error)
	last  atomic.Pointer[offered]
}

// offered is a configuration and the same with names, which keeps its session tickets as
// long as it is the same.
type offered struct{ from, to *tls.Config }

func (o *offering) config(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	c, err := o.inner(hello)
	if err != nil || c == nil || len(c.NextProtos) > 0 {
		return c, err
	}
	last := o.last.Load()
	if last == nil || last.from != c {
		last = &offered{c, c.Clone()}
		last.to.NextProtos = o.names
		o.last.Store(last)
	}
	return last.to, nil
}

// protocols are those that std may speak.
func protocols(std *http.Server) (p http.Protocols) {
	if std.Protocols != nil {
		return *std.Protocols
	}
	_, h2 := std.TLSNextProto["h2"]
	p.SetHTTP1(true)
	off := slices.Contains(strings.Split(os.Getenv("GODEBUG"), ","), "http2server=0")
	p.SetHTTP2(h2 || std.TLSNextProto == nil && !off)
	return p
}

// spokenNames are the protocols that a handshake offers: names without those that are not
// spoken, and with those that are.
func spokenNames(names []string, spoken http.Protocols) []string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return name == "http/1.1" && !spoken.HTTP1() || name == "h2" && !spoken.HTTP2()
	})
	for _, p := range []struct {
		name   string
		spoken bool
	}{{"h2", spoken.HTTP2()}, {"http/1.1", spoken.HTTP1()}} {
		if p.spoken && !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// initHTTP2 makes the server for connections whose handshake has chosen HTTP/2.
func (s *Server) initHTTP2() {
	if !protocols(&s.std).HTTP2() {
		return
	}
	le := &lender{whole: true, limits: s.lender.limits}
	copyServer(&le.std, &s.std)
	le.std.Handler = http.HandlerFunc(s.serveLoan)
	le.std.TLSConfig, le.std.TLSNextProto = nil, nil
	le.std.Protocols = new(http.Protocols)
	le.std.Protocols.SetUnencryptedHTTP2(true) // as far as that server can see
	le.init()
	s.http2 = le
}

// chosen is called at the first visit of a connection that may have TLS. When the
// handshake has chosen something else than HTTP/1, it reports that it has dealt with the
// connection.
func (s *Server) chosen(t *engine.Turn) (done bool, err error) {
	t.State |= stateVisited
	state := t.Conn().TLS()
	if state == nil {
		return false, nil
	}
	switch state.NegotiatedProtocol {
	case "", "http/1.1", "http/1.0":
		return false, nil
	case "h2":
		if s.http2 != nil {
			return true, s.give(t, s.http2, state)
		}
	}
	return true, engine.ClosedHere // as net/http does
}

// badHandshake logs as net/http does, but for the address, which the engine does not tell.
// It tells a client that speaks HTTP instead of TLS, in net/http's words.
func (s *Server) badHandshake(err error) engine.Reason {
	s.std.ErrorLog.Printf("http: TLS handshake error: %v", err)
	record, ok := err.(tls.RecordHeaderError)
	if ok && record.Conn != nil {
		switch string(record.RecordHeader[:]) {
		case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
			io.WriteString(record.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		}
	}
	return 0
}
