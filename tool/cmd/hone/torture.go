package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/spec"
	"github.com/hone-go/hone/tool/torture"
	"github.com/hone-go/hone/tool/trial"
)

// tortureFlags holds the parsed flags of hone torture.
type tortureFlags struct {
	target    spec.Attacked
	pid       int
	profiles  string
	only      []string
	against   string
	anywhere  bool
	list      bool
	seed      uint64
	wait      time.Duration
	out       session.Flags
	scenarios []torture.Scenario
}

const defaultWait = 75 * time.Second

func newTorture() *cobra.Command {
	f := new(tortureFlags)
	cmd := &cobra.Command{
		Use:   "torture TARGET",
		Short: "Attack a server and say what becomes of it",
		Long: `Attack a server and say what becomes of it. TARGET is as for hone load; the request of
its flags must be one that the server answers.

While each scenario attacks, bystanders ask what they asked before, on connections that
stay and on new ones. A server survived if they got their answers; slower: they waited
longer, or something failed once and not again; fell: answers that are wrong, lost or late,
newcomers refused, a process that ended or, with --pid or --cmd, memory, descriptors and
CPU that do not come back; not found out: as when no time limit was seen within --wait,
never a pass.

--cmd starts the server and owns it: then scenarios limit its descriptors, stop it and
kill it. Only private and loopback addresses are attacked. See docs/torture.md.

Exit codes: 0 when all survived (with --against: nothing is worse than in that report),
3 when something fell (is worse), 4 when something was not found out.`,
		Example: `  hone torture 127.0.0.1:6379 --frame resp --request PING --pid "$(pidof redis-server)"
  hone torture http://127.0.0.1:8080/ --cmd './server -addr 127.0.0.1:8080'
  hone torture ws://127.0.0.1:8080/echo --json -o before.json
  hone torture ws://127.0.0.1:8080/echo --against before.json
  hone torture 127.0.0.1:7000 --only half-close,trickle --seed 7`,
		Args: arguments(0, 1, "torture: name one target, as in: hone torture 127.0.0.1:7000"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.list:
				return f.listAll(cmd)
			case len(args) == 0:
				return exit.Usagef("torture: name one target, as in: hone torture 127.0.0.1:7000")
			}
			return f.run(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.target.Define(cmd)
	flags.IntVar(&f.pid, "pid", 0, "watch this process, the server's, and its children")
	flags.StringVar(&f.profiles, "pprof", "", "the server's net/http/pprof, a `URL` or HOST:PORT, to count the goroutines that stay (default: an HTTP target's own)")
	flags.StringSliceVar(&f.only, "only", nil, "run only these scenarios, as in half-close,trickle")
	flags.BoolVar(&f.list, "list", false, "print the scenarios, and attack nothing")
	flags.StringVar(&f.against, "against", "", "compare with the report in this `FILE`, written with --json")
	flags.DurationVar(&f.wait, "wait", defaultWait, "how long to wait for the server's time limits")
	flags.BoolVar(&f.anywhere, "anywhere", false, "attack an address that is not private, too: only servers that are yours")
	flags.Uint64Var(&f.seed, "seed", 1, "random seed of inputs and pauses")
	f.out.DefineProgress(cmd, "every scenario")
	f.out.Output.Define(cmd)
	shortHelp(cmd, "cmd pid pprof request expect-content method header body only list against wait json output", "content, TLS, logins, limits")
	return cmd
}

// listAll prints the scenarios.
func (f *tortureFlags) listAll(cmd *cobra.Command) error {
	return f.out.Stream("torture", cmd.OutOrStdout(), func(w io.Writer) (err error) {
		for _, s := range torture.Scenarios() {
			_, err = fmt.Fprintf(w, "%-26s %s\n", s.Name, s.Title)
		}
		return err
	})
}

// choose returns the scenarios of --only; nil: all.
func (f *tortureFlags) choose() error {
	all := torture.Scenarios()
	for _, name := range f.only {
		at := slices.IndexFunc(all, func(s torture.Scenario) bool { return s.Name == name })
		if at < 0 {
			var names []string
			for _, s := range all {
				names = append(names, s.Name)
			}
			return exit.Usagef("torture: --only: there is no scenario %q; %s", name, exit.DidYouMean(name, names, "see hone torture --list"))
		}
		f.scenarios = append(f.scenarios, all[at])
	}
	return nil
}

// plan checks the flags.
func (f *tortureFlags) plan(cmd *cobra.Command, target string) (torture.Plan, error) {
	var plan torture.Plan
	var server trial.Server
	var err error
	if plan.Load, server, err = f.target.Plan(cmd, target); err != nil {
		return plan, err
	}
	if err := f.choose(); err != nil {
		return plan, err
	}
	switch {
	case f.pid != 0 && server.Command != "":
		return plan, exit.Usagef("torture: --pid and --cmd exclude each other; give --pid for a server that runs already")
	case f.pid < 0:
		return plan, exit.Usagef("torture: --pid %d: use a process id", f.pid)
	case f.wait <= 0:
		return plan, exit.Usagef("torture: --wait %v: use a positive duration, as in 75s", f.wait)
	}
	plan.Server, plan.PID, plan.Profiles, plan.Scenarios, plan.Anywhere, plan.Seed, plan.Limits.Wait = server, f.pid, f.profiles, f.scenarios, f.anywhere, f.seed, f.wait
	return plan, nil
}

func (f *tortureFlags) run(cmd *cobra.Command, target string) error {
	plan, err := f.plan(cmd, target)
	if err != nil {
		return err
	}
	earlier, err := f.earlier()
	if err != nil {
		return err
	}
	open, err := f.out.Open(cmd, false, nil)
	if err != nil {
		return err
	}
	defer open.Close(cmd.Context())
	watcher := open.Watch(load.Plan{})
	watcher.Step(0, 1, "watching the bystanders before any attack")
	plan.Progress = func(now torture.Progress) {
		watcher.Step(now.Done, now.Of, now.Doing)
		if made := now.Made; made != nil && made.Verdict != torture.NotApplicable {
			watcher.Line(made.Line())
			watcher.Note(made.Line())
		}
	}
	report, err := torture.Run(cmd.Context(), plan)
	if err != nil {
		return session.Failure("torture", err)
	}
	report.Version = command.BuildOf(release).Version
	again := f.again(cmd, target)
	for i := range report.Results {
		only := " --only " + report.Results[i].Name
		if report.Results[i].Name == torture.Baseline {
			only = ""
		}
		report.Results[i].Replay = fmt.Sprintf("%s%s --seed %d", again, only, report.Seed)
	}
	if earlier != nil {
		report.Compare(earlier)
	}
	return open.Finish(session.End{
		JSON: report, Text: session.InText(report.WriteText),
		Verdict: f.verdict(cmd.Context(), report, open.Said()),
	})
}

// earlier reads the report of --against; nil: none.
func (f *tortureFlags) earlier() (*torture.Report, error) {
	if f.against == "" {
		return nil, nil
	}
	file, err := os.Open(f.against)
	if err != nil {
		return nil, exit.Failedf("torture: --against: %w; name a file written with hone torture --json", err)
	}
	defer file.Close()
	report, err := torture.Read(file)
	return report, exit.FailedIf(err)
}

// verdict returns the exit code.
func (f *tortureFlags) verdict(ctx context.Context, r *torture.Report, said bool) error {
	switch {
	case ctx.Err() != nil:
		return exit.Verdict(exit.Interrupted, said, "torture: interrupted")
	case r.Against != nil && len(r.Against.Worse) > 0:
		return exit.Verdict(exit.Missed, said, "torture: worse than before: %v", r.Against.Worse[0])
	case r.Against == nil && r.Count(torture.Fell) > 0:
		return exit.Verdict(exit.Missed, said, "torture: %s", r.Summary())
	case r.Against == nil && r.Count(torture.NotFoundOut) > 0:
		return exit.Verdict(exit.Invalid, said, "torture: %s", r.Summary())
	}
	return nil
}

// again returns the command that attacks the same target, without secrets and the flags that choose
// what is run and where the result goes.
func (f *tortureFlags) again(cmd *cobra.Command, target string) string {
	words := []string{"hone torture", figure.Quoted(spec.Public(target))}
	for _, flag := range f.target.Given(cmd, "only", "seed", "against", "json", "output", "progress", "plain", "list") {
		words = append(words, flag.Name+"="+figure.Quoted(flag.Value))
	}
	return strings.Join(words, " ")
}
