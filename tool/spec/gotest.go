package spec

import (
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/trial"
)

// GoTest describes Go benchmarks to measure instead of a server.
type GoTest struct {
	Package string // empty: a server is measured
	Bench   string
}

// Define adds the flags, which are also the keys of a scenario file.
func (f *GoTest) Define(cmd *cobra.Command) {
	f.Bench = "."
	new(settings).define(cmd, []setting{
		{name: "go-test", value: &f.Package, usage: "measure the Go benchmarks of this `PACKAGE` instead of a server, as in ./codec or ./..."},
		{name: "bench", value: &f.Bench, usage: "with --go-test: which benchmarks, as go test -bench `PATTERN`"},
	})
}

// ofGoTest are the flags above that a measurement of Go benchmarks uses, too.
var ofGoTest = []string{"go-test", "bench", "samples", "for", "most-others", "tolerance", "noise", "primary", "across"}

// Plan returns what to measure, but not of which trees. The subject has the flags that both kinds
// of measurement have.
func (f *GoTest) Plan(cmd *cobra.Command, s *Subject) (plan trial.Benchmarks, err error) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if err == nil && !slices.Contains(ofGoTest, flag.Name) && !slices.Contains(notInFiles, flag.Name) {
			err = exit.Usagef("%s: --%s has no effect on the benchmarks of --go-test; leave one of them out", cmd.Name(), flag.Name)
		}
	})
	plan = trial.Benchmarks{Package: f.Package, Bench: f.Bench, For: trial.UsualTake, Design: trial.Design{Samples: trial.BenchmarkSamples, MostOthers: float64(s.others.Most), Seed: uint64(time.Now().UnixNano())}}
	if cmd.Flags().Changed("samples") {
		plan.Samples = s.samples
	}
	if cmd.Flags().Changed("for") {
		plan.For = s.Load.Plan.For
	}
	switch {
	case err != nil:
	case plan.Samples < 1:
		err = exit.Usagef("%s: --samples %d: use 1 or more; 16 pairs show a difference of 5 %% if runs differ by 2 %%", cmd.Name(), plan.Samples)
	case plan.For <= 0:
		err = exit.Usagef("%s: --for %v: use a positive duration, as in 500ms", cmd.Name(), plan.For)
	}
	plan.Scenario = record.Scenario{Name: f.Package, Settings: map[string]string{"go-test": f.Package, "bench": f.Bench, "for": plan.For.String()}}
	if s.Scenario != "" {
		plan.Scenario.Name = s.Name()
	}
	return plan, err
}
