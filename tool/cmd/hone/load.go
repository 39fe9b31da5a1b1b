package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/spec"
	"github.com/hone-go/hone/tool/trial"
)

// loadFlags are the flags of load.
type loadFlags struct {
	spec.Load
	goals        spec.Goals
	stats        string
	out          session.Flags
	others       spec.Others
	agents       agentsFlags
	save         string
	file, target string // a scenario, and its target
	preview      int
	metrics      string // of any server, for the page
}

func newLoad() *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:   "load TARGET",
		Short: "Load test a server",
		Long: `Load test a server. hone verifies every answer, and says whether the figures are the
server's: do not use those of an INVALID result. TARGET is

  http://HOST:PORT/PATH or https://…          a web service (HTTP/1.1; no HTTP/2)
  ws://HOST:PORT/PATH or wss://…              a WebSocket server that answers each message
  http://unix:/SOCKET:/PATH                   the same over a unix socket; also ws://
  HOST:PORT, tcp://HOST:PORT or unix:PATH     a server that speaks hone's frames, or with
                                              --frame any protocol that exchanges messages

Without --rate every connection keeps --depth requests in flight (a closed loop): how
much the server can do. With --rate every request is scheduled, and its response time
counts from its scheduled moment (an open loop): how long users wait.`,
		Example: `  hone load 127.0.0.1:7000 -c 100 -d 5s
  hone load http://127.0.0.1:8080/ -c 20 --rate 500 --expect 'p99<20ms'
  hone load 127.0.0.1:7000 -c 50 --schedule ramp:1000..20000 -d 1m
  hone load https://127.0.0.1:8443/orders -X POST -H 'Content-Type: application/json' --body @order.json
  hone load ws://127.0.0.1:8080/echo -c 100 --depth 16 --size 64
  hone load 127.0.0.1:6379 --frame line --request PING --expect-content +PONG
  hone load --scenario shop.toml --expect 'login.p99<20ms'
  hone load 10.0.0.9:7000 -c 300 --rate 300000 --agents nats://10.0.0.1:4222 --agents-token-file token`,
		Args: arguments(0, 1, "load: give one target, as in: hone load 127.0.0.1:7000; flags begin with --, see hone load --help"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.file != "" {
				if err := spec.ReadFile(cmd, f.file); err != nil {
					return err
				}
			}
			if len(args) > 0 {
				f.target = args[0]
			}
			if f.target == "" {
				return exit.Usagef("load: name a target, as in: hone load 127.0.0.1:7000, or as target = \"http://127.0.0.1:8080\" in a scenario")
			}
			return f.run(cmd, f.target)
		},
	}
	f.define(cmd)
	shortHelp(cmd, "conns for rate count depth expect method header body status json output ui save scenario", "idle connections, churn, traffic, TLS, agents, limits")
	return cmd
}

// define adds the flags.
func (f *loadFlags) define(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	f.Define(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "scenario", "f", "", "read these flags, and flows of several requests, from `FILE` (TOML or JSON)")
	flags.StringVar(&f.target, "target", "", "the TARGET, in a scenario")
	flags.Lookup("target").Hidden = true
	flags.IntVar(&f.preview, "print-requests", 0, "send nothing; print the requests of this many sessions")
	flags.Var(&f.goals, "expect", "a goal; repeat for more; exit code 3 if one is missed")
	flags.Int64VarP(&f.Plan.Requests, "count", "n", 0, "send this many requests in all, without a warm-up, then end; --for is the time limit (1h)")
	flags.StringVar(&f.stats, "server-stats", "", "the server's admin side, a `URL` or HOST:PORT: adds the server's CPU and memory use")
	f.others.Define(cmd, false)
	f.agents.define(cmd)
	f.out.Define(cmd, "every second")
	flags.StringVar(&f.save, "save", "", "save the run under this `NAME`; see hone run --help")
	flags.StringVar(&f.metrics, "server-metrics", "", "Prometheus metrics of any server for the page, a `URL` and names, as in 'http://127.0.0.1:8889/metrics open,requests_total'; counters per second")
}

// run loads the target and prints the result.
func (f *loadFlags) run(cmd *cobra.Command, target string) error {
	ctx := cmd.Context()
	if err := f.Complete("load", target); err != nil {
		return err
	}
	if err := f.agents.check(cmd, f.Plan); err != nil {
		return err
	}
	if err := f.Plan.HasSteps(f.goals.List); err != nil {
		return &exit.Error{Code: exit.Usage, Err: err}
	}
	if f.preview > 0 {
		return loadFailure(f.Plan.WriteRequests(cmd.OutOrStdout(), f.preview))
	}
	stats, err := serverAt(f.stats)
	if err != nil {
		return err
	}
	fillIdle := func(*load.Result) {}
	if stats != nil {
		defer stats.Close()
		if err := stats.Reachable(ctx); err != nil {
			return exit.Failedf("load: --server-stats %s: %w", f.stats, err)
		}
		f.Plan.WindowOpens, f.Plan.WindowCloses = stats.WindowOpens, stats.WindowCloses
		fillIdle = stats.WatchIdle(&f.Plan)
	}
	others, err := f.others.Watch(cmd, f.Plan.Target, stats)
	if err != nil {
		return err
	}
	if f.agents.agents != "" {
		others.Most = 1 // they may be on other machines
	}
	others.Watch(&f.Plan)
	shown := spec.Public(target)
	p, err := f.page(cmd, target, stats)
	if err != nil {
		return err
	}
	s, err := f.out.Open(cmd, f.save != "", p)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	s.Live.Watch(stats)
	f.Plan.Progress = s.Live.Beside(page.Segment{}, s.Watch(f.Plan).Load)
	began := time.Now().UTC()
	result, err := f.send(cmd, target, s.Live)
	if result == nil {
		s.Live.Finish(nil, err)
		if errors.Is(err, context.Canceled) {
			return &exit.Error{Code: exit.Interrupted, Err: errors.New("load: interrupted before the load began")}
		}
		return loadFailure(err)
	}
	result.Version = command.BuildOf(release).Version
	if stats != nil {
		result.Server = stats.Used()
	}
	fillIdle(result)
	others.Judge(result)
	s.Live.Finish(result, err)
	outcomes := load.Check(result, f.goals.List)
	return s.Finish(session.End{
		JSON: load.Document(result, outcomes),
		Text: session.InText(func(w io.Writer) { load.WriteText(w, shown+", "+f.Shape(), f.Plan, result, outcomes) }),
		Runs: []*record.Run{f.made(target, result, began)}, Partly: result.Interrupted || err != nil,
		Err: loadFailure(err), Verdict: f.verdict(result, outcomes),
	})
}

// serverAt returns the admin side of --server-stats; nil if the flag was not given.
func serverAt(stats string) (*admin.Server, error) {
	if stats == "" {
		return nil, nil
	}
	return admin.Open(stats)
}

// made returns the run to be saved.
func (f *loadFlags) made(target string, result *load.Result, began time.Time) *record.Run {
	sample := trial.SampleOf(result, began)
	sample.Order = 1
	scenario := f.Kept(f.Shape(), target)
	if f.Plan.Requests > 0 {
		scenario.Settings["count"] = fmt.Sprint(f.Plan.Requests)
	}
	scenario.Load = result.Settings
	run := &record.Run{Name: f.save, Made: "load", At: began, Scenario: scenario,
		Environment: trial.Environment(f.Plan.Target), Samples: []record.Sample{*sample}}
	noteVersion(run)
	return run
}

// loadFailure sets the exit code of a run that could not go on.
func loadFailure(err error) error {
	if end := new(exit.Error); errors.As(err, &end) {
		return err
	}
	if end := new(load.Error); errors.As(err, &end) && end.Kind == load.BadPlan {
		return &exit.Error{Code: exit.Usage, Err: err}
	}
	return exit.FailedIf(err)
}

// verdict returns the exit code of a run that ended normally.
func (f *loadFlags) verdict(r *load.Result, outcomes []load.Outcome) error {
	said := f.out.Said() // the result's first line already says it
	switch {
	case r.Interrupted:
		return exit.Verdict(exit.Interrupted, said, "load: interrupted; a partial result meets no goal: let the run finish")
	case !r.Valid:
		return exit.Verdict(exit.Invalid, said, "load: the run is not valid: %s", strings.Join(r.InvalidReasons, "; "))
	}
	for _, o := range outcomes {
		if !o.Met {
			return &exit.Error{Code: exit.Missed, Err: fmt.Errorf("load: goal %v; profile the server with pprof on its --admin address", o)}
		}
	}
	return nil
}
