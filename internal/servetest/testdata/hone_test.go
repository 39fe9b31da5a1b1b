package http_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hone/engine"
	"hone/http1"
)

// honeServers has the http1.Server of each http.Server that a test has served.
type honeServers struct {
	engine engine.Engine
	mu     sync.Mutex
	of     map[*http.Server]*honeServer
}

type honeServer struct {
	*http1.Server
	closing atomic.Bool
	uses    atomic.Int32 // calls of Serve, and connections if they are counted
	counted bool         // by ConnState; else somebody has to look
	over    atomic.Bool  // it is being closed, or has been
	last    atomic.Pointer[http1.Stats]
}

// release closes a server whose last listener and connection have ended. The tests do not,
// since net/http keeps nothing then; http1 keeps goroutines, which a bubble of synctest, or
// main_test.go, would find.
func (h *honeServer) release() {
	if h.uses.Add(-1) > 0 {
		return
	}
	go func() {
		for !h.counted && h.Stats().Open > 0 {
			time.Sleep(5 * time.Millisecond)
		}
		h.end()
	}()
}

// end closes the server once, and keeps what it has counted: a server of a bubble cannot be
// asked from outside.
func (h *honeServer) end() {
	if !h.over.Swap(true) {
		h.Close()
		st := h.Stats()
		h.last.Store(&st)
	}
}

// countConns has release know of connections, where somebody listens to ConnState anyway.
func (h *honeServer) countConns(s *http.Server) {
	told := s.ConnState
	if told == nil {
		return
	}
	h.counted = true
	s.ConnState = func(nc net.Conn, state http.ConnState) {
		if state == http.StateNew {
			h.uses.Add(1)
		}
		told(nc, state)
		if state == http.StateClosed || state == http.StateHijacked {
			h.release()
		}
	}
}

// servedByHone is nil where net/http serves.
var servedByHone = hookServers(os.Getenv("HONE_SERVETEST"))

// honeOwn marks the context of a Shutdown that http1 asks of Server.Std.
type honeOwn struct{}

func hookServers(engineName string) *honeServers {
	if engineName == "" {
		return nil
	}
	all := &honeServers{of: make(map[*http.Server]*honeServer)}
	if err := all.engine.UnmarshalText([]byte(engineName)); err != nil {
		panic(err)
	}
	hooks := &http.HoneHooks
	hooks.Own = func(l net.Listener) bool {
		t := reflect.TypeOf(l)
		return t.Kind() == reflect.Pointer && strings.HasPrefix(t.Elem().PkgPath(), "hone/")
	}
	hooks.Serve = func(s *http.Server, l net.Listener) (error, bool) {
		h := all.serving(s, l)
		if h == nil {
			return nil, false
		}
		defer h.release()
		return h.Serve(l), true
	}
	hooks.ServeTLS = func(s *http.Server, l net.Listener, certFile, keyFile string) (error, bool) {
		h := all.serving(s, l)
		if h == nil {
			return nil, false
		}
		defer h.release()
		return h.ServeTLS(l, certFile, keyFile), true
	}
	hooks.Shutdown = func(s *http.Server, ctx context.Context) (error, bool) {
		h := all.get(s)
		if h == nil || ctx.Value(honeOwn{}) != nil {
			return nil, false
		}
		return h.Shutdown(context.WithValue(ctx, honeOwn{}, true)), true
	}
	hooks.Close = func(s *http.Server) (error, bool) {
		h := all.get(s)
		if h == nil || h.closing.Swap(true) {
			return nil, false
		}
		defer h.closing.Store(false)
		return h.Close(), true
	}
	hooks.SetKeepAlivesEnabled = func(s *http.Server, on bool) bool {
		h := all.get(s)
		if h != nil {
			h.Server.SetKeepAlivesEnabled(on)
		}
		return h != nil
	}
	return all
}

func (all *honeServers) get(s *http.Server) *honeServer {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.of[s]
}

// serving is what serves l in place of s, or nil if s has to: it is http1's own server, or
// is no longer to serve.
func (all *honeServers) serving(s *http.Server, l net.Listener) *honeServer {
	if http.HoneHooks.Own(l) {
		return nil
	}
	shutdown, keepAlives := http.HoneAsked(s)
	if shutdown {
		return nil
	}
	made := &honeServer{Server: &http1.Server{Std: s, Engine: all.engine}}
	made.SetKeepAlivesEnabled(keepAlives)
	all.mu.Lock()
	h := all.of[s]
	if h == nil {
		h = made
		h.countConns(s)
		all.of[s] = h
	}
	h.uses.Add(1)
	all.mu.Unlock()
	if f := http.HoneServes(l); f != nil {
		f(s, l)
	}
	return h
}

// honeRun runs the tests, and says what their servers have counted. It closes them, since
// httptest's servers only close their listener: then main_test.go, which counts goroutines
// next, finds whatever Close has left behind.
func honeRun(m *testing.M) (code int) {
	code = m.Run()
	if servedByHone == nil {
		return code
	}
	servedByHone.mu.Lock()
	servers := slices.Collect(maps.Values(servedByHone.of))
	servedByHone.mu.Unlock()
	var sum http1.Stats
	for _, h := range servers {
		h.end()
		for range 100 { // another goroutine may be at it
			if st := h.last.Load(); st != nil {
				sum.Fast += st.Fast
				sum.Loans += st.Loans
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	fmt.Printf("hone: servers=%d fast=%d loans=%d\n", len(servers), sum.Fast, sum.Loans)
	return code
}
