package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/observe"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/probe"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/trial"
)

// uiFlags say where the live page is, and who may see it.
type uiFlags struct {
	addr, tokenFile, against string
	stay                     bool
	pprof, bearerFile        string
}

func (f *uiFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "ui", "", "show how it goes on a page at this `ADDR`, as in 127.0.0.1:8080; port 0 picks a free one")
	flags.BoolVar(&f.stay, "ui-stay", false, "keep the page when all is done, until Ctrl-C")
	flags.StringVar(&f.tokenFile, "ui-token-file", "", "`FILE` with the token that opens the page to other machines: a browser asks for it as a password")
}

// defineBeside adds those for a command that has no other words for what they say.
func (f *uiFlags) defineBeside(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.pprof, "pprof", "", "the server's net/http/pprof, a `URL` or HOST:PORT: the page captures profiles there (that of --server-stats)")
	flags.StringVar(&f.bearerFile, "pprof-token-file", "", "`FILE` with the bearer token that it wants")
	flags.StringVar(&f.against, "ui-against", "", "the earlier `RUN` to draw beneath the page's charts; see hone run --help")
}

// check refuses what does nothing.
func (f *uiFlags) check(command string) error {
	switch {
	case f.addr != "":
	case f.stay:
		return exit.Usagef("%s: --ui-stay needs --ui: say where, as in --ui 127.0.0.1:8080", command)
	case f.tokenFile != "":
		return exit.Usagef("%s: --ui-token-file needs --ui: say where, as in --ui :8080", command)
	case f.pprof != "" || f.bearerFile != "":
		return exit.Usagef("%s: --pprof is for the page; give --ui, too, as in --ui 127.0.0.1:8080", command)
	case f.against != "":
		return exit.Usagef("%s: --ui-against needs --ui: say where, as in --ui 127.0.0.1:8080", command)
	}
	return nil
}

// baseline reads the run to draw beneath; nil: none was asked for.
func (f *uiFlags) baseline(ctx context.Context, store *storeFlag, command string) (*record.Run, error) {
	if f.against == "" {
		return nil, nil
	}
	run, err := store.withRun(ctx, command, f.against)
	if err != nil {
		return nil, err
	}
	return run, nil
}

// livePage is a page that is served while something is loaded. A nil one does
// nothing: nobody asked for it.
type livePage struct {
	page   *page.Page
	server *http.Server
	ended  chan error
	stay   bool
	stderr io.Writer
	target *admin.Figures
}

// open serves p, with the figures of the machine, and of the target's once
// livePage.watch has said where they are.
func (f *uiFlags) open(cmd *cobra.Command, p *page.Page) (*livePage, error) {
	if err := f.check(cmd.Name()); err != nil || f.addr == "" {
		return nil, err
	}
	token, err := readToken(f.tokenFile)
	if err != nil {
		return nil, exit.Failedf("%s: --ui-token-file: %w; %s", cmd.Name(), err, newToken(f.tokenFile))
	}
	guard := &observe.Guard{Token: token, Posts: []string{"/capture"}, Sandboxed: []string{"/pprof/"}}
	addr := f.addr
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" && token == "" {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	ln, err := guard.Listen(addr)
	if errors.Is(err, observe.ErrNoToken) {
		return nil, exit.Failedf("%s: --ui %s: %w (--ui-token-file)", cmd.Name(), f.addr, observe.ErrNoToken)
	} else if err != nil {
		return nil, exit.Failedf("%s: --ui %s: %w; use another port, 0 picks a free one", cmd.Name(), f.addr, err)
	}
	l := &livePage{page: p, ended: make(chan error, 1), stay: f.stay, stderr: cmd.ErrOrStderr(), target: new(admin.Figures)}
	p.Sources = append(p.Sources, page.ThisHost(), l.target.Read)
	l.server = &http.Server{
		Handler: guard.Handler(p.Handler()), ReadHeaderTimeout: pageHeadTime, ReadTimeout: 2 * pageHeadTime,
		WriteTimeout: 4 * pageHeadTime, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	go func() { l.ended <- l.server.Serve(ln) }()
	where := "http://" + ln.Addr().String() + "/"
	if ln.Addr().Network() == "unix" {
		where = f.addr
	}
	fmt.Fprintf(l.stderr, "hone: live page: %s\n", where)
	return l, nil
}

// readToken reads a token; no file is no token.
func readToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	token := strings.TrimSpace(string(text))
	if err == nil && token == "" {
		err = fmt.Errorf("%s is empty", file)
	}
	return token, err
}

// newToken says how to make a token.
func newToken(file string) string { return "make one with: openssl rand -hex 16 > " + file }

// watch says whose figures to show beside the load's; nil: nobody's.
func (l *livePage) watch(stats *admin.Server) {
	if l == nil {
		return
	}
	l.target.Of(stats)
}

// show takes a second of a load's. In a race lane says whose.
func (l *livePage) show(lane page.Lane, now load.Progress) {
	if l != nil {
		l.page.Load(page.Second{
			Lane: lane, Phase: now.Phase, Rate: now.Rate, Errors: now.Errors, Conns: now.Conns, CPUShare: now.CPUShare,
			Latency: now.Latency, Service: now.Service,
		})
	}
}

// beside makes a load's progress go to the page, too.
func (l *livePage) beside(lane page.Lane, show func(load.Progress)) func(load.Progress) {
	if l == nil {
		return show
	}
	return func(now load.Progress) {
		if show != nil {
			show(now)
		}
		l.show(lane, now)
	}
}

// finish says how one load ended.
func (l *livePage) finish(r *load.Result, err error) {
	switch {
	case l == nil:
	case err != nil || r == nil:
		l.end(nil, err)
	default:
		v := page.Verdict{Status: page.Valid, Reasons: r.InvalidReasons, Figures: map[string]float64{"errors": float64(r.Errors["total"])}}
		for key, value := range map[string]*float64{"rate": r.Rate, "p50": r.Latency.P50, "p99": r.Latency.P99, "p999": r.Latency.P999} {
			if value != nil {
				v.Figures[key] = *value
			}
		}
		if r.Server != nil && r.Server.CPUPerRequest != nil {
			v.Figures["cpu"] = *r.Server.CPUPerRequest
		}
		switch {
		case r.Interrupted:
			v.Status = page.Interrupted
		case !r.Valid:
			v.Status = page.Invalid
		}
		l.page.End(v)
	}
}

// end says how several ended: why they are not to be believed, or why they could
// not go on.
func (l *livePage) end(doubts []string, err error) {
	if l == nil {
		return
	}
	v := page.Verdict{Status: page.Valid, Reasons: doubts}
	switch {
	case errors.Is(err, context.Canceled):
		v.Status, v.Reasons = page.Interrupted, []string{"interrupted; let it run to the end"}
	case err != nil:
		v.Status, v.Reasons = page.Failed, []string{err.Error()}
	case len(doubts) > 0:
		v.Status = page.Invalid
	}
	l.page.End(v)
}

// close lets the page go, at once or when ctx ends. Readers have what there is.
func (l *livePage) close(ctx context.Context) {
	if l == nil {
		return
	}
	if l.stay && ctx.Err() == nil {
		fmt.Fprintln(l.stderr, "hone: the page stays; Ctrl-C ends it")
		<-ctx.Done()
	}
	l.page.Close()
	grace, cancel := context.WithTimeout(context.Background(), pageEndTime)
	defer cancel()
	if l.server.Shutdown(grace) != nil {
		l.server.Close()
	}
	<-l.ended
	l.target.Close()
}

// live serves the page of a load, if it was asked for.
func (f *loadFlags) live(cmd *cobra.Command, target string, stats *admin.Server) (*livePage, error) {
	if err := f.ui.check("load"); err != nil || f.ui.addr == "" {
		return nil, err
	}
	baseline, err := f.ui.baseline(cmd.Context(), &f.store, "load")
	if err != nil {
		return nil, err
	}
	bearer, err := readToken(f.ui.bearerFile)
	if err != nil {
		return nil, exit.Failedf("load: --pprof-token-file: %w", err)
	}
	p := &page.Page{
		Title: "hone load " + target, Baseline: baseline, Profiles: profilesOf(f.ui.pprof, bearer, stats), Groups: []string{page.Client, page.Host},
		About: []page.Fact{{Name: "load", Value: f.shape()}, {Name: "hone", Value: buildVersion().Version}},
	}
	if stats != nil {
		p.Groups = []string{page.Client, page.Server, page.Runtime, page.Host}
	}
	l, err := f.ui.open(cmd, p)
	if err == nil {
		l.watch(stats)
	}
	return l, err
}

// live serves the page of a bench, if it was asked for.
func (f *benchFlags) live(cmd *cobra.Command, base *record.Run) (*livePage, error) {
	return f.ui.open(cmd, &page.Page{
		Title: "hone bench " + f.target, Baseline: base, Profiles: profilesOf(f.profiles.url, f.profiles.token, nil), Groups: []string{page.Client, page.Host},
		About: []page.Fact{{Name: "scenario", Value: f.subjectFlags.name()}, {Name: "load", Value: f.load.shape()}, {Name: "hone", Value: buildVersion().Version}},
	})
}

// besideTrial makes a trial's progress go to the page, too: a lane for a sample.
func (l *livePage) besideTrial(show func(trial.Progress)) func(trial.Progress) {
	if l == nil {
		return show
	}
	return func(now trial.Progress) {
		show(now)
		if now.Load != nil {
			l.show(page.Lane{Group: "samples", Name: strings.TrimSuffix(now.Doing, ", "+now.Load.Phase)}, *now.Load)
		}
	}
}

// endBench says how the samples ended: those that do not count have been taken again.
func (l *livePage) endBench(runs []*record.Run, err error) {
	var doubts []string
	for _, run := range runs {
		for i, s := range run.Samples {
			if slices.ContainsFunc(run.Samples, func(s record.Sample) bool { return s.Valid }) {
				break
			}
			doubts = append(doubts, fmt.Sprintf("sample %d does not count: %s", i+1, strings.Join(s.Reasons, "; ")))
		}
	}
	l.end(doubts, err)
}

// profilesOf is where a page captures: what was said, or a hone server's admin side.
func profilesOf(url, token string, stats *admin.Server) *probe.Source {
	switch {
	case url != "":
		return &probe.Source{URL: url, Token: token}
	case stats != nil && stats.Base() != "":
		return &probe.Source{URL: stats.Base(), Token: token}
	}
	return nil
}
