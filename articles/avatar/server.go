package avatar

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
)

// A Server serves a Service with all limits set: HTTP/1.1 by package http1, and HTTP/2 over TLS.
// Fill in the fields, then use it; do not change them afterwards.
type Server struct {
	Service *Service // required
	// TLS is the TLS configuration, with a certificate. nil: plain HTTP/1.1.
	TLS *tls.Config
	// Logger gets what http1.Server.Logger gets. nil: panics go to slog.Default().
	Logger *slog.Logger

	once sync.Once
	http http1.Server
}

func (s *Server) prepare() *http1.Server {
	s.once.Do(func() {
		l := s.Service.Limits.OrDefaults()
		s.http.Std = &http.Server{
			Handler: s.Service, TLSConfig: s.TLS.Clone(),
			ReadHeaderTimeout: l.HeaderTime, ReadTimeout: l.ReadTime, WriteTimeout: l.WriteTime, IdleTimeout: l.IdleTime,
			MaxHeaderBytes: l.HeaderBytes,
			HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: l.Streams},
		}
		s.http.Limits, s.http.Logger = engine.Limits{Conns: l.Connections}, s.Logger
	})
	return &s.http
}

// Serve serves ln until Shutdown or Close, and then returns http.ErrServerClosed.
func (s *Server) Serve(ln net.Listener) error {
	if s.TLS == nil {
		return s.prepare().Serve(ln)
	}
	return s.prepare().ServeTLS(ln, "", "")
}

// Shutdown stops listening, closes idle connections, and waits for the answers in progress. When
// ctx ends first, Shutdown returns without waiting for the rest; Close then closes it.
func (s *Server) Shutdown(ctx context.Context) error { return s.prepare().Shutdown(ctx) }

// Close closes all connections.
func (s *Server) Close() error { return s.prepare().Close() }

// Stats returns the server's counters.
func (s *Server) Stats() http1.Stats { return s.prepare().Stats() }
