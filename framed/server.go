// Package framed is a request/response server, its connections and a
// multiplexing client over the frames of package wire, on any engine.
//
//	srv := &framed.Server{
//		Addr: "127.0.0.1:7000",
//		Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
//			return append(dst, req...), nil
//		}),
//	}
//	log.Fatal(srv.ListenAndServe())
//
// Server mirrors net/http where the two meet. There is no middleware type: a
// handler that does something before or after another is a function from
// Handler to Handler (see the examples).
package framed

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/wire"
)

// ErrServerClosed is what Serve and ListenAndServe return after Shutdown or Close.
var ErrServerClosed = engine.ErrServerClosed

// ErrClosed is the answer of a Conn or Reply whose connection has ended.
var ErrClosed = engine.ErrClosed

// AuthenticationFailed is why a connection ends whose TLS handshake has failed because the
// client has no certificate that the server accepts (tls.CertificateVerificationError):
// authentication_failed in Stats.Own. What is presented in a Conn packet is the Connect
// handler's to judge, and ends no connection; see engine.Limits.AuthTime.
const AuthenticationFailed = engine.Own

// Handler answers requests. It is called from many goroutines at once, but for
// one connection from one at a time and in the order of its requests.
type Handler interface {
	// Handle appends the reply's content to dst and returns it; returning any
	// other slice sends that one, at the price of a copy. req is valid until
	// Handle returns: keep nothing of it.
	//
	// An error becomes the reply's result instead: the code if it is or wraps a
	// wire.Result, else wire.Failed; a Refusal has content beside it. The connection
	// lives on. A panic answers
	// wire.Internal and closes this one connection.
	Handle(c Call, dst, req []byte) ([]byte, error)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(c Call, dst, req []byte) ([]byte, error)

// Handle calls f.
func (f HandlerFunc) Handle(c Call, dst, req []byte) ([]byte, error) { return f(c, dst, req) }

// Server serves framed requests. Fill the fields, call ListenAndServe or Serve;
// do not change them afterwards. The zero value of every field but Handler, and
// Addr for ListenAndServe, is a working default.
type Server struct {
	// Addr is where ListenAndServe listens: host:port, :port on all interfaces, or
	// unix:PATH. The protocol has no port of its own. Zero: an error.
	Addr string
	// SocketMode is who may connect to unix:PATH, whatever the umask is: 0660 lets the
	// file's group in as well. Zero: 0600, its owner alone.
	SocketMode fs.FileMode
	// Handler answers Submit packets. Required.
	Handler Handler
	// Connect answers Conn packets: credentials and options; the same packet
	// is the heartbeat. A client of which it has accepted none within Limits.AuthTime is
	// disconnected. Zero: every Conn is acknowledged, and AuthTime is off.
	Connect Handler
	// Dialect is what is spoken on the wire. Zero: wire.Standard.
	Dialect wire.Dialect
	// Engine moves the bytes. Zero: the default of this operating system.
	Engine engine.Engine
	// Limits protect the server. Zero fields take their defaults.
	Limits engine.Limits
	// TrustedProxies are the addresses whose connections begin with a PROXY
	// protocol header. Zero: nobody.
	TrustedProxies []netip.Prefix
	// Logger hears of panics and refused connections. Zero: silence.
	Logger *slog.Logger
	// ConnContext makes the context of a connection's calls from the server's.
	// Zero: the server's own, which ends with Close or an impatient Shutdown.
	ConnContext func(ctx context.Context, c Conn) context.Context
	// RequestTime is how long a request may take: the deadline of Call.Context, from when
	// that is asked for. hone does not stop a handler that goes on. Zero: none.
	RequestTime time.Duration
	// OnRequest is called for every request that Handler or Connect has answered: when
	// the handler has returned, or its late reply was sent. It is not called for what
	// no handler sees, such as heartbeats without Connect, nor for a promise that is
	// never kept. It runs on the request's way, event loops included, from many
	// goroutines at once: it must be quick and must not block. It costs about 80 ns a
	// request and no allocation (BenchmarkOnRequest). Zero: nothing is timed.
	OnRequest func(Request)
	// OnClose is called once for every connection, after its last handler.
	OnClose func(c Conn, why engine.Reason)

	once   sync.Once
	engine engine.Server
}

// init builds the engine's server around the protocol.
func (s *Server) init() *engine.Server {
	s.once.Do(func() {
		p := &protocol{
			dialect:   s.Dialect,
			limit:     s.Limits.OrDefaults().FrameSize,
			within:    s.RequestTime,
			onRequest: s.OnRequest,
			epoch:     time.Now(),
		}
		p.handle, p.connect = p.observed(funcOf(s.Handler)), p.observed(funcOf(s.Connect))
		s.engine.Protocol = p
		s.engine.Engine = s.Engine
		s.engine.Limits = s.Limits
		if p.proves = p.connect != nil && s.Limits.AuthTime > 0; !p.proves {
			s.engine.Limits.AuthTime = -1 // nobody would ever be trusted
		}
		s.engine.TrustedProxies = s.TrustedProxies
		s.engine.Logger = s.Logger
		s.engine.OwnReasons = []string{"authentication_failed"}
		s.engine.HandshakeFailed = failedHandshake
		p.ctx = s.engine.Context()
		if s.ConnContext != nil {
			s.engine.OnOpen = func(c engine.Conn) {
				ctx := s.ConnContext(p.ctx, Conn{c})
				c.SetValue(&attachment{ctx: ctx, value: Conn{c}.Value()})
			}
		}
		if s.OnClose != nil {
			s.engine.OnClose = func(c engine.Conn, why engine.Reason) { s.OnClose(Conn{c}, why) }
		}
	})
	return &s.engine
}

// failedHandshake tells a wrong certificate from bytes that are not TLS.
func failedHandshake(err error) engine.Reason {
	if errors.As(err, new(*tls.CertificateVerificationError)) {
		return AuthenticationFailed
	}
	return 0
}

// ListenAndServe listens on Addr and serves until Shutdown or Close.
func (s *Server) ListenAndServe() error {
	s.needHandler()
	ln, err := s.listen()
	if err != nil {
		return err
	}
	return s.Serve(ln)
}

// listen opens Addr.
func (s *Server) listen() (ln net.Listener, err error) {
	if path, ok := strings.CutPrefix(s.Addr, "unix:"); ok {
		if path == "" || path[0] == '@' { // Linux has names that are not files
			return nil, fmt.Errorf("framed: Server.Addr %q is not a file, so no permissions would protect it; set it to unix:PATH", s.Addr)
		}
		ln, err = sys.ListenUnix(path, cmp.Or(s.SocketMode, 0o600))
	} else {
		if _, port, err := net.SplitHostPort(s.Addr); s.Addr == "" || err == nil && port == "" {
			// net would pick any port, which nobody would find
			return nil, fmt.Errorf("framed: Server.Addr %q has no port; set it to HOST:PORT, :PORT or unix:PATH", s.Addr)
		}
		ln, err = net.Listen("tcp", s.Addr)
	}
	if err != nil {
		return nil, fmt.Errorf("framed: %w", err)
	}
	return ln, nil
}

// needHandler refuses to serve without one. A server that only ends needs none.
func (s *Server) needHandler() {
	if s.init().Protocol.(*protocol).handle == nil {
		panic("framed: Server.Handler is nil")
	}
}

// Serve accepts connections from ln until Shutdown or Close, and then returns
// ErrServerClosed. It may be called for several listeners at once.
func (s *Server) Serve(ln net.Listener) error {
	s.needHandler()
	return s.engine.Serve(ln)
}

// Shutdown stops accepting, answers what was sent, flushes and closes. When ctx
// ends first, the connections that are left are cut off; handlers that do not
// return are left behind. It returns ctx's error in that case, at most some 50 ms later.
// Stats().Drained has the counts.
func (s *Server) Shutdown(ctx context.Context) error { return s.init().Shutdown(ctx) }

// Close cuts off every connection at once.
func (s *Server) Close() error { return s.init().Close() }

// Stats reports what the server has counted and what it holds.
func (s *Server) Stats() engine.Stats { return s.init().Stats() }
