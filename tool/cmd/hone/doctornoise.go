package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"

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

// noiseFlags holds doctor's flags about noise.
type noiseFlags struct {
	wanted   bool
	scenario string
	samples  int
	sessions int
	to       session.Flags
}

func (f *noiseFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.wanted, "noise", false, "measure how much two builds of the same source differ here, and store it for verdicts")
	flags.StringVarP(&f.scenario, "scenario", "f", "", "with --noise: the scenario `FILE` of hone bench to measure (default: hone serve)")
	flags.IntVarP(&f.samples, "samples", "n", trial.BenchmarkSamples, "with --noise: pairs per session")
	flags.IntVar(&f.sessions, "sessions", 1, "with --noise: sessions to measure now; each builds the program twice")
	f.to.DefineProgress(cmd, "every second of --noise")
	f.to.UI.Define(cmd)
	f.to.Store.Define(cmd)
}

// check refuses flags that need --noise.
func (f *noiseFlags) check() error {
	if f.to.UI.Addr != "" && !f.wanted {
		return exit.Usagef("doctor: --ui needs --noise: the checks take a second and have no live page; use hone doctor --noise --ui %s", f.to.UI.Addr)
	}
	return f.to.UI.Check("doctor")
}

// run measures a program against itself.
func (f *noiseFlags) run(cmd *cobra.Command, out *session.Output) error {
	ctx := cmd.Context()
	subject := new(spec.Subject)
	as := &cobra.Command{Use: "doctor"} // its flags are the keys of a scenario file
	subject.Define(as)
	goTest := new(spec.GoTest)
	goTest.Define(as)
	new(judgeFlags).define(as) // they do not affect the load
	new(profilingFlags).define(as)
	if err := f.choose(as, subject); err != nil {
		return err
	}
	name, take, err := f.subject(as, subject, goTest)
	if err != nil {
		return err
	}
	f.to.Output = *out
	s, err := f.to.Open(cmd, true, &page.Page{
		Title: "hone doctor --noise", Groups: []string{page.Client, page.Host},
		About: []page.Fact{{Name: "scenario", Value: name}, {Name: "load", Value: subject.Load.Shape()}, {Name: "hone", Value: command.BuildOf(release).Version}},
	})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	report := &compare.Noise{Schema: figure.SchemaNoise, Valid: true, Scenario: name, InvalidReasons: []string{}, Floors: []compare.NoiseFigure{}}
	end := session.End{Err: f.sample(ctx, take, s.Live.BesideTrial(s.Watch(subject.Load.Plan).Trial), s.Store, report)}
	s.Live.End(report.InvalidReasons, errors.Join(end.Err, ctx.Err()))
	if report.Kept, err = f.to.Store.Locate(); err != nil {
		return exit.Failedf("doctor: %w", err)
	}
	if report.Sessions > 0 || end.Err == nil {
		end.JSON, end.Text = report, session.InText(report.Write)
	}
	if !report.Valid {
		end.Verdict = &exit.Error{Code: exit.Invalid}
	}
	return s.Finish(end)
}

// sample measures the sessions and stores each at once. The report includes a session
// that could not be stored.
func (f *noiseFlags) sample(ctx context.Context, take takeSession, show func(trial.Progress), store *record.Store, report *compare.Noise) error {
	for i := range f.sessions {
		runs, err := take(ctx, uint64(i), func(now trial.Progress) {
			if f.sessions > 1 {
				now.Session, now.Sessions = i+1, f.sessions
			}
			show(now)
		})
		if err != nil {
			return session.Failure("doctor", err)
		}
		if report.Check(runs, f.samples); !report.Valid {
			return nil
		}
		if err := report.Measure(store, runs); err != nil {
			return session.StoreFailure("doctor", err)
		}
		if err := store.AddPair(runs[0], runs[1]); err != nil {
			return session.StoreFailure("doctor: the session is not kept", err)
		}
	}
	return nil
}

// takeSession measures a program against itself. The number of the session chooses the order.
type takeSession func(ctx context.Context, number uint64, show func(trial.Progress)) ([]*record.Run, error)

// subject returns the name of what is measured, and what measures it.
func (f *noiseFlags) subject(as *cobra.Command, subject *spec.Subject, goTest *spec.GoTest) (name string, take takeSession, err error) {
	if subject.Scenario != "" {
		if err := spec.ReadFile(as, subject.Scenario); err != nil {
			return "", nil, err
		}
	}
	if goTest.Package != "" {
		take, err := noiseOfGoTest(as, goTest, subject, f.samples)
		return subject.Name(), take, err
	}
	plan, server, err := subject.Plan(as)
	if err != nil {
		return "", nil, err
	}
	plan.Samples = f.samples
	plan.Servers = []trial.Server{server, server}
	name = plan.Scenario.Name
	if f.scenario == "" {
		name = "a server of hone's"
	}
	return name, func(ctx context.Context, number uint64, show func(trial.Progress)) ([]*record.Run, error) {
		again := plan
		again.Seed, again.Progress = plan.Seed+number, show
		return trial.Run(ctx, again)
	}, nil
}

// choose sets the flags of the measured server: those of a file, or those of hone serve.
func (f *noiseFlags) choose(as *cobra.Command, subject *spec.Subject) error {
	switch {
	case f.samples < 5:
		return exit.Usagef("doctor: --samples %d: use 5 or more; fewer cannot measure noise", f.samples)
	case f.sessions < 1:
		return exit.Usagef("doctor: --sessions %d: use 1 or more", f.sessions)
	case f.scenario != "":
		subject.Scenario = f.scenario
		return nil
	}
	exe, err := command.Self()
	if err != nil {
		return exit.Failedf("doctor: %w", err)
	}
	addr, err := freeAddr()
	if err != nil {
		return exit.Failedf("doctor: %w", err)
	}
	for name, value := range map[string]string{
		"cmd":    strconv.Quote(exe) + " serve --admin off --addr " + addr,
		"target": "tcp://" + addr, "conns": "50", "for": "3s",
	} {
		if err := as.Flags().Set(name, value); err != nil {
			return exit.Failedf("doctor: %w", err)
		}
	}
	return nil
}

// freeAddr returns an address at which nothing listens. Its port lies outside the
// ephemeral range, from which a client could take it in the meantime.
func freeAddr() (addr string, err error) {
	for range 100 {
		addr = "127.0.0.1:" + strconv.Itoa(10_000+rand.IntN(20_000))
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", err
}
