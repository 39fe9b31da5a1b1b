// Command avatar serves people's initials as pictures over HTTP.
//
//	go run ./articles/cmd/avatar
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/articles/avatar"
	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/tlsfiles"
	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/serving"
	"github.com/hone-go/hone/tool/spec"
)

const (
	usualAddr  = "127.0.0.1:8081"
	usualAdmin = "127.0.0.1:8082"
)

func main() { command.Main(newRoot()) }

// options holds the parsed flags.
type options struct {
	addr, admin, cert, key, log string
	fonts                       []string
	cache                       spec.Size
	sample                      int
	nethttp                     bool
	logs                        *spec.Choice
	json                        bool
}

// engineName returns the name of the engine, or net/http.
func (f *options) engineName() string {
	if f.nethttp {
		return "net/http"
	}
	return engine.Engine{}.Name()
}

func newRoot() *cobra.Command {
	f := &options{cache: 64 << 20}
	cmd := &cobra.Command{
		Use:   "avatar",
		Short: "Serve avatars with people's initials over HTTP until a signal",
		Long: `Serve avatars with people's initials over HTTP until SIGTERM or SIGINT, which
drain: requests in flight get 25 s to finish. A second signal ends it at once.

  /v1/NAME.png, .svg    hone's own API; size, shape, weight, background, color, letters, han
  /NAME?size=           as initials-avatar
  /avatar/HASH?s=&d=    as Gravatar and Libravatar
  /api/?name=           as ui-avatars
  /9.x/initials/svg     as DiceBear
  /                     a page to try them on

Event loops answer from the cache. New pictures are drawn outside the loops, on
half of the CPUs. SIGHUP reopens the file of --log, for logrotate; without a file
it ends the service like SIGTERM.

Latin, Greek and Cyrillic letters are built in; Han characters come from an
installed font. --font adds fonts for other scripts; articles/avatar/README.md lists free
ones for Korean, Hebrew, Arabic, Devanagari and Thai. A name in a script that no
font covers gets a pattern.`,
		Example: `  avatar
  avatar --addr :8080 --log access.log --log-sample 100
  avatar --font NotoSansHebrew-Regular.ttf --font NotoSansThai-Regular.ttf
  avatar --font NotoSansSC-Regular.otf --cache 256MiB
  avatar --cert server.pem --key server-key.pem
  avatar --json --addr 127.0.0.1:0 --admin 127.0.0.1:0`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.addr, "addr", usualAddr, "serve on `HOST:PORT`; port 0 picks a free one")
	flags.StringVar(&f.admin, "admin", usualAdmin, "metrics, profiles and health on `HOST:PORT`, unix:PATH, or off")
	flags.BoolVar(&f.nethttp, "net-http", false, "serve with net/http instead of http1, to compare")
	flags.StringArrayVar(&f.fonts, "font", nil, "add the TrueType or OpenType font in this `FILE`, up to 64 MiB; repeat for up to 16")
	flags.Var(&f.cache, "cache", "memory limit of the picture cache")
	flags.StringVar(&f.log, "log", "off", "append one line of JSON per request to `FILE`, - for standard output, or off")
	flags.IntVar(&f.sample, "log-sample", 1, "log one in `N` requests, and every error and slow request")
	flags.StringVar(&f.cert, "cert", "", "speak TLS and HTTP/2 with the certificate in this PEM `FILE`")
	flags.StringVar(&f.key, "key", "", "the certificate's key, a PEM `FILE`")
	f.logs = spec.AddChoice(cmd, "log-format", "text", "format of the log on standard error", "text", "json")
	flags.BoolVar(&f.json, "json", false, "print one line of JSON when ready: addr, admin, engine, pid")
	return cmd
}

// gallery is a running avatar service with its admin side.
type gallery struct {
	server  *avatar.Server
	access  *avatar.AccessLog // nil: off
	admin   *observe.Admin
	log     *slog.Logger
	ready   atomic.Bool
	public  net.Listener
	private net.Listener    // nil: off
	file    *avatar.LogFile // of the access log; nil: no log file
	ended   chan error
	sides   sync.WaitGroup
}

func (f *options) run(ctx context.Context, stdout, stderr io.Writer) error {
	sys.OutliveReaders()
	g, err := f.prepare(stdout, stderr)
	if err != nil {
		return err
	}
	if g.file != nil {
		defer g.file.Close()
	}
	if err := f.open(ctx, g); err != nil {
		return err
	}
	if err := (engine.Engine{}).CheckDescriptors(serving.AdminDescriptors); err != nil {
		g.close()
		return exit.Failedf("avatar: %w", err)
	}
	g.server.Service.Limits.UseMemory()
	g.start()
	defer g.reopenOnHangup()()
	if err := f.announce(g, stdout); err != nil {
		g.stop(false)
		return err
	}
	select {
	case <-ctx.Done():
		return g.stop(true)
	case err := <-g.ended:
		g.stop(false)
		return exit.Failedf("avatar: %w; see the log above", err)
	}
}

// prepare sets up everything that needs no listener.
func (f *options) prepare(stdout, stderr io.Writer) (*gallery, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, exit.Usagef("avatar: --cert and --key go together; give both, or neither for plain HTTP")
	}
	if f.sample < 1 {
		return nil, exit.Usagef("avatar: --log-sample %d: use 1 or more", f.sample)
	}
	if f.cache < 1 {
		return nil, exit.Usagef("avatar: --cache 0: use a size, as in 64MiB")
	}
	if f.log == "-" && f.json {
		return nil, exit.Usagef("avatar: --log - and --json both write to standard output; use --log FILE")
	}
	g := &gallery{log: slog.New(slog.NewTextHandler(stderr, nil)), ended: make(chan error, 2)}
	if f.logs.Value == "json" {
		g.log = slog.New(slog.NewJSONHandler(stderr, nil))
	}
	fonts, err := avatar.OpenFonts(avatar.FontOptions{Files: f.fonts})
	if err != nil {
		return nil, &exit.Error{Code: exit.Failed, Err: err}
	}
	var secure *tls.Config
	if f.cert != "" {
		base := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
		if secure, err = (tlsfiles.Server{Cert: f.cert, Key: f.key, Base: base, Logger: g.log}).Config(); err != nil {
			return nil, exit.Failedf("avatar: --cert %s --key %s: %w; give a certificate and its key, both PEM", f.cert, f.key, err)
		}
	}
	if err := f.openLog(g, stdout); err != nil {
		return nil, err
	}
	g.server = &avatar.Server{
		Service: &avatar.Service{Fonts: fonts, Limits: avatar.Limits{CacheBytes: int64(f.cache)}, Log: g.access},
		NetHTTP: f.nethttp, TLS: secure, Logger: g.log,
	}
	g.admin = &observe.Admin{
		Stats: g.stats, Ready: g.ready.Load, Logger: g.log,
		Info:   observe.Info{Service: "avatar", Dialect: "http", Version: command.BuildOf("").Version},
		Caches: map[string]func() observe.Cache{"pictures": g.pictures, "masks": g.masks},
	}
	if !f.nethttp {
		g.admin.HTTP = g.server.Stats
	}
	return g, nil
}

func (f *options) openLog(g *gallery, stdout io.Writer) error {
	switch f.log {
	case "off":
		return nil
	case "-":
		g.access = &avatar.AccessLog{To: stdout, Sample: f.sample}
		return nil
	}
	file, err := avatar.OpenLogFile(f.log)
	if err != nil {
		return exit.Failedf("avatar: --log: %w; use a writable file", err)
	}
	g.file, g.access = file, &avatar.AccessLog{To: file, Sample: f.sample}
	return nil
}

// stats returns the service's figures in the form that every hone server reports.
func (g *gallery) stats() engine.Stats {
	st := g.server.Stats().Stats
	st.Panics = max(st.Panics, g.server.Service.Stats().Failed)
	return st
}

func (g *gallery) pictures() observe.Cache { return cacheOf(g.server.Service.Stats().Pictures) }
func (g *gallery) masks() observe.Cache    { return cacheOf(g.server.Service.Stats().Masks) }

func cacheOf(c avatar.CacheStats) observe.Cache {
	return observe.Cache{Hits: c.Hits, Misses: c.Misses, Evicted: c.Evicted, Entries: c.Entries, Bytes: c.Bytes}
}

// open opens both listeners or, on an error, neither.
func (f *options) open(ctx context.Context, g *gallery) error {
	if _, _, err := net.SplitHostPort(f.addr); err != nil {
		return exit.Usagef("avatar: --addr %q is not HOST:PORT; write it as in %s", f.addr, usualAddr)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", f.addr)
	if err != nil {
		return exit.Failedf("avatar: --addr %s: %w; stop the process that listens there, or use another address (port 0 picks a free one)", f.addr, err)
	}
	g.public = ln
	if f.admin == "off" {
		return nil
	}
	if g.private, err = g.admin.Listen(f.admin); err != nil {
		ln.Close()
		if errors.Is(err, observe.ErrNoToken) {
			return exit.Failedf("avatar: --admin %s: other machines can reach this address; listen on 127.0.0.1:PORT or unix:PATH", f.admin)
		}
		return exit.Failedf("avatar: --admin %s: %w; use another address, as in %s, or off", f.admin, err, usualAdmin)
	}
	return nil
}

// close closes the listeners of a service that does not start.
func (g *gallery) close() {
	g.public.Close()
	if g.private != nil {
		g.private.Close()
	}
}

func (g *gallery) start() {
	g.ready.Store(true)
	g.sides.Go(func() {
		if err := g.server.Serve(g.public); !errors.Is(err, http.ErrServerClosed) {
			g.ended <- err
		}
	})
	if g.private == nil {
		return
	}
	g.sides.Go(func() {
		if err := g.admin.Serve(g.private); !errors.Is(err, http.ErrServerClosed) {
			g.ended <- err
		}
	})
}

// reopenOnHangup reopens the access log at each SIGHUP until stop is called.
func (g *gallery) reopenOnHangup() (stop func()) {
	if g.file == nil {
		return func() {}
	}
	hangups, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Reset(syscall.SIGHUP) // SIGHUP ends all other commands
	signal.Notify(hangups, syscall.SIGHUP)
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-hangups:
				if err := g.file.Reopen(); err != nil {
					g.log.Error("cannot reopen the access log; it stays in its old file", "error", err)
				} else {
					g.log.Info("reopened the access log")
				}
			}
		}
	})
	return func() {
		signal.Stop(hangups)
		close(done)
		watching.Wait()
	}
}

// announce reports that the service is ready, and which fonts it lacks.
func (f *options) announce(g *gallery, stdout io.Writer) error {
	line := serving.Ready{Addr: serving.AddressOf(g.public), Engine: f.engineName(), PID: os.Getpid()}
	admin := "off"
	if g.private != nil {
		admin = serving.AddressOf(g.private)
		line.Admin = &admin
	}
	l := g.server.Service.Limits.OrDefaults()
	g.log.Info("limits", "name-bytes", l.NameBytes, "name-graphemes", l.NameGraphemes, "size", l.Size,
		"cache", figure.Size(int(l.CacheBytes)), "memory", figure.Size(int(l.Memory())), "renders", l.Renders, "waiting", l.Waiting, "render-wait", l.RenderWait.String(),
		"connections", l.Connections, "streams", l.Streams, "header", figure.Size(l.HeaderBytes), "header-time", l.HeaderTime.String(),
		"read-time", l.ReadTime.String(), "write-time", l.WriteTime.String(), "idle-time", l.IdleTime.String())
	han := g.server.Service.Fonts.Han()
	if han == "" {
		g.log.Warn("no font with Han characters: such names get a pattern; " + avatar.HanAdvice())
	}
	g.log.Info("serving", "addr", line.Addr, "tls", f.cert != "", "engine", line.Engine, "han", han, "log", f.log, "admin", admin, "pid", line.PID)
	if !f.json {
		return nil
	}
	return exit.FailedIf(json.NewEncoder(stdout).Encode(line))
}

// stop drains the service, or closes it at once.
func (g *gallery) stop(drain bool) error {
	g.ready.Store(false)
	patience, done := serving.DrainPatience(drain)
	defer done()
	if drain {
		g.log.Info("draining", "patience", serving.DrainTime.String(), "open", g.server.Stats().Open)
	}
	err := g.server.Shutdown(patience)
	g.server.Close() // closes the remaining connections; the caller could not act on the error
	g.server.Service.Close()
	last, cancel := context.WithTimeout(context.Background(), serving.AdminTime)
	defer cancel()
	if g.private != nil {
		g.admin.Shutdown(last)
	}
	g.sides.Wait()
	attrs := []any{"requests", g.server.Service.Stats().Requests}
	if g.access != nil {
		g.access.Close()
		st := g.access.Stats()
		attrs = append(attrs, "logged", st.Written, "skipped", st.Skipped, "dropped", st.Dropped, "failed", st.Failed)
	}
	g.log.Info("drained", attrs...)
	if err != nil {
		return exit.Failedf("avatar: open requests were aborted (%w); send the second signal later than %s after the first", err, serving.DrainTime.Round(time.Second))
	}
	return nil
}
