// Package observe is the admin side of a running server: metrics, profiles,
// counters and health, on a listener of its own.
//
//	admin := &observe.Admin{Stats: srv.Stats}
//	ln, err := admin.Listen("127.0.0.1:8081")
//	if err != nil {
//		log.Fatal(err)
//	}
//	go admin.Serve(ln)
//
// Everything is read on demand, so a server that nobody observes pays nothing. The mux is
// separate from http.DefaultServeMux.
//
//	/              a page of links
//	/healthz       200 ok, or 503 and why, such as draining
//	/metrics       for Prometheus
//	/stats         a Snapshot, as JSON
//	/debug/pprof/  profiles: cpu (profile), trace, and all of runtime/pprof
//
// and Admin.Handlers.
//
// # Access control
//
// Only GET and HEAD are allowed. A request must name the server by localhost, by a loopback address, by the address or name listened
// on, or by one of Admin.Hosts. That stops DNS rebinding.
//
//   - /healthz is open to everybody who can connect, and so are /metrics and /stats,
//     except through a proxy.
//   - While Token is empty, everything else is open too, but Listen and Serve then accept
//     only loopback addresses and unix sockets, and a Handler mounted elsewhere serves it
//     only to connections over these.
//   - With a Token, everything else requires it, on every listener.
//   - Under one of Admin.Hosts, everything else always requires the Token, so that the host
//     name of a proxy on this machine opens nothing.
//   - A request that came through a proxy does not count as local: it requires the Token for
//     everything but /healthz. A request counts as proxied if it has a header that proxies add
//     (Forwarded, Via, X-Forwarded-…, X-Real-IP and the like), or speaks HTTP/1.0. A proxy
//     that adds nothing (HAProxy without "option forwardfor", TCP forwarding) cannot be told
//     from a local client: set a Token before such a proxy can reach this.
//
// A client sends the token as "Authorization: Bearer TOKEN", or as the password that a browser
// asks its user for, with any user name. A token in the URL is refused: URLs end up in logs,
// histories and Referer headers. Between machines the token is not encrypted, unless Serve is
// given a TLS listener.
//
// # Counters
//
// The JSON of /stats and the server's metrics are the same counters: JSON leaves out the
// prefix hone_ and the suffix _total. Metrics lists everything that /metrics may return: HTTP,
// handler times, pools and caches if their fields of Admin are set, the Go runtime, the
// process, and the host on Linux. The reasons are engine's, a closed set. All of them are
// there from the start, and each belongs to one of two groups:
//
//   - rejected: the server refused a connection or what arrived on it, because of one of
//     engine.Limits or a protocol violation;
//   - connections_ended: no rule was violated: peer_closed, peer_reset, closed_here,
//     panicked, shutting_down, forced.
//
// The two together are all connections that ended or were never accepted. responses_sent
// counts the requests that are no longer owed a reply. If a handler promised its reply for
// later and the connection ended first, that is one too many: an engine does not count the
// promises that it could not keep.
package observe

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
	"sync"
	"time"

	"github.com/hone-go/hone/conns"
	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/faultlog"
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/pool"
)

// ErrNoToken is wrapped by the errors of Listen and Serve for an address that other machines
// can reach while no Admin.Token protects it.
var ErrNoToken = errors.New("other machines can reach this address and no token of 16 characters or more protects it; " +
	"listen on 127.0.0.1:PORT or unix:PATH, or set a token")

// Admin is the admin side of a running server. Fill in the fields, then call Handler, or Listen
// and Serve; do not change the fields afterwards. The zero value of every field but Stats is a
// working default.
type Admin struct {
	// Stats is the server's method. Required unless HTTP is set. It is called once per scrape.
	Stats func() engine.Stats
	// HTTP is the Stats method of an http1.Server; Stats may then be left out. Zero: the
	// server is of another kind.
	HTTP func() http1.Stats
	// Ready reports whether /healthz answers 200; return false once a drain has begun. Zero:
	// always ready.
	Ready func() bool
	// Cause is the text of /healthz while Ready returns false. Zero: draining.
	Cause func() string
	// Token protects everything that is not open to everybody: see the package. Zero: no
	// token is needed, and only this machine is served.
	Token string
	// Hosts are names, without ports, that requests may use in addition to localhost,
	// loopback addresses and the address bound. Under them, /healthz, /metrics and /stats are
	// open, and everything else requires the Token. Zero: none.
	Hosts []string
	// MaxConns is how many connections Serve accepts at once, on all listeners together.
	// At the limit, a connection that waits for a request is closed for each new one: the
	// oldest that has never sent a request, else the one that has been idle longest; during
	// its first second, one that has sent nothing goes after the idle ones. So silent
	// connections lock out neither an operator nor the clients of the service. When every
	// connection has a request in progress, a new one is closed. Zero: 256, or an eighth of
	// the process's descriptors if that is less.
	MaxConns int
	// Info describes what the server does not know about itself. Zero: empty labels.
	Info Info
	// Latency times the server's handlers. Zero: handlers are not timed.
	Latency *Latency
	// Conns, Workers, Buffers and Caches are further sources, each under the name that becomes
	// its label, at most 20 of a kind: the Stats of a conns.Pool, a workers.Pool or Func, the
	// Stats of a pool.Buffers, a cache. Each is read once per scrape. Zero: none.
	Conns   map[string]func() conns.Stats
	Workers map[string]WorkerPool
	Buffers map[string]func() pool.Stats
	Caches  map[string]func() Cache
	// Handlers are further pages by path, as in http.ServeMux. They always require the Token
	// if there is one. Zero: none.
	Handlers map[string]http.Handler
	// Logger gets connection errors, and panics of the functions above. Zero: panics go to
	// slog.Default(), and nothing else is logged.
	Logger *slog.Logger

	once     sync.Once
	began    time.Time
	handler  http.Handler
	server   *http.Server
	closing  chan struct{} // closed by Shutdown, to end captures early
	closed   sync.Once
	captures captures
	faults   faultlog.Log
	answered answered
	moves    moves

	gated sync.Once
	guard Guard
}

// Info describes a server. The fields are constant labels of a metric.
type Info struct {
	Service string `json:"service"`
	Version string `json:"version"`
}

const (
	readTime  = 10 * time.Second // to read a request
	writeTime = 15 * time.Second // to write a response, beyond the time of a recording
	idleTime  = time.Minute
	headBytes = 16 << 10
)

// init prepares an Admin for its first use.
func (a *Admin) init() {
	a.once.Do(func() {
		if a.Stats == nil && a.HTTP != nil {
			a.Stats = func() engine.Stats { return a.HTTP().Stats }
		}
		if a.Stats == nil {
			panic("observe: Admin.Stats is nil")
		}
		a.checkSources()
		a.began = time.Now()
		a.closing = make(chan struct{})
		mux := http.NewServeMux()
		mux.HandleFunc("/{$}", a.serveIndex)
		mux.HandleFunc("/healthz", a.serveHealth)
		mux.HandleFunc("/stats", a.serveStats)
		mux.Handle("/metrics", a.metrics())
		mux.HandleFunc("/debug/pprof/{name...}", a.serveProfile)
		for path, page := range a.Handlers {
			mux.Handle(path, page)
		}
		a.handler = a.gate().Handler(mux)
		a.initServer()
	})
}

// initServer prepares the server of Serve.
func (a *Admin) initServer() {
	a.server = a.gate().Server(a.logPanics(a.handler))
	a.server.ErrorLog = log.New(io.Discard, "", 0)
	if a.Logger != nil {
		a.server.ErrorLog = slog.NewLogLogger(a.Logger.Handler(), slog.LevelWarn)
	}
	a.server.RegisterOnShutdown(func() { a.closed.Do(func() { close(a.closing) }) })
}

// logPanics logs panics of h before they end its request.
func (a *Admin) logPanics(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v != http.ErrAbortHandler {
				a.faults.Panic(cmp.Or(a.Logger, slog.Default()), r.RemoteAddr, v)
			}
			panic(http.ErrAbortHandler)
		}()
		h.ServeHTTP(w, r)
	})
}

// Handler returns a handler for everything, to mount on an existing server. What it allows
// depends on the connection: see the package.
func (a *Admin) Handler() http.Handler {
	a.init()
	return a.handler
}

// Listen listens on addr, HOST:PORT or unix:PATH. Without a Token it refuses an address that
// other machines can reach with ErrNoToken. A socket file is accessible to this user only
// (mode 0600), and replaces one on which nobody listens any more.
func (a *Admin) Listen(addr string) (net.Listener, error) { return a.gate().Listen(addr) }

// gate returns the Admin's guard.
func (a *Admin) gate() *Guard {
	a.gated.Do(func() {
		a.guard.Token, a.guard.Hosts, a.guard.MaxConns, a.guard.free = a.Token, a.Hosts, a.MaxConns, open
	})
	return &a.guard
}

// listenUnix creates a socket file that only this user may use.
func listenUnix(path string) (net.Listener, error) {
	if path == "" || path[0] == '@' {
		return nil, fmt.Errorf("observe: unix:%s is not a file, so no permissions would protect it; use unix:PATH", path)
	}
	ln, err := sys.ListenUnix(path, 0o600)
	if err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	return ln, nil
}

// Serve serves ln until Shutdown, and then returns http.ErrServerClosed. It always closes ln.
// It refuses what Listen refuses. It may be called for several listeners at the same time.
func (a *Admin) Serve(ln net.Listener) error {
	a.init()
	if err := a.gate().MayServe(ln.Addr()); err != nil {
		ln.Close()
		return err
	}
	return a.server.Serve(ln)
}

// Shutdown stops listening, ends captures early and waits for responses in progress. If ctx
// ends first, it closes the remaining connections.
func (a *Admin) Shutdown(ctx context.Context) error {
	a.init()
	defer a.faults.Close()
	err := a.server.Shutdown(ctx)
	if err != nil {
		a.server.Close()
		return fmt.Errorf("observe: shutdown: %w", err)
	}
	return nil
}

// serveHealth reports whether the server wants more connections.
func (a *Admin) serveHealth(w http.ResponseWriter, _ *http.Request) {
	text(w)
	if a.Ready != nil && !a.Ready() {
		w.WriteHeader(http.StatusServiceUnavailable)
		cause := "draining"
		if a.Cause != nil {
			cause = cmp.Or(a.Cause(), cause)
		}
		fmt.Fprintln(w, cause)
		return
	}
	fmt.Fprintln(w, "ok")
}

func text(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
}
