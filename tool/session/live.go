package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/trial"
)

// UI sets the address of a command's live page and who may open it.
type UI struct {
	Addr      string // empty: no page
	TokenFile string // empty: this machine only
	Stay      bool   // keep serving after the end, until Ctrl-C
}

// Live is a page that is served during a load. A nil Live, for a command without --ui,
// does nothing.
type Live struct {
	page   *page.Page
	end    context.CancelFunc
	ended  chan error
	stay   bool
	stderr io.Writer
	target *admin.Figures
}

// open serves p with the machine's figures, and with the target's after Live.Watch.
func (f UI) open(command string, stderr io.Writer, p *page.Page) (*Live, error) {
	if f.Addr == "" {
		return nil, nil
	}
	guard, ln, err := f.listen(command)
	if err != nil {
		return nil, err
	}
	l := &Live{page: p, ended: make(chan error, 1), stay: f.Stay, stderr: stderr, target: new(admin.Figures)}
	p.Sources = append(p.Sources, page.ThisHost(), l.target.Read)
	var serving context.Context
	serving, l.end = context.WithCancel(context.Background())
	go func() { l.ended <- ServeUntil(serving, guard.Server(guard.Handler(p.Handler())), ln) }()
	where := "http://" + ln.Addr().String() + "/"
	if ln.Addr().Network() == "unix" {
		where = f.Addr
	}
	fmt.Fprintf(l.stderr, "hone: live page: %s\n", where)
	return l, nil
}

// listen listens at the page's address. Without a token only this machine may connect.
func (f UI) listen(command string) (*observe.Guard, net.Listener, error) {
	token, err := TokenOf(command, "ui-token-file", f.TokenFile)
	if err != nil {
		return nil, nil, err
	}
	guard := &observe.Guard{Token: token}
	addr := f.Addr
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" && token == "" {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	ln, err := guard.Listen(addr)
	if errors.Is(err, observe.ErrNoToken) {
		return nil, nil, exit.Failedf("%s: --ui %s: %w (--ui-token-file)", command, f.Addr, observe.ErrNoToken)
	} else if err != nil {
		return nil, nil, exit.Failedf("%s: --ui %s: %w; use another port (0 picks a free one)", command, f.Addr, err)
	}
	return guard, ln, nil
}

// ReadToken reads a token; without a file the token is empty.
func ReadToken(file string) (string, error) {
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

// TokenOf reads the token that a flag names.
func TokenOf(command, flag, file string) (string, error) {
	token, err := ReadToken(file)
	if err != nil {
		return "", exit.Failedf("%s: --%s: %w; %s", command, flag, err, NewToken(file))
	}
	return token, nil
}

// NewToken explains how to create a token file.
func NewToken(file string) string { return "make one with: openssl rand -hex 16 > " + file }

// Watch sets the server whose figures the page shows next to the load's; nil: none.
func (l *Live) Watch(stats *admin.Server) {
	if l == nil {
		return
	}
	l.target.Of(stats)
}

// Show adds one second of a load. In a race, segment names the engine.
func (l *Live) Show(segment page.Segment, now load.Progress) {
	l.On(func(p *page.Page) { p.Load(page.Second{Segment: segment, Progress: now}) })
}

// On does something with the page, if there is one.
func (l *Live) On(do func(*page.Page)) {
	if l != nil {
		do(l.page)
	}
}

// Beside returns show extended to send the progress to the page, too.
func (l *Live) Beside(segment page.Segment, show func(load.Progress)) func(load.Progress) {
	if l == nil {
		return show
	}
	return func(now load.Progress) {
		if show != nil {
			show(now)
		}
		l.Show(segment, now)
	}
}

// Finish shows how one load ended.
func (l *Live) Finish(r *load.Result, err error) {
	switch {
	case l == nil:
	case err != nil || r == nil:
		l.End(nil, err)
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

// End shows how several loads ended: why figures are not reliable, or why the work
// failed.
func (l *Live) End(doubts []string, err error) {
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

// Close stops serving the page, at once or when ctx ends. Open pages keep what they show.
func (l *Live) Close(ctx context.Context) {
	if l == nil {
		return
	}
	if l.stay && ctx.Err() == nil {
		fmt.Fprintln(l.stderr, "hone: the live page stays open; stop with Ctrl-C")
		<-ctx.Done()
	}
	l.page.Close()
	l.end()
	<-l.ended
	l.target.Close()
}

// BesideTrial returns show extended to send a trial's progress to the page: one segment per
// sample, or what is done.
func (l *Live) BesideTrial(show func(trial.Progress)) func(trial.Progress) {
	if l == nil {
		return show
	}
	return func(now trial.Progress) {
		show(now)
		if now.Load != nil {
			l.Show(page.Segment{Group: "samples", Name: now.Title()}, *now.Load)
		} else if now.Prints {
			l.page.Doing(now.String())
		}
	}
}

// EndBench shows how the samples ended; samples that do not count have been retaken.
func (l *Live) EndBench(runs []*record.Run, err error) {
	if l != nil && len(runs) > 0 {
		l.page.Sampled(runs)
	}
	var doubts []string
	for _, run := range runs {
		for i, s := range run.Samples {
			if slices.ContainsFunc(run.Samples, func(s record.Sample) bool { return s.Valid }) {
				break
			}
			doubts = append(doubts, fmt.Sprintf("sample %d does not count: %s", i+1, s.Why()))
		}
	}
	l.End(doubts, err)
}
