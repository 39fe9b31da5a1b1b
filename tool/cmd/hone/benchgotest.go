package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/trial"
)

// runGoTest measures Go benchmarks instead of a server.
func (f *benchFlags) runGoTest(cmd *cobra.Command) error {
	plan, err := f.goTest.Plan(cmd, &f.Subject)
	switch {
	case err != nil:
		return err
	case (f.revision != "" || f.self) && plan.Samples < compare.FewestPairs:
		return exit.Usagef("bench: --samples %d: a verdict needs at least %d pairs; 16 are usual", plan.Samples, compare.FewestPairs)
	}
	if here, err := os.Getwd(); err == nil && plan.Scenario.Name == "." { // which says nothing in a list of runs
		plan.Scenario.Name = filepath.Base(here)
	}
	ctx := cmd.Context()
	plan.Scenario.Primary = f.judge.judge.Primary
	base, err := f.base(compare.Settings{Machine: machine.Read().Strict, Scenario: &plan.Scenario})
	if err != nil {
		return err
	}
	p := livePage("bench --go-test "+f.goTest.Package, page.Fact{Name: "package", Value: f.goTest.Package}, page.Fact{Name: "benchmarks", Value: f.goTest.Bench})
	p.Groups, p.Baseline = []string{page.Host}, base
	s, err := f.out.Open(cmd, !f.discard, p)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	remove, err := f.trees(ctx, &plan)
	if err != nil {
		return session.Failure("bench", err)
	}
	defer remove()
	plan.Progress = s.Live.Doing(s.Watch(load.Plan{}).Trial)
	runs, notes, err := plan.Run(ctx)
	if f.self {
		return f.repeated(s, plan.Scenario.Name, plan.Samples, runs, err)
	}
	return f.finish(s, &benchResult{Runs: runs, notes: notes, wanted: plan.Samples}, base, err)
}

// trees sets what is measured: the working tree, and before it the revision.
func (f *benchFlags) trees(ctx context.Context, plan *trial.Benchmarks) (remove func() error, err error) {
	now := trial.WorkingTree(ctx, ".")
	now.Name = f.save
	plan.Trees = []trial.Tree{now}
	if f.self {
		plan.Trees = append(plan.Trees, now)
	}
	if f.revision == "" {
		return func() error { return nil }, nil
	}
	revision, err := trial.Checkout(ctx, ".", f.revision)
	if err != nil {
		return nil, err
	}
	now.Name = cmp.Or(now.Name, "the working tree")
	plan.Trees = []trial.Tree{{Name: revision.Name, Dir: revision.Dir, Commit: revision.Commit}, now}
	return revision.Remove, nil
}
