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

// The engine handles TLS, as for every protocol, so HTTP/1.1 over TLS takes the same path as
// without it. If the client has chosen HTTP/2, net/http serves the connection from its first
// byte: a second http.Server speaks HTTP/2 on the bytes that the engine has decrypted.

// tlsStater is a connection that has completed a TLS handshake.
type tlsStater interface {
	ConnectionState() tls.ConnectionState
}

// tlsLoan is a loan from which net/http gets the value of Request.TLS.
type tlsLoan struct{ *loan }

func (l tlsLoan) ConnectionState() tls.ConnectionState {
	return l.nc.(tlsStater).ConnectionState()
}

// ListenAndServeTLS listens on Addr, or on port 443, and calls ServeTLS.
func (s *Server) ListenAndServeTLS(certFile, keyFile string) error {
	ln, err := s.listen(":https")
	if err != nil {
		return err
	}
	return s.ServeTLS(ln, certFile, keyFile)
}

// ServeTLS serves HTTP/1.1 and HTTP/2 over TLS, as net/http does. The certificate comes from
// the two files, or from Std.TLSConfig if both names are empty. Std.Protocols selects the
// protocols. An empty Std.TLSNextProto switches HTTP/2 off. Functions in
// Std.TLSNextProto are never called.
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
	return s.Serve(engine.NewTLSListener(ln, config))
}

// offering adds protocol names to configurations that are made per client (tlsfiles does
// that) and list none themselves.
type offering struct {
	names []string
	inner func(*tls.ClientHelloInfo) (*tls.Config, error)
	last  atomic.Pointer[offered]
}

// offered is a configuration and its copy with names. The copy is reused as long as the
// original is the same, so that it keeps its session tickets.
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

// protocols are the protocols that std may speak.
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

// spokenNames are the protocol names that a handshake offers: names without the protocols
// that are off, plus those that are on.
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

// chosen is called on the first visit of a connection that may use TLS. If the handshake
// chose anything other than HTTP, chosen handles the connection and returns true.
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
		if protocols(&s.std).HTTP2() {
			t.State |= stateHTTP2
			return false, nil
		}
	}
	return true, engine.ClosedHere // as net/http does
}

// badHandshake answers a client that speaks HTTP instead of TLS in net/http's words.
func badHandshake(err error) engine.Reason {
	record, ok := err.(tls.RecordHeaderError)
	if ok && record.Conn != nil {
		switch string(record.RecordHeader[:]) {
		case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
			io.WriteString(record.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		}
	}
	return 0
}
