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
	"sync"
	"sync/atomic"
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
	addr, admin, cert, key string
	fonts                  []string
	cache                  spec.Size
	json                   bool
}

func newRoot() *cobra.Command {
	f := &options{cache: 64 << 20}
	cmd := &cobra.Command{
		Use:   "avatar",
		Short: "Serve avatars with people's initials over HTTP until a signal",
		Long: `Serve avatars with people's initials over HTTP until SIGTERM or SIGINT, which
drain: requests in flight get 25 s to finish. A second signal ends it at once.

  /avatar/NAME?size=    as the article's service
  /avatar/HASH?s=&d=    as Gravatar and Libravatar
  /api/?name=           as ui-avatars

Event loops answer from the cache. New pictures are drawn outside the loops, on
half of the CPUs.

Latin, Greek and Cyrillic letters are built in; Han characters come from an
installed font. --font adds fonts for other scripts. A name in a script that no
font covers gets its colour without letters.`,
		Example: `  avatar
  avatar --addr :8080
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
	flags.StringArrayVar(&f.fonts, "font", nil, "add the TrueType or OpenType font in this `FILE`, up to 64 MiB; repeat for up to 16")
	flags.Var(&f.cache, "cache", "memory limit of the picture cache")
	flags.StringVar(&f.cert, "cert", "", "speak TLS and HTTP/2 with the certificate in this PEM `FILE`")
	flags.StringVar(&f.key, "key", "", "the certificate's key, a PEM `FILE`")
	flags.BoolVar(&f.json, "json", false, "print one line of JSON when ready: addr, admin, engine, pid")
	return cmd
}

// gallery is a running avatar service with its admin side.
type gallery struct {
	service *avatar.Service
	server  *avatar.Server
	admin   *observe.Admin
	log     *slog.Logger
	ready   atomic.Bool
	public  net.Listener
	private net.Listener // nil: off
	ended   chan error
	sides   sync.WaitGroup
}

func (f *options) run(ctx context.Context, stdout, stderr io.Writer) error {
	sys.OutliveReaders()
	g, err := f.prepare(stderr)
	if err != nil {
		return err
	}
	if err := f.open(ctx, g); err != nil {
		return err
	}
	if err := (engine.Engine{}).CheckDescriptors(serving.AdminDescriptors); err != nil {
		g.public.Close()
		if g.private != nil {
			g.private.Close()
		}
		return exit.Failedf("avatar: %w", err)
	}
	g.service.Limits.UseMemory()
	g.ready.Store(true)
	g.start(g.public, g.server.Serve)
	if g.private != nil {
		g.start(g.private, g.admin.Serve)
	}
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
func (f *options) prepare(stderr io.Writer) (*gallery, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, exit.Usagef("avatar: --cert and --key go together; give both, or neither for plain HTTP")
	}
	if f.cache < 1 {
		return nil, exit.Usagef("avatar: --cache 0: use a size, as in 64MiB")
	}
	fonts, err := avatar.OpenFonts(avatar.FontOptions{Files: f.fonts})
	if err != nil {
		return nil, &exit.Error{Code: exit.Failed, Err: err}
	}
	g := &gallery{log: slog.New(slog.NewTextHandler(stderr, nil)), ended: make(chan error, 2)}
	g.service = &avatar.Service{Fonts: fonts, Limits: avatar.Limits{CacheBytes: int64(f.cache)}}
	g.server = &avatar.Server{Service: g.service, Logger: g.log}
	if f.cert != "" {
		base := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
		if g.server.TLS, err = (tlsfiles.Server{Cert: f.cert, Key: f.key, Base: base, Logger: g.log}).Config(); err != nil {
			return nil, exit.Failedf("avatar: --cert %s --key %s: %w; give a certificate and its key, both PEM", f.cert, f.key, err)
		}
	}
	g.admin = &observe.Admin{
		Stats: func() engine.Stats { return g.server.Stats().Stats }, HTTP: g.server.Stats, Ready: g.ready.Load, Logger: g.log,
		Info: observe.Info{Service: "avatar", Dialect: "http", Version: command.BuildOf("").Version},
		Caches: map[string]func() observe.Cache{"pictures": func() observe.Cache {
			st := g.service.Stats()
			return observe.Cache{Hits: st.Hits, Misses: st.Drawn, Evicted: st.Evicted, Entries: st.Pictures, Bytes: st.Bytes}
		}},
	}
	return g, nil
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

// start serves one of the two sides.
func (g *gallery) start(ln net.Listener, serve func(net.Listener) error) {
	g.sides.Go(func() {
		if err := serve(ln); !errors.Is(err, http.ErrServerClosed) {
			g.ended <- err
		}
	})
}

// announce reports that the service is ready, and which fonts it lacks.
func (f *options) announce(g *gallery, stdout io.Writer) error {
	line := serving.Ready{Addr: serving.AddressOf(g.public), Engine: engine.Engine{}.Name(), PID: os.Getpid()}
	admin := "off"
	if g.private != nil {
		admin = serving.AddressOf(g.private)
		line.Admin = &admin
	}
	l := g.service.Limits.OrDefaults()
	g.log.Info("limits", "name-bytes", l.NameBytes, "name-graphemes", l.NameGraphemes, "size", l.Size,
		"cache", figure.Size(int(l.CacheBytes)), "memory", figure.Size(int(l.Memory())), "renders", l.Renders, "waiting", l.Waiting, "render-wait", l.RenderWait.String(),
		"connections", l.Connections, "streams", l.Streams, "header", figure.Size(l.HeaderBytes), "header-time", l.HeaderTime.String(),
		"read-time", l.ReadTime.String(), "write-time", l.WriteTime.String(), "idle-time", l.IdleTime.String())
	han := g.service.Fonts.Han()
	if han == "" {
		g.log.Warn("no font with Han characters: such names get no letters; " + avatar.HanAdvice())
	}
	g.log.Info("serving", "addr", line.Addr, "tls", f.cert != "", "engine", line.Engine, "han", han, "admin", admin, "pid", line.PID)
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
	g.service.Close()
	last, cancel := context.WithTimeout(context.Background(), serving.AdminTime)
	defer cancel()
	if g.private != nil {
		g.admin.Shutdown(last)
	}
	g.sides.Wait()
	g.log.Info("drained", "requests", g.server.Stats().Requests)
	if err != nil {
		return exit.Failedf("avatar: open requests were aborted (%w); send the second signal later than %s after the first", err, serving.DrainTime.Round(time.Second))
	}
	return nil
}
