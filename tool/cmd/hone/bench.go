package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/spec"
	"github.com/hone-go/hone/tool/trial"
)

// benchFlags holds the parsed flags of hone bench. The flags that describe the
// measurement are also the keys of a scenario file.
type benchFlags struct {
	spec.Bench
	judge    judgeFlags
	profiles profilingFlags
	revision string
	against  string
	self     bool
	save     string
	discard  bool
	out      session.Flags
}

func newBench() *cobra.Command {
	f := new(benchFlags)
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a server several times and store the run",
		Long: `Measure a server several times, each time in a fresh process, and store the run.

It can measure two alternately, in pairs, and compare them: --revision REV builds that
git revision (A) beside the working tree (B), --against-cmd starts another program (A),
and a scenario file may have several, each in a [[program]]: the first is A.
--against RUN compares with a stored run, which needs a noise floor: how much builds of
the same source differ here, which --against-self measures and stores for verdicts. Measure
it on several days. Without --target, --cmd runs to its end, and the Go benchmarks that
it prints are measured.

The shell runs --cmd and --build; {out} in them is an empty folder, one per revision.
The server must listen at --target and exit on SIGTERM. A scenario file (-f) holds
flags, one per line, as in cmd = "{out}/server". See docs/bench.md.

Exit codes: 3 when a figure is worse, 4 when there are too few valid samples or the
primary figure is unclear.`,
		Example: `  hone bench --cmd ./server --target http://127.0.0.1:8080/ -c 50 -d 5s
  hone bench -f hello.toml --revision main
  hone bench --cmd 'go test -run ^$ -bench Encode -benchmem ./codec' --revision main
  hone bench --cmd ./new --against-cmd ./old --target http://127.0.0.1:8080/
  hone bench -f hello.toml --save before
  hone bench -f hello.toml --against before --md`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.Bench.Define(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.revision, "revision", "", "the git `REVISION` to measure alternately with the working tree")
	flags.StringVar(&f.against, "against", "", "the earlier `RUN` to compare with, as in before; see hone run --help")
	flags.BoolVar(&f.self, "against-self", false, "measure two builds of the same source alternately, and store how much they differ, for verdicts")
	f.judge.define(cmd)
	f.profiles.define(cmd)
	flags.StringVar(&f.save, "save", "", "store the run under this `NAME` (default: no name)")
	flags.BoolVar(&f.discard, "discard", false, "do not store the run")
	f.out.DefineProgress(cmd, "every second")
	f.out.DefineReport(cmd, nil)
	f.out.UI.Define(cmd)
	f.out.Store.Define(cmd)
	shortHelp(cmd, "cmd target build revision against against-cmd against-self samples conns for rate expect-content header body profile pprof save json md output ui scenario", "content, traffic, TLS, limits, readiness, what may differ")
	return cmd
}

// run measures, stores and judges.
func (f *benchFlags) run(cmd *cobra.Command) error {
	if err := f.out.Check("bench"); err != nil {
		return err
	}
	switch {
	case f.self && (f.save != "" || f.discard):
		return exit.Usagef("bench: --against-self stores its runs without a name; leave out --save and --discard")
	case f.save != "" && f.discard:
		return exit.Usagef("bench: choose one of --save and --discard")
	}
	if err := f.out.UI.Check("bench"); err != nil {
		return err
	}
	plan, err := f.Plan(cmd)
	if err != nil {
		return err
	}
	chosen := 0
	for _, given := range []bool{f.revision != "", f.against != "", len(plan.Servers) > 1, f.self} {
		if given {
			chosen++
		}
	}
	switch {
	case chosen > 1:
		return exit.Usagef("bench: choose one of --revision, --against, --against-self and several programs")
	case f.save != "" && len(plan.Servers) > 2:
		return exit.Usagef("bench: --save names one run, and each [[program]] is stored under its own name; leave it out")
	case chosen > 0 && plan.Samples < compare.FewestPairs:
		return exit.Usagef("bench: --samples (-n) %d: a verdict needs at least %d; 12 are usual", plan.Samples, compare.FewestPairs)
	}
	if err := f.profiles.check("bench"); err != nil {
		return err
	}
	if f.profiles.wanted() && f.Target == "" {
		return exit.Usagef("bench: --profile needs --target, a server to profile; go test has -cpuprofile")
	}
	if f.profiles.token, err = session.ReadToken(f.profiles.tokenFile); err != nil {
		return exit.Failedf("bench: --pprof-token-file: %w", err)
	}
	return f.measure(cmd, plan)
}

// measure takes the samples, then judges, prints and stores them.
func (f *benchFlags) measure(cmd *cobra.Command, plan trial.Plan) error {
	ctx := cmd.Context()
	plan.Scenario.Primary = f.judge.judge.Primary
	base, err := f.base(compare.Settings{Machine: trial.Environment(plan.Load.Target).Strict, Load: plan.Load.Settings, Scenario: &plan.Scenario})
	if err != nil {
		return err
	}
	p := livePage("bench "+cmp.Or(spec.Public(f.Target), f.Shape()), page.Fact{Name: "scenario", Value: f.Bench.Name()}, page.Fact{Name: "load", Value: f.Shape()})
	if p.Baseline = base; f.Target == "" {
		p.Groups = []string{page.Host}
	}
	s, err := f.out.Open(cmd, !f.discard, p)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	server, programs := &plan.Servers[len(plan.Servers)-1], plan.Servers
	server.Name = cmp.Or(f.save, server.Name)
	if f.self {
		plan.Servers = append(plan.Servers, *server)
	}
	if f.revision != "" {
		revision, err := trial.Checkout(ctx, ".", f.revision)
		if err != nil {
			return session.Failure("bench", err)
		}
		defer revision.Remove()
		old := *server
		old.Name, old.Dir = revision.Name, revision.Dir
		server.Name = cmp.Or(server.Name, "the working tree")
		plan.Servers = []trial.Server{old, *server}
	}
	plan.Progress = s.Live.BesideTrial(s.Watch(plan.Load).Trial)
	runs, err := trial.Run(ctx, plan)
	if f.self {
		return f.repeated(s, plan.Scenario.Name, plan.Samples, runs, err)
	}
	if err == nil {
		err = f.profiles.take(ctx, plan, runs)
	}
	result := &benchResult{Runs: runs, wanted: plan.Samples}
	if len(programs) > 1 {
		f.judge.judge.Comparisons = len(programs) - 1
		f.judge.judge.Across = append(f.judge.judge.Across, ofPrograms(plan.Load.Target, runs)...)
		result.notes = identical(runs)
	}
	return f.finish(s, result, base, err)
}

// finish judges, prints and stores what has been measured until err.
func (f *benchFlags) finish(s *session.Session, result *benchResult, base *record.Run, err error) error {
	runs := result.Runs
	for _, run := range runs {
		noteVersion(run)
	}
	s.Live.EndBench(runs, err)
	end := session.End{Runs: runs}
	if err != nil {
		end.Err, end.Partly = session.Failure("bench", err), true
		return s.Finish(end)
	}
	if s.Store == nil || record.Identify(runs...) != nil { // a failure to store is reported later
		identify(runs)
	}
	result.Schema = figure.SchemaBench
	result.InvalidReasons = append([]string{}, compare.Short(runs, result.wanted)...)
	result.Valid = len(result.InvalidReasons) == 0
	end.Err = f.compare(s.Store, result, base)
	if c := result.Comparison; c != nil && len(result.Others) == 0 {
		s.Live.On(func(p *page.Page) { p.Judge(page.Judged{Comparison: c.Comparison, Notes: c.Notes}) })
	}
	if end.Err == nil {
		text := result.text
		if f.out.MD {
			text = result.markdown
		}
		end.JSON, end.Text = result, session.InText(text)
		end.Kept = func() error { return f.writeKept(s.Result(), runs) }
		end.Verdict = result.failure(!s.Said())
	}
	return s.Finish(end)
}

// repeated stores the runs of two builds of the same source, and says how much they differ.
func (f *benchFlags) repeated(s *session.Session, scenario string, wanted int, runs []*record.Run, err error) error {
	report := &compare.Noise{Schema: figure.SchemaNoise, Valid: true, Scenario: scenario, InvalidReasons: []string{}, Floors: []compare.NoiseFigure{}}
	var end session.End
	if err != nil {
		end.Err = session.Failure("bench", err)
	} else if report.Check(runs, wanted); report.Valid {
		end.Runs = runs
		end.Err = session.StoreFailure("bench", report.Measure(s.Store, runs))
	} else {
		end.Verdict = &exit.Error{Code: exit.Invalid}
	}
	s.Live.End(report.InvalidReasons, err)
	if end.Err == nil {
		if report.Store, err = f.out.Store.Locate(); err != nil {
			return exit.Failedf("bench: %w", err)
		}
		end.JSON, end.Text = report, session.InText(report.Write)
	}
	return s.Finish(end)
}

// base reads the earlier run and refuses one with other settings. It returns nil if no
// run was given.
func (f *benchFlags) base(now compare.Settings) (*record.Run, error) {
	if f.against == "" {
		return nil, nil
	}
	base, err := f.out.Store.Run("bench: --against "+f.against, f.against)
	if errors.Is(err, record.ErrNotFound) {
		return nil, exit.Failedf("%w; a git revision is --revision %s", err, f.against)
	}
	if err != nil {
		return nil, err
	}
	return base, f.judge.judge.Alike("bench", compare.SettingsOf(base), now)
}

// compare judges the single run against the earlier one, or the other runs against the first.
func (f *benchFlags) compare(store *record.Store, result *benchResult, base *record.Run) (err error) {
	first, others := base, result.Runs
	if base == nil {
		first, others = others[0], others[1:]
	}
	if store == nil && base != nil {
		if store, err = f.out.Store.Read("bench"); err != nil {
			return err
		}
	}
	var all []*compare.Report
	for _, run := range others {
		c, err := f.judge.stored(store, first, run)
		if end := new(exit.Error); errors.As(err, &end) && end.Code == exit.Invalid && !result.Valid {
			return nil // the reason has been reported: there are no samples to compare
		}
		if err != nil {
			return err
		}
		c.A, c.B = first.Title(), run.Title()
		all = append(all, c)
	}
	if len(all) > 0 {
		all[0].Notes = append(all[0].Notes, result.notes...)
		result.Comparison, result.Others = all[0], all[1:]
	}
	return nil
}

// identify names the runs a, b and so on until the store gives them ids.
func identify(runs []*record.Run) {
	for i, run := range runs {
		if len(runs) == 1 {
			return
		}
		run.ID = string(rune('a' + i))
		if run.PairedWith = "a"; i == 0 {
			run.PairedWith = "b"
		}
	}
}

func (f *benchFlags) writeKept(w io.Writer, runs []*record.Run) (err error) {
	if f.out.JSON || f.out.MD {
		return nil
	}
	for _, run := range runs {
		_, err = fmt.Fprintf(w, "kept as %s\n", run.Title())
	}
	return err
}
