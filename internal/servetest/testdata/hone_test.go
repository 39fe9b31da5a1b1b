package http_test

import (
	"context"
	"crypto/tls"
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

// honeServers maps each http.Server that a test has served to its http1.Server.
type honeServers struct {
	engine engine.Engine
	mu     sync.Mutex
	of     map[*http.Server]*honeServer
}

type honeServer struct {
	*http1.Server
	closing atomic.Bool
	uses    atomic.Int32 // calls of Serve, plus connections if counted is set
	counted bool         // ConnState counts connections; otherwise release must check
	over    atomic.Bool  // it is closed or being closed
	last    atomic.Pointer[http1.Stats]
}

// release closes a server whose last listener and connection have ended. The tests do not
// close it, because net/http keeps nothing then. But http1 keeps goroutines, which a synctest
// bubble or main_test.go would report.
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

// end closes the server once and stores its counters: a server in a synctest bubble cannot be
// used from outside.
func (h *honeServer) end() {
	if !h.over.Swap(true) {
		h.Close()
		st := h.Stats()
		h.last.Store(&st)
	}
}

// countConns counts connections for release, if the test has set ConnState anyway.
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

// overTLS reports whether tests that would use HTTP/1.1 without TLS use it.
var server, overTLS = strings.CutSuffix(os.Getenv("HONE_SERVETEST"), "tls")

// servedByHone is nil if net/http serves.
var servedByHone = hookServers(strings.TrimSuffix(server, "-"))

// honeModes are the modes of a test that does not choose some.
func honeModes(modes []testMode) []testMode {
	if overTLS {
		modes[slices.Index(modes, http1Mode)] = https1Mode
	}
	return modes
}

// onLoops replaces a listener of tls.NewListener, whose connections would have a goroutine each.
func onLoops(l net.Listener) net.Listener {
	if v := reflect.ValueOf(l); overTLS && v.Type().String() == "*tls.listener" {
		inner := v.Elem().FieldByName("Listener").Interface().(net.Listener)
		return engine.NewTLSListener(inner, (*tls.Config)(v.Elem().FieldByName("config").UnsafePointer()))
	}
	return l
}

// honeOwn marks the context of a Shutdown that http1 itself calls on Server.Std.
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
		return h.Serve(onLoops(l)), true
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

// serving returns the server that serves l instead of s. It is nil if s must serve: because s
// is http1's own server, or is shut down.
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

// honeRun runs the tests and prints the counters of their servers. It closes the servers,
// because httptest's servers close only their listener: main_test.go then counts goroutines,
// and so reports any that Close has leaked.
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
		for range 100 { // another goroutine may be closing it
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
