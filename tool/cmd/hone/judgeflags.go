package main

import (
	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/spec"
)

// judgeFlags sets how two runs are compared.
type judgeFlags struct {
	tolerance, noise spec.Percent
	judge            compare.Judge
}

func (f *judgeFlags) define(cmd *cobra.Command) {
	f.tolerance = 0.03
	flags := cmd.Flags()
	flags.Var(&f.tolerance, "tolerance", "difference that does not matter, as a factor (25% is −20 to +25 %): B is the same as A if the whole interval lies within it")
	flags.Var(&f.noise, "noise", "how much builds of the same source vary on this machine (default: as measured by hone bench --against-self)")
	flags.Lookup("noise").DefValue = "" // the usage text has the default
	flags.StringVar(&f.judge.Primary, "primary", "", "the primary figure, which decides between exit codes 0 and 4 (default: the first)")
	flags.StringSliceVar(&f.judge.Across, "across", nil, "settings that may differ, as in go,cpu")
	flags.IntVar(&f.judge.Look, "look", 1, "number of this look at the same question: the second needs twice the pairs of the first, the third four times")
}

// as returns the settings of the comparison.
func (f *judgeFlags) as() compare.Judge {
	f.judge.Tolerance, f.judge.Noise = float64(f.tolerance), float64(f.noise)
	return f.judge
}

// stored compares two runs. The store, if there is one, knows the noise of their machine.
func (f *judgeFlags) stored(store *record.Store, a, b *record.Run) (*compare.Report, error) {
	c, err := f.as().Stored(store, a, b)
	return c, session.StoreFailure("compare", err)
}
