package http

import (
	"context"
	"net"
)

// HoneHooks stand in front of Server's methods of the same names. What they report is
// whether they have done what was asked; otherwise net/http does it.
var HoneHooks struct {
	Serve                func(s *Server, l net.Listener) (error, bool)
	ServeTLS             func(s *Server, l net.Listener, certFile, keyFile string) (error, bool)
	Shutdown             func(s *Server, ctx context.Context) (error, bool)
	Close                func(s *Server) (error, bool)
	SetKeepAlivesEnabled func(s *Server, on bool) bool
	RegisterOnShutdown   func(s *Server, f func()) bool
}

// HoneAsked is what has been asked of a server before it serves.
func HoneAsked(s *Server) (shutdown, keepAlives bool, onShutdown []func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inShutdown.Load(), !s.disableKeepAlives.Load(), s.onShutdown
}

// HoneServes calls what a test wants Serve to call first.
func HoneServes(s *Server, l net.Listener) {
	if f := testHookServerServe; f != nil {
		f(s, l)
	}
}
