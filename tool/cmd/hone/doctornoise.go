package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/spec"
	"github.com/hone-go/hone/tool/trial"
	"github.com/hone-go/hone/tool/view"
)

// noiseFlags are doctor's about noise.
type noiseFlags struct {
	wanted   bool
	scenario string
	samples  int
	sessions int
	progress bool
	store    storeFlag
}

func (f *noiseFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.wanted, "noise", false, "measure how much two builds of the same source differ here, and keep it for verdicts")
	flags.StringVarP(&f.scenario, "scenario", "f", "", "with --noise: the scenario `FILE` of hone bench to measure (a server of hone's)")
	flags.IntVarP(&f.samples, "samples", "n", 16, "with --noise: pairs in a session")
	flags.IntVar(&f.sessions, "sessions", 1, "with --noise: sessions to measure now; each builds the program twice")
	flags.BoolVar(&f.progress, "progress", false, "with --noise: report every second, also where standard error is no terminal")
	f.store.define(cmd)
}

// noiseReport is the result, also in JSON.
type noiseReport struct {
	Schema         string        `json:"schema"`
	Valid          bool          `json:"valid"`
	InvalidReasons []string      `json:"invalid_reasons"`
	Scenario       string        `json:"scenario"`
	Sessions       int           `json:"sessions"` // that are known, with this one
	Pairs          int           `json:"pairs"`    // of this session
	Floors         []noiseFigure `json:"floors"`
	Kept           string        `json:"kept"` // the store
}

// noiseFigure is how much a figure differs between builds of the same source, as a
// relative difference.
type noiseFigure struct {
	Metric string   `json:"metric"`
	Unit   string   `json:"unit"`
	InTurn *float64 `json:"in_turn"` // root of the mean square; null: too few sessions
	Apart  *float64 `json:"apart"`   // of runs that were not taken in turn
}

// run measures a program against itself.
func (f *noiseFlags) run(cmd *cobra.Command, out *outputFlags) error {
	ctx := cmd.Context()
	subject := new(spec.Subject)
	as := &cobra.Command{Use: "doctor"} // whose flags are the keys of a scenario file
	subject.Define(as)
	new(judgeFlags).define(as) // which say nothing about the load
	new(profilingFlags).define(as)
	if err := f.choose(as, subject); err != nil {
		return err
	}
	plan, server, err := subject.Plan(as)
	if err != nil {
		return err
	}
	plan.Samples = f.samples
	plan.Servers = []trial.Server{server, server}
	store, err := f.store.Write(ctx, "doctor")
	if err != nil {
		return err
	}
	defer store.Close()
	watcher := view.NewSteps(cmd.ErrOrStderr(), f.progress)
	defer watcher.End()
	plan.Progress = watcher.Show
	report := &noiseReport{Schema: "hone.noise/2", Valid: true, Scenario: plan.Scenario.Name, InvalidReasons: []string{}, Floors: []noiseFigure{}}
	if f.scenario == "" {
		report.Scenario = "a server of hone's"
	}
	for range f.sessions {
		plan.Seed++
		runs, err := trial.Run(ctx, plan)
		if err != nil {
			return session.Failure("doctor", err)
		}
		if report.check(runs, f.samples); !report.Valid {
			break
		}
		if err := keepRepeat(ctx, store, runs); err != nil {
			return session.StoreFailure("doctor", err)
		}
		if err := report.measure(ctx, store, runs); err != nil {
			return session.StoreFailure("doctor", err)
		}
	}
	watcher.End()
	if report.Kept, err = f.store.Locate(); err != nil {
		return exit.Failedf("doctor: %w", err)
	}
	if err := out.write(cmd, report, report.write); err != nil {
		return err
	}
	if !report.Valid {
		return &exit.Error{Code: exit.Invalid}
	}
	return nil
}

// choose sets the flags of what is measured: a file's, or those of hone's own
// server.
func (f *noiseFlags) choose(as *cobra.Command, subject *spec.Subject) error {
	switch {
	case f.samples < 5:
		return exit.Usagef("doctor: --samples %d: use 5 or more; fewer say nothing about noise", f.samples)
	case f.sessions < 1:
		return exit.Usagef("doctor: --sessions %d: use 1 or more", f.sessions)
	case f.scenario != "":
		subject.Scenario = f.scenario
		return nil
	}
	exe, err := os.Executable()
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

// freeAddr is an address that nobody listens on. Its port is not among those that
// systems give to clients: one of them could take it in the meantime.
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

// check counts the valid pairs.
func (r *noiseReport) check(runs []*record.Run, wanted int) {
	samples := &benchResult{Runs: runs, wanted: wanted}
	samples.judgeSamples()
	r.Valid, r.InvalidReasons, r.Pairs = samples.Valid, samples.InvalidReasons, wanted
	if r.InvalidReasons == nil {
		r.InvalidReasons = []string{}
	}
}

// keepRepeat keeps the figures of a session, without what they were made of.
func keepRepeat(ctx context.Context, store *record.Store, runs []*record.Run) error {
	for _, r := range runs {
		r.Made = record.Repeat
		for i := range r.Samples {
			s := &r.Samples[i]
			s.Histograms, s.Series, s.Artefacts = nil, nil, nil
		}
	}
	return store.AddPair(ctx, runs[0], runs[1])
}

// measure computes the floors of all sessions, with the latest.
func (r *noiseReport) measure(ctx context.Context, store *record.Store, runs []*record.Run) error {
	repeats, _, err := repeatsFor(ctx, store, runs[0])
	if err != nil {
		return err
	}
	r.Sessions, r.Floors = len(repeats), []noiseFigure{}
	figures, err := compare.Match(compare.Stored(runs[0], runs[1]))
	if err != nil {
		return err
	}
	compare.AddSessions(figures, repeats)
	rms := func(f compare.Figure) *float64 {
		if floor := f.Floor(); floor != nil {
			return &floor.RMS
		}
		return nil
	}
	for _, f := range figures {
		n := noiseFigure{Metric: f.Name, Unit: f.Unit, InTurn: rms(f)}
		f.Pairs = nil
		n.Apart = rms(f)
		r.Floors = append(r.Floors, n)
	}
	return nil
}

func (r *noiseReport) write(w io.Writer) {
	figure.WriteValidity(w, r.Valid, r.InvalidReasons)
	if r.Sessions > 0 {
		fmt.Fprintf(w, "%s: %s so far, %d pairs in this one\n\n", r.Scenario, figure.Counted(r.Sessions, "session"), r.Pairs)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "figure\tbuilds differ by (in turn)\tbetween sessions")
		percent := func(v float64) string { return fmt.Sprintf("±%.1f %%", 100*v) }
		for _, f := range r.Floors {
			fmt.Fprintf(table, "%s %s\t%s\t%s\n", f.Metric, f.Unit, figure.OrNone(f.InTurn, percent), figure.OrNone(f.Apart, percent))
		}
		table.Flush()
		fmt.Fprintf(w, "\nkept in %s for verdicts about this machine and scenario\n", r.Kept)
	}
	if r.Sessions <= fewestSessions {
		fmt.Fprintf(w, "verdicts about pairs need %d sessions, those about runs that were not measured in turn one more; 8 are better, on several days\n", fewestSessions)
	}
}
