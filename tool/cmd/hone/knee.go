package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/knee"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/spec"
	"github.com/hone-go/hone/tool/trial"
)

// kneeFlags holds the parsed flags of hone knee.
type kneeFlags struct {
	load     spec.Load
	goals    spec.Goals
	axis     *spec.Choice
	from, to float64
	width    spec.Percent
	confirm  int
	quick    bool
	cool     time.Duration
	stats    string
	others   spec.Others
	save     string
	out      session.Flags
}

const (
	defaultFromRate = 100
	defaultKneeConn = 50
	defaultTrial    = 3 * time.Second
)

func newKnee() *cobra.Command {
	f := new(kneeFlags)
	cmd := &cobra.Command{
		Use:   "knee TARGET",
		Short: "Find the highest load at which a server meets goals",
		Long: `Find the highest load at which a server meets goals. TARGET is as for hone load.

The load doubles until a goal is missed; short trials bisect the range, and full trials
confirm both ends. A trial also misses when the server does not keep up with the rate
(99 %), and when requests fail, unless a goal is about errors. With --axis conns the load
is connections, each of which keeps --depth requests in flight, or shares a fixed --rate.

Exit codes: 0 when the knee was found, or is above --to; 3 when goals are missed at the
lowest load; 4 when the knee is not known.`,
		Example: `  hone knee 127.0.0.1:7000 -c 100 --expect 'p99<5ms'
  hone knee http://127.0.0.1:8080/users -c 200 --expect 'p99<20ms' --expect 'p50<2ms' --from 500
  hone knee 127.0.0.1:7000 --axis conns --expect 'p99<10ms' --to 20000
  hone knee 127.0.0.1:7000 -c 100 --expect 'p99.9<5ms' --for 10s --save before`,
		Args: arguments(1, 1, "knee: name one target, as in: hone knee 127.0.0.1:7000 --expect 'p99<5ms'"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.define(cmd)
	shortHelp(cmd, "expect axis from to quick conns for method header body status save json output ui", "how narrow, content, traffic, TLS, limits")
	return cmd
}

func (f *kneeFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(&f.goals, "expect", "a goal to meet, as in hone load; repeat for more")
	f.axis = spec.AddChoice(cmd, "axis", knee.AxisRate, "what the search increases", knee.AxisRate, knee.AxisConns)
	flags.Float64Var(&f.from, "from", 0, "the lowest load (default: 100 requests/s, or 1 connection)")
	flags.Float64Var(&f.to, "to", 0, "the highest load (default: as much as can be offered)")
	f.width = 0.02
	flags.Var(&f.width, "width", "how narrow the range must get")
	flags.IntVar(&f.confirm, "confirm", 3, "full trials that must meet the goals")
	flags.BoolVar(&f.quick, "quick", false, "a rough knee in half a minute: --for 1s --width 10% --confirm 1, where these are not given")
	flags.DurationVar(&f.cool, "cool", time.Second, "pause after a trial that missed, for the server to recover")
	f.load.Define(cmd)
	f.load.Plan.For = defaultTrial
	flags.Lookup("for").DefValue, flags.Lookup("for").Usage = defaultTrial.String(), "length of a full trial; a short one lasts a third; both are longer at low rates"
	f.load.Plan.Conns = defaultKneeConn
	flags.Lookup("conns").DefValue = fmt.Sprint(defaultKneeConn)
	flags.StringVar(&f.stats, "server-stats", "", "the server's admin side, a `URL` or HOST:PORT, from which --max-others learns the server's process id")
	f.others.Define(cmd, false)
	flags.StringVar(&f.save, "save", "", "store the trials as a run under this `NAME`; see hone run --help")
	f.out.Define(cmd, "every trial")
}

// plan checks the flags and builds the search's plan.
func (f *kneeFlags) plan(cmd *cobra.Command, target string) (knee.Plan, error) {
	changed := cmd.Flags().Changed
	if f.quick {
		for name, value := range map[string]string{"for": "1s", "width": "10%", "confirm": "1"} {
			if changed(name) {
				continue
			}
			if err := cmd.Flags().Set(name, value); err != nil {
				return knee.Plan{}, exit.Usagef("knee: --quick: %w", err)
			}
		}
	}
	plan := knee.Plan{From: f.from, To: f.to, Width: float64(f.width), Confirm: f.confirm, Whole: f.axis.Value == knee.AxisConns}
	if plan.From == 0 && plan.Whole {
		plan.From = 1
	} else if plan.From == 0 {
		plan.From = defaultFromRate
	}
	switch {
	case len(f.goals.List) == 0:
		return plan, exit.Usagef("knee: --expect is missing; give a goal, as in --expect 'p99<5ms'")
	case changed("rate") && !plan.Whole:
		return plan, exit.Usagef("knee: --rate is what knee searches for; use --from and --to, or --axis conns")
	case changed("conns") && plan.Whole:
		return plan, exit.Usagef("knee: --conns is what knee searches for; use --from and --to, or --axis rate")
	case !(plan.From > 0) || plan.Whole && plan.From < 1:
		return plan, exit.Usagef("knee: --from %g: use more than 0", f.from)
	case plan.To != 0 && !(plan.To >= plan.From):
		return plan, exit.Usagef("knee: --to %g is below --from %g; use a higher one, or leave it out", plan.To, plan.From)
	case f.width == 0 || f.cool < 0 || f.confirm < 1:
		return plan, exit.Usagef("knee: --width and --confirm must be more than 0, and --cool 0 or more; leave them out for the defaults")
	}
	f.load.Paced = !plan.Whole
	return plan, f.load.Complete("knee", target)
}

// run searches and prints the result.
func (f *kneeFlags) run(cmd *cobra.Command, target string) error {
	plan, err := f.plan(cmd, target)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if err := f.out.UI.Check("knee"); err != nil {
		return err
	}
	stats, err := serverAt(f.stats)
	if err != nil {
		return err
	}
	if stats != nil {
		defer stats.Close()
	}
	others, err := f.others.Watch(cmd, f.load.Plan.Target, stats)
	if err != nil {
		return err
	}
	shown := spec.Public(target)
	open, err := f.out.Open(cmd, f.save != "", livePage("knee "+shown, page.Fact{Name: "goals", Value: f.goals.String()}, page.Fact{Name: "load", Value: f.load.Shape()}))
	if err != nil {
		return err
	}
	defer open.Close(ctx)
	s := &knee.Search{Plan: plan, Others: others, Goals: f.goals.List, Load: f.load.Plan, Length: f.load.Plan.For, Cool: f.cool}
	began := time.Now().UTC()
	fmt.Fprintf(cmd.ErrOrStderr(), "hone: knee: some 20 trials, %v\n", s.About())
	watcher := open.Watch(f.load.Plan)
	s.Made = func(found knee.Knee) {
		watcher.Note(found.Bracket(s.Unit(), s.Plan.Width))
		open.Live.On(func(p *page.Page) { p.Search(s.Report(shown)) })
	}
	s.Watch = func(now knee.Progress) {
		watcher.Sample(now.String(), trial.Progress{Load: now.Load})
		if now.Load != nil {
			open.Live.Show(page.Segment{Group: "trials", Name: now.String()}, *now.Load)
		}
	}
	err = s.Run(ctx)
	if err != nil && !s.Any() {
		open.Live.End(nil, err)
		return kneeFailure(err)
	}
	report := s.Report(shown)
	end := session.End{JSON: report, Text: session.InText(report.Write), Runs: []*record.Run{f.made(target, s, report, began)}}
	if err != nil {
		report.Fail(err)
		end.Err = kneeFailure(err)
	} else {
		end.Verdict = report.Failure(ctx.Err() != nil, !open.Said())
	}
	end.Partly = ctx.Err() != nil || err != nil
	open.Live.End(report.InvalidReasons, errors.Join(err, ctx.Err()))
	return open.Finish(end)
}

// kneeFailure explains why a search could not go on.
func kneeFailure(err error) error {
	if errors.Is(err, context.Canceled) {
		return &exit.Error{Code: exit.Interrupted, Err: errors.New("knee: interrupted before the first trial ended")}
	}
	return loadFailure(err)
}

// made returns the search as a run to store: one sample per trial, the last with all of
// them.
func (f *kneeFlags) made(target string, s *knee.Search, report *knee.Report, began time.Time) *record.Run {
	scenario := f.load.Kept("knee by "+s.Axis(), target)
	scenario.Settings["axis"], scenario.Settings["goal"], scenario.Settings["trial"] = s.Axis(), f.goals.String(), f.load.Plan.For.String()
	scenario.Load = s.Settings()
	run := &record.Run{Name: f.save, Made: "knee", At: began, Scenario: scenario, Environment: trial.Environment(f.load.Plan.Target), Samples: s.Samples()}
	if n := len(run.Samples); n > 0 {
		run.Samples[n-1].Artefacts = append(run.Samples[n-1].Artefacts, report.Artefact())
	}
	noteVersion(run)
	return run
}
