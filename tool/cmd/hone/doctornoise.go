package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/trial"
)

// noiseFlags are doctor's about noise.
type noiseFlags struct {
	wanted   bool
	scenario string
	samples  int
	progress bool
	store    storeFlag
}

func (f *noiseFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.wanted, "noise", false, "measure by how much runs of the same program differ here, and keep it for verdicts")
	flags.StringVarP(&f.scenario, "scenario", "f", "", "with --noise: the scenario `FILE` of hone bench to measure (a server of hone's)")
	flags.IntVarP(&f.samples, "samples", "n", 8, "with --noise: pairs to measure")
	flags.BoolVar(&f.progress, "progress", false, "with --noise: report every second, also where standard error is no terminal")
	f.store.define(cmd)
}

// noiseReport is the result, also in JSON.
type noiseReport struct {
	Schema         string        `json:"schema"`
	Valid          bool          `json:"valid"`
	InvalidReasons []string      `json:"invalid_reasons"`
	Scenario       string        `json:"scenario"`
	Pairs          int           `json:"pairs"`
	Floors         []noiseFigure `json:"floors"`
	Kept           string        `json:"kept"` // the store
}

type noiseFigure struct {
	Metric string  `json:"metric"`
	Unit   string  `json:"unit"`
	Paired float64 `json:"paired"` // relative
	Apart  float64 `json:"apart"`
}

// run measures a program against itself.
func (f *noiseFlags) run(cmd *cobra.Command, out *outputFlags) error {
	ctx := cmd.Context()
	subject := new(subjectFlags)
	as := &cobra.Command{Use: "doctor"} // whose flags are the scenario's keys
	subject.define(as)
	if err := f.choose(as, subject); err != nil {
		return err
	}
	plan, server, err := subject.plan(as)
	if err != nil {
		return err
	}
	plan.Samples = f.samples
	plan.Servers = []trial.Server{server, server}
	store, err := f.store.write(ctx, "doctor")
	if err != nil {
		return err
	}
	defer store.Close()
	watcher := newTrialProgress(cmd.ErrOrStderr(), f.progress)
	plan.Progress = watcher.show
	runs, err := trial.Run(ctx, plan)
	watcher.end()
	if err != nil {
		return trialFailure("doctor", err)
	}
	report := &noiseReport{Schema: "hone.noise/1", Scenario: plan.Scenario.Name, InvalidReasons: []string{}, Floors: []noiseFigure{}}
	if f.scenario == "" {
		report.Scenario, plan.Scenario.Text = "a server of hone's", ""
	}
	report.measure(runs, f.samples)
	if report.Valid {
		if report.Kept, err = f.store.locate(); err != nil {
			return failed("doctor: %w", err)
		}
		for _, n := range report.floors(plan.Scenario, runs[0]) {
			if err := store.SetNoise(ctx, n); err != nil {
				return storeFailure("doctor", err)
			}
		}
	}
	if err := out.write(cmd, report, report.write); err != nil {
		return err
	}
	if !report.Valid {
		return &failure{code: exitInvalid}
	}
	return nil
}

// choose sets the flags of what is measured: a file's, or those of hone's own
// server.
func (f *noiseFlags) choose(as *cobra.Command, subject *subjectFlags) error {
	if f.samples < 6 {
		return wrongUse("doctor: --samples %d: use 6 or more; fewer say nothing about noise", f.samples)
	}
	if f.scenario != "" {
		subject.scenario = f.scenario
		return nil
	}
	exe, err := os.Executable()
	if err != nil {
		return failed("doctor: %w", err)
	}
	addr, err := freeAddr()
	if err != nil {
		return failed("doctor: %w", err)
	}
	for name, value := range map[string]string{
		"cmd":    strconv.Quote(exe) + " serve --admin off --addr " + addr,
		"target": "tcp://" + addr, "conns": "50", "for": "3s",
	} {
		if err := as.Flags().Set(name, value); err != nil {
			return failed("doctor: %w", err)
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

// measure fills in by how much the pairs differ.
func (r *noiseReport) measure(runs []*record.Run, wanted int) {
	for i, run := range runs { // as the store would
		run.ID, run.PairedWith = strconv.Itoa(i), strconv.Itoa(1-i)
	}
	a, b, paired := compare.Stored(runs[0], runs[1])
	figures, _ := compare.Match(a, b, paired)
	if len(figures) > 0 {
		r.Pairs = len(figures[0].Pairs)
	}
	if r.Pairs < wanted {
		samples := &benchResult{Runs: runs, wanted: wanted}
		samples.judgeSamples()
		r.InvalidReasons = samples.InvalidReasons
		return
	}
	r.Valid = true
	for _, f := range figures {
		var va, vb []float64
		for _, p := range f.Pairs {
			va, vb = append(va, p.A), append(vb, p.B)
		}
		floors := trial.FloorsOf(va, vb, 1)
		r.Floors = append(r.Floors, noiseFigure{f.Name, f.Unit, floors.Pairs, floors.Apart})
	}
}

// floors are what to keep.
func (r *noiseReport) floors(s record.Scenario, of *record.Run) (kept []record.Noise) {
	scenario := ""
	if s.Text != "" {
		scenario = s.Hash()
	}
	for _, f := range r.Floors {
		for paired, floor := range map[bool]float64{true: f.Paired, false: f.Apart} {
			kept = append(kept, record.Noise{Fingerprint: machineOf(of).Fingerprint(), Scenario: scenario, Metric: f.Metric, Unit: f.Unit,
				Paired: paired, Floor: floor, Runs: 2 * r.Pairs, At: time.Now().UTC()})
		}
	}
	return kept
}

func (r *noiseReport) write(w io.Writer) {
	writeValidity(w, r.Valid, r.InvalidReasons)
	if !r.Valid {
		return
	}
	fmt.Fprintf(w, "%s, %d pairs of the same program. Of 100 comparisons 95 differ by less than\n\n", r.Scenario, r.Pairs)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "figure\tin pairs\tapart")
	for _, f := range r.Floors {
		fmt.Fprintf(table, "%s %s\t%.1f %%\t%.1f %%\n", f.Metric, f.Unit, 100*f.Paired, 100*f.Apart)
	}
	table.Flush()
	fmt.Fprintf(w, "\nkept in %s for verdicts about this machine\n", r.Kept)
}
