package avatar

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
)

// A Server serves a Service with all limits set: HTTP/1.1 on an engine by package http1, and
// HTTP/2 over TLS. Fill in the fields, then use it; do not change them afterwards.
type Server struct {
	Service *Service // required

	// NetHTTP uses net/http instead, under the same limits: for comparing the two.
	NetHTTP bool
	// TLS is the TLS configuration, with a certificate. nil: plain HTTP/1.1.
	TLS *tls.Config
	// Logger gets what http1.Server.Logger gets; with NetHTTP, all of it at the debug level.
	// nil: panics go to slog.Default(), with NetHTTP nowhere.
	Logger *slog.Logger

	once sync.Once
	fast *http1.Server // nil with NetHTTP
	std  http.Server

	most    int64 // connections, with NetHTTP
	open    atomic.Int64
	opened  atomic.Uint64
	refused atomic.Uint64
}

func (s *Server) prepare() {
	s.once.Do(func() {
		l := s.Service.Limits.OrDefaults()
		s.std = http.Server{
			Handler: s.Service, TLSConfig: s.TLS.Clone(),
			ReadHeaderTimeout: l.HeaderTime, ReadTimeout: l.ReadTime, WriteTimeout: l.WriteTime, IdleTimeout: l.IdleTime,
			MaxHeaderBytes: l.HeaderBytes,
			HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: l.Streams},
		}
		if s.NetHTTP {
			s.std.ErrorLog = log.New(io.Discard, "", 0)
			if s.Logger != nil { // clients can cause any number of lines, so not at the usual level
				s.std.ErrorLog = slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug)
			}
			s.most = int64(l.Connections)
			s.std.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateClosed || state == http.StateHijacked {
					s.open.Add(-1)
				}
			}
			return
		}
		s.fast = &http1.Server{Std: &s.std, Limits: engine.Limits{Conns: l.Connections}, Logger: s.Logger}
	})
}

// Serve serves ln until Shutdown or Close, and then returns http.ErrServerClosed.
func (s *Server) Serve(ln net.Listener) error {
	s.prepare()
	serve, serveTLS := s.std.Serve, s.std.ServeTLS
	if s.fast != nil {
		serve, serveTLS = s.fast.Serve, s.fast.ServeTLS
	} else {
		ln = &gate{ln, s}
	}
	if s.TLS == nil {
		return serve(ln)
	}
	return serveTLS(ln, "", "")
}

// Shutdown stops listening, closes idle connections, and waits for the answers in progress. When
// ctx ends first, Shutdown returns without waiting for the rest; Close then closes it.
func (s *Server) Shutdown(ctx context.Context) error {
	s.prepare()
	if s.fast != nil {
		return s.fast.Shutdown(ctx)
	}
	return s.std.Shutdown(ctx)
}

// Close closes all connections.
func (s *Server) Close() error {
	s.prepare()
	if s.fast != nil {
		return s.fast.Close()
	}
	return s.std.Close()
}

// Stats returns the counters. With NetHTTP there are only a few.
func (s *Server) Stats() http1.Stats {
	s.prepare()
	if s.fast != nil {
		return s.fast.Stats()
	}
	st := http1.Stats{Stats: engine.Stats{
		Engine: "net/http", Open: int(s.open.Load()), Accepted: s.opened.Load(), Requests: s.Service.counters.requests.Load(),
	}}
	st.Ended[engine.TooManyConns] = s.refused.Load()
	return st
}

// gate limits the number of open connections.
type gate struct {
	net.Listener
	server *Server
}

// Accept returns a connection within the limit. It closes others at once, so that their clients do
// not wait in a queue.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g.server.open.Add(1) <= g.server.most {
			g.server.opened.Add(1)
			return conn, nil
		}
		g.server.open.Add(-1)
		g.server.refused.Add(1)
		conn.Close()
	}
}
