// Package framed is a request/response server and multiplexing client for the frames of
// package wire, on any engine.
//
//	srv := &framed.Server{
//		Addr: "127.0.0.1:7000",
//		Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
//			return append(dst, req...), nil
//		}),
//	}
//	log.Fatal(srv.ListenAndServe())
//
// Server mirrors net/http where the two overlap. There is no middleware type: middleware
// is a function from Handler to Handler (see the examples).
//
// Where to begin: [Server] and [Handler], then [Call] for what a handler may do besides answering:
// later, or to other connections ([Conn]). Of the clients, [Mux] reconnects and is shared by all
// goroutines, and [Client] is one connection.
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
)

// ErrServerClosed is returned by Serve and ListenAndServe after Shutdown or Close.
var ErrServerClosed = engine.ErrServerClosed

// ErrClosed is returned by a Conn or Reply whose connection has ended.
var ErrClosed = engine.ErrClosed

// AuthenticationFailed is the reason why a connection ends when the TLS handshake fails
// because the client has no certificate that the server accepts
// (tls.CertificateVerificationError): authentication_failed in Stats.Own. Credentials in
// a Conn packet are checked by the Connect handler and end no connection; see
// engine.Limits.AuthTime.
const AuthenticationFailed = engine.Own

// Handler answers requests. It is called from many goroutines at once, but the requests
// of one connection are handled one at a time and in order.
type Handler interface {
	// Handle appends the reply's content to dst and returns it; it may return another
	// slice at the cost of a copy. req is valid until Handle returns and must not be
	// kept.
	//
	// An error becomes the reply's result instead: the code if it is or wraps a
	// wire.Result, else wire.Failed; a Refusal also has content. The connection stays
	// open. After a panic the server replies wire.Internal and closes this one
	// connection.
	Handle(c Call, dst, req []byte) ([]byte, error)
}

// HandlerFunc adapts a function to a Handler.
type HandlerFunc func(c Call, dst, req []byte) ([]byte, error)

// Handle calls f.
func (f HandlerFunc) Handle(c Call, dst, req []byte) ([]byte, error) { return f(c, dst, req) }

// Server serves framed requests. Fill the fields, then call ListenAndServe or Serve; do
// not change the fields afterwards. The zero value of every field but Handler, and Addr
// for ListenAndServe, is a working default.
type Server struct {
	// Addr is where ListenAndServe listens: host:port, :port on all interfaces, or
	// unix:PATH, where a socket file on which nobody listens is replaced. The protocol has
	// no default port. Zero: an error.
	Addr string
	// SocketMode is the permissions of the socket at unix:PATH, whatever the umask is:
	// with 0660 the file's group may connect as well. Zero: 0600, its owner alone.
	SocketMode fs.FileMode
	// Handler answers Submit packets. Required.
	Handler Handler
	// Connect handles Conn packets: credentials and options; the same packet is the
	// heartbeat. A client without an accepted Conn within Limits.AuthTime is
	// disconnected. Zero: every Conn is acknowledged, and AuthTime is off.
	Connect Handler
	// Engine is the I/O engine. Zero: the default of this operating system.
	Engine engine.Engine
	// Limits are the server's limits and timeouts. Zero fields take their defaults.
	Limits engine.Limits
	// Places are shared with servers that have Limits.Conns together. Zero: the server has its own.
	Places *engine.Places
	// TrustedProxies are the addresses whose connections begin with a PROXY protocol
	// header. Zero: none.
	TrustedProxies []netip.Prefix
	// GiveWay closes connections without a request in flight when Limits.Conns is reached and
	// another client connects: the longest idle first, first among those from its address.
	// Zero: false, the new client is refused.
	GiveWay bool
	// Logger gets panics of handlers with their stack (at level Error), and refused connections
	// (Warn): one line a second for each reason, with the number of suppressed lines; and, once
	// an hour, that a client speaks MQTT, HTTP or TLS instead of frames. Zero:
	// panics go to slog.Default(), and nothing else is logged. For silence, use
	// slog.DiscardHandler.
	Logger *slog.Logger
	// ConnContext derives the context of a connection's calls from the server's. Zero:
	// the server's own, which is cancelled by Close, or when Shutdown's context ends.
	ConnContext func(ctx context.Context, c Conn) context.Context
	// RequestTime is the request timeout: the deadline of Call.Context, counted from the
	// call of Context. hone does not stop a handler that ignores it. Zero: none.
	RequestTime time.Duration
	// OnRequest is called for every request that Handler or Connect has answered: when
	// the handler has returned, or when its late reply was sent. It is not called for
	// what no handler sees, such as heartbeats without Connect, nor for a Reply that is
	// never sent. It runs on the request path, event loops included, from many goroutines
	// at once: it must be quick and must not block. It costs about 100 ns per request and
	// no allocation (BenchmarkOnRequest). Zero: requests are not timed.
	OnRequest func(Request)
	// OnClose is called once for every connection, after its last handler.
	OnClose func(c Conn, why engine.Reason)

	once   sync.Once
	engine engine.Server
}

// init creates the engine's server with this protocol.
func (s *Server) init() *engine.Server {
	s.once.Do(func() {
		p := &protocol{
			limit:     s.Limits.OrDefaults().FrameSize,
			within:    s.RequestTime,
			onRequest: s.OnRequest,
			givesWay:  s.GiveWay,
			spreads:   s.Limits.SpreadTime > 0,
			again:     s.engine.ComeAgain,
			logger:    s.Logger,
			epoch:     time.Now(),
		}
		p.unobserved.protocol = p
		p.observations.New = func() any { return &observation{protocol: p} }
		p.handle, p.connect = p.observed(funcOf(s.Handler)), p.observed(funcOf(s.Connect))
		s.engine.Protocol = p
		s.engine.Engine = s.Engine
		s.engine.Limits, s.engine.Places = s.Limits, s.Places
		if p.proves = p.connect != nil && s.Limits.AuthTime > 0; !p.proves {
			s.engine.Limits.AuthTime = -1 // without Connect, nobody could ever authenticate
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

// failedHandshake tells a rejected certificate from bytes that are not TLS.
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

// listen opens a listener on Addr.
func (s *Server) listen() (ln net.Listener, err error) {
	if path, ok := strings.CutPrefix(s.Addr, "unix:"); ok {
		if path == "" || path[0] == '@' { // Linux has abstract names that are not files
			return nil, fmt.Errorf("framed: Server.Addr %q is not a file, so no permissions would protect it; set it to unix:PATH", s.Addr)
		}
		ln, err = sys.ListenUnix(path, cmp.Or(s.SocketMode, 0o600))
	} else {
		if _, port, err := net.SplitHostPort(s.Addr); s.Addr == "" || err == nil && port == "" {
			// net would pick a random port, which no client could know.
			return nil, fmt.Errorf("framed: Server.Addr %q has no port; set it to HOST:PORT, :PORT or unix:PATH", s.Addr)
		}
		ln, err = net.Listen("tcp", s.Addr)
	}
	if err != nil {
		return nil, fmt.Errorf("framed: %w", err)
	}
	return ln, nil
}

// needHandler panics without a Handler. A server that is only shut down needs none.
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

// Shutdown drains the server: it stops accepting, answers the requests that were sent,
// flushes and closes; with Limits.SpreadTime, it serves each connection until its turn to end comes. When ctx ends first, it forces the remaining connections closed,
// abandons handlers that do not return, and returns ctx's error at most about 50 ms
// later. Stats().Drained has the counts.
func (s *Server) Shutdown(ctx context.Context) error { return s.init().Shutdown(ctx) }

// Close closes every connection at once.
func (s *Server) Close() error { return s.init().Close() }

// Stats returns the server's counters and gauges.
func (s *Server) Stats() engine.Stats { return s.init().Stats() }
