package http

import (
	"context"
	"net"
)

// HoneHooks are called first by the methods of Server with the same names. A hook reports
// whether it has handled the call; otherwise net/http does.
var HoneHooks struct {
	Serve                func(s *Server, l net.Listener) (error, bool)
	ServeTLS             func(s *Server, l net.Listener, certFile, keyFile string) (error, bool)
	Shutdown             func(s *Server, ctx context.Context) (error, bool)
	Close                func(s *Server) (error, bool)
	SetKeepAlivesEnabled func(s *Server, on bool) bool
	Own                  func(l net.Listener) bool
}

// HoneAsked returns what was called on a server before it serves.
func HoneAsked(s *Server) (shutdown, keepAlives bool) {
	return s.inShutdown.Load(), !s.disableKeepAlives.Load()
}

// HoneServes is the test hook that Serve must call first, except for a listener of http1's own.
func HoneServes(l net.Listener) func(*Server, net.Listener) {
	if own := HoneHooks.Own; own != nil && own(l) {
		return nil
	}
	return testHookServerServe
}
