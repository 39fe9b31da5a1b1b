// Package serving implements hone serve: a framed server with one of a few services, or
// an HTTP or WebSocket server, with its listeners, limits by name, admin side and
// graceful drain.
package serving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/handover"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/tlsfiles"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/spec"
	"github.com/hone-go/hone/websocket"
)

// Time limits of the shutdown.
const (
	DrainTime  = 25 * time.Second // for a drain, after Limits.SpreadTime
	AdminTime  = 2 * time.Second  // for the admin side's last responses
	settleTime = time.Second      // between the last accepted connection and a drain, once another process accepts
	proofTime  = 5 * time.Second  // until a new process has accepted a connection
)

// Options are the values of hone serve's flags.
type Options struct {
	Addr, Admin, TokenFile string
	Upgrade                string
	Cert, Key, ClientCA    string
	TicketKeys             string
	Mode                   Mode
	Engine                 EngineFlag
	Service, Logs          *spec.Choice
	Limits                 limitFlag
	NoHTTP2                bool
	GiveWay                bool // idle connections, not of HTTP, whose always do
	Proxies, AdminHosts    []string
	JSON, UntilEOF, Timed  bool
	Version                string // of this build
	Given                  func(flag string) bool
}

// serving is a server with its admin side.
type serving struct {
	server  server
	web     *http1.Server       // server, if it speaks HTTP; else nil
	sockets *websocket.Upgrader // of SocketService; else nil
	admin   *observe.Admin
	ready   atomic.Bool
	log     *slog.Logger
	public  net.Listener
	private net.Listener     // nil: off
	upgrade handover.Sockets // both, for the process that replaces this one
	ended   chan error       // receives from either side when it ends
	sides   sync.WaitGroup
}

// server is a framed.Server or a webServer.
type server interface {
	Serve(ln net.Listener) error
	Shutdown(ctx context.Context) error
	Stats() engine.Stats
}

// Run serves until ctx ends, then drains.
func (f *Options) Run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	sys.OutliveReaders()
	if passed, ours := passedSockets(); passed > 0 && ours && !f.Given("addr") {
		f.Addr = "fd:3"
	}
	s, err := f.prepare(stderr)
	if err != nil {
		return err
	}
	taken, err := s.upgrade.Take(ctx)
	if err != nil {
		return exit.Failedf("serve: --upgrade: %w", err)
	}
	defer s.upgrade.Close()
	if err := f.open(ctx, s); err != nil {
		return err
	}
	if err := f.Engine.engine.CheckDescriptors(AdminDescriptors); err != nil {
		s.close()
		return exit.Failedf("serve: %w", err)
	}
	if f.UntilEOF {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		go func() {
			io.Copy(io.Discard, stdin) // any end of standard input counts, whatever its cause
			cancel()
		}()
	}
	s.start()
	if err := f.begin(ctx, s, taken, stdout); err != nil {
		s.stop(taken)
		return err
	}
	select {
	case <-s.upgrade.Yielded():
		s.log.Info("replaced", "settling", settleTime.String())
		s.close()
		select {
		case <-time.After(settleTime): // clients that were just accepted send their first request
		case <-ctx.Done():
		}
		return s.stop(true)
	case <-ctx.Done():
		s.upgrade.Close()
		return s.stop(true)
	case err := <-s.ended:
		s.stop(false)
		return exit.Failedf("serve: %w; see the log above", err)
	}
}

// begin makes this process the one that serves, and says so.
func (f *Options) begin(ctx context.Context, s *serving, taken bool, stdout io.Writer) error {
	if taken {
		if err := s.proveAccepting(ctx); err != nil {
			return exit.Failedf("serve: %w; the running process serves on", err)
		}
	}
	if err := s.upgrade.Ready(ctx); err != nil {
		return exit.Failedf("serve: --upgrade: %w", err)
	}
	return f.announce(s, stdout)
}

// proveAccepting waits until this process has accepted a connection: its own, if no client comes.
func (s *serving) proveAccepting(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	for s.server.Stats().Accepted == 0 {
		at := s.public.Addr()
		conn, err := new(net.Dialer).DialContext(ctx, at.Network(), at.String())
		if err != nil {
			return fmt.Errorf("%s cannot be reached: %w", at, err)
		}
		select {
		case <-time.After(5 * time.Millisecond): // the old process may accept it
		case err = <-s.ended:
		}
		if conn.Close(); err != nil {
			return err
		}
	}
	return nil
}

// prepare builds the server and its admin side.
func (f *Options) prepare(stderr io.Writer) (*serving, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	proxies, err := f.trusted()
	if err != nil {
		return nil, err
	}
	token, err := session.TokenOf("serve", "admin-token-file", f.TokenFile)
	if err != nil {
		return nil, err
	}
	s := &serving{log: slog.New(slog.NewTextHandler(stderr, nil)), ended: make(chan error, 2)}
	if f.Logs.Value == "json" {
		s.log = slog.New(slog.NewJSONHandler(stderr, nil))
	}
	if f.Upgrade != "" && f.Limits.limits.SpreadTime == 0 {
		f.Limits.limits.SpreadTime = settleTime // so that busy connections of HTTP end with an answer
	}
	s.upgrade.Path, s.upgrade.Logger = strings.TrimPrefix(f.Upgrade, "unix:"), s.log
	s.admin = &observe.Admin{
		Ready: s.ready.Load, Token: token, Hosts: f.AdminHosts, Logger: s.log,
		Info: observe.Info{Service: f.Service.Value, Version: f.Version},
	}
	if f.Timed && f.Admin != "off" {
		s.admin.Latency = new(observe.Latency)
	}
	switch f.Service.Value {
	case WebService, SocketService:
		err = f.prepareWeb(s, proxies)
	default:
		err = f.prepareFrames(s, proxies)
	}
	if err != nil {
		return nil, err
	}
	s.admin.Stats = s.server.Stats
	return s, nil
}

// prepareFrames builds the server of a framed service.
func (f *Options) prepareFrames(s *serving, proxies []netip.Prefix) error {
	handler := service(f.Service.Value)
	if s.admin.Latency != nil {
		handler = s.admin.Latency.Wrap(handler)
	}
	s.server = &framed.Server{
		Handler: handler, Engine: f.Engine.engine,
		Limits: f.Limits.limits, TrustedProxies: proxies, GiveWay: f.GiveWay, Logger: s.log,
	}
	return nil
}

// prepareWeb builds the server of the services http and ws.
func (f *Options) prepareWeb(s *serving, proxies []netip.Prefix) error {
	var handler http.Handler
	switch {
	case f.Service.Value == SocketService:
		handler = s.socketHandler(f.GiveWay)
	case s.admin.Latency != nil:
		handler = s.admin.Latency.WrapHTTP(webHandler())
	default:
		handler = webHandler()
	}
	s.web = &http1.Server{
		Handler: handler, Engine: f.Engine.engine, Limits: f.Limits.limits, TrustedProxies: proxies, Logger: s.log, Std: new(http.Server),
		NoHTTP2: f.NoHTTP2,
	}
	s.admin.HTTP = s.web.Stats
	s.server = webServer{s.web}
	return nil
}

// serve serves the service on its listener.
func (s *serving) serve() error {
	if s.web != nil && s.web.Std.TLSConfig != nil {
		return s.web.ServeTLS(s.public, "", "")
	}
	return s.server.Serve(s.public)
}

// trusted parses --trust-proxy.
func (f *Options) trusted() ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, text := range f.Proxies {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, exit.Usagef("serve: --trust-proxy %q is not an address range; write it as in 10.0.0.0/8 or 192.0.2.1/32", text)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

// check refuses flags that would have no effect, and names that no Host header can have.
func (f *Options) check() error {
	switch {
	case f.Given("socket-mode") && !strings.HasPrefix(f.Addr, "unix:"):
		return exit.Usagef("serve: --socket-mode is for a socket file, and --addr is %s; give --addr unix:PATH, or leave it out", f.Addr)
	case (f.Cert == "") != (f.Key == ""):
		return exit.Usagef("serve: --cert and --key go together; give both, or neither for plain TCP")
	case f.TicketKeys != "" && f.Cert == "":
		return exit.Usagef("serve: --ticket-keys needs TLS; give --cert and --key as well")
	case f.ClientCA != "" && f.Cert == "":
		return exit.Usagef("serve: --client-ca needs TLS; give --cert and --key as well")
	case f.Upgrade != "" && !strings.HasPrefix(f.Upgrade, "unix:/"):
		return exit.Usagef("serve: --upgrade %q is not the path of a socket; write it as in unix:/run/hone/upgrade", f.Upgrade)
	case len(f.AdminHosts) > 0 && f.Admin == "off":
		return exit.Usagef("serve: --admin-host needs the admin side; remove --admin off")
	case f.GiveWay && f.Service.Value == WebService:
		return exit.Usagef("serve: --give-way is for framed services and ws: idle connections of http always give way; leave it out")
	}
	for _, name := range f.AdminHosts {
		if name == "" || strings.ContainsAny(name, "/*:, \t") {
			return exit.Usagef("serve: --admin-host %q is not a host name; give one name without port or wildcard, as in hone.internal, and repeat the flag for more", name)
		}
	}
	return nil
}

// open opens both listeners or, on an error, neither.
func (f *Options) open(ctx context.Context, s *serving) error {
	ln, err := s.upgrade.Listen(f.Addr, func() (net.Listener, error) { return listen(ctx, f.Addr, fs.FileMode(f.Mode)) })
	if err != nil {
		return err
	}
	config, err := tlsConfig(tlsfiles.Server{Cert: f.Cert, Key: f.Key, ClientCA: f.ClientCA, TicketKeys: f.TicketKeys, Logger: s.log})
	if err != nil {
		ln.Close()
		return err
	}
	s.public = ln
	switch {
	case s.web != nil:
		s.web.Std.TLSConfig = config
	case config != nil:
		s.public = engine.NewTLSListener(ln, config)
	}
	if f.Admin == "off" {
		return nil
	}
	s.private, err = s.upgrade.Listen("admin "+f.Admin, func() (net.Listener, error) { return s.admin.Listen(f.Admin) })
	_, _, unreadable := net.SplitHostPort(f.Admin)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, observe.ErrNoToken):
		err = exit.Failedf("serve: --admin %s: %w (--admin-token-file)", f.Admin, observe.ErrNoToken)
	case strings.HasPrefix(f.Admin, "unix:"):
		err = exit.Failedf("serve: --admin %s: %w", f.Admin, err)
	case unreadable != nil:
		err = exit.Usagef("serve: --admin %q is neither HOST:PORT nor unix:PATH nor off; write it as in 127.0.0.1:7070", f.Admin)
	default:
		err = cannotListen("--admin", f.Admin, err)
	}
	ln.Close()
	return err
}

// AdminDescriptors is how many descriptors the admin side needs to be reachable.
const AdminDescriptors = 1

// close closes the listeners of a server that does not start, or has been replaced.
func (s *serving) close() {
	s.public.Close()
	if s.private != nil {
		s.private.Close()
	}
}

// start serves on both listeners.
func (s *serving) start() {
	s.ready.Store(true)
	s.sides.Go(func() {
		if err := s.serve(); !errors.Is(err, framed.ErrServerClosed) && !errors.Is(err, http.ErrServerClosed) {
			s.ended <- err
		}
	})
	if s.private == nil {
		return
	}
	s.sides.Go(func() {
		if err := s.admin.Serve(s.private); !errors.Is(err, http.ErrServerClosed) {
			s.ended <- err
		}
	})
}

// Ready is the output of --json.
type Ready struct {
	Addr   string  `json:"addr"`
	Admin  *string `json:"admin"` // null: off
	Engine string  `json:"engine"`
	PID    int     `json:"pid"`
}

// announce logs that the server is ready, and its limits.
func (f *Options) announce(s *serving, stdout io.Writer) error {
	line := Ready{Addr: AddressOf(s.public), Engine: f.Engine.String(), PID: os.Getpid()}
	admin := "off"
	if s.private != nil {
		admin = AddressOf(s.private)
		line.Admin = &admin
	}
	s.log.Info("limits", effective(f.Limits.limits)...)
	s.log.Info("serving", "addr", line.Addr, "tls", f.Cert != "", "client_certificates", f.ClientCA != "", "engine", line.Engine, "service", f.Service.Value,
		"admin", admin, "pid", line.PID)
	if !f.JSON {
		return nil
	}
	return exit.FailedIf(json.NewEncoder(stdout).Encode(line))
}

// drainPatience returns a context that bounds a drain: until a second signal, at most limit.
// Without a drain it has ended already.
func drainPatience(drain bool, limit time.Duration) (context.Context, context.CancelFunc) {
	// The first signal has been or is being delivered; a signal received now is another.
	signalled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	patience, cancel := context.WithTimeout(signalled, limit)
	if !drain {
		cancel()
	}
	return patience, func() {
		cancel()
		stop()
	}
}

// stop drains and reports how that went, or closes everything at once.
func (s *serving) stop(drain bool) error {
	s.ready.Store(false)
	before := s.server.Stats()
	limit := DrainTime + before.Limits.SpreadTime
	patience, done := drainPatience(drain, limit)
	defer done()
	if drain {
		s.log.Info("draining", "patience", limit.String(), "spread", before.Limits.SpreadTime.String(), "open", before.Open)
	}
	err := s.server.Shutdown(patience)
	if s.sockets != nil {
		err = errors.Join(err, s.sockets.Shutdown(patience))
	}
	drained := s.server.Stats().Drained
	s.log.Info("drained", "clean", drained.Clean, "forced", drained.Forced, "owed", drained.Owed, "stuck", drained.Stuck, "idle", drained.Idle)
	last, cancel := context.WithTimeout(context.Background(), AdminTime)
	defer cancel()
	if s.private != nil {
		s.admin.Shutdown(last) // closes remaining connections; its error changes nothing
	}
	s.sides.Wait()
	if err != nil {
		return exit.Failedf("serve: the drain closed %d open connections (%w); wait longer than %v before a second signal, or find out why they are slow",
			drained.Forced, err, limit)
	}
	return nil
}
