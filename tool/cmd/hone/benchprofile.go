package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/probe"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/trial"
)

// profilingFlags selects the profiles that bench takes in addition to its timed samples.
type profilingFlags struct {
	kinds                 []string
	url, tokenFile, token string
	lasts                 time.Duration
}

func (f *profilingFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.kinds, "profile", nil, "profiles to take in a separate sample, as in cpu,allocs; see hone profile --help")
	flags.StringVar(&f.url, "pprof", "", "the server's net/http/pprof, a `URL` or HOST:PORT, as in 127.0.0.1:6060")
	flags.StringVar(&f.tokenFile, "pprof-token-file", "", "`FILE` with the bearer token that it requires")
	flags.DurationVar(&f.lasts, "profile-for", 5*time.Second, "length of a profile, in whole seconds")
}

func (f *profilingFlags) wanted() bool { return len(f.kinds) > 0 }

// check refuses flags that cannot work before minutes have been spent.
func (f *profilingFlags) check(command string) error {
	switch {
	case f.wanted() && f.url == "":
		return exit.Usagef("%s: --profile needs --pprof, the address of the server's profiles, as in --pprof 127.0.0.1:6060", command)
	case !f.wanted() && f.url != "":
		return exit.Usagef("%s: --pprof needs --profile, the list of profiles, as in --profile cpu,allocs", command)
	case f.lasts < time.Second:
		return exit.Usagef("%s: --profile-for %v: use 1s or more", command, f.lasts)
	}
	names := kindNames()
	for _, kind := range f.kinds {
		if !slices.Contains(names, kind) {
			return exit.Usagef("%s: --profile %s: no such profile; %s", command, kind, exit.DidYouMean(kind, names, "use "+strings.Join(names, ", ")))
		}
	}
	return nil
}

// spareLoad is how much longer than the profiles their load lasts: the load is seen
// within a second, and the last responses come late.
const spareLoad = 2 * time.Second

// take adds to each run a sample in which the profiles were taken: a fresh process under
// the same load, whose figures do not count. If that fails, the runs stay as they are.
func (f *profilingFlags) take(ctx context.Context, plan trial.Plan, runs []*record.Run) error {
	if !f.wanted() || len(runs) != len(plan.Servers) {
		return nil
	}
	for i, server := range plan.Servers {
		one := plan
		one.Servers, one.Samples, one.Retakes = []trial.Server{server}, 1, -1
		sample, err := f.sample(ctx, one)
		if err != nil {
			return err
		}
		for _, before := range runs[i].Samples {
			sample.Order = max(sample.Order, before.Order+1)
		}
		runs[i].Samples = append(runs[i].Samples, *sample)
	}
	return nil
}

// sample profiles one server while it is under load.
func (f *profilingFlags) sample(ctx context.Context, plan trial.Plan) (*record.Sample, error) {
	var kinds []probe.Kind
	for _, kind := range f.kinds {
		kinds = append(kinds, probe.Kind(kind))
	}
	source := probe.Source{URL: f.url, Token: f.token, For: f.lasts}
	plan.Load.For = source.Lasts() + spareLoad
	show := plan.Progress
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var taken []record.Artefact
	var looking sync.WaitGroup
	var begin sync.Once
	plan.Progress = func(now trial.Progress) {
		now.Profiling = true
		if show != nil {
			show(now)
		}
		if now.Load != nil && now.Load.Phase == load.Measuring {
			begin.Do(func() {
				looking.Go(func() {
					var err error
					if taken, err = source.Take(ctx, kinds...); err != nil {
						cancel(err)
					}
				})
			})
		}
	}
	runs, err := trial.Run(ctx, plan)
	looking.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case len(runs) == 0 || len(runs[0].Samples) == 0 || len(taken) == 0:
		return nil, errors.New("the load ended before the profiles were taken; give a longer --profile-for")
	}
	sample := runs[0].Samples[0]
	sample.Valid, sample.Unfit = false, record.Profiled
	sample.Artefacts = append(sample.Artefacts, taken...)
	return &sample, nil
}
