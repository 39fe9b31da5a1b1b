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
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

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
	std      http.Server // Std with everything set; it serves nothing
	lender   lender      // serves what the fast path leaves
	http2    *lender     // serves HTTP/2 over TLS; nil: nobody does
	hooks    hooks
	context  context.Context              // of connections without hooks
	secure   atomic.Bool                  // there may be connections with TLS
	unix     atomic.Pointer[net.UnixAddr] // what was listened on last
	mute     atomic.Bool                  // SetKeepAlivesEnabled(false)
	draining atomic.Bool

	mu      sync.Mutex
	lending bool
	over    bool
	lenders sync.WaitGroup
}

// Stats are a server's counters, of both halves: requests and bytes of connections that
// are lent to net/http are in the engine's counters too.
type Stats struct {
	engine.Stats
	Fast      uint64 // requests that the fast path has served
	Loans     uint64 // times that a connection was lent to net/http
	OpenLoans int    // connections that are lent now
}

// init builds the engine's server and net/http's around the handler.
func (s *Server) init() *engine.Server {
	s.once.Do(func() {
		std := &s.std
		copyServer(std, s.Std)
		s.hooks.state, s.hooks.conn, s.hooks.base = std.ConnState, std.ConnContext, std.BaseContext
		s.context = context.WithValue(context.Background(), http.ServerContextKey, s.shownServer())
		if s.Handler != nil {
			std.Handler = s.Handler
		}
		if std.ErrorLog == nil {
			std.ErrorLog = s.errorLog()
		}
		s.protocol.server = s
		s.protocol.refuses = !protocols(std).HTTP1()
		s.engine.Protocol = &s.protocol
		s.engine.Engine = s.Engine
		s.engine.TrustedProxies = s.TrustedProxies
		s.engine.Logger = s.Logger
		s.engine.HandshakeFailed = s.badHandshake
		if s.hooks.any() {
			s.engine.OnOpen, s.engine.OnClose = s.opened, s.closed
		}
		s.initLimits(std)
		s.initHTTP2()
		copyServer(&s.lender.std, std)
		s.lender.std.Handler = http.HandlerFunc(s.serveLoan)
		s.lender.init()
	})
	return &s.engine
}

// errorLog is where net/http writes when Std has no ErrorLog.
func (s *Server) errorLog() *log.Logger {
	if s.Logger == nil {
		return log.New(io.Discard, "", 0)
	}
	return slog.NewLogLogger(s.Logger.Handler(), slog.LevelError)
}

// ListenAndServe listens on Std.Addr, or port 80 as net/http does, and serves until
// Shutdown or Close.
func (s *Server) ListenAndServe() error {
	ln, err := s.listen(":http")
	if err != nil {
		return err
	}
	return s.Serve(ln)
}

// listen listens on Std.Addr, or on otherwise.
func (s *Server) listen(otherwise string) (net.Listener, error) {
	s.init()
	if s.draining.Load() {
		return nil, http.ErrServerClosed
	}
	ln, err := net.Listen("tcp", cmp.Or(s.std.Addr, otherwise))
	if err != nil {
		return nil, fmt.Errorf("http1: %w", err)
	}
	return ln, nil
}

// Serve accepts connections from ln until Shutdown or Close, and then returns
// http.ErrServerClosed. It may be called for several listeners at once.
func (s *Server) Serve(ln net.Listener) error {
	e := s.init()
	switch ln.(type) {
	case *net.TCPListener, *net.UnixListener:
	default:
		s.secure.Store(true)
	}
	if addr, ok := ln.Addr().(*net.UnixAddr); ok {
		s.unix.Store(addr)
	}
	s.startLending()
	if !s.draining.Load() {
		s.hooks.listen(ln)
	}
	err := e.Serve(ln)
	if errors.Is(err, engine.ErrServerClosed) {
		return http.ErrServerClosed
	}
	return err
}

// startLending has net/http wait for connections, once.
func (s *Server) startLending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lending || s.over {
		return
	}
	s.lending = true
	if s.lender.returns = comesBack(); !s.lender.returns && s.Logger != nil {
		s.Logger.Warn("this net/http is not the one that http1 knows: connections that are lent to it stay lent", "go", runtime.Version())
	}
	for _, le := range []*lender{&s.lender, s.http2} {
		if le != nil {
			s.lenders.Add(1)
			go func() {
				defer s.lenders.Done()
				le.std.Serve(le)
			}()
		}
	}
}

// stopLending ends that. Connections that are still lent are cut off.
func (s *Server) stopLending() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	for _, le := range []*lender{&s.lender, s.http2} {
		if le != nil {
			le.Close()
			le.std.Close()
			le.cut()
		}
	}
	s.lenders.Wait()
}

// SetKeepAlivesEnabled says whether connections are kept for further requests; they are
// at first. Without that, idle connections end at once.
func (s *Server) SetKeepAlivesEnabled(on bool) {
	s.init()
	s.mute.Store(!on)
	if !s.draining.Load() {
		for _, le := range []*lender{&s.lender, s.http2} {
			if le != nil {
				le.std.SetKeepAlivesEnabled(on)
			}
		}
		if !on {
			s.engine.EndIdle()
		}
	}
}

// lastAnswer reports whether connections end after the answer that is under way.
func (s *Server) lastAnswer() bool { return s.draining.Load() || s.mute.Load() }

// Shutdown stops accepting, answers what was sent and closes. When ctx ends first, the
// connections that are left are cut off, and it returns ctx's error some 50 ms later. It
// neither waits for connections that handlers have hijacked nor closes them, as long as
// ctx has not ended before that. It calls Std.Shutdown, for what was registered with
// Std.RegisterOnShutdown.
func (s *Server) Shutdown(ctx context.Context) error {
	e := s.init()
	s.draining.Store(true)
	if s.Std != nil {
		s.Std.Shutdown(ctx)
	}
	patience, cut := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		defer cut()
		err := e.Shutdown(patience)
		s.stopLending()
		ended <- err
	}()
	s.lender.drain()
	if s.http2 != nil {
		go s.http2.std.Shutdown(patience)
	}
	look := time.NewTicker(shutdownLook)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			cut()
			s.stopLending()
			<-ended
			return ctx.Err()
		case <-look.C:
			if _, hijacked := s.lender.open(); hijacked > 0 && e.Stats().Open <= hijacked {
				return nil
			}
		}
	}
}

// shutdownLook is how often Shutdown looks whether only hijacked connections are left.
const shutdownLook = 5 * time.Millisecond

// Close cuts off every connection at once, hijacked ones too.
func (s *Server) Close() error {
	e := s.init()
	s.draining.Store(true)
	s.stopLending()
	return e.Close()
}

// Stats reports what the server has counted and what it holds.
func (s *Server) Stats() Stats {
	st := Stats{Stats: s.init().Stats(), Fast: s.protocol.fast.Load()}
	for _, le := range []*lender{&s.lender, s.http2} {
		if le == nil {
			continue
		}
		st.Requests += le.requests.Load()
		st.BytesIn += le.bytesIn.Load()
		st.BytesOut += le.bytesOut.Load()
		st.Loans += le.loans.Load()
		lent, _ := le.open()
		st.OpenLoans += lent
	}
	return st
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
