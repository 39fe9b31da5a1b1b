// Package http1 serves net/http's handlers on hone's engines.
//
//	srv := &http1.Server{Addr: "127.0.0.1:8080", Handler: handler}
//	log.Fatal(srv.ListenAndServe())
//
// One rule makes this safe: the fast path serves only requests for which it can prove that
// the response equals net/http's. For every other request it lends the connection, with the
// bytes read so far, to a real http.Server, and takes it back afterwards. So net/http itself
// refuses every bad request.
//
// Where to begin: [Server] and its fields, then Shutdown, ServeTLS and [Prepare]. Limits and
// Engine are package engine's. Later answers when the handler has returned. Switch and Leave are for other protocols on the same connection, as
// package websocket is one.
package http1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/faultlog"
)

// Server serves HTTP. Fill in the fields, then call ListenAndServe or Serve; do not change
// the fields afterwards. The zero value of every field is a working default.
type Server struct {
	// Addr is where ListenAndServe listens, as for net/http. Zero: Std.Addr, else port 80.
	Addr string
	// Handler handles requests. Zero: Std.Handler, else http.DefaultServeMux.
	Handler http.Handler
	// Std is configured as for net/http: TLSConfig, timeouts, hooks. Server copies it
	// and never runs it. Its timeouts set the Limits that are zero. Zero: no settings.
	Std *http.Server
	// NoHTTP2 switches HTTP/2 off, over TLS and without, whatever Std says. Zero: Std.Protocols and
	// Std.TLSNextProto decide, as in net/http.
	NoHTTP2 bool
	// OldGo keeps the server from logging, once at its start, that the Go which built it has known
	// holes that clients of HTTP/2 can reach. Zero: it logs that, to slog.Default() without a Logger.
	OldGo bool
	// Engine does the network I/O. Zero: the default for this operating system.
	Engine engine.Engine
	// Limits protect the server. Zero fields take their defaults.
	Limits engine.Limits
	// Places are shared with servers that have Limits.Conns together. Zero: the server has its own.
	Places *engine.Places
	// TrustedProxies are the addresses of proxies, whose connections start with a PROXY
	// protocol header. Zero: none.
	TrustedProxies []netip.Prefix
	// Forwarded are reverse proxies that pass on the client's address in a header. Zero: none.
	Forwarded Forwarded
	// Logger gets panics of handlers with their stack (at level Error), calls of handlers that
	// have no effect, such as a second WriteHeader, and refused connections and faulty clients
	// (Warn): one line a second for each reason, with the number of suppressed lines. What
	// net/http logs as well goes to Std.ErrorLog instead, if that is set. Zero: panics and such
	// calls go to slog.Default(), and nothing else is logged. For silence, use
	// slog.DiscardHandler.
	Logger *slog.Logger

	once          sync.Once
	engine        engine.Server
	protocol      protocol
	std           http.Server  // Std with all settings; it serves nothing
	logger        *slog.Logger // Logger and Std.ErrorLog; nil: neither is set
	faults        faultlog.Log
	lentPanics    atomic.Uint64
	lender        lender  // serves what the fast path does not
	http2         *lender // serves HTTP/2; nil: it is off
	hooks         hooks
	context       context.Context              // of connections without hooks
	secure        atomic.Bool                  // some connections may use TLS
	unix          atomic.Pointer[net.UnixAddr] // the unix socket that was listened on last
	keepAlivesOff atomic.Bool                  // SetKeepAlivesEnabled(false)
	draining      atomic.Bool

	mu      sync.Mutex
	lending bool
	over    bool
	lenders sync.WaitGroup
}

// Stats are a server's counters. The engine's counters include requests and bytes of
// connections that are lent to net/http.
type Stats struct {
	engine.Stats
	Fast          uint64 // requests served on the fast path
	Loans         uint64 // times a connection was lent to net/http
	SlowBodies    uint64 // streams of HTTP/2 that ended because their bodies lagged behind Limits.FrameRate
	ClosedWindows uint64 // streams of HTTP/2 whose clients took nothing for Limits.StallTime
	OpenLoans     int    // connections lent to net/http now
	LateHandlers  int    // handlers that wait inside Later now, because net/http has their connections
}

// init builds the engine's server and the net/http servers around the handler.
func (s *Server) init() *engine.Server {
	s.once.Do(func() {
		std := &s.std
		copyServer(std, s.Std)
		s.hooks.state, s.hooks.conn, s.hooks.base = std.ConnState, std.ConnContext, std.BaseContext
		s.context = context.WithValue(context.Background(), http.ServerContextKey, s.shownServer())
		std.Addr = cmp.Or(s.Addr, std.Addr)
		if s.Handler != nil {
			std.Handler = s.Handler
		}
		if s.Forwarded.Header != "" {
			// net/http's own default, which a wrapped nil would lose.
			std.Handler = s.Forwarded.handler(cmp.Or[http.Handler](std.Handler, http.DefaultServeMux))
		}
		s.initLog(std.ErrorLog)
		s.protocol.server = s
		s.protocol.http1Off = !protocols(std).HTTP1()
		s.engine.Protocol = &s.protocol
		s.engine.Engine, s.engine.Places = s.Engine, s.Places
		s.engine.TrustedProxies, s.engine.Uncounted = s.TrustedProxies, s.Forwarded.Proxies
		s.engine.HandshakeFailed = badHandshake
		s.engine.OwnReasons = ownReasons[:]
		if s.hooks.any() {
			s.engine.OnOpen, s.engine.OnClose = s.opened, s.closed
		}
		s.initLimits(std)
		s.initHTTP2()
		copyServer(&s.lender.std, std)
		s.lender.std.Handler = http.HandlerFunc(s.serveLoan)
		spoken := protocols(std)
		spoken.SetUnencryptedHTTP2(false) // s.http2 speaks it
		s.lender.std.Protocols = &spoken
		s.lender.init()
	})
	return &s.engine
}

// ListenAndServe listens on Addr, or on port 80 as net/http does, and serves until Shutdown
// or Close.
func (s *Server) ListenAndServe() error {
	ln, err := s.listen(":http")
	if err != nil {
		return err
	}
	return s.Serve(ln)
}

// listen listens on Addr, or on otherwise if that is empty.
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
// http.ErrServerClosed. Serve may be called for several listeners at the same time.
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

// startLending starts the net/http server that waits for lent connections, once.
func (s *Server) startLending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lending || s.over {
		return
	}
	s.lending = true
	s.warnOfOldGo(runtime.Version())
	if s.lender.returns = comesBack(); !s.lender.returns && s.Logger != nil {
		s.Logger.Warn("this Go version's net/http behaves differently from the one http1 was written for: connections lent to it stay with it until they close", "go", runtime.Version())
	}
	s.lenders.Go(func() { s.lender.std.Serve(&s.lender) })
}

// stopLending closes the net/http servers and the connections that are still lent to them.
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

// SetKeepAlivesEnabled sets whether connections stay open for further requests. By default
// they do. Switching it off closes idle connections at once, and others after their next
// answer.
func (s *Server) SetKeepAlivesEnabled(on bool) {
	s.init()
	s.keepAlivesOff.Store(!on)
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

// lastAnswer reports whether the connection closes after the response in progress.
func (s *Server) lastAnswer(c engine.Conn) bool {
	return s.keepAlivesOff.Load() || s.draining.Load() && (s.lender.limits.SpreadTime == 0 || c.Leaving())
}

// Shutdown stops accepting, answers the requests that have arrived, and closes the
// connections: with Limits.SpreadTime, each with its next answer, or with a GOAWAY, from when its turn has
// come. If ctx ends first, Shutdown closes the remaining connections and returns ctx's
// error about 50 ms later. It neither waits for hijacked connections nor closes them. It calls
// Std.Shutdown, which runs the functions that were registered with Std.RegisterOnShutdown.
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
		s.faults.Close()
		ended <- err
	}()
	for spread := time.After(s.lender.limits.SpreadTime); ; {
		select {
		case <-spread: // once
			s.lender.drain()
			if s.http2 != nil {
				s.http2.drain()
				go s.http2.std.Shutdown(patience)
			}
		case err := <-ended:
			return err
		case <-ctx.Done():
			cut()
			s.stopLending()
			<-ended
			return ctx.Err()
		}
	}
}

// Close closes every connection at once, except for hijacked ones.
func (s *Server) Close() error {
	e := s.init()
	s.draining.Store(true)
	s.stopLending()
	defer s.faults.Close()
	return e.Close()
}

// Stats returns the server's counters and the number of connections it holds.
func (s *Server) Stats() Stats {
	st := Stats{Stats: s.init().Stats(), Fast: s.protocol.fast.Load()}
	st.Panics += s.lentPanics.Load()
	for _, le := range []*lender{&s.lender, s.http2} {
		if le == nil {
			continue
		}
		st.Requests += le.requests.Load()
		st.BytesIn += le.bytesIn.Load()
		st.BytesOut += le.bytesOut.Load()
		st.Loans += le.loans.Load()
		st.SlowBodies += le.slowBodies.Load()
		st.ClosedWindows += le.closedWindows.Load()
		st.OpenLoans += le.open()
		st.LateHandlers += int(le.waiting.Load())
	}
	return st
}

// copyServer copies the exported fields of from to to.
func copyServer(to, from *http.Server) {
	if from == nil {
		return
	}
	target, source := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for i := range source.NumField() {
		if source.Type().Field(i).IsExported() {
			target.Field(i).Set(source.Field(i))
		}
	}
}
