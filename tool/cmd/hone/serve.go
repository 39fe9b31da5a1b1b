package main

import (
	"context"
	"encoding/json"
	"errors"
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

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/tlsfiles"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/observe"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/spec"
	"github.com/hone-go/hone/wire"
)

const (
	usualAddr  = "127.0.0.1:7000"
	usualAdmin = "127.0.0.1:7070"

	drainTime = 25 * time.Second // for a drain
	adminTime = 2 * time.Second  // for the admin side's last answers
)

// serveFlags are serve's, as they were given.
type serveFlags struct {
	addr, admin, tokenFile string
	cert, key, clientCA    string
	mode                   modeFlag
	engine                 engineFlag
	service, dialect, logs *spec.Choice
	limits                 limitFlag
	proxies, adminHosts    []string
	json, untilEOF, timed  bool
}

func newServe() *cobra.Command {
	f := &serveFlags{mode: 0o600}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve framed requests until a signal",
		Long: `Serve framed requests until SIGTERM or SIGINT, which drain: what was sent is
answered within 25 s, then the rest is cut off. A second signal does not wait.

Engines (parked and events serve TLS as buffered does):

` + engineList() + `
Services: submit answers nothing, upper the content in upper case, faults what
the content says: sleep 50ms, burn 50ms, late 5ms, late 5ms 60000 (with so many
bytes), reply 60000, push 3, push 3 6000 (of so many bytes each), panic.

Limits (` + strings.Join(limitNames(), ", ") + `)
are all on; the log begins with those in effect. Sizes take KiB and MiB, times
ms, s and m, and off switches a limit off.

A unix socket is open to its owner alone (mode 0600), whatever the umask is. With
--socket-mode 0660 its group may connect as well: a reverse proxy, for example.
The admin side's socket is always 0600.

New certificates, keys and authorities in the files of --cert, --key and --client-ca
are used within a second, without a restart.

A socket of systemd's (LISTEN_FDS) is used when --addr is absent or fd:3.`,
		Example: `  hone serve
  hone serve --engine direct --addr :7000 --limit conns-per-address=100
  hone serve --service upper --addr unix:/run/hone.sock --admin off
  hone serve --addr unix:/run/hone/hone.sock --socket-mode 0660
  hone serve --cert server.pem --key server-key.pem
  hone serve --cert server.pem --key server-key.pem --client-ca clients.pem
  hone serve --json --addr 127.0.0.1:0 --admin 127.0.0.1:0`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if passed, ours := passedSockets(); passed > 0 && ours && !cmd.Flags().Changed("addr") {
				f.addr = "fd:3"
			}
			if err := f.mode.check(cmd, f.addr); err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.addr, "addr", usualAddr, "serve on `HOST:PORT`, unix:PATH or fd:N; port 0 picks a free one")
	f.mode.add(cmd)
	flags.StringVar(&f.admin, "admin", usualAdmin, "metrics, profiles and health on `HOST:PORT`, unix:PATH, or off")
	flags.StringVar(&f.tokenFile, "admin-token-file", "", "`FILE` with the token that opens the admin side to other machines")
	flags.StringArrayVar(&f.adminHosts, "admin-host", nil, "allow requests to the admin side under this `NAME`, as in hone.internal; repeat for more")
	f.engine.add(cmd)
	f.service = spec.AddChoice(cmd, "service", "submit", "what requests do", serviceNames()...)
	f.dialect = spec.AddChoice(cmd, "dialect", "standard", "what is spoken on the wire", "standard", "demo")
	flags.Var(&f.limits, "limit", "set a limit; repeat for more")
	flags.StringSliceVar(&f.proxies, "trust-proxy", nil, "expect PROXY headers from these addresses, a `CIDR`; repeat for more")
	flags.StringVar(&f.cert, "cert", "", "speak TLS with the certificate in this PEM `FILE`")
	flags.StringVar(&f.key, "key", "", "the certificate's key, a PEM `FILE`")
	flags.StringVar(&f.clientCA, "client-ca", "", "serve only clients with a certificate of an authority in this PEM `FILE`")
	f.logs = spec.AddChoice(cmd, "log-format", "text", "how the log on standard error is written", "text", "json")
	flags.BoolVar(&f.timed, "handler-times", true, "time one request in 128, for the admin side: some 15 ns a request")
	flags.BoolVar(&f.json, "json", false, "print one line of JSON when ready: addr, admin, engine, pid")
	flags.BoolVar(&f.untilEOF, "until-eof", false, "drain also when standard input ends, for a server that must not outlive its parent")
	return cmd
}

// serving is a server with its admin side.
type serving struct {
	server  *framed.Server
	admin   *observe.Admin
	live    *page.Page
	ready   atomic.Bool
	log     *slog.Logger
	public  net.Listener
	private net.Listener // nil: off
	ended   chan error   // from both sides, when one of them ends
	sides   sync.WaitGroup
}

// run serves until ctx ends, then drains.
func (f *serveFlags) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	s, err := f.prepare(stderr)
	if err != nil {
		return err
	}
	if err := f.open(ctx, s); err != nil {
		return err
	}
	if f.untilEOF {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		go func() {
			io.Copy(io.Discard, stdin) // an end is an end, whatever its cause
			cancel()
		}()
	}
	s.start()
	if err := f.announce(s, stdout); err != nil {
		s.stop(false)
		return err
	}
	select {
	case <-ctx.Done():
		return s.stop(true)
	case err := <-s.ended:
		s.stop(false)
		return exit.Failedf("serve: %w; see the log above", err)
	}
}

// prepare makes the two servers of the flags.
func (f *serveFlags) prepare(stderr io.Writer) (*serving, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, exit.Usagef("serve: --cert and --key belong together; give both, or neither for plain TCP")
	}
	if f.clientCA != "" && f.cert == "" {
		return nil, exit.Usagef("serve: --client-ca needs TLS; give --cert and --key as well")
	}
	proxies, err := f.trusted()
	if err != nil {
		return nil, err
	}
	token, err := f.token()
	if err != nil {
		return nil, err
	}
	if err := f.checkAdminHosts(); err != nil {
		return nil, err
	}
	var dialect wire.Dialect
	if err := dialect.UnmarshalText([]byte(f.dialect.Value)); err != nil {
		return nil, exit.Usagef("serve: --dialect: %w", err)
	}
	s := &serving{log: slog.New(slog.NewTextHandler(stderr, nil)), ended: make(chan error, 2)}
	if f.logs.Value == "json" {
		s.log = slog.New(slog.NewJSONHandler(stderr, nil))
	}
	s.server = &framed.Server{
		Handler: service(f.service.Value), Dialect: dialect, Engine: f.engine.engine,
		Limits: f.limits.limits, TrustedProxies: proxies, Logger: s.log,
	}
	var latency *observe.Latency
	if f.timed && f.admin != "off" {
		latency = new(observe.Latency)
		s.server.Handler = latency.Wrap(s.server.Handler)
	}
	s.admin = &observe.Admin{
		Latency: latency,
		Stats:   s.server.Stats, Ready: s.ready.Load, Token: token, Hosts: f.adminHosts, Logger: s.log,
		Info: observe.Info{Service: f.service.Value, Dialect: f.dialect.Value, Version: buildVersion().Version},
	}
	s.live = serverPage(s.admin)
	return s, nil
}

// trusted reads --trust-proxy.
func (f *serveFlags) trusted() ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, text := range f.proxies {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, exit.Usagef("serve: --trust-proxy %q is no address range; write it as in 10.0.0.0/8 or 192.0.2.1/32", text)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

// token reads --admin-token-file.
func (f *serveFlags) token() (string, error) {
	token, err := session.ReadToken(f.tokenFile)
	if err != nil {
		return "", exit.Failedf("serve: --admin-token-file: %w; %s", err, session.NewToken(f.tokenFile))
	}
	return token, nil
}

// checkAdminHosts refuses what no Host header can be.
func (f *serveFlags) checkAdminHosts() error {
	if len(f.adminHosts) > 0 && f.admin == "off" {
		return exit.Usagef("serve: --admin-host needs the admin side, which --admin off switches off")
	}
	for _, name := range f.adminHosts {
		if name == "" || strings.ContainsAny(name, "/*:, \t") {
			return exit.Usagef("serve: --admin-host %q is no host name; give one name without port or wildcard, as in hone.internal, and repeat the flag for more", name)
		}
	}
	return nil
}

// open opens both listeners, or none.
func (f *serveFlags) open(ctx context.Context, s *serving) error {
	ln, err := listen(ctx, f.addr, fs.FileMode(f.mode))
	if err != nil {
		return err
	}
	if s.public, err = withTLS(ln, tlsfiles.Server{Cert: f.cert, Key: f.key, ClientCA: f.clientCA, Logger: s.log}); err != nil {
		ln.Close()
		return err
	}
	if f.admin == "off" {
		return nil
	}
	s.private, err = s.admin.Listen(f.admin)
	_, _, unreadable := net.SplitHostPort(f.admin)
	switch {
	case err == nil:
		s.live.Profiles = ownProfiles(s.private.Addr(), s.admin.Token)
		s.admin.Page = s.live.Handler()
		return nil
	case errors.Is(err, observe.ErrNoToken):
		err = exit.Failedf("serve: --admin %s: %w (--admin-token-file)", f.admin, observe.ErrNoToken)
	case strings.HasPrefix(f.admin, "unix:"):
		err = exit.Failedf("serve: --admin %s: %w", f.admin, err)
	case unreadable != nil:
		err = exit.Usagef("serve: --admin %q is neither HOST:PORT nor unix:PATH nor off; write it as in 127.0.0.1:7070", f.admin)
	default:
		err = cannotListen("--admin", f.admin, err)
	}
	ln.Close()
	return err
}

// start serves on both listeners.
func (s *serving) start() {
	s.ready.Store(true)
	s.sides.Go(func() {
		if err := s.server.Serve(s.public); !errors.Is(err, framed.ErrServerClosed) {
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

// readiness is the one line of --json.
type readiness struct {
	Addr   string  `json:"addr"`
	Admin  *string `json:"admin"` // null: off
	Engine string  `json:"engine"`
	PID    int     `json:"pid"`
}

// announce says that the server is there, and what protects it.
func (f *serveFlags) announce(s *serving, stdout io.Writer) error {
	line := readiness{Addr: addressOf(s.public), Engine: f.engine.String(), PID: os.Getpid()}
	admin := "off"
	if s.private != nil {
		admin = addressOf(s.private)
		line.Admin = &admin
	}
	s.log.Info("limits", effective(f.limits.limits)...)
	s.log.Info("serving", "addr", line.Addr, "tls", f.cert != "", "client_certificates", f.clientCA != "", "engine", line.Engine, "service", f.service.Value,
		"dialect", f.dialect.Value, "admin", admin, "pid", line.PID)
	if !f.json {
		return nil
	}
	return exit.FailedIf(json.NewEncoder(stdout).Encode(line))
}

// drainPatience is how long a drain may take: until another signal comes, drainTime at
// the most. Without a drain it is over.
func drainPatience(drain bool) (context.Context, context.CancelFunc) {
	// The first signal is being delivered or has been; what comes now is another.
	signalled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	patience, cancel := context.WithTimeout(signalled, drainTime)
	if !drain {
		cancel()
	}
	return patience, func() {
		cancel()
		stop()
	}
}

// stop drains and says how that went, or just ends everything.
func (s *serving) stop(drain bool) error {
	s.ready.Store(false)
	patience, done := drainPatience(drain)
	defer done()
	if drain {
		s.log.Info("draining", "patience", drainTime.String(), "open", s.server.Stats().Open)
	}
	err := s.server.Shutdown(patience)
	drained := s.server.Stats().Drained
	s.log.Info("drained", "clean", drained.Clean, "forced", drained.Forced, "owed", drained.Owed, "stuck", drained.Stuck)
	last, cancel := context.WithTimeout(context.Background(), adminTime)
	defer cancel()
	if s.private != nil {
		s.live.Close()
		s.admin.Shutdown(last) // it cuts off what is left: nothing to be done about it
	}
	s.sides.Wait()
	if err != nil {
		return exit.Failedf("serve: %d connections were cut off (%w); give them longer than %v before a second signal, or see why they are slow",
			drained.Forced, err, drainTime)
	}
	return nil
}
