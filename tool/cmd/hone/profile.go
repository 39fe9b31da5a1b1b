package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/probe"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/spec"
)

// profileFlags holds the parsed flags of hone profile.
type profileFlags struct {
	against string
	across  []string
	token   string // the file with it
	lasts   time.Duration
	kind    *spec.Choice
	top     int
	out     session.Output
	store   session.Store
}

func newProfile() *cobra.Command {
	f := new(profileFlags)
	cmd := &cobra.Command{
		Use:   "profile [RUN|URL]",
		Short: "Show what a server spends CPU and memory on under load, and what changed",
		Long: `Show what a server spends CPU and memory on under load, and what changed.

RUN is one that hone bench --profile stored (default: latest), or a file that
net/http/pprof or go test -cpuprofile wrote. A URL is where a running server has
net/http/pprof, as the --admin address of hone serve: its profile is taken now.

Values are per million requests where the load is known, else per second. flat is a
function's own cost, cum includes the functions that it calls. See docs/bench.md.

Exit code 4 when the profile is empty or the settings of the two runs differ.`,
		Example: `  hone profile
  hone profile after --against before --kind allocs --top 40
  hone profile new.pprof --against old.pprof
  hone profile http://127.0.0.1:6060 --for 10s --kind allocs`,
		Args: arguments(0, 1, "name one run, as in: hone profile latest"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, orLatest(args)) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.against, "against", "", "the earlier `RUN`, or file")
	flags.DurationVar(&f.lasts, "for", 5*time.Second, "how long to profile a running server, in whole seconds")
	flags.StringVar(&f.token, "pprof-token-file", "", "`FILE` with the bearer token that it requires")
	flags.StringSliceVar(&f.across, "across", nil, "settings that may differ, as in go,cpu")
	f.kind = spec.AddChoice(cmd, "kind", "", "kind of profile to show (default: the first that the run has)", kindNames()...)
	flags.IntVar(&f.top, "top", 10, "number of functions to show; 0 shows all")
	f.out.Define(cmd)
	f.store.Define(cmd)
	return cmd
}

// kindNames lists the kinds of profiles.
func kindNames() (names []string) {
	for _, kind := range probe.Profiles() {
		names = append(names, string(kind))
	}
	return names
}

// profiled is a source of profiles: a run or a file.
type profiled struct {
	name string
	run  *record.Run
	file []byte
}

// run shows the profile.
func (f *profileFlags) run(cmd *cobra.Command, ref string) error {
	switch {
	case f.lasts < time.Second:
		return exit.Usagef("profile: --for %v: use 1s or more", f.lasts)
	case f.top < 0:
		return exit.Usagef("profile: --top %d: use 0 or more", f.top)
	}
	view, names, err := f.view(cmd, ref)
	if err != nil {
		return err
	}
	report := probe.NewReport(view, names)
	report.Largest(f.top)
	return f.out.Print(cmd, report, report.WriteTop)
}

// view reads one profile or two, and scales them.
func (f *profileFlags) view(cmd *cobra.Command, ref string) (*probe.View, []string, error) {
	refs := []string{ref}
	if f.against != "" {
		refs = append(refs, f.against)
	}
	var sides []*profiled
	var names []string
	for _, ref := range refs {
		side, err := f.find(cmd, ref)
		if err != nil {
			return nil, nil, err
		}
		sides, names = append(sides, side), append(names, side.name)
	}
	if err := f.alike(sides); err != nil {
		return nil, nil, err
	}
	both, err := f.profiles(sides)
	if err != nil {
		return nil, nil, err
	}
	view, err := probe.NewView(both[0], both[1])
	if err != nil {
		return nil, nil, exit.Failedf("profile: %w", err)
	}
	if view.Total == 0 && (view.Before == nil || *view.Before == 0) {
		return nil, nil, &exit.Error{Code: exit.Invalid, Err: fmt.Errorf("profile: the %s profile of %s is empty; load the server while it is taken, or profile for longer", view.Kind, names[0])}
	}
	return view, names, nil
}

// alike refuses two runs of different settings: their difference would show the settings,
// not the program. The settings of a file are unknown.
func (f *profileFlags) alike(sides []*profiled) error {
	if len(sides) < 2 || sides[0].run == nil || sides[1].run == nil {
		return nil
	}
	judge := compare.Judge{Across: f.across}
	return judge.Alike("profile", compare.SettingsOf(sides[1].run), compare.SettingsOf(sides[0].run))
}

// find reads a file, or a run.
func (f *profileFlags) find(cmd *cobra.Command, ref string) (*profiled, error) {
	_, port, _ := net.SplitHostPort(ref)
	if _, err := strconv.ParseUint(port, 10, 16); err == nil || strings.Contains(ref, "://") {
		return f.takeNow(cmd.Context(), ref)
	}
	run, err := f.store.FileOrRun("profile", ref)
	if err != nil {
		return nil, err
	}
	if run == nil {
		data, err := os.ReadFile(ref)
		if err != nil {
			return nil, exit.Failedf("profile: %w", err)
		}
		return &profiled{name: ref, file: data}, nil
	}
	return &profiled{name: run.Title(), run: run}, nil
}

// takeNow takes the profile of a running server.
func (f *profileFlags) takeNow(ctx context.Context, at string) (*profiled, error) {
	token, err := session.ReadToken(f.token)
	if err != nil {
		return nil, exit.Failedf("profile: --pprof-token-file: %w", err)
	}
	kind := probe.Kind(cmp.Or(f.kind.Value, string(probe.CPU)))
	taken, err := probe.Source{URL: at, Token: token, For: f.lasts}.Take(ctx, kind)
	if err != nil {
		return nil, exit.Failedf("profile: %w", err)
	}
	return &profiled{name: spec.Public(at), file: taken[0].Data}, nil
}

// profiles returns those of the requested kind, or of the first that all sides have.
func (f *profileFlags) profiles(sides []*profiled) (both [2]*probe.Profile, first error) {
	kinds := probe.Profiles()
	if f.kind.Value != "" {
		kinds = []probe.Kind{probe.Kind(f.kind.Value)}
	}
	for _, kind := range kinds {
		err := error(nil)
		for i, side := range sides {
			if both[i], err = side.profile(kind); err != nil {
				first = cmp.Or(first, exit.Failedf("profile: %s: %w", side.name, err))
				break
			}
		}
		if err == nil {
			return both, nil
		}
	}
	return both, first
}

func (p *profiled) profile(kind probe.Kind) (*probe.Profile, error) {
	if p.run != nil {
		return probe.OfRun(p.run, kind)
	}
	return probe.Parse(p.file, kind)
}
