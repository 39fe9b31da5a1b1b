package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/trial"
	"github.com/hone-go/hone/tool/view"
)

// loadFlags are load's, as they were given.
type loadFlags struct {
	plan         load.Plan
	targetFlags  targetFlags
	arrivals     *choice
	goals        goalFlag
	stats        string
	out          outputFlags
	progress     bool
	plain, abort bool
	save         string
	ui           uiFlags
	store        storeFlag
}

func newLoad() *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:   "load TARGET",
		Short: "Drive a server and measure it honestly",
		Long: `Drive a server and measure it honestly. Every answer is verified. TARGET is

  HOST:PORT, tcp://HOST:PORT or unix:PATH     a server of hone's, or with --frame of
                                              any protocol that exchanges messages
  http://HOST:PORT/PATH or https://…          a web service, in HTTP/1.1; HTTP/2 is
                                              not spoken
  http://unix:/SOCKET:/PATH                   the same over a unix socket

Without --rate every connection keeps --depth requests outstanding (a closed
loop): that finds the most a server can do. With --rate every request has its
moment, and its time counts from then (an open loop): that finds how long people
wait. A result is VALID when its figures are the server's, not the generator's;
figures of INVALID ones are not to be believed.

A goal is a figure, a comparison and a value: p99<5ms, service.p50<=200us,
rate>=10000, errors==0, errors<0.1%, shed<1%.

A server may close a connection at any time: load opens it again and counts it. A
request without an answer within --timeout, or whose connection ended before its
answer, is an error, and the run goes on; with errors its result is INVALID unless
--allow-errors says otherwise. The run fails (exit code 1) when nobody answers for
--timeout, for twice that where connections can still be opened, and when no
connection can be opened at its end.

Requests of an open loop arrive as those of independent users do (poisson): requests
a constant time apart fall into step with periodic stalls of the server, and see
them too often or not at all. --arrivals constant is for exact numbers.`,
		Example: `  hone load 127.0.0.1:7000 -c 100 -d 5s
  hone load 127.0.0.1:7000 -c 100 --depth 64
  hone load 127.0.0.1:7000 -c 50 --rate 20000 --expect 'p99<5ms'
  hone load 127.0.0.1:7000 -c 50 --schedule ramp:1000..20000 -d 1m --deadline 100ms
  hone load 127.0.0.1:7000 -c 50 --schedule step:5000..20000:5000/10s --size lognormal:300,1.2
  hone load 127.0.0.1:7000 -c 0 --idle 50000 --ramp 5000 -d 60s --source 127.0.0.1-127.0.0.4 --server-stats 127.0.0.1:7070
  hone load 127.0.0.1:7000 -c 20 --rate 5000 --churn 200
  hone load unix:/run/hone.sock --request 'sleep 5ms' --server-stats 127.0.0.1:7070
  hone load http://127.0.0.1:8080/users -c 50 --rate 2000 --expect 'p99<20ms'
  hone load https://127.0.0.1:8443/orders -X POST -H 'Content-Type: application/json' --body @order.json
  hone load 127.0.0.1:6379 --frame line --request PING --expect-content +PONG
  hone load 127.0.0.1:9000 --frame len32be --match id@4:8 --request hex:00000001000000000000000068656c6c6f
  hone load 127.0.0.1:7000 -n 100000 -c 50
  hone load 127.0.0.1:7000 --rate 5000 -d 10m --expect 'p99<5ms' --abort-on-miss
  hone load 127.0.0.1:7000 --json -o result.json`,
		Args: oneTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0])
		},
	}
	f.define(cmd)
	cmd.SetUsageFunc(groupedUsage)
	return cmd
}

// define adds the flags.
func (f *loadFlags) define(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	f.definePlan(cmd)
	flags := cmd.Flags()
	flags.Var(&f.goals, "expect", "a goal; repeat for more; exit code 3 when one is missed")
	flags.BoolVar(&f.abort, "abort-on-miss", false, "end as soon as a goal of --expect is missed for certain")
	flags.Int64VarP(&f.plan.Requests, "count", "n", 0, "send so many requests in all, without a warm-up, then end; --for is the most it may take (1h)")
	flags.StringVar(&f.stats, "server-stats", "", "the server's admin side, a `URL` or HOST:PORT: adds what the server used")
	flags.BoolVar(&f.progress, "progress", false, "report every second, also where standard error is no terminal")
	flags.BoolVar(&f.plain, "plain", false, plainUsage)
	f.out.define(cmd)
	flags.StringVar(&f.save, "save", "", "keep the run under this `NAME`; see hone run --help")
	f.ui.define(cmd)
	f.ui.defineBeside(cmd)
	f.store.define(cmd)
}

// definePlan adds those that say what load there is.
func (f *loadFlags) definePlan(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVarP(&f.plan.Conns, "conns", "c", 1, "connections; 0 with --idle or --churn for no load beside them")
	flags.IntVar(&f.plan.Depth, "depth", 0, "most requests outstanding on a connection (1, with --rate 256, for HTTP 1)")
	flags.Float64Var(&f.plan.Rate, "rate", 0, "requests a second over all connections (as many as are answered)")
	flags.Var(scheduleFlag{&f.plan.Schedule}, "schedule", "a rate that changes: ramp:FROM..TO, step:FROM..TO:STEP/DURATION, step:RATE,RATE/DURATION or sine:LOW..HIGH/PERIOD")
	f.arrivals = addChoice(cmd, "arrivals", load.Poisson.String(), "how --rate, --schedule and --churn are spread over time", load.Constant.String(), load.Poisson.String())
	flags.DurationVarP(&f.plan.For, "for", "d", 10*time.Second, "how long to measure")
	flags.DurationVar(&f.plan.Warmup, "warmup", 0, "how long to load before that (a tenth of --for, at most 5s)")
	flags.Float64Var(&f.plan.Ramp.PerSecond, "ramp", 0, "connections to open in a second (no limit)")
	flags.DurationVar(&f.plan.Timeout, "timeout", 5*time.Second, "give up a request, or an attempt to connect, after so long")
	flags.DurationVar(&f.plan.Deadline, "deadline", 0, "do not send what is later than this after its moment, and count it as shed (send it)")
	flags.Var(sourceFlag{&f.plan.Sources}, "source", "connect from these: 127.0.0.1-127.0.0.20, 10.0.0.0/28, or several with commas (as the system chooses)")
	flags.IntVar(&f.plan.Idle, "idle", 0, "further connections that are opened first, used once, and kept silent")
	flags.Float64Var(&f.plan.Churn, "churn", 0, "further connections a second that are opened, used once, and closed")
	flags.BoolVar(&f.plan.ChurnUnused, "churn-unused", false, "close those of --churn without a request")
	f.targetFlags.define(cmd)
	flags.BoolVar(&f.plan.AllowErrors, "allow-errors", false, "keep a result valid in which requests failed")
	flags.Uint64Var(&f.plan.Seed, "seed", 0, "chooses content and Poisson arrivals, the same for the same seed")
}

// flagGroups are the headings of load's flags, in the order of its help.
func flagGroups() []struct{ heading, flags string } {
	return []struct{ heading, flags string }{
		{"Load", "conns depth rate schedule arrivals for count warmup ramp timeout deadline source seed"},
		{"Connections beside the load", "idle churn churn-unused"},
		{"Requests of hone's frames and of messages", "size request expect-content dialect frame match"},
		{"Requests of HTTP", "method header body status expect-length"},
		{"TLS, of https://", "insecure cacert cert key"},
		{"Verdict", "expect abort-on-miss allow-errors answer-limit"},
		{"Output", "server-stats progress plain json output save store help"},
		{"Live page", "ui ui-stay ui-token-file ui-against pprof pprof-token-file"},
	}
}

// groupedUsage is how to use a command with many flags.
func groupedUsage(cmd *cobra.Command) error {
	out := cmd.OutOrStderr()
	fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s", cmd.UseLine(), cmd.Example)
	for _, group := range flagGroups() {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		set.SortFlags = false
		for _, name := range strings.Fields(group.flags) {
			if flag := cmd.Flags().Lookup(name); flag != nil {
				set.AddFlag(flag)
			}
		}
		fmt.Fprintf(out, "\n\n%s:\n%s", group.heading, strings.TrimSuffix(set.FlagUsages(), "\n"))
	}
	_, err := fmt.Fprintln(out)
	return err
}

func oneTarget(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return exit.Usagef("load: name a target, as in: hone load 127.0.0.1:7000")
	case 1:
		return nil
	}
	return exit.Usagef("load: one target at a time, not also %q; flags begin with --, see hone load --help", args[1])
}

// run loads the target and says what came of it.
func (f *loadFlags) run(cmd *cobra.Command, target string) error {
	ctx := cmd.Context()
	stats, err := f.complete(cmd, target)
	if err != nil {
		return err
	}
	fillIdle := func(*load.Result) {}
	if stats != nil {
		defer stats.Close()
		if err := stats.Reachable(ctx); err != nil {
			return exit.Failedf("load: --server-stats %s: %w", f.stats, err)
		}
		f.plan.WindowOpens, f.plan.WindowCloses = stats.WindowOpens, stats.WindowCloses
		fillIdle = stats.WatchIdle(&f.plan)
	}
	p, err := f.page(ctx, target, stats)
	if err != nil {
		return err
	}
	s, err := session.Open(ctx, session.Plan{
		Command: "load", Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(), Output: f.out.Output,
		Keep: f.save != "", Store: f.store.Store, UI: f.ui.UI, Page: p,
	})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	s.Live.Watch(stats)
	watcher := view.NewLoad(f.how(cmd), target, f.shape(), f.plan, f.goals.goals)
	defer watcher.End()
	f.plan.Progress = s.Live.Beside(page.Lane{}, watcher.Show)
	began := time.Now().UTC()
	result, err := load.Run(ctx, f.plan)
	watcher.End()
	if result == nil {
		s.Live.Finish(nil, err)
		return loadFailure(err)
	}
	if stats != nil {
		result.Server = stats.Used()
	}
	fillIdle(result)
	s.Live.Finish(result, err)
	outcomes := load.Check(result, f.goals.goals)
	return s.Finish(session.End{
		JSON: f.inJSON(result, outcomes), Text: session.InText(func(w io.Writer) { io.WriteString(w, f.text(target, result, outcomes)) }),
		Runs: []*record.Run{f.made(cmd, target, result, began)}, Partly: result.Interrupted || err != nil,
		Err: loadFailure(err), Verdict: f.verdict(result, outcomes),
	})
}

func (f *loadFlags) how(cmd *cobra.Command) view.How {
	return view.How{To: cmd.ErrOrStderr(), Lines: f.progress, Plain: f.plain}
}

// plainUsage is the help of --plain.
const plainUsage = "on a terminal, report in lines that stay instead of a view that changes"

// made is the run as it is kept.
func (f *loadFlags) made(cmd *cobra.Command, target string, result *load.Result, began time.Time) *record.Run {
	sample := trial.SampleOf(result, began)
	sample.Order = 1
	scenario := keptScenario(cmd, f.shape(), target)
	if f.plan.Requests > 0 {
		scenario.Text += fmt.Sprintf("count=%d\n", f.plan.Requests)
	}
	return &record.Run{Name: f.save, Made: "load", At: began, Scenario: scenario,
		Environment: trial.Environment(f.plan.Target), Samples: []record.Sample{*sample}}
}

// complete finishes the plan, for a command that has the plan's flags.
func (f *loadFlags) complete(cmd *cobra.Command, target string) (_ *admin.Server, err error) {
	if cmd.Flags().Changed("warmup") && f.plan.Warmup == 0 {
		f.plan.Warmup = -1 // none, where the plan's zero is the usual one
	}
	if err := f.plan.Arrivals.UnmarshalText([]byte(f.arrivals.value)); err != nil {
		return nil, exit.Usagef("%s: --arrivals: %w", cmd.Name(), err)
	}
	if f.plan.Target, err = f.targetFlags.target(cmd, target); err != nil {
		return nil, err
	}
	f.targetFlags.fill(&f.plan)
	if f.plan.Requests > 0 && !cmd.Flags().Changed("for") {
		f.plan.For = 0
	}
	if f.abort {
		f.plan.AbortOn = f.goals.goals
	}
	if err := f.completeOffer(cmd); err != nil {
		return nil, err
	}
	if err := f.check(cmd.Name()); err != nil {
		return nil, err
	}
	if f.stats == "" {
		return nil, nil
	}
	return admin.Open(f.stats)
}

// check refuses, by the flag's name, what the plan has its own zero for.
func (f *loadFlags) check(command string) error {
	beside := f.plan.Idle > 0 || f.plan.Churn > 0
	switch {
	case f.plan.Requests < 0:
		return exit.Usagef("%s: --count %d: use 1 or more", command, f.plan.Requests)
	case f.abort && len(f.goals.goals) == 0:
		return exit.Usagef("%s: --abort-on-miss is about --expect; give a goal, as in --expect 'p99<5ms'", command)
	case f.plan.Requests > 0 && f.plan.For == 0: // as long as it takes
	case f.plan.Conns < 0, f.plan.Conns == 0 && !beside:
		return exit.Usagef("%s: --conns %d: use 1 or more", command, f.plan.Conns)
	case f.plan.ChurnUnused && f.plan.Churn == 0:
		return exit.Usagef("%s: --churn-unused is about --churn; give that, as in --churn 100", command)
	case f.plan.For <= 0:
		return exit.Usagef("%s: --for %v: use a positive duration, as in 10s", command, f.plan.For)
	case f.plan.Timeout <= 0:
		return exit.Usagef("%s: --timeout %v: use a positive duration, as in 5s", command, f.plan.Timeout)
	}
	return nil
}

// loadFailure is the failure of a run that could not go on.
func loadFailure(err error) error {
	if end := new(load.Error); errors.As(err, &end) && end.Kind == load.BadPlan {
		return &exit.Error{Code: exit.Usage, Err: err}
	}
	return exit.FailedIf(err)
}

// verdict is the exit code of a run that came to its end.
func (f *loadFlags) verdict(r *load.Result, outcomes []load.Outcome) error {
	said := f.out.Said() // by the result's first line
	switch {
	case r.Interrupted && said:
		return &exit.Error{Code: exit.Interrupted}
	case !r.Valid && said:
		return &exit.Error{Code: exit.Invalid}
	case r.Interrupted:
		return &exit.Error{Code: exit.Interrupted, Err: errors.New("load: interrupted; a partial result meets no goal, so let it run to the end")}
	case !r.Valid:
		return &exit.Error{Code: exit.Invalid, Err: fmt.Errorf("load: the run is not valid: %s", strings.Join(r.InvalidReasons, "; "))}
	}
	for _, o := range outcomes {
		if !o.Met {
			return &exit.Error{Code: exit.Missed, Err: fmt.Errorf("load: goal %v; see where its time goes with pprof on the server's --admin address", o)}
		}
	}
	return nil
}

const goalType = "GOAL"

// goalFlag takes goals.
type goalFlag struct{ goals []load.Goal }

// Set takes one goal.
func (f *goalFlag) Set(text string) error {
	g, err := load.ParseGoal(text)
	if err != nil {
		return err
	}
	f.goals = append(f.goals, g)
	return nil
}

// String returns the goals given.
func (f *goalFlag) String() string {
	var texts []string
	for _, g := range f.goals {
		texts = append(texts, g.String())
	}
	return strings.Join(texts, ",")
}

// Type is how help names the value.
func (f *goalFlag) Type() string { return goalType }

// sizeFlag takes a number of bytes.
type sizeFlag int

// Set takes the size.
func (f *sizeFlag) Set(text string) error {
	n, err := figure.ParseSize(text)
	*f = sizeFlag(n)
	return err
}

// String returns the size.
func (f *sizeFlag) String() string { return figure.Size(int(*f)) }

// Type is how help names the value.
func (f *sizeFlag) Type() string { return "SIZE" }

// contentFlag takes the content of a request.
type contentFlag struct {
	text    string
	content []byte
}

// Set takes TEXT, hex:BYTES or @FILE.
func (f *contentFlag) Set(text string) (err error) {
	f.text = text
	if name, ok := strings.CutPrefix(text, "@"); ok {
		if f.content, err = os.ReadFile(name); err != nil {
			return fmt.Errorf("cannot be read: %w; name a file after @", err)
		}
		return nil
	}
	f.content = []byte(text)
	if digits, ok := strings.CutPrefix(text, "hex:"); ok {
		if f.content, err = hex.DecodeString(digits); err != nil {
			return errors.New("not hexadecimal; write two digits for each byte, as in hex:0a0d")
		}
	}
	return nil
}

// String returns the flag as given.
func (f *contentFlag) String() string { return f.text }

// Type is how help names the value.
func (f *contentFlag) Type() string { return "CONTENT" }
