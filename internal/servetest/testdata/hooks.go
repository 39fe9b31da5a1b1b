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
	Own                  func(l net.Listener) bool
}

// HoneAsked is what has been asked of a server before it serves.
func HoneAsked(s *Server) (shutdown, keepAlives bool) {
	return s.inShutdown.Load(), !s.disableKeepAlives.Load()
}

// HoneServes is what a test wants Serve to call first, but for a listener that http1 has made.
func HoneServes(l net.Listener) func(*Server, net.Listener) {
	if own := HoneHooks.Own; own != nil && own(l) {
		return nil
	}
	return testHookServerServe
}
