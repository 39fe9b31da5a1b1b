package avatar

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// A Server serves a Service by net/http with every limit set: HTTP/1.1, and
// HTTP/2 over TLS. Fill the fields, then use it; do not change them afterwards.
type Server struct {
	Service *Service // required

	// Errors hears what net/http has to say of connections, a line at a time.
	// nil: nobody does.
	Errors io.Writer

	once    sync.Once
	http    http.Server
	limits  Limits
	open    atomic.Int64
	opened  atomic.Uint64
	refused atomic.Uint64
}

// ServerStats are what a Server has counted.
type ServerStats struct {
	Open     int    // connections, now
	Accepted uint64 // connections, since it began
	Refused  uint64 // connections closed at once for Limits.Connections
}

func (s *Server) prepare() {
	s.once.Do(func() {
		s.limits = s.Service.Limits.OrDefaults()
		l := s.limits
		to := s.Errors
		if to == nil {
			to = io.Discard
		}
		s.http = http.Server{
			Handler:           s.Service,
			ReadHeaderTimeout: l.HeaderTime, ReadTimeout: l.ReadTime, WriteTimeout: l.WriteTime, IdleTimeout: l.IdleTime,
			MaxHeaderBytes: l.HeaderBytes,
			HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: l.Streams},
			ErrorLog:       log.New(to, "", 0),
			ConnState: func(_ net.Conn, state http.ConnState) {
				if state == http.StateClosed || state == http.StateHijacked {
					s.open.Add(-1)
				}
			},
		}
	})
}

// Serve answers on ln until Shutdown or Close, and then returns
// http.ErrServerClosed. With a certificate in config it speaks TLS, and HTTP/2
// to who asks for it; nil: plain HTTP/1.1.
func (s *Server) Serve(ln net.Listener, config *tls.Config) error {
	s.prepare()
	gated := &gate{ln, s}
	if config == nil {
		return s.http.Serve(gated)
	}
	s.http.TLSConfig = config.Clone()
	return s.http.ServeTLS(gated, "", "")
}

// Shutdown stops listening and waits for the answers under way; connections
// that are idle are closed. When ctx ends first, the rest is not waited for:
// Close cuts it off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.prepare()
	return s.http.Shutdown(ctx)
}

// Close cuts everything off.
func (s *Server) Close() error {
	s.prepare()
	return s.http.Close()
}

// Stats reads the counters.
func (s *Server) Stats() ServerStats {
	return ServerStats{Open: int(s.open.Load()), Accepted: s.opened.Load(), Refused: s.refused.Load()}
}

// gate lets no more connections in than there may be.
type gate struct {
	net.Listener
	server *Server
}

// Accept waits for a connection for which there is room. Others are closed, so
// that their clients do not wait behind those who hold the rest.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g.server.open.Add(1) <= int64(g.server.limits.Connections) {
			g.server.opened.Add(1)
			return conn, nil
		}
		g.server.open.Add(-1)
		g.server.refused.Add(1)
		conn.Close()
	}
}
