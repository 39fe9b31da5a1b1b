package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/spec"
)

// judgeFlags say how two runs are compared.
type judgeFlags struct {
	tolerance, noise spec.Percent
	judge            compare.Judge
}

func (f *judgeFlags) define(cmd *cobra.Command) {
	f.tolerance = 0.03
	flags := cmd.Flags()
	flags.Var(&f.tolerance, "tolerance", "difference that does not matter: B is the same as A if the difference is certainly smaller")
	flags.Var(&f.noise, "noise", "difference up to which builds of the same source vary on this machine, if you know it (what hone doctor --noise measured)")
	flags.StringVar(&f.judge.Primary, "primary", "", "the primary figure: it decides between exit codes 0 and 4 (the first one)")
	flags.StringSliceVar(&f.judge.Across, "across", nil, "settings that may differ, as in go,cpu")
	flags.IntVar(&f.judge.Look, "look", 1, "which look at the same question this is: the second has twice the pairs of the first, the third four times")
}

// as is how the flags want runs to be compared.
func (f *judgeFlags) as() compare.Judge {
	f.judge.Tolerance, f.judge.Noise = float64(f.tolerance), float64(f.noise)
	return f.judge
}

// stored compares two runs. The store, if there is one, knows the noise of their machine.
func (f *judgeFlags) stored(ctx context.Context, store *record.Store, a, b *record.Run) (*compare.Report, error) {
	c, err := f.as().Stored(ctx, store, a, b)
	return c, session.StoreFailure("compare", err)
}
