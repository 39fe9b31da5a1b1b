// Package http1 serves net/http's handlers on hone's engines.
//
//	srv := &http1.Server{Std: &http.Server{Addr: "127.0.0.1:8080", Handler: handler}}
//	log.Fatal(srv.ListenAndServe())
//
// One rule makes this safe: the fast path serves only what it can prove equal to net/http.
// Everything else goes, with its bytes, to a real http.Server on the same connection, and
// the connection comes back afterwards. So every refusal is net/http's own.
package http1

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/engine"
)

// Server serves HTTP. Fill the fields, call ListenAndServe or Serve; do not change them
// afterwards. The zero value of every field is a working default.
type Server struct {
	// Handler answers requests. Zero: Std.Handler, else http.DefaultServeMux.
	Handler http.Handler
	// Std is configured as for net/http: Addr, TLSConfig, timeouts, hooks. It is copied and
	// never served itself. Its timeouts become Limits where those are zero. Zero: none set.
	Std *http.Server
	// Engine moves the bytes. Zero: the default of this operating system.
	Engine engine.Engine
	// Limits protect the server. Zero fields take their defaults.
	Limits engine.Limits
	// TrustedProxies are the addresses whose connections begin with a PROXY protocol
	// header. Zero: nobody.
	TrustedProxies []netip.Prefix
	// Logger hears of panics and refused connections. Zero: silence.
	Logger *slog.Logger

	once     sync.Once
	engine   engine.Server
	protocol protocol
	std      http.Server // serves what the fast path leaves
	loans    loanListener
	draining atomic.Bool
}

// Stats are a server's counters.
type Stats struct {
	engine.Stats
	Fast  uint64 // requests that the fast path has served
	Loans uint64 // times that a connection was lent to net/http
}

// init builds the engine's server and net/http's around the handler.
func (s *Server) init() *engine.Server {
	s.once.Do(func() {
		copyServer(&s.std, s.Std)
		if s.Handler != nil {
			s.std.Handler = s.Handler
		}
		s.protocol.server = s
		s.engine.Protocol = &s.protocol
		s.engine.Engine = s.Engine
		s.engine.Limits = s.Limits
		s.engine.TrustedProxies = s.TrustedProxies
		s.engine.Logger = s.Logger
		s.loans.queue = make(chan *loan)
		s.loans.closed = make(chan struct{})
		s.std.ConnState = stateOfLoans(s.std.ConnState)
		go s.std.Serve(&s.loans)
	})
	return &s.engine
}

// ListenAndServe listens on Std.Addr, or port 80 as net/http does, and serves until
// Shutdown or Close.
func (s *Server) ListenAndServe() error {
	s.init()
	ln, err := net.Listen("tcp", cmp.Or(s.std.Addr, ":http"))
	if err != nil {
		return fmt.Errorf("http1: %w", err)
	}
	return s.Serve(ln)
}

// Serve accepts connections from ln until Shutdown or Close, and then returns
// http.ErrServerClosed. It may be called for several listeners at once.
func (s *Server) Serve(ln net.Listener) error {
	err := s.init().Serve(ln)
	if errors.Is(err, engine.ErrServerClosed) {
		return http.ErrServerClosed
	}
	return err
}

// ServeTLS serves TLS with the certificate of those files, or of Std.TLSConfig when both
// are empty.
func (s *Server) ServeTLS(ln net.Listener, certFile, keyFile string) error {
	s.init()
	config := &tls.Config{}
	if s.std.TLSConfig != nil {
		config = s.std.TLSConfig.Clone()
	}
	if certFile != "" || keyFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return fmt.Errorf("http1: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return s.Serve(tls.NewListener(ln, config))
}

// Shutdown stops accepting, answers what was sent and closes. When ctx ends first, the
// connections that are left are cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	e := s.init()
	s.draining.Store(true)
	s.std.SetKeepAlivesEnabled(false)
	err := e.Shutdown(ctx)
	s.loans.Close()
	return errors.Join(err, s.std.Shutdown(ctx))
}

// Close cuts off every connection at once.
func (s *Server) Close() error {
	err := s.init().Close()
	s.loans.Close()
	return errors.Join(err, s.std.Close())
}

// Stats reports what the server has counted and what it holds.
func (s *Server) Stats() Stats {
	return Stats{Stats: s.init().Stats(), Fast: s.protocol.fast.Load(), Loans: s.protocol.loans.Load()}
}

// copyServer sets the exported fields of to as those of from.
func copyServer(to, from *http.Server) {
	if from == nil {
		return
	}
	to.Addr, to.Handler, to.DisableGeneralOptionsHandler = from.Addr, from.Handler, from.DisableGeneralOptionsHandler
	to.TLSConfig, to.TLSNextProto = from.TLSConfig, from.TLSNextProto
	to.ReadTimeout, to.ReadHeaderTimeout = from.ReadTimeout, from.ReadHeaderTimeout
	to.WriteTimeout, to.IdleTimeout, to.MaxHeaderBytes = from.WriteTimeout, from.IdleTimeout, from.MaxHeaderBytes
	to.ConnState, to.ErrorLog, to.BaseContext, to.ConnContext = from.ConnState, from.ErrorLog, from.BaseContext, from.ConnContext
	to.HTTP2, to.Protocols = from.HTTP2, from.Protocols
}
