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
// Everything is read when it is asked for, so a server that nobody looks at
// pays nothing. There is one mux, which is not http.DefaultServeMux.
//
//	/              what there is, as a page of links
//	/healthz       200 ok, or 503 draining
//	/metrics       for Prometheus
//	/stats         a Snapshot, as JSON
//	/debug/pprof/  profiles: cpu (profile), trace, and all of runtime/pprof
//	/live/         the page, where there is one
//
// # Who may ask
//
// Only GET and HEAD do anything, except for POST /live/capture from the page itself.
// A request must name the server by localhost, by a loopback address, by the address
// or name listened on, or by one of Admin.Hosts. That stops DNS rebinding.
//
//   - /healthz is open to everybody who can connect, and so are /metrics and /stats,
//     except through a proxy.
//   - All else is open too while Token is empty, but then Listen and Serve
//     accept nothing but loopback addresses and unix sockets, and a Handler
//     mounted elsewhere serves it to no other connections.
//   - With a Token, all else needs it, on every listener.
//   - Under one of Admin.Hosts all else needs the Token as well, so that the name of
//     a proxy on this machine opens nothing.
//   - What came through a proxy does not count as local: it needs the Token, for
//     everything but /healthz. A request did when it has a header that proxies add
//     (Forwarded, Via, X-Forwarded-…, X-Real-IP and the like), or speaks HTTP/1.0.
//     A proxy that adds nothing (HAProxy without "option forwardfor", TCP forwarding)
//     cannot be told from a local client: set a Token before one can reach this.
//
// The token travels as "Authorization: Bearer TOKEN", or as the password that a
// browser asks its user for, whatever the user's name. In the URL it is refused:
// URLs end up in logs, histories and Referer headers. Off this machine it
// travels in clear, unless Serve is given a TLS listener.
//
// # The counters
//
// The JSON of /stats and the server's metrics are the same counters: JSON leaves
// out the prefix hone_ and the suffix _total. Metrics lists all that /metrics
// may answer: HTTP, handlers' times, pools and caches when their fields of Admin are
// filled, the Go runtime, the process, and the host on Linux. The reasons are engine's, a closed set,
// all there from the start, and each belongs to one of two:
//
//   - rejected: the server said no, to a connection or to what came on it,
//     because of one of engine.Limits or because it broke the protocol;
//   - connections_ended: nobody broke a rule: peer_closed, peer_reset,
//     closed_here, panicked, shutting_down, forced.
//
// The two together are all connections that ended or were never let in.
// responses_sent counts the requests that are owed no reply any more. Where a
// handler promised its reply for later and the connection ended first, that is
// one too many: an engine does not count the promises that it could not keep.
package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hone-go/hone/conns"
	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/pool"
)

// ErrNoToken is the error, wrapped, of Listen and Serve for an address that
// other machines can reach when Admin.Token does not protect it.
var ErrNoToken = errors.New("other machines can reach this address and no token of 16 characters or more protects it; " +
	"listen on 127.0.0.1:PORT or unix:PATH, or set a token")

// Admin is what an operator sees of a running server. Fill the fields, call
// Handler, or Listen and Serve; do not change them afterwards. The zero value
// of every field but Stats is a working default.
type Admin struct {
	// Stats is the server's. Required, except with HTTP. It is called once for every scrape.
	Stats func() engine.Stats
	// HTTP is the Stats of an http1.Server; Stats may be left out then. Zero: the server
	// is of another kind.
	HTTP func() http1.Stats
	// Ready says whether /healthz answers 200; give it false when a drain
	// begins. Zero: always ready.
	Ready func() bool
	// Token opens what is not open to everybody: see the package. Zero: nothing
	// needs a token, and only this machine is served.
	Token string
	// Hosts are names, without ports, under which requests may come beside
	// localhost, loopback addresses and the address bound. Under them, /healthz,
	// /metrics and /stats are open, and all else needs the Token. Zero: none.
	Hosts []string
	// Info is what the server does not know of itself. Zero: empty labels.
	Info Info
	// Latency has timed the server's handlers. Zero: nobody times them.
	Latency *Latency
	// Conns, Workers, Buffers and Caches are what else is to be seen, each under
	// the name that becomes its label, at most 20 of a kind: the Stats of a
	// conns.Pool, a workers.Pool or Func, the Stats of a pool.Buffers, a cache.
	// Each is read once for every scrape. Zero: none.
	Conns   map[string]func() conns.Stats
	Workers map[string]WorkerPool
	Buffers map[string]func() pool.Stats
	Caches  map[string]func() Cache
	// Page is what to serve below /live/, with that taken from the paths: a
	// page.Page's Handler. Only live/capture takes POST. Zero: nothing.
	Page http.Handler
	// Logger hears of what goes wrong with connections. Zero: silence.
	Logger *slog.Logger

	once     sync.Once
	began    time.Time
	handler  http.Handler
	server   http.Server
	closing  chan struct{} // closed by Shutdown: captures end early
	closed   sync.Once
	captures captures
	answered answered
	moves    moves

	gated sync.Once
	guard Guard
}

// livePath is where Admin.Page is.
const livePath = "/live/"

// Info describes a server with constants: they are labels of a metric.
type Info struct {
	Service string `json:"service"`
	Dialect string `json:"dialect"`
	Version string `json:"version"`
}

const (
	readTime  = 10 * time.Second // for a request
	writeTime = 15 * time.Second // for a response, beyond what it takes to record
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
		if a.Page != nil {
			mux.Handle(livePath, http.StripPrefix(strings.TrimSuffix(livePath, "/"), a.Page))
		}
		a.handler = a.gate().Handler(mux)
		a.initServer()
	})
}

// initServer prepares the server of Serve: every wait in it has an end.
func (a *Admin) initServer() {
	complaints := log.New(io.Discard, "", 0)
	if a.Logger != nil {
		complaints = slog.NewLogLogger(a.Logger.Handler(), slog.LevelWarn)
	}
	a.server = http.Server{
		Handler:                      a.handler,
		DisableGeneralOptionsHandler: true, // guard answers OPTIONS * as well
		ReadHeaderTimeout:            readTime,
		ReadTimeout:                  readTime,
		WriteTimeout:                 writeTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               headBytes,
		ErrorLog:                     complaints,
	}
	a.server.RegisterOnShutdown(func() { a.closed.Do(func() { close(a.closing) }) })
}

// Handler serves everything, for a server that is there already. What it
// allows depends on the connection: see the package.
func (a *Admin) Handler() http.Handler {
	a.init()
	return a.handler
}

// Listen listens on addr, HOST:PORT or unix:PATH. An address that other
// machines can reach is refused with ErrNoToken unless there is a Token. A
// socket file belongs to this user alone (mode 0600).
func (a *Admin) Listen(addr string) (net.Listener, error) { return a.gate().Listen(addr) }

// gate is the guard of what the Admin serves.
func (a *Admin) gate() *Guard {
	a.gated.Do(func() {
		a.guard.Token, a.guard.Hosts, a.guard.free = a.Token, a.Hosts, open
		a.guard.Posts, a.guard.Sandboxed = []string{livePath + "capture"}, []string{livePath + "pprof/"}
	})
	return &a.guard
}

// listenUnix makes a socket file that nobody else may use.
func listenUnix(path string) (net.Listener, error) {
	if path == "" || path[0] == '@' {
		return nil, fmt.Errorf("observe: unix:%s is not a file, so no permissions would protect it; use unix:PATH", path)
	}
	ln, err := sys.ListenUnix(path, 0o600)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("observe: %s is there already; remove it if no process serves it any more: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	return ln, nil
}

// Serve serves ln until Shutdown, and then returns http.ErrServerClosed; ln is
// closed in every case. It refuses what Listen refuses. It may be called for
// several listeners at once.
func (a *Admin) Serve(ln net.Listener) error {
	a.init()
	if err := a.gate().MayServe(ln.Addr()); err != nil {
		ln.Close()
		return err
	}
	return a.server.Serve(ln)
}

// Shutdown stops listening, ends captures early and waits for the answers
// under way. When ctx ends first, the connections that are left are cut off.
func (a *Admin) Shutdown(ctx context.Context) error {
	a.init()
	err := a.server.Shutdown(ctx)
	if err != nil {
		a.server.Close()
		return fmt.Errorf("observe: shutdown: %w", err)
	}
	return nil
}

// serveHealth answers whether the server wants more connections.
func (a *Admin) serveHealth(w http.ResponseWriter, _ *http.Request) {
	text(w)
	if a.Ready != nil && !a.Ready() {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "draining")
		return
	}
	fmt.Fprintln(w, "ok")
}

func text(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
}
